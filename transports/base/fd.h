/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every descriptor the plugin keeps open, from the system call that returned it to its close. A negative number means
 * "not open" everywhere: 0 is a descriptor like any other where a program has closed its standard input.
 *
 * In a child that is forked without exec (a PyTorch DataLoader worker, say) each of them is replaced by one that leads
 * nowhere. Otherwise the child's copy would keep a connection open that its process has lost or closed, and an epoll
 * set would go on to report a file whose owner has been freed. The child's own files get other numbers, so
 * that nothing of ours in the child can reach them. A fork between a system call and fd_note, a matter of
 * nanoseconds, leaves the child its copy; fd_hang_up ends a connection all the same.
 *
 * Any thread.
 */
#ifndef ANYNET_FD_H
#define ANYNET_FD_H

/* The result of a system call that opens a descriptor: note it and return it, or -errno. */
int fd_note(int fd);

/* Close *fd if it is open, and set it to -1. Keeps errno. */
void fd_close(int *fd);

/* As fd_close, of a connection: leave `epfd` (-1 = it is in no set), shut down, close. The peer sees the end even if
 * another process has a copy. */
void fd_hang_up(int *fd, int epfd);

/* How many forks lie between the process that loaded the library and this one. What was made at another count is the
 * parent's: its locks may be held by threads that a child does not have, so what runs at exit keeps off. */
unsigned fd_forks(void);

#endif
