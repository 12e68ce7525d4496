/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's descriptors, also in a process that forks without exec. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/base/fd.h"
#include "unit/local_net.h"

#define PATIENCE_MS 20000

/* A child that stays, like a worker; once it runs, the fork handler has run. */
static pid_t fork_worker(void)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(ready[0]);
		close(ready[1]);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static void end_worker(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void note_pair(int ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(fd_note(ends[0]), ends[0]);
}

static void expect_end(int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLIN };
	char byte;

	assert_int_equal(poll(&end, 1, PATIENCE_MS), 1);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

static void test_errors_are_passed_on(void **state)
{
	(void)state;
	errno = EMFILE;
	assert_int_equal(fd_note(-1), -EMFILE);
}

static void test_what_is_closed_is_not_open(void **state)
{
	int ends[2];

	(void)state;
	note_pair(ends);
	int closed = ends[0];
	fd_close(&ends[0]);
	assert_int_equal(ends[0], -1);
	assert_int_equal(dup2(ends[1], closed), closed); /* belongs to another owner now */
	fd_close(&ends[0]);
	assert_int_equal(close(closed), 0);
	close(ends[1]);
}

/* Closing is enough: the child has no copy. */
static void test_a_connection_ends_though_a_child_lives(void **state)
{
	int ends[2];

	(void)state;
	note_pair(ends);
	pid_t worker = fork_worker();
	fd_close(&ends[0]);
	expect_end(ends[1]);
	end_worker(worker);
}

/* … and shutting down is, if it has one: it was made by clone, or during a system call. */
static void test_a_connection_ends_though_a_copy_lives(void **state)
{
	int ends[2], copy;

	(void)state;
	note_pair(ends);
	copy = dup(ends[0]);
	fd_hang_up(&ends[0], -1);
	expect_end(ends[1]);
	close(copy);
}

static void test_an_epoll_set_forgets_what_was_hung_up(void **state)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC), ends[2], copy;
	struct epoll_event event = { .events = EPOLLIN };

	(void)state;
	note_pair(ends);
	copy = dup(ends[0]);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, ends[0], &event), 0);
	fd_hang_up(&ends[0], epfd);
	assert_int_equal(epoll_wait(epfd, &event, 1, 0), 0);
	close(copy);
	close(ends[1]);
	close(epfd);
}

/* Code of the plugin that still runs in the child affects nothing, and above all not the child's own files. */
static void test_a_child_keeps_the_numbers_and_nothing_else(void **state)
{
	int ends[2], status;

	(void)state;
	note_pair(ends);
	unsigned forks = fd_forks();
	pid_t pid = fork();
	if (!pid) {
		int other = dup(ends[1]);
		bool taken = other == ends[0], sent = send(ends[0], "x", 1, MSG_NOSIGNAL) == 1;
		_exit(taken || sent || errno != ENOTSOCK || fd_forks() != forks + 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(fd_forks(), forks);
	assert_int_equal(send(ends[0], "x", 1, 0), 1); /* the parent's is unchanged */
	fd_close(&ends[0]);
	close(ends[1]);
}

/* A descriptor number of the plugin that was reused before the fork. */
static void test_a_child_keeps_descriptors_that_are_reused(void **state)
{
	int ends[2], status, theirs;
	char byte;

	(void)state;
	note_pair(ends);
	theirs = ends[0];
	fd_close(&ends[0]);
	assert_int_equal(dup2(ends[1], theirs), theirs);
	close(ends[1]);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], theirs), theirs);
	close(ends[1]);
	pid_t pid = fork();
	if (!pid)
		_exit(write(theirs, "x", 1) != 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	close(theirs);
}

/* A program that has closed its standard streams continues to print. */
static int note_without_streams(int stream)
{
	int ends[2], fd;
	char byte;

	close(stream);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) || ends[0] != stream)
		return 1;
	fd = fd_note(ends[0]);
	if (fd <= STDERR_FILENO || fcntl(fd, F_GETFD) != FD_CLOEXEC)
		return 2;
	if (write(stream, "x", 1) >= 0 || errno != EBADF)
		return 3;
	if (send(fd, "y", 1, MSG_NOSIGNAL) != 1 || recv(ends[1], &byte, 1, 0) != 1 || byte != 'y')
		return 4;
	fd_close(&fd);
	return fd == -1 && !recv(ends[1], &byte, 1, 0) ? 0 : 5;
}

static void test_none_has_the_number_of_a_standard_stream(void **state)
{
	(void)state;
	for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
		int status;
		pid_t pid = fork();

		if (!pid)
			_exit(note_without_streams(stream));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

/* The kernel's size of the process's descriptor table. */
static int table_size(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[200];
	int size = 0;

	assert_non_null(file);
	while (!size && fgets(line, sizeof(line), file))
		sscanf(line, "FDSize: %d", &size);
	fclose(file);
	return size;
}

/* In a child, whose table is as large as its open descriptors need. */
static void expect_table(rlim_t limit, int size)
{
	struct rlimit fds = { .rlim_cur = limit, .rlim_max = limit };
	int status;
	pid_t pid = fork();

	if (!pid) {
		int before = table_size(), next = dup(1);

		close(next);
		if (before >= size || setrlimit(RLIMIT_NOFILE, &fds))
			_exit(1);
		local_net_start();
		_exit(table_size() == size && dup(1) == next ? 0 : 2); /* none stays open */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_the_start_grows_the_table(void **state)
{
	(void)state;
	expect_table(4096, 1024);
	expect_table(300, 512);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors_are_passed_on),
		cmocka_unit_test(test_what_is_closed_is_not_open),
		cmocka_unit_test(test_a_connection_ends_though_a_child_lives),
		cmocka_unit_test(test_a_connection_ends_though_a_copy_lives),
		cmocka_unit_test(test_an_epoll_set_forgets_what_was_hung_up),
		cmocka_unit_test(test_a_child_keeps_the_numbers_and_nothing_else),
		cmocka_unit_test(test_a_child_keeps_descriptors_that_are_reused),
		cmocka_unit_test(test_none_has_the_number_of_a_standard_stream),
		cmocka_unit_test(test_the_start_grows_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
