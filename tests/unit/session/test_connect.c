/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, step by step, to a peer that answers as the test wants, or not at all. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/base/socket.h"
#include "unit/session/door.h"

static _Atomic uint64_t later_ms; /* added to the clock */

int clock_gettime(clockid_t clock, struct timespec *time)
{
	uint64_t ms = later_ms;
	long ret = syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += (time_t)(ms / 1000);
	time->tv_nsec += (long)(ms % 1000) * 1000000;
	if (time->tv_nsec >= 1000000000) {
		time->tv_nsec -= 1000000000;
		time->tv_sec++;
	}
	return (int)ret;
}

static void set_ip(struct anynet_device *dev, const char *ip)
{
	assert_int_equal(inet_pton(AF_INET, ip, &((struct sockaddr_in *)&dev->addr)->sin_addr), 1);
}

/* A NIC whose address this host does not have, and one that works. */
static struct anynet_device nics[2];

/* Once: the background thread, started by the first connection, reads the settings from then on. */
static int start(void **state)
{
	door_start(state);
	for (int i = 0; i < 2; i++) {
		nics[i] = local_dev;
		nics[i].index = 2 + i;
		strcpy(nics[i].ifname, i ? "eth1" : "eth0");
		set_ip(&nics[i], i ? "127.0.0.2" : "192.0.2.1");
	}
	anynet_net_start(&local_cfg, nics, 2);
	return 0;
}

static void test_the_next_address_is_tried(void **state)
{
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door, shut;
	int fd;

	(void)state;
	open_door(&shut, 1);
	open_door(&door, 1);
	close(shut.fd); /* there is no listener any more */
	door.handle.wire.addrs[1] = door.handle.wire.addrs[0];
	door.handle.wire.addrs[0] = shut.handle.wire.addrs[0];
	fd = let_in(&door, &hello);
	answer(fd, &hello, ANYNET_STATUS_OK);
	be_connected(&door, &comm);
	anynet_close(comm);
	close(fd);
	close(door.fd);
}

/* The NIC that NCCL has asked for has lost its address. */
static void test_another_nic_of_this_host_is_tried(void **state)
{
	struct sockaddr_storage from;
	socklen_t bytes = sizeof(from);
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door;
	int fd;

	(void)state;
	local_cfg.stripe = ANYNET_SWITCH_ON;
	open_door(&door, 1);
	door.from = &nics[0];
	fd = let_in(&door, &hello);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&from, &bytes), 0);
	assert_true(socket_same_ip(&from, &nics[1].addr));
	answer_streams(fd, &hello, 1, &door.handle.wire.addrs[0], ANYNET_STATUS_OK);
	be_connected(&door, &comm);
	assert_int_equal(comm->streams[0]->path.pair.from, 1);
	anynet_close(comm);
	close(fd);
	close(door.fd);
	local_cfg.stripe = ANYNET_SWITCH_OFF;
}

/* No packet is answered there: connections that wait for accept fill the queue. */
static void stop_the_door(struct door *door, int waiting[2])
{
	struct sockaddr_storage to;

	assert_int_equal(listen(door->fd, 0), 0);
	assert_true(socket_from_wire(&door->handle.wire.addrs[0], 0, &to));
	for (int i = 0; i < 2; i++) {
		waiting[i] = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(waiting[i] >= 0);
		connect(waiting[i], (struct sockaddr *)&to, (socklen_t)socket_addr_bytes(&to));
	}
}

/* The kernel would keep trying the first one for two minutes. */
static void test_an_address_that_does_not_answer_is_left_for_the_next(void **state)
{
	struct anynet_wire_hello hello;
	struct door door, silent;
	struct anynet_comm *comm;
	int fd, waiting[2];

	(void)state;
	open_door(&silent, 1);
	stop_the_door(&silent, waiting);
	open_door(&door, 1);
	door.handle.wire.addrs[1] = door.handle.wire.addrs[0];
	door.handle.wire.addrs[0] = silent.handle.wire.addrs[0];
	assert_int_equal(call_connect(&door, &comm), 0);
	for (int i = 0; i < 5; i++) {
		later_ms += 800; /* a longer step is a standstill, which does not count */
		assert_int_equal(call_connect(&door, &comm), 0);
	}
	fd = let_in(&door, &hello);
	answer(fd, &hello, ANYNET_STATUS_OK);
	be_connected(&door, &comm);
	anynet_close(comm);
	close(fd);
	close(waiting[0]);
	close(waiting[1]);
	close(silent.fd);
	close(door.fd);
}

