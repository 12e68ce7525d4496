/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and joins, which the peer may have forged; names; text that a login prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "made_up.h"
#include "tools/cluster/order.h"
#include "tools/hosts/join.h"
#include "tools/pair/wire.h"

#define LONG 20000 /* ms, for what must arrive */

static int parse(const char *text, struct order *o)
{
	json_t *message = made_up(text);
	int ret = order_parse(message, o);

	json_decref(message);
	return ret;
}

#define PAIR(host, port, dev, streams, ms, bytes)                                                \
	"{'op': 'pair', 'host': " host ", 'port': " port ", 'dev': " dev ", 'streams': " streams \
	", 'ms': " ms ", 'bytes': " bytes "}"

static void test_orders(void **state)
{
	static const char *const bad[] = {
		"{}",
		"{'op': 5}",
		"{'op': 'sh'}",
		"{'op': 'pair'}",
		PAIR("''", "1024", "0", "1", "0", "1"),
		PAIR("'a'", "0", "0", "1", "0", "1"),
		PAIR("'a'", "1023", "0", "1", "0", "1"),
		PAIR("'a'", "65536", "0", "1", "0", "1"),
		PAIR("'a'", "1024", "-1", "1", "0", "1"),
		PAIR("'a'", "1024", "0", "17", "0", "1"),
		PAIR("'a'", "1024", "0", "1", "10001", "1"),
		PAIR("'a'", "1024", "0", "1", "0", "0"),
		PAIR("5", "1024", "0", "1", "0", "1"),
		PAIR("'a'", "1.5", "0", "1", "0", "1"),
	};
	struct order o = { .op = ORDER_PAIR,
			   .host = "10.0.0.1",
			   .port = 7000,
			   .measure = { .dev = 1, .streams = 2, .ms = 3, .bytes = 4 } },
		     same;
	json_t *message = order_new(&o);

	(void)state;
	assert_int_equal(order_parse(message, &same), 0);
	json_decref(message);
	assert_string_equal(same.host, "10.0.0.1");
	assert_true(same.op == ORDER_PAIR && same.port == 7000 && same.measure.dev == 1 &&
		    same.measure.streams == 2 && same.measure.ms == 3 && same.measure.bytes == 4);
	assert_int_equal(parse("{'op': 'serve'}", &o), 0);
	assert_int_equal(o.op, ORDER_SERVE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!parse(bad[i], &o))
			fail_msg("accepted: %s", bad[i]);
	}
}

static int join(const char *text, char *name, int *port)
{
	json_t *message = made_up(text);
	int ret = join_parse(message, name, port);

	json_decref(message);
	return ret;
}

static void test_joins(void **state)
{
	char name[HOST_NAME];
	int port;

	(void)state;
	assert_int_equal(join("{'op': 'join', 'name': 'n1.x-y_Z', 'port': 9000}", name, &port), 0);
	assert_string_equal(name, "n1.x-y_Z");
	assert_int_equal(port, 9000);
	assert_int_equal(join("{'op': 'join', 'name': '-a@b:<c> d', 'port': 9000}", name, &port),
			 0);
	assert_string_equal(name, "_a_b__c__d");
	assert_int_equal(
		join("{'op': 'join', 'name': '"
		     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		     "', 'port': 9000}",
		     name, &port),
		0);
	assert_int_equal(strlen(name), HOST_NAME - 8);
	assert_int_equal(join("{'op': 'join', 'name': '', 'port': 9000}", name, &port), -1);
	assert_int_equal(join("{'op': 'join', 'name': 'a', 'port': 0}", name, &port), 0);
	assert_int_equal(port, 0);
	assert_int_equal(join("{'op': 'join', 'name': 'a', 'port': 22}", name, &port), -1);
	assert_int_equal(join("{'op': 'join', 'name': 'a'}", name, &port), -1);
	assert_int_equal(join("{'op': 'bye', 'name': 'a', 'port': 9000}", name, &port), -1);
}

static void test_names(void **state)
{
	(void)state;
	assert_true(host_name_is_good("root@node-1.example:2"));
	assert_false(host_name_is_good(""));
	assert_false(host_name_is_good("-oProxyCommand=x"));
	assert_false(host_name_is_good("a b"));
	assert_false(host_name_is_good("a;b"));
	assert_false(host_name_is_good("a\nb"));
}

/* Sends the output of a worker and of the login before it, and returns the result of the greeting. */
static int greet_bytes(const char *bytes, size_t count, uint32_t *version)
{
	int fds[2], ret;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(pair_write(fds[0], bytes, count, LONG), 0);
	assert_int_equal(shutdown(fds[0], SHUT_WR), 0);
	ret = pair_greet_after_noise(fds[1], version, LONG);
	close(fds[0]);
	close(fds[1]);
	return ret;
}

#define GREET(text, version) greet_bytes(text, sizeof(text) - 1, version)

static void test_text_before_greeting(void **state)
{
	static char flood[PAIR_NOISE_MAX + 100];
	uint32_t version;

	(void)state;
	assert_int_equal(GREET("anynetPR\0\0\0\2", &version), 0);
	assert_int_equal(GREET("Hi\nanyanynetPR\0\0\0\2", &version), 0);
	assert_int_equal(GREET("x anynetPR\0\0\0\7", &version), -EPROTONOSUPPORT);
	assert_int_equal(version, 7);
	assert_int_equal(GREET("x anynetPR\0\0", &version), -EPROTO);
	assert_int_equal(GREET("no such command", &version), -ECONNRESET);
	memset(flood, 'a', sizeof(flood));
	assert_int_equal(greet_bytes(flood, sizeof(flood), &version), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_joins),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_text_before_greeting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
