/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for libc functions: descriptors that are not sockets, epoll, and the simulated files. */
#include "sim/calls.h"
#include "sim/file.h"
#include "sim/net.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CALLS_AT_ONCE 10000 /* of epoll_wait, at the same time */

static struct sim_file *file_of(int fd)
{
	return process_file(process_self(), fd);
}

int close(int fd)
{
	REAL(close, int, int);
	if (!process_self())
		return real(fd);
	sched_may_preempt();
	trace_note(20, (uint64_t)(unsigned)fd, 0);
	RETURN(int, process_fd_close(process_self(), fd));
}

int dup3(int from, int to, int flags)
{
	REAL(dup3, int, int, int, int);
	if (!process_self())
		return real(from, to, flags);
	RETURN(int, process_fd_replace(process_self(), from, to));
}

ssize_t read(int fd, void *data, size_t bytes)
{
	struct sim_file *file;

	REAL(read, ssize_t, int, void *, size_t);
	if (!process_self())
		return real(fd, data, bytes);
	file = file_of(fd);
	RETURN(ssize_t, !file ? -EBADF : !file->ops->read ? -EINVAL : file->ops->read(file, data, bytes));
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	struct sim_file *file;

	REAL(write, ssize_t, int, const void *, size_t);
	if (!process_self())
		return real(fd, data, bytes);
	file = file_of(fd);
	RETURN(ssize_t, !file ? -EBADF : !file->ops->write ? -EINVAL : file->ops->write(file, data, bytes));
}

int eventfd(unsigned count, int flags)
{
	int err;

	REAL(eventfd, int, unsigned, int);
	if (!process_self())
		return real(count, flags);
	err = process_call_fails(process_self(), CALL_EVENTFD);
	RETURN(int, err ? -err : process_fd_new(process_self(), event_new(count)));
}

int epoll_create1(int flags)
{
	int err;

	REAL(epoll_create1, int, int);
	if (!process_self())
		return real(flags);
	err = process_call_fails(process_self(), CALL_EPOLL_CREATE);
	RETURN(int, err ? -err : process_fd_new(process_self(), epoll_new()));
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct sim_file *file;
	int err;

	REAL(epoll_ctl, int, int, int, int, struct epoll_event *);
	if (!process_self())
		return real(epfd, op, fd, event);
	file = file_of(epfd);
	if (!file)
		RETURN(int, -EBADF);
	err = op == EPOLL_CTL_ADD ? process_call_fails(process_self(), CALL_EPOLL_CTL) : 0;
	RETURN(int, err ? -err : epoll_change(file, op, fd, event));
}

/* A thread that polls in a loop waits for another thread. Every call takes time in reality, so time passes here,
 * too. */
static void pass_time(void)
{
	static uint64_t since;
	static unsigned calls;

	if (sim_now != since)
		calls = 0;
	since = sim_now;
	if (++calls >= CALLS_AT_ONCE && sim_self)
		thread_sleep(SIM_US);
}

int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
	struct sim_file *file;
	uint64_t until = timeout < 0 ? SIM_NEVER : sim_now + (uint64_t)timeout * SIM_MS;
	int n;

	REAL(epoll_wait, int, int, struct epoll_event *, int, int);
	if (!process_self())
		return real(epfd, events, most, timeout);
	sched_may_preempt();
	pass_time();
	file = file_of(epfd);
	if (!file)
		RETURN(int, -EBADF);
	n = epoll_take(file, events, most, until);
	trace_note(21, (uint64_t)(unsigned)epfd, (uint64_t)n);
	RETURN(int, n);
}

/* For one descriptor: the plugin never polls more. */
static int poll_one(struct pollfd *polled, int timeout)
{
	uint64_t until = timeout < 0 ? SIM_NEVER : sim_now + (uint64_t)timeout * SIM_MS;
	struct sim_file *file = file_of(polled->fd);
	uint32_t wanted = (uint16_t)polled->events;
	bool ready;

	if (!file)
		return -EINVAL;
	file_hold(file);
	ready = file_wait(file, wanted, until);
	polled->revents = (short)(file->ops->poll(file) & (wanted | EPOLLERR | EPOLLHUP));
	file_release(file);
	return ready;
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	REAL(poll, int, struct pollfd *, nfds_t, int);
	if (!process_self())
		return real(fds, count, timeout);
	RETURN(int, count == 1 ? poll_one(fds, timeout) : -EINVAL);
}

int fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;

	REAL(fcntl, int, int, int, ...);
	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	if (!process_self())
		return real(fd, command, arg);
	if (!file_of(fd))
		RETURN(int, -EBADF);
	if (command == F_SETFL)
		file_of(fd)->nonblocking = (int)(intptr_t)arg & O_NONBLOCK;
	if (command == F_DUPFD_CLOEXEC) /* the table of a simulated process has its full size from the start */
		RETURN(int, -EMFILE);
	return command == F_GETFL && file_of(fd)->nonblocking ? O_NONBLOCK : 0;
}

/* --- files by name: /dev/null, and the speed of a NIC --- */

int open(const char *path, int flags, ...)
{
	va_list args;
	unsigned mode;

	REAL(open, int, const char *, int, ...);
	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
	va_end(args);
	if (!process_self())
		return real(path, flags, mode);
	RETURN(int, strcmp(path, "/dev/null") ? -ENOENT : process_fd_new(process_self(), null_new()));
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	unsigned mode;

	REAL(openat, int, int, const char *, int, ...);
	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
	va_end(args);
	if (!process_self())
		return real(dir, path, flags, mode);
	RETURN(int, -ENOENT);
}

FILE *fopen(const char *path, const char *mode)
{
	unsigned nic;
	int bytes = 0;
	char *text;
	FILE *file;
	size_t size;

	REAL(fopen, FILE *, const char *, const char *);
	if (!process_self())
		return real(path, mode);
	if (sscanf(path, "/sys/class/net/eth%u/speed%n", &nic, &bytes) != 1 || path[bytes] ||
	    nic >= process_self()->host->nics) {
		errno = ENOENT;
		return NULL;
	}
	file = open_memstream(&text, &size); /* freed with the run */
	fprintf(file, "%u\n", process_self()->host->nic[nic].mbps);
	fflush(file);
	file = fmemopen(text, size, "r");
	return file;
}

DIR *opendir(const char *path)
{
	REAL(opendir, DIR *, const char *);
	if (!process_self())
		return real(path);
	errno = ENOENT;
	return NULL;
}

ssize_t readlink(const char *path, char *target, size_t bytes)
{
	REAL(readlink, ssize_t, const char *, char *, size_t);
	if (!process_self())
		return real(path, target, bytes);
	RETURN(ssize_t, -ENOENT);
}

char *realpath(const char *path, char *resolved);
char *realpath(const char *path, char *resolved)
{
	REAL(realpath, char *, const char *, char *);
	if (!process_self())
		return real(path, resolved);
	errno = ENOENT;
	return NULL;
}

int access(const char *path, int mode)
{
	REAL(access, int, const char *, int);
	if (!process_self())
		return real(path, mode);
	RETURN(int, -ENOENT);
}

int unlink(const char *path)
{
	REAL(unlink, int, const char *);
	if (!process_self())
		return real(path);
	RETURN(int, -ENOENT);
}

int unlinkat(int dir, const char *path, int flags)
{
	REAL(unlinkat, int, int, const char *, int);
	if (!process_self())
		return real(dir, path, flags);
	RETURN(int, -ENOENT);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
	REAL(pwrite, ssize_t, int, const void *, size_t, off_t);
	if (!process_self())
		return real(fd, data, bytes, at);
	RETURN(ssize_t, -EBADF);
}
