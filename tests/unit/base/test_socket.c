/* SPDX-License-Identifier: Apache-2.0 */
/* TCP helpers: ports of a range, addresses on the wire, fixed-size messages in pieces. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/base/socket.h"
#include "unit/local_net.h"

#define PORTS      6
#define FIRST_PORT 20000
#define LAST_PORT  30000

static int port_min; /* of the range */

/* In place of the kernel's, which takes a part only when it is out of memory. */
static size_t taken = SIZE_MAX; /* at most so many bytes */

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	return __real_send(fd, data, bytes < taken ? bytes : taken, flags);
}

/* Ports below are only for root, as below net.ipv4.ip_unprivileged_port_start. */
static int first_free_port;

int __real_bind(int fd, const struct sockaddr *addr, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t bytes);

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	if (ntohs(((const struct sockaddr_in *)addr)->sin_port) >= first_free_port)
		return __real_bind(fd, addr, bytes);
	errno = EACCES;
	return -1;
}

/* An address used by this process only, so that all its ports are free. */
static struct sockaddr_storage own_addr(void)
{
	struct sockaddr_storage addr = { .ss_family = AF_INET };
	uint32_t pid = (uint32_t)getpid();

	((struct sockaddr_in *)&addr)->sin_addr.s_addr =
		htonl(127u << 24 | (pid & 0x3fffff) << 2 | 2);
	return addr;
}

