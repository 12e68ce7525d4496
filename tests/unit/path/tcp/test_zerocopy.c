/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MSG_ZEROCOPY (zerocopy.c): which calls ask for it, and what the kernel's notifications change about that. The
 * sockets of the test cannot do it: setsockopt(), send(), sendmsg(), recvmsg() and epoll_wait() of this program are the
 * test's, and so are the notifications.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include <cmocka.h>

#include "unit/pair.h"

#define BYTES_MIN ((size_t)64 << 10) /* of data sent by reference */
#define BYTES     ((size_t)80 << 10)

static struct {
	struct pair pair;
	uint8_t from[BYTES], to[BYTES];
	unsigned enabled; /* sockets with SO_ZEROCOPY */
	unsigned calls;   /* with MSG_ZEROCOPY; each has a number, from 0 */
	struct sock_extended_err notices[4];
	unsigned notice_count;
	struct anynet_stream *notified; /* the sender's, of which epoll reports that notices have come */
} test;

/* --- the kernel's part --- */

int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	if (level != SOL_SOCKET || name != SO_ZEROCOPY)
		return (int)syscall(SYS_setsockopt, fd, level, name, value, bytes);
	test.enabled++;
	return 0;
}

/* The kernel may read the data of such a call later: only the user's buffer still exists then. */
static void check_is_users(const uint8_t *data, size_t bytes)
{
	assert_true(data >= test.from && data + bytes <= test.from + BYTES);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	test.calls += (flags & MSG_ZEROCOPY) != 0;
	for (size_t i = 0; flags & MSG_ZEROCOPY && i < msg->msg_iovlen; i++)
		check_is_users(msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
	return syscall(SYS_sendmsg, fd, msg, flags & ~MSG_ZEROCOPY);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	struct iovec iov = { (void *)(uintptr_t)data, bytes };

	return sendmsg(fd, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 }, flags);
}

/* The error queue, one notification per call. */
ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);

	if (!(flags & MSG_ERRQUEUE))
		return syscall(SYS_recvmsg, fd, msg, flags);
	if (!test.notice_count) {
		errno = EAGAIN;
		return -1;
	}
	assert_true(msg->msg_controllen >= CMSG_SPACE(sizeof(test.notices[0])));
	c->cmsg_level = SOL_IP;
	c->cmsg_type = IP_RECVERR;
	c->cmsg_len = CMSG_LEN(sizeof(test.notices[0]));
	memcpy(CMSG_DATA(c), &test.notices[0], sizeof(test.notices[0]));
	msg->msg_controllen = CMSG_SPACE(sizeof(test.notices[0]));
	memmove(&test.notices[0], &test.notices[1], --test.notice_count * sizeof(test.notices[0]));
	return 0;
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int ms)
{
	int n = (int)syscall(SYS_epoll_pwait, epfd, events, max, ms, NULL, 8);

	if (n || !test.notified || epfd != test.pair.send->epfd)
		return n;
	events[0] = (struct epoll_event){ .events = EPOLLERR, .data.ptr = test.notified };
	test.notified = NULL;
	return 1;
}

/* The kernel no longer needs the memory of that call. */
static void notify(uint32_t call, uint8_t code)
{
	test.notices[test.notice_count++] = (struct sock_extended_err){
		.ee_origin = SO_EE_ORIGIN_ZEROCOPY,
		.ee_code = code,
		.ee_info = call,
		.ee_data = call,
	};
}

/* --- */

static void open_pair(enum anynet_switch zerocopy, bool copies_in_kernel)
{
	test.enabled = test.calls = test.notice_count = 0;
	local_cfg.zerocopy = zerocopy;
	local_dev.copies_in_kernel = copies_in_kernel;
	pair_open(&test.pair, 1);
	for (size_t i = 0; i < BYTES; i++)
		test.from[i] = (uint8_t)(i * 7 + i / 251);
}

/* A message is delivered. Was it sent by reference? */
static bool by_reference(size_t bytes)
{
	unsigned before = test.calls;
	struct anynet_request *reqs[2];

	memset(test.to, 0, bytes);
	reqs[0] = pair_irecv(&test.pair, test.to, bytes, 0);
	reqs[1] = pair_isend(&test.pair, test.from, bytes, 0);
	pair_finish(reqs, 2, NULL);
	assert_memory_equal(test.to, test.from, bytes);
	return test.calls != before;
}

static void test_large_messages_go_by_reference(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_AUTO, false);
	assert_int_equal(test.enabled, 1);
	assert_false(by_reference(BYTES_MIN - 1));
	assert_true(by_reference(BYTES_MIN));
	assert_true(by_reference(BYTES));
}

