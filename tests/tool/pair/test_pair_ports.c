/* SPDX-License-Identifier: Apache-2.0 */
/* Which data ports are offered, to which addresses a peer may ask for connections, and what a session refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "tools/pair/client_session.h"
#include "tools/pair/ports.h"
#include "tools/pair/server.h"
#include "tools/pair/wire.h"
#include "tools/shared/address.h"
#include "tools/shared/member.h"

#define RANGE   9
#define LONG_MS 60000

static struct sockaddr_storage parse(const char *text)
{
	struct sockaddr_storage addr;

	assert_true(address_parse(text, 5000, &addr));
	return addr;
}

static bool may_dial(const char *peer, const json_t *facts, const char *to)
{
	struct sockaddr_storage from = parse(peer), addr = parse(to);

	return ports_may_dial(&from, facts, &addr);
}

static void test_claimed_addresses(void **state)
{
	json_t *facts = json_pack("{s:[{s:s}, {s:s}], s:[s, i]}", "devices", "address", "192.0.2.7",
				  "address", "2001:db8::7", "standby", "192.0.2.9", 5);

	(void)state;
	assert_true(may_dial("192.0.2.1", facts, "192.0.2.7"));
	assert_true(may_dial("192.0.2.1", facts, "::ffff:192.0.2.7"));
	assert_true(may_dial("192.0.2.1", facts, "2001:db8::7"));
	assert_true(may_dial("192.0.2.1", facts, "192.0.2.9"));
	assert_false(may_dial("192.0.2.1", facts, "192.0.2.8"));
	assert_false(may_dial("192.0.2.1", NULL, "192.0.2.7"));
	/* The peer's own address. */
	assert_true(may_dial("192.0.2.1", NULL, "192.0.2.1"));
	assert_true(may_dial("::ffff:192.0.2.1", NULL, "192.0.2.1"));
	assert_true(may_dial("127.0.0.1", NULL, "127.0.0.1"));
	json_decref(facts);
}

/* A peer may list anything as its own. */
static void test_addresses_of_no_other_host(void **state)
{
	static const char *const bad[] = { "0.0.0.0", "::",        "::ffff:0.0.0.0",  "0.1.2.3",
					   "ff02::1", "224.0.0.1", "255.255.255.255", "127.0.0.1",
					   "::1",     "127.9.9.9", "::ffff:127.0.0.1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct sockaddr_storage addr = parse(bad[i]);
		char plain[ADDRESS_TEXT];
		json_t *facts =
			json_pack("{s:[{s:s}]}", "devices", "address", address_print(&addr, plain));

		if (may_dial("192.0.2.1", facts, bad[i]))
			fail_msg("a remote peer may name %s", bad[i]);
		if (may_dial("127.0.0.1", facts, bad[i]) !=
		    (strstr(bad[i], "127.") != NULL || !strcmp(bad[i], "::1")))
			fail_msg("of a local peer: %s", bad[i]);
		json_decref(facts);
	}
}

/* --- ports of a range --- */

static int listen_on(int port)
{
	struct sockaddr_storage at;

	assert_true(address_parse("127.0.0.1", port, &at));
	return address_listen(&at, 1);
}

/* Occupies RANGE ports in sequence that are free. Returns the first one. */
static int occupy(int *fds)
{
	for (int first = 21000 + (int)getpid() % 1000 * 20; first < 65000; first += RANGE) {
		int n = 0;

		while (n < RANGE && (fds[n] = listen_on(first + n)) >= 0)
			n++;
		if (n == RANGE)
			return first;
		while (n--)
			close(fds[n]);
	}
	return -1;
}

/* Returns the ports that are offered while those of the range whose bit is clear are in use. */
static json_t *offered(int control, int first, int *fds, unsigned free)
{
	static struct pair_host host;
	struct responder *r;
	json_t *list, *ports;

	host.cfg.port_min = first;
	host.cfg.port_max = first + RANGE - 1;
	for (int i = 0; i < RANGE; i++) {
		if (free >> i & 1)
			close(fds[i]);
	}
	r = ports_open(control, &host, &list);
	assert_non_null(r);
	ports = json_incref(json_object_get(list, "ports"));
	json_decref(list);
	responder_stop(r);
	for (int i = 0; i < RANGE; i++) {
		if (free >> i & 1)
			fds[i] = listen_on(first + i);
	}
	return ports;
}

