/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the I/O threads, where a filter of system calls (seccomp) refuses some. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/service/io_threads.h"
#include "transports/session/registry.h"
#include "unit/pair.h"

#define THREADS 2
#define MOST_S  20 /* then the test fails: a thread does not end */

static struct pair pair;
static bool refuses_write;
static _Atomic bool refuses_wait;

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	errno = EPERM;
	return refuses_write ? -1 : __real_write(fd, data, bytes);
}

int __real_epoll_wait(int epfd, struct epoll_event *events, int room, int ms);
int __wrap_epoll_wait(int epfd, struct epoll_event *events, int room, int ms);

int __wrap_epoll_wait(int epfd, struct epoll_event *events, int room, int ms)
{
	errno = EPERM;
	return refuses_wait ? -1 : __real_epoll_wait(epfd, events, room, ms);
}

static void start_and_end(void)
{
	anynet_net.io_threads = THREADS;
	pair_open(&pair, 1);
	assert_int_equal(registry_add(pair.send), 0);
	io_threads_add(pair.send);
	assert_true(pair.send->session->io_epfd >= 0);
	alarm(MOST_S);
	io_threads_remove(pair.send);
	alarm(0);
	registry_remove(pair.send);
	pair_close(&pair);
	anynet_net.io_threads = 0;
}

static void test_they_end_with_the_last_comm(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		start_and_end();
}

static void test_they_end_without_a_write(void **state)
{
	(void)state;
	refuses_write = true;
	start_and_end();
	refuses_write = false;
}

static void test_they_end_if_they_cannot_wait(void **state)
{
	(void)state;
	refuses_wait = true;
	start_and_end();
	refuses_wait = false;
}

int main(void)
{
#define T(name) cmocka_unit_test_prestate_setup_teardown(name, pair_setup, pair_teardown, &pair)
	const struct CMUnitTest tests[] = {
		T(test_they_end_with_the_last_comm),
		T(test_they_end_without_a_write),
		T(test_they_end_if_they_cannot_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