static void test_what_is_copied_all_the_same_goes_without(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_AUTO, false);
	assert_true(by_reference(BYTES));
	notify(0, SO_EE_CODE_ZEROCOPY_COPIED);
	by_reference(BYTES); /* it is read while this one is sent */
	assert_int_equal(test.notice_count, 0);
	for (int i = 0; i < 3; i++)
		assert_false(by_reference(BYTES));
}

static void test_what_is_not_copied_goes_on(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_AUTO, false);
	for (uint32_t i = 0; i < 5; i++) {
		assert_true(by_reference(BYTES));
		notify(i, 0);
	}
	assert_true(by_reference(BYTES));
	assert_int_equal(test.notice_count, 0);
}

/* The same queue holds errors of the connection, and other notifications. */
static void test_only_its_own_notices_count(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_AUTO, false);
	assert_true(by_reference(BYTES));
	notify(0, SO_EE_CODE_ZEROCOPY_COPIED);
	test.notices[0].ee_errno = EHOSTUNREACH;
	notify(0, SO_EE_CODE_ZEROCOPY_COPIED);
	test.notices[1].ee_origin = SO_EE_ORIGIN_ICMP;
	notify(0, 0);
	assert_true(by_reference(BYTES));
	assert_int_equal(test.notice_count, 0);
	assert_true(by_reference(BYTES));
}

/* It costs a system call per iteration. */
static void test_the_queue_is_read_while_calls_are_not_over(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_AUTO, false);
	assert_true(by_reference(BYTES));
	notify(0, 0);
	assert_false(by_reference(BYTES_MIN - 1));
	assert_int_equal(test.notice_count, 0);
	notify(0, 0);
	assert_false(by_reference(BYTES_MIN - 1));
	assert_int_equal(test.notice_count, 1);
}

/* After retransmissions they come in any order. */
static void test_notices_may_be_out_of_order(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_AUTO, false);
	assert_true(by_reference(BYTES));
	assert_true(by_reference(BYTES));
	assert_int_equal(test.calls, 2);
	notify(1, 0);
	assert_false(by_reference(BYTES_MIN - 1));
	notify(0, 0);
	assert_false(by_reference(BYTES_MIN - 1));
	assert_int_equal(test.notice_count, 0);
	notify(0, 0);
	assert_false(by_reference(BYTES_MIN - 1));
	assert_int_equal(test.notice_count, 1);
}

static void test_where_it_is_known_not_to_help_it_is_not_asked_for(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_AUTO, true);
	assert_int_equal(test.enabled, 0);
	assert_false(by_reference(BYTES));
	pair_close(&test.pair);
	open_pair(ANYNET_SWITCH_OFF, false);
	assert_int_equal(test.enabled, 0);
	assert_false(by_reference(BYTES));
}

static void test_on_forces_zerocopy(void **state)
{
	(void)state;
	open_pair(ANYNET_SWITCH_ON, true);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(by_reference(BYTES));
		notify(i, SO_EE_CODE_ZEROCOPY_COPIED);
	}
	assert_true(by_reference(BYTES));
	assert_int_equal(test.notice_count, 0);
}

/* A stream that has ended is read in each turn. */
static void test_a_notice_is_not_the_end_of_the_stream(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	pair_open(&test.pair, 2);
	stream = test.pair.send->streams[1];
	for (int i = 0; i < 3; i++)
		comm_turn(test.pair.send);
	assert_false(stream->path.readable);
	test.notified = stream;
	comm_turn(test.pair.send);
	assert_null(test.notified);
	comm_turn(test.pair.send);
	assert_false(stream->path.readable);
	assert_false(stream->path.ended);
}

#define ZEROCOPY(name) \
	cmocka_unit_test_prestate_setup_teardown(name, pair_setup, pair_teardown, &test.pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ZEROCOPY(test_large_messages_go_by_reference),
		ZEROCOPY(test_what_is_copied_all_the_same_goes_without),
		ZEROCOPY(test_what_is_not_copied_goes_on),
		ZEROCOPY(test_only_its_own_notices_count),
		ZEROCOPY(test_the_queue_is_read_while_calls_are_not_over),
		ZEROCOPY(test_notices_may_be_out_of_order),
		ZEROCOPY(test_where_it_is_known_not_to_help_it_is_not_asked_for),
		ZEROCOPY(test_on_forces_zerocopy),
		ZEROCOPY(test_a_notice_is_not_the_end_of_the_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
