/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all file descriptors that the plugin keeps open, from the system call that returned one to its close.
 * "Not open" is a negative number everywhere. None is 0, 1 or 2: if the program has closed its standard streams, the
 * kernel gives these numbers to the next files, and what the program prints would go to a peer.
 *
 * In a child that is forked without exec (for example a PyTorch DataLoader worker) each of them is replaced by an
 * unused eventfd. Otherwise the child's copy would keep a connection open that the parent has lost or closed, and an
 * epoll set would continue to report a file whose owner has been freed. The replaced numbers stay in use, so files that
 * the child opens get others, which the plugin's code in the child cannot touch. A fork in the nanoseconds between a
 * system call and fd_note leaves the child its copy; fd_hang_up ends the connection nevertheless.
 *
 * Any thread.
 */
#ifndef ANYNET_FD_H
#define ANYNET_FD_H

/* Add the result of a system call that opens a descriptor. Returns it, with another number if that is one of a standard
 * stream, or -errno if the call failed. -EMFILE: its number is too large for the table, and it is closed. */
int fd_note(int fd);

/* Close *fd if it is open, and set it to -1. Preserves errno. */
void fd_close(int *fd);

/* Like fd_close, for a connection: remove it from the epoll set `epfd` (-1 = none), shut it down and close it. The peer
 * sees the end even if another process has a copy. Preserves errno. */
void fd_hang_up(int *fd, int epfd);

/* The number of forks between the process that loaded the library and this one. State that was created at another count
 * belongs to a parent: threads that the child does not have may hold its locks, so exit handlers must not use it. */
unsigned fd_forks(void);

/* Let the kernel grow the process's descriptor table now, for 1024 descriptors or RLIMIT_NOFILE. Otherwise the table
 * grows at 64, 256 and 512, in the middle of connecting, and each time a process with several threads waits for a
 * grace period of RCU, 4 to 10 ms (Linux fs/file.c, expand_fdtable). */
void fd_grow_table(void);

#endif
