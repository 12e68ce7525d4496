/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_socket(int fds[2])
{
	check_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
}

static pid_t fork_peer(int keep, int close_fd, void (*run)(int fd, void *arg), void *arg)
{
	pid_t parent = getpid();

	fflush(NULL);
	pid_t pid = fork();
	check_that(pid >= 0, "fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(TEST_FAILED);
	close(close_fd);
	run(keep, arg);
	exit(0);
}

void peer_start(struct peer *peer, void (*run)(int fd, void *arg), void *arg)
{
	int fds[2];

	make_socket(fds);
	peer->pid = fork_peer(fds[1], fds[0], run, arg);
	peer->fd = fds[0];
	close(fds[1]);
}

static void wait_fd(int fd, short events, const struct deadline *deadline)
{
	struct pollfd pollfd = { .fd = fd, .events = events };

	while (poll(&pollfd, 1, deadline_left_ms(deadline)) <= 0)
		check_that(!deadline_passed(deadline), "waited in vain for %s", deadline->what);
}

void peer_send(int fd, const void *data, size_t bytes)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a peer to listen");

	for (size_t sent = 0; sent < bytes;) {
		wait_fd(fd, POLLOUT, &deadline);
		ssize_t n = send(fd, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL);
		check_that(n > 0, "the peer process is gone: %s", strerror(errno));
		sent += (size_t)n;
	}
}

void peer_recv(int fd, void *data, size_t bytes)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "word from a peer");

	for (size_t got = 0; got < bytes;) {
		wait_fd(fd, POLLIN, &deadline);
		ssize_t n = recv(fd, (char *)data + got, bytes - got, 0);
		check_that(n > 0, "the peer process is gone");
		got += (size_t)n;
	}
}

void peer_signal(int fd)
{
	peer_send(fd, "!", 1);
}

void peer_await(int fd)
{
	char byte;
	peer_recv(fd, &byte, 1);
}

bool peer_reap(pid_t pid, int ms, int *status)
{
	struct deadline deadline = deadline_in(ms, "a process to end");
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	check_that(pidfd >= 0, "pidfd_open: %s", strerror(errno));
	struct pollfd pollfd = { .fd = pidfd, .events = POLLIN };
	while (poll(&pollfd, 1, deadline_left_ms(&deadline)) <= 0) {
		if (deadline_passed(&deadline)) {
			close(pidfd);
			return false;
		}
	}
	close(pidfd);
	check_int(waitpid(pid, status, 0), pid);
	return true;
}

void peer_kill(struct peer *peer)
{
	int status;

	kill(peer->pid, SIGKILL);
	check(peer_reap(peer->pid, TEST_PATIENCE_MS, &status));
	close(peer->fd);
}

int peer_wait(struct peer *peer, int ms)
{
	int status;

	check_that(peer_reap(peer->pid, ms, &status), "process %d does not end", (int)peer->pid);
	close(peer->fd);
	return status;
}

static void check_status(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED)
		_exit(TEST_SKIPPED);
	check_that(!WIFSIGNALED(status), "a peer died of signal %d (%s)", WTERMSIG(status),
		   strsignal(WTERMSIG(status)));
	check_that(WEXITSTATUS(status) == 0, "a peer failed with exit %d", WEXITSTATUS(status));
}

void peer_wait_ok(struct peer *peer)
{
	check_status(peer_wait(peer, 2 * TEST_PATIENCE_MS));
}

void peer_duo(void (*first)(int fd, void *arg), void (*second)(int fd, void *arg), void *arg)
{
	int fds[2], status[2];

	make_socket(fds);
	pid_t a = fork_peer(fds[0], fds[1], first, arg);
	pid_t b = fork_peer(fds[1], fds[0], second, arg);
	close(fds[0]);
	close(fds[1]);
	check(peer_reap(a, 2 * TEST_PATIENCE_MS, &status[0]));
	check(peer_reap(b, 2 * TEST_PATIENCE_MS, &status[1]));
	check_status(status[0]);
	check_status(status[1]);
}
