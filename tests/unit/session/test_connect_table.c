/* SPDX-License-Identifier: Apache-2.0 */
/* Connects in progress: a call finds its own one, each reports its own end, and then nothing is left of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/check.h"
#include "transports/base/socket.h"
#include "unit/session/door.h"

/* In place of registry.c: it is full, and there is no memory. */
static bool registry_is_full;

int __real_registry_add(struct anynet_comm *comm);
int __wrap_registry_add(struct anynet_comm *comm);

int __wrap_registry_add(struct anynet_comm *comm)
{
	return registry_is_full ? -ENOMEM : __real_registry_add(comm);
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
		ret = call_connect(&door, &comm);
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
	assert_int_equal(call_connect(&one, &comm), 0);
	number = one.handle.wire.local[0];
	assert_true(number);
	other.handle.wire.local[0] = number;
	assert_int_equal(call_connect(&other, &comm), 0);
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
	while (!(ret = call_connect(&door, &comm)))
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
	assert_int_equal(call_connect(&one, &comm), 0);
	number = one.handle.wire.local[0];
	ended = other.handle.wire.local[0];
	anynet_net_trim(&owner);
	assert_int_equal(call_connect(&other, &comm), 0);
	assert_int_not_equal(other.handle.wire.local[0], ended);
	assert_int_equal(call_connect(&one, &comm), 0);
	assert_int_equal(one.handle.wire.local[0], number);
	anynet_net_trim(&local_dev);
	assert_int_equal(call_connect(&one, &comm), 0);
	assert_int_not_equal(one.handle.wire.local[0], number);
	close(one.fd);
	close(other.fd);
}

/* Another thread's close looks for abandoned connects just when this one times out. NCCL's thread may be busy for longer than a
 * short time-out between two calls. */
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
	while (call_connect(&door, &comm)) /* the first step alone took longer */
		local_cfg.connect_timeout_ms *= 2;
	late = os_now_ms() + 2 * (uint64_t)local_cfg.connect_timeout_ms;
	while (os_now_ms() <= late)
		deadline_turn(&deadline);
	anynet_net_trim(NULL);
	assert_true(call_connect(&door, &comm) < 0);
	local_cfg.connect_timeout_ms = usual;
	close(door.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, door_teardown)
		TEST(test_a_comm_that_cannot_be_registered_is_none),
		TEST(test_a_handle_finds_its_own_connect_only),
		TEST(test_a_failed_connect_does_not_listen),
		TEST(test_an_owner_that_ends_takes_its_own_connects),
		TEST(test_a_connect_that_is_called_reports_its_own_time_out),
	};

	return cmocka_run_group_tests_name("connect_table", tests, door_start, NULL);
}