/* Its kernel has acknowledged the hello: the peer is waited for. */
static void test_a_late_peer_is_waited_for(void **state)
{
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door;
	int fd;

	(void)state;
	open_door(&door, 1);
	fd = let_in(&door, &hello);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(call_connect(&door, &comm), 0);
		later_ms += 800;
	}
	answer(fd, &hello, ANYNET_STATUS_OK);
	be_connected(&door, &comm);
	anynet_close(comm);
	close(fd);
	close(door.fd);
}

/* Nobody listened for nearly the whole ANYNET_CONNECT_TIMEOUT. Further streams have their own time all the same. */
static void test_a_late_peer_gets_all_streams(void **state)
{
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door;
	uint64_t late;
	int fds[2];

	(void)state;
	open_door(&door, 1);
	shut_door(&door);
	assert_int_equal(call_connect(&door, &comm), 0);
	late = os_now_ms() + (uint64_t)local_cfg.connect_timeout_ms - 2500;
	for (; os_now_ms() < late; later_ms += 100)
		assert_int_equal(call_connect(&door, &comm), 0);
	assert_int_equal(fcntl(door.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(listen(door.fd, 8), 0);
	fds[0] = let_in(&door, &hello);
	assert_int_equal(hello.kind, ANYNET_KIND_COMM);
	answer_streams(fds[0], &hello, 2, door.handle.wire.addrs, ANYNET_STATUS_OK);
	fds[1] = let_in(&door, &hello);
	assert_int_equal(hello.kind, ANYNET_KIND_STREAM);
	for (int i = 0; i < 30; i++, later_ms += 100) {
		assert_int_equal(call_connect(&door, &comm), 0);
		assert_null(comm);
	}
	answer_streams(fds[1], &hello, 2, door.handle.wire.addrs, ANYNET_STATUS_OK);
	be_connected(&door, &comm);
	assert_non_null(comm->streams[1]);
	anynet_close(comm);
	close(fds[0]);
	close(fds[1]);
	close(door.fd);
}

static void test_a_busy_peer_is_dialled_again(void **state)
{
	struct anynet_wire_hello first, second;
	struct anynet_comm *comm;
	struct door door;
	int fd;

	(void)state;
	open_door(&door, 1);
	fd = let_in(&door, &first);
	answer(fd, &first, ANYNET_STATUS_BUSY);
	close(fd);
	fd = let_in(&door, &second);
	assert_int_equal(second.comm_id, first.comm_id);
	assert_true(second.epoch > first.epoch);
	answer(fd, &second, ANYNET_STATUS_OK);
	be_connected(&door, &comm);
	anynet_close(comm);
	close(fd);
	close(door.fd);
}

/* Not that it has ended: it lives. */
static void test_a_peer_that_stays_busy_is_reported_with_its_reason(void **state)
{
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door;
	int fd, ret;

	(void)state;
	capture_forget();
	open_door(&door, 1);
	fd = let_in(&door, &hello);
	answer(fd, &hello, ANYNET_STATUS_BUSY);
	close(fd);
	close(door.fd);
	while (!(ret = call_connect(&door, &comm)))
		later_ms += 800;
	assert_int_equal(ret, -ECONNREFUSED);
	assert_int_equal(capture_count(CAPTURE_WARN, "refused: out of memory"), 1);
}

static void test_another_refusal_is_final(void **state)
{
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door;
	int fd, ret;

	(void)state;
	open_door(&door, 1);
	fd = let_in(&door, &hello);
	answer(fd, &hello, ANYNET_STATUS_TRANSPORT);
	while (!(ret = call_connect(&door, &comm)))
		;
	assert_int_equal(ret, -ECONNREFUSED);
	assert_null(comm);
	close(fd);
	close(door.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, door_teardown)
		TEST(test_the_next_address_is_tried),
		TEST(test_another_nic_of_this_host_is_tried),
		TEST(test_an_address_that_does_not_answer_is_left_for_the_next),
		TEST(test_a_late_peer_is_waited_for),
		TEST(test_a_late_peer_gets_all_streams),
		TEST(test_a_busy_peer_is_dialled_again),
		TEST(test_a_peer_that_stays_busy_is_reported_with_its_reason),
		TEST(test_another_refusal_is_final),
	};

	return cmocka_run_group_tests_name("connect", tests, start, NULL);
}