static void close_all(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

/* No other process uses a port of it: listeners on all addresses would be in the way. */
static bool is_free_range(int first)
{
	struct sockaddr_storage addr = own_addr();
	int fds[PORTS], count = 0;

	while (count < PORTS) {
		local_cfg.port_min = local_cfg.port_max = first + count;
		fds[count] = socket_listen(&addr, &local_cfg);
		if (fds[count] < 0)
			break;
		count++;
	}
	close_all(fds, count);
	return count == PORTS;
}

static void choose_range(void)
{
	if (!port_min)
		port_min = FIRST_PORT;
	while (!is_free_range(port_min)) {
		port_min += PORTS;
		assert_true(port_min + PORTS < LAST_PORT);
	}
	local_cfg.port_min = port_min;
	local_cfg.port_max = port_min + PORTS - 1;
}

static int setup(void **state)
{
	(void)state;
	local_net_start();
	choose_range();
	return 0;
}

static void test_a_range_gives_each_port_once_then_none(void **state)
{
	struct sockaddr_storage addr = own_addr();
	bool seen[PORTS] = { false };
	int fds[PORTS];

	(void)state;
	for (int i = 0; i < PORTS; i++) {
		int port;

		fds[i] = socket_listen(&addr, &local_cfg);
		assert_true(fds[i] >= 0);
		port = socket_port(fds[i]);
		assert_in_range(port, port_min, port_min + PORTS - 1);
		assert_false(seen[port - port_min]);
		seen[port - port_min] = true;
	}
	assert_int_equal(socket_listen(&addr, &local_cfg), -EADDRINUSE);
	close_all(fds, PORTS);
}

static void test_busy_ports_of_a_range_are_skipped(void **state)
{
	struct sockaddr_storage addr = own_addr();
	struct anynet_config busy = local_cfg;
	int fds[PORTS], fd;

	(void)state;
	for (int i = 0; i < PORTS - 1; i++) {
		busy.port_min = busy.port_max = port_min + i + (i >= 2);
		fds[i] = socket_listen(&addr, &busy);
		assert_true(fds[i] >= 0);
	}
	fd = socket_listen(&addr, &local_cfg);
	assert_int_equal(socket_port(fd), port_min + 2);
	close_all(fds, PORTS - 1);
	close(fd);
}

static void test_ports_of_a_range_that_are_for_root_are_skipped(void **state)
{
	struct sockaddr_storage addr = own_addr();
	int fds[2];

	(void)state;
	first_free_port = port_min + PORTS - 2;
	for (int i = 0; i < 20 * PORTS; i++) {
		int fd = socket_listen(&addr, &local_cfg);

		assert_true(fd >= 0);
		assert_true(socket_port(fd) >= first_free_port);
		close(fd);
	}
	for (int i = 0; i < 2; i++)
		fds[i] = socket_listen(&addr, &local_cfg);
	assert_int_equal(socket_listen(&addr, &local_cfg),
			 -EACCES); /* not that the range is too small */
	close_all(fds, 2);
	first_free_port = 0;
}

static void test_without_a_range_the_kernel_chooses(void **state)
{
	struct sockaddr_storage addr = own_addr();
	int fd;

	(void)state;
	local_cfg.port_min = local_cfg.port_max = 0;
	((struct sockaddr_in *)&addr)->sin_port = htons(1); /* ignored */
	fd = socket_listen(&addr, &local_cfg);
	assert_true(fd >= 0);
	assert_true(socket_port(fd) > 1);
	close(fd);
}

static void test_an_address_that_is_not_ours_is_an_error(void **state)
{
	struct sockaddr_storage addr = own_addr();

	(void)state;
	inet_pton(AF_INET, "192.0.2.1", &((struct sockaddr_in *)&addr)->sin_addr);
	assert_int_equal(socket_listen(&addr, &local_cfg), -EADDRNOTAVAIL);
}

static void wait_for(int fd, short events)
{
	struct pollfd ready = { .fd = fd, .events = events };

	assert_int_equal(poll(&ready, 1, 20000), 1);
}

static void test_a_message_crosses_a_connection_in_pieces(void **state)
{
	struct sockaddr_storage addr = own_addr(), to, peer;
	struct anynet_wire_addr wire;
	int listener = socket_listen(&addr, &local_cfg), from, accepted;
	char out[] = "a message", in[sizeof(out)];
	size_t sent = 0, got = 0;

	(void)state;
	assert_int_equal(socket_accept(listener, &peer), -EAGAIN);
	assert_true(socket_to_wire(&addr, (uint16_t)socket_port(listener), 0, &wire));
	assert_true(socket_from_wire(&wire, 0, &to));
	from = socket_connect(&addr, &to, &local_cfg, true, 0);
	assert_true(from >= 0);
	wait_for(listener, POLLIN);
	accepted = socket_accept(listener, &peer);
	assert_true(accepted >= 0);
	assert_int_equal(((struct sockaddr_in *)&peer)->sin_port,
			 htons((uint16_t)socket_port(from)));
	assert_int_equal(socket_send_some(from, out, 4, &sent), 0);
	wait_for(accepted, POLLIN);
	assert_int_equal(socket_recv_some(accepted, in, sizeof(in), &got), -EAGAIN);
	assert_int_equal(got, 4);
	assert_int_equal(socket_send_some(from, out, sizeof(out), &sent), 0);
	for (int ret = -EAGAIN; ret;) {
		wait_for(accepted, POLLIN);
		ret = socket_recv_some(accepted, in, sizeof(in), &got);
		assert_true(!ret || ret == -EAGAIN);
	}
	assert_string_equal(in, out);
	close(from);
	wait_for(accepted, POLLIN);
	got = 0;
	assert_int_equal(socket_recv_some(accepted, in, sizeof(in), &got), -ENODATA);
	close(accepted);
	close(listener);
}

/* The peer would take what follows for its rest. */
static void test_what_was_sent_in_part_is_the_last(void **state)
{
	const char message[32] = "message";
	char got[64];
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	for (taken = SIZE_MAX; taken; taken = taken == SIZE_MAX ? sizeof(message) - 1 : 0) {
		socket_send_whole(fds[0], message, sizeof(message));
		assert_int_equal(recv(fds[1], got, sizeof(got), MSG_DONTWAIT),
				 taken < sizeof(message) ? taken : sizeof(message));
	}
	taken = SIZE_MAX;
	assert_int_equal(recv(fds[1], got, sizeof(got), MSG_DONTWAIT), 0);
	close_all(fds, 2);
}

static void test_a_refused_connection_says_so(void **state)
{
	struct sockaddr_storage addr = own_addr(), to = own_addr();
	size_t sent = 0;
	int fd;

	(void)state;
	((struct sockaddr_in *)&to)->sin_port = htons((uint16_t)port_min);
	fd = socket_connect(&addr, &to, &local_cfg, true, 0);
	if (fd >= 0) {
		wait_for(fd, POLLOUT);
		assert_int_equal(socket_send_some(fd, "x", 1, &sent), -ECONNREFUSED);
		close(fd);
	} else {
		assert_int_equal(fd, -ECONNREFUSED);
	}
}

static void there_and_back(const char *ip, const char *text)
{
	struct sockaddr_storage addr = { .ss_family = strchr(ip, ':') ? AF_INET6 : AF_INET }, back;
	void *in = addr.ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr
					      : (void *)&((struct sockaddr_in *)&addr)->sin_addr;
	struct anynet_wire_addr wire;
	char buf[SOCKET_TEXT_BYTES];

	assert_int_equal(inet_pton(addr.ss_family, ip, in), 1);
	assert_true(socket_to_wire(&addr, 4711, 3, &wire));
	assert_int_equal(wire.family, addr.ss_family == AF_INET6 ? 6 : 4);
	assert_int_equal(wire.device, 3);
	assert_int_equal(wire.port, 4711);
	assert_true(socket_from_wire(&wire, 5, &back));
	assert_string_equal(socket_text(&back, buf), text);
	if (addr.ss_family == AF_INET6)
		assert_int_equal(((struct sockaddr_in6 *)&back)->sin6_scope_id,
				 strncmp(ip, "fe80", 4) ? 0 : 5);
}

static void test_addresses_survive_the_wire(void **state)
{
	(void)state;
	there_and_back("10.1.2.3", "10.1.2.3:4711");
	there_and_back("fd00::1:2", "[fd00::1:2]:4711");
	there_and_back("fe80::1", "[fe80::1]:4711");
	there_and_back("fd00:1111:2222:3333:4444:5555:6666:7777",
		       "[fd00:1111:2222:3333:4444:5555:6666:7777]:4711");
}

static void test_wrong_addresses_are_refused(void **state)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNIX };
	struct anynet_wire_addr wire = { .family = 4 };

	(void)state;
	assert_false(socket_to_wire(&addr, 1, 0, &wire));
	wire = (struct anynet_wire_addr){ .family = 4, .port = 0 };
	assert_false(socket_from_wire(&wire, 0, &addr));
	wire = (struct anynet_wire_addr){ .family = 0, .port = 1 };
	assert_false(socket_from_wire(&wire, 0, &addr));
	wire.family = 10;
	assert_false(socket_from_wire(&wire, 0, &addr));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(test_a_range_gives_each_port_once_then_none),
		TEST(test_busy_ports_of_a_range_are_skipped),
		TEST(test_ports_of_a_range_that_are_for_root_are_skipped),
		TEST(test_without_a_range_the_kernel_chooses),
		TEST(test_an_address_that_is_not_ours_is_an_error),
		TEST(test_a_message_crosses_a_connection_in_pieces),
		TEST(test_what_was_sent_in_part_is_the_last),
		TEST(test_a_refused_connection_says_so),
		TEST(test_addresses_survive_the_wire),
		TEST(test_wrong_addresses_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
