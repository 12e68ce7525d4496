/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, step by step, to a peer that answers as the test wants, or not at all. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/session/listen.h"
#include "transports/wire/hello.h"
#include "unit/environment.h"
#include "unit/local_net.h"

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

/* In place of registry.c: it is full, and there is no memory. */
static bool registry_is_full;

int __real_registry_add(struct anynet_comm *comm);
int __wrap_registry_add(struct anynet_comm *comm);

int __wrap_registry_add(struct anynet_comm *comm)
{
	return registry_is_full ? -ENOMEM : __real_registry_add(comm);
}

/* Somebody's listening socket, and a handle that leads there. */
struct door {
	int fd;
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} handle;
};

static void set_ip(struct anynet_device *dev, const char *ip)
{
	assert_int_equal(inet_pton(AF_INET, ip, &((struct sockaddr_in *)&dev->addr)->sin_addr), 1);
}

/* A NIC whose address this host does not have, and one that works. */
static struct anynet_device nics[2];

/* Once: the background thread, started by the first connection, reads the settings from then on. */
static int start(void **state)
{
	(void)state;
	log_to_capture();
	capture_allow_warn();
	local_net_start();
	for (int i = 0; i < 2; i++) {
		nics[i] = local_dev;
		nics[i].index = 2 + i;
		strcpy(nics[i].ifname, i ? "eth1" : "eth0");
		set_ip(&nics[i], i ? "127.0.0.2" : "192.0.2.1");
	}
	anynet_net_start(&local_cfg, nics, 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	anynet_net_trim(&local_dev);
	return 0;
}

static void open_door(struct door *door, uint8_t token_byte)
{
	uint8_t token[ANYNET_TOKEN_BYTES];
	struct anynet_wire_addr addr;

	memset(token, token_byte, sizeof(token));
	door->fd = socket_listen(&local_dev.addr, &local_cfg);
	assert_true(door->fd >= 0);
	assert_true(socket_to_wire(&local_dev.addr, (uint16_t)socket_port(door->fd), 0, &addr));
	handle_fill(&door->handle.wire, 1, token, &addr, 1);
}

/* From now on there is no listener. The port stays taken, so that no other test's listener gets the connects. */
static void shut_door(struct door *door)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);

	assert_int_equal(getsockname(door->fd, (struct sockaddr *)&addr, &bytes), 0);
	close(door->fd);
	door->fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(door->fd, (struct sockaddr *)&addr, bytes), 0);
}

static const struct anynet_device *from_dev = &local_dev;

static int connect_step(struct door *door, struct anynet_comm **comm)
{
	struct anynet_connect_options opts = { .traffic_class = -1, .owner = &local_dev };

	return anynet_connect(from_dev, &opts, door->handle.bytes, comm);
}

/* The next connection to the listener, and its hello; the connect continues meanwhile. */
static int let_in(struct door *door, struct anynet_wire_hello *hello)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a hello");
	struct sockaddr_storage from;
	struct anynet_comm *comm;
	size_t got = 0;
	int fd = -1;

	while (fd < 0 || socket_recv_some(fd, hello, sizeof(*hello), &got)) {
		assert_int_equal(connect_step(door, &comm), 0);
		assert_null(comm);
		if (fd < 0)
			fd = socket_accept(door->fd, &from);
		deadline_turn(&deadline);
	}
	assert_int_equal(hello_check(hello, ANYNET_HELLO), 0);
	return fd;
}

static void answer_streams(int fd, const struct anynet_wire_hello *hello, uint16_t streams,
			   const struct anynet_wire_addr *addr, enum anynet_hello_status status)
{
	struct anynet_wire_hello welcome;
	size_t sent = 0;

	hello_fill(&welcome, &local_dev, addr, 1);
	hello_answer(&welcome, hello);
	welcome.streams = streams;
	welcome.status = status;
	if (status == ANYNET_STATUS_BUSY)
		strcpy(welcome.reason, "out of memory");
	assert_int_equal(socket_send_some(fd, &welcome, sizeof(welcome), &sent), 0);
}