static void expect_ports(json_t *ports, int first, const char *wanted)
{
	const json_t *port;
	char text[RANGE + 2] = "";
	size_t i;

	json_array_foreach (ports, i, port) {
		text[i] = *member_text(port, "error")
				  ? '!'
				  : (char)('0' + member_int(port, "port", 0, 65535, 0) - first);
		text[i + 1] = '\0';
	}
	assert_string_equal(text, wanted);
	json_decref(ports);
}

/* A port in use is no finding, as long as another one of the range is free. */
static void test_busy_ports(void **state)
{
	struct sockaddr_storage at;
	int fds[RANGE], first = occupy(fds), fd = listen_on(0), from, control;

	(void)state;
	assert_true(first > 0);
	assert_true(address_own(fd, &at));
	from = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(from, (struct sockaddr *)&at, address_bytes(&at)), 0);
	control = accept(fd, NULL, NULL);
	while (control < 0)
		control = accept(fd, NULL, NULL);
	expect_ports(offered(control, first, fds, 0777), first, "038");
	expect_ports(offered(control, first, fds, 0376), first, "137");
	expect_ports(offered(control, first, fds, 0100), first, "6");
	expect_ports(offered(control, first, fds, 0), first, "!");
	for (int i = 0; i < RANGE; i++)
		close(fds[i]);
	close(control);
	close(from);
	close(fd);
}

/* --- sessions --- */

static void expect_end(json_t *request, const char *what)
{
	static struct pair_host host;
	int ends[2];

	host.facts = json_object();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(pair_send_new(ends[0], request, LONG_MS), 0);
	shutdown(ends[0], SHUT_WR);
	if (!strstr(server_session(ends[1], &host), what))
		fail_msg("not: %s", what);
	json_decref(host.facts);
	close(ends[0]);
	close(ends[1]);
}

static void test_refused_requests(void **state)
{
	json_t *devices = json_array();

	(void)state;
	for (int i = 0; i <= ANYNET_DEVICES_MAX; i++)
		json_array_append_new(devices, json_object());
	expect_end(json_pack("{s:s}", "op", "facts"), "invalid facts");
	expect_end(json_pack("{s:s, s:{s:o}}", "op", "facts", "facts", "devices", devices),
		   "invalid facts");
	expect_end(json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "op", "plugin", "transport", "tcp",
			     "dev", 0, "channels", 1, "bytes", 1, "ms", 0),
		   "before one of its data ports was tested");
}

/* A server that cannot open a data port offers none: nothing is measured, and that is a failure. */
static void test_no_ports(void **state)
{
	struct pair_host host = { .facts = NULL };
	const struct client_options o = { .host = "server" };
	struct client c = { .o = &o, .host = &host, .result = json_object() };
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	c.fd = ends[1];
	assert_int_equal(pair_send_new(ends[0], json_pack("{s:s, s:[]}", "token", "", "ports"),
				       LONG_MS),
			 0);
	shutdown(ends[0], SHUT_WR);
	assert_int_equal(client_measure_ports(&c), -1);
	assert_string_equal(member_text(json_object_get(c.result, "failure"), "step"),
			    "opening data ports on the other host");
	json_decref(c.result);
	close(ends[0]);
	close(ends[1]);
}

/* A repetition must not outlast the server's session. */
static void test_time_for_repetitions(void **state)
{
	const struct client_options o = { .measure.ms = 10000 };
	uint64_t now = now_ms();
	struct client c = { .o = &o, .end_ms = now + 100000 };

	(void)state;
	assert_true(client_has_time(&c, now - 50000));
	assert_false(client_has_time(&c, now - 100000));
	assert_in_range(client_repeat_ms(&c), 1, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_claimed_addresses),
		cmocka_unit_test(test_addresses_of_no_other_host),
		cmocka_unit_test(test_busy_ports),
		cmocka_unit_test(test_refused_requests),
		cmocka_unit_test(test_no_ports),
		cmocka_unit_test(test_time_for_repetitions),
	};

	alarm(280);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