/* One stream, over the connection of the hello. */
static void answer(int fd, const struct anynet_wire_hello *hello, enum anynet_hello_status status)
{
	answer_streams(fd, hello, 1, hello->addrs, status);
}

static void be_connected(struct door *door, struct anynet_comm **comm)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a comm");

	do {
		assert_int_equal(connect_step(door, comm), 0);
		deadline_turn(&deadline);
	} while (!*comm);
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
	from_dev = &nics[0];
	open_door(&door, 1);
	fd = let_in(&door, &hello);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&from, &bytes), 0);
	assert_true(socket_same_ip(&from, &nics[1].addr));
	answer_streams(fd, &hello, 1, &door.handle.wire.addrs[0], ANYNET_STATUS_OK);
	be_connected(&door, &comm);
	assert_int_equal(comm->streams[0]->path.pair.from, 1);
	anynet_close(comm);
	close(fd);
	close(door.fd);
	from_dev = &local_dev;
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
	assert_int_equal(connect_step(&door, &comm), 0);
	for (int i = 0; i < 5; i++) {
		later_ms += 800; /* a longer step is a standstill, which does not count */
		assert_int_equal(connect_step(&door, &comm), 0);
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
		assert_int_equal(connect_step(&door, &comm), 0);
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
	assert_int_equal(connect_step(&door, &comm), 0);
	late = os_now_ms() + (uint64_t)local_cfg.connect_timeout_ms - 2500;
	for (; os_now_ms() < late; later_ms += 100)
		assert_int_equal(connect_step(&door, &comm), 0);
	assert_int_equal(fcntl(door.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(listen(door.fd, 8), 0);
	fds[0] = let_in(&door, &hello);
	assert_int_equal(hello.kind, ANYNET_KIND_COMM);
	answer_streams(fds[0], &hello, 2, door.handle.wire.addrs, ANYNET_STATUS_OK);
	fds[1] = let_in(&door, &hello);
	assert_int_equal(hello.kind, ANYNET_KIND_STREAM);
	for (int i = 0; i < 30; i++, later_ms += 100) {
		assert_int_equal(connect_step(&door, &comm), 0);
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
	while (!(ret = connect_step(&door, &comm)))
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
	while (!(ret = connect_step(&door, &comm)))
		;
	assert_int_equal(ret, -ECONNREFUSED);
	assert_null(comm);
	close(fd);
	close(door.fd);
}

/* Nobody but its caller would know of such a comm. */
static void test_a_comm_that_cannot_be_registered_is_none(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the connection to end");
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door;
	int fd, ret;
	char byte;

	(void)state;
	open_door(&door, 1);
	fd = let_in(&door, &hello);
	answer(fd, &hello, ANYNET_STATUS_OK);
	registry_is_full = true;
	do {
		ret = connect_step(&door, &comm);
		deadline_turn(&deadline);
	} while (!ret && !comm);
	registry_is_full = false;
	assert_int_equal(ret, -ENOMEM);
	assert_null(comm);
	while (recv(fd, &byte, 1, 0) > 0) /* READY */
		;
	close(fd);
	close(door.fd);
}

/* The number of a connect in progress is worth nothing without its token. */
static void test_a_handle_finds_its_own_connect_only(void **state)
{
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door one, other;
	uint64_t number;

	(void)state;
	open_door(&one, 1);
	open_door(&other, 2);
	assert_int_equal(connect_step(&one, &comm), 0);
	number = one.handle.wire.local[0];
	assert_true(number);
	other.handle.wire.local[0] = number;
	assert_int_equal(connect_step(&other, &comm), 0);
	assert_true(other.handle.wire.local[0] != number);
	close(let_in(&other, &hello));
	assert_int_equal(hello.token[0], 2);
	assert_int_equal(one.handle.wire.local[0], number);
	close(one.fd);
	close(other.fd);
}

/* While it connects it listens as well: its peer may have to find it. */
static bool accepts(const struct sockaddr_storage *addr)
{
	int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = connect(fd, (const struct sockaddr *)addr, (socklen_t)socket_addr_bytes(addr));

	assert_true(!ret || errno == ECONNREFUSED);
	close(fd);
	return !ret;
}

/* The comm of an earlier test may still drain, and listens meanwhile. */
static void test_a_failed_connect_does_not_listen(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the end of listening");
	struct sockaddr_storage own;
	struct anynet_wire_hello hello;
	struct anynet_comm *comm;
	struct door door;
	int fd, ret;

	(void)state;
	open_door(&door, 1);
	fd = let_in(&door, &hello);
	answer(fd, &hello, ANYNET_STATUS_AUTH);
	assert_true(socket_from_wire(&hello.addrs[0], 0, &own));
	while (!(ret = connect_step(&door, &comm)))
		;
	assert_true(ret < 0);
	for (listen_trim(); accepts(&own); listen_trim())
		deadline_turn(&deadline);
	close(fd);
	close(door.fd);
}

/* Of two NCCLs in a process the one that ends does not affect the other's connects. */
static void test_an_owner_that_ends_takes_its_own_connects(void **state)
{
	struct anynet_comm *comm;
	struct door one, other;
	uint64_t number, ended;
	char owner = 0;

	(void)state;
	open_door(&one, 1);
	open_door(&other, 2);
	assert_int_equal(anynet_connect(&local_dev,
					&(struct anynet_connect_options){ .owner = &owner },
					other.handle.bytes, &comm),
			 0);
	assert_int_equal(connect_step(&one, &comm), 0);
	number = one.handle.wire.local[0];
	ended = other.handle.wire.local[0];
	anynet_net_trim(&owner);
	assert_int_equal(connect_step(&other, &comm), 0);
	assert_int_not_equal(other.handle.wire.local[0], ended);
	assert_int_equal(connect_step(&one, &comm), 0);
	assert_int_equal(one.handle.wire.local[0], number);
	anynet_net_trim(&local_dev);
	assert_int_equal(connect_step(&one, &comm), 0);
	assert_int_not_equal(one.handle.wire.local[0], number);
	close(one.fd);
	close(other.fd);
}

/* Another thread's close looks for abandoned connects just when this one times out. */
static void test_a_connect_that_is_called_reports_its_own_time_out(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the clock");
	int usual = local_cfg.connect_timeout_ms;
	struct anynet_comm *comm;
	struct door door;
	uint64_t late;

	(void)state;
	open_door(&door, 1);
	shut_door(&door);
	local_cfg.connect_timeout_ms = 20;
	while (connect_step(&door, &comm)) /* the first step alone took longer */
		local_cfg.connect_timeout_ms *= 2;
	late = os_now_ms() + (uint64_t)local_cfg.connect_timeout_ms;
	local_cfg.connect_timeout_ms = usual; /* the background thread trims as well */
	while (os_now_ms() <= late)
		deadline_turn(&deadline);
	anynet_net_trim(NULL);
	assert_true(connect_step(&door, &comm) < 0);
	close(door.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
		TEST(test_the_next_address_is_tried),
		TEST(test_another_nic_of_this_host_is_tried),
		TEST(test_an_address_that_does_not_answer_is_left_for_the_next),
		TEST(test_a_late_peer_is_waited_for),
		TEST(test_a_late_peer_gets_all_streams),
		TEST(test_a_busy_peer_is_dialled_again),
		TEST(test_a_peer_that_stays_busy_is_reported_with_its_reason),
		TEST(test_another_refusal_is_final),
		TEST(test_a_comm_that_cannot_be_registered_is_none),
		TEST(test_a_handle_finds_its_own_connect_only),
		TEST(test_a_failed_connect_does_not_listen),
		TEST(test_an_owner_that_ends_takes_its_own_connects),
		TEST(test_a_connect_that_is_called_reports_its_own_time_out),
	};

	return cmocka_run_group_tests_name("connect", tests, start, NULL);
}
