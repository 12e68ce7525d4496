/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on measurements: a healthy result, and the finding for each change to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/pair/facts.h"
#include "tools/shared/address.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/rates.h"
#include "tools/shared/judge/verdict.h"

#define FACTS                                                                                        \
	"{'version': '1', 'wire': 3, 'nccl': '2.28.9', 'kernel': '6', 'env': {'NCCL_ALGO': 'Ring'}," \
	" 'devices': [{'name': 'eth0', 'transport': 'TCP', 'address': '10.0.0.1'}]}"

static const char fine[] =
	"{'local': " FACTS ", 'remote': " FACTS ", 'way': {"
	"'local': {'local': '10.0.0.1', 'peer': '10.0.0.2', 'interface': 'eth0', 'mtu': 1500},"
	"'remote': {'local': '10.0.0.2', 'peer': '10.0.0.1', 'interface': 'eth0', 'mtu': 1500}},"
	"'clock': {'offset_ns': -900000000, 'error_ns': 10},"
	"'ports': [{'to': 'server', 'state': 'ok', 'address': '10.0.0.2', 'port': 5000}],"
	"'tcp': [{'to': 'server', 'state': 'ok', 'streams': 1, 'bytes': 1000000, 'us': 1000,"
	" 'segments': 1000, 'retransmits': 0, 'busy_us': 900}],"
	"'plugin': [{'transport': 'tcp', 'error': '', 'runs': ["
	"{'to': 'server', 'channels': 1, 'bytes': 100, 'us': 100},"
	"{'to': 'client', 'channels': 1, 'bytes': 50, 'us': 100}]}]}";

/* JSON with ' for ". */
static json_t *load(const char *text)
{
	char copy[4096];
	json_error_t error;
	json_t *json;

	strcpy(copy, text);
	for (char *c = copy; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	json = json_loads(copy, JSON_DECODE_ANY, &error);
	if (!json)
		fail_msg("%s", error.text);
	return json;
}

/* The healthy result with `value` at "a.b.0.c". */
static json_t *changed(const char *path, const char *value)
{
	json_t *result = load(fine), *at = result;
	char copy[200], *next = copy, *key;

	strcpy(copy, path);
	while ((key = strsep(&next, ".")) && next)
		at = json_is_array(at) ? json_array_get(at, (size_t)(*key - '0'))
				       : json_object_get(at, key);
	assert_non_null(at);
	json_object_set_new(at, key, load(value));
	return result;
}

static void expect(const char *path, const char *value, int status, const char *what)
{
	json_t *result = changed(path, value), *findings = verdict_find(result);
	char *text = json_dumps(findings, JSON_COMPACT);

	if (findings_status(findings) != status || (*what && !strstr(text, what)) ||
	    (!*what && json_array_size(findings)))
		fail_msg("%s = %s: status %d, %s", path, value, findings_status(findings), text);
	free(text);
	json_decref(findings);
	json_decref(result);
}

static void test_no_findings(void **state)
{
	(void)state;
	expect("host", "'x'", 0, "");
}

/* Facts so large that comparing and printing them would take minutes. */
static void test_bounds(void **state)
{
	static const char *const lists[] = { "devices", "candidates" };
	static const size_t most[] = { ANYNET_DEVICES_MAX, ANYNET_CANDIDATES_MAX };
	json_t *facts = load(FACTS), *env = json_object();
	static char text[FACTS_TEXT_MAX + 1];
	char name[32];

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_true(facts_within_bounds(facts));
	assert_false(facts_within_bounds(NULL));
	for (size_t i = 0; i < 2; i++) {
		json_t *list = json_array(),
		       *before = json_incref(json_object_get(facts, lists[i]));

		for (size_t n = 0; n < most[i]; n++)
			json_array_append_new(list, json_object());
		json_object_set(facts, lists[i], list);
		assert_true(facts_within_bounds(facts));
		json_array_append_new(list, json_object());
		assert_false(facts_within_bounds(facts));
		json_decref(list);
		if (before)
			json_object_set_new(facts, lists[i], before);
		else
			json_object_del(facts, lists[i]);
	}
	for (int i = 0; i <= FACTS_ENV_MAX; i++) {
		snprintf(name, sizeof(name), "NCCL_%d", i);
		json_object_set_new(env, name, json_string(""));
	}
	json_object_set_new(facts, "env", env);
	assert_false(facts_within_bounds(facts));
	json_object_del(facts, "env");
	assert_true(facts_within_bounds(facts));
	/* A text at the limit of its length, and beyond. */
	json_object_set_new(facts, "devices", json_pack("[{s:s%}]", "name", text, FACTS_TEXT_MAX));
	assert_true(facts_within_bounds(facts));
	json_object_set_new(facts, "devices",
			    json_pack("[{s:s%}]", "name", text, FACTS_TEXT_MAX + 1));
	assert_false(facts_within_bounds(facts));
	json_decref(facts);
}

/* Addresses of the peer that may be dialled. */
static void test_addresses(void **state)
{
	static const char *const bad[] = {
		"",   "?",       "node7",     "127.0.0.1", "::1",        "0.0.0.0",
		"::", "0.1.2.3", "224.0.0.1", "ff02::1",   "10.0.0.1;x", "255.255.255.255"
	};

	(void)state;
	assert_true(address_is_dialled("10.0.0.1"));
	assert_true(address_is_dialled("2001:db8::1"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (address_is_dialled(bad[i]))
			fail_msg("dialled: %s", bad[i]);
	}
}

static void test_hosts(void **state)
{
	(void)state;
	expect("remote.wire", "4", 2, "wire protocol: 4 on the other host; 3 on this host");
	expect("remote.version", "'2'", 1, "anynet: 2 on the other host; 1 on this host");
	expect("remote.nccl", "'2.19.3'", 1, "2.19.3 on the other host; 2.28.9 on this host");
	expect("local.nccl", "''", 1, "none on this host");
	expect("local.nccl", "null", 0, ""); /* not known */
	expect("remote.kernel", "'5'", 0, "the kernel");
	expect("remote.env.NCCL_ALGO", "'Tree'", 1, "NCCL_ALGO: Tree on the other host; Ring on this host");
	expect("remote.env.NCCL_PROTO", "'LL'", 1, "NCCL_PROTO: LL on the other host; not set on this host");
	expect("remote.env.NCCL_SOCKET_IFNAME", "'x'", 0, "IFNAME");
	expect("remote.devices", "[]", 2, "the other host: no usable device");
	expect("local.devices.0.transport", "'IB'", 1, "devices: 1 x TCP 0 Mb/s on the other host; 1 x IB 0 Mb/s on this host");
	expect("remote.devices.0.address", "'127.0.0.1'", 2, "the other host: the plugin gets only the loopback interface");
}

static void test_clock_and_route(void **state)
{
	(void)state;
	expect("clock.offset_ns", "-1100000000", 1, "the clock of the other host is 1.100 s behind that of this host");
	expect("clock.offset_ns", "3600000000000", 1, "3600.000 s ahead of that of this host");
	/* Within the accuracy of the measurement. */
	expect("clock", "{'offset_ns': 5000000000, 'error_ns': 4500000000}", 0, "");
	expect("way.remote.mtu", "9000", 1, "MTU: 1500 on eth0 of this host, 9000 on eth0 of the other host");
	expect("way.remote.peer", "'192.0.2.1'", 1, "NAT: the address of this host is 10.0.0.1, but the other host sees 192.0.2.1");
}

static void test_ports(void **state)
{
	(void)state;
	expect("ports.0.state", "'refused'", 2, "from this host to the other host, 10.0.0.2 port 5000: refused");
	expect("ports.0.state", "'no answer'", 2, "a firewall that drops");
	expect("ports.0.state", "'unreachable'", 2, "no route to that address");
	expect("ports.0.state", "'stalled'", 2, "MTU black hole");
	expect("ports.0.state", "'not anynet'", 2, "Another program");
	expect("ports.0.state", "'busy'", 2, "larger range");
	expect("ports.0.state", "'something new'", 2, "could not run");
}

static void test_streams(void **state)
{
	(void)state;
	expect("tcp.0.retransmits", "11", 1, "1.10 % of the packets from this host to the other host");
	expect("tcp.0.retransmits", "5", 0, "0.50 %");
	expect("tcp.0.rwnd_limited_us", "500", 0, "receiver's window is the bottleneck");
	expect("tcp",
	       "[{'to': 'client', 'state': 'ok', 'us': 1000, 'busy_us': 900, 'bytes': 1,"
	       " 'rwnd_limited_us': 500, 'rtt_us': 1, 'window_bytes': 65536}]",
	       0, "from the other host to this host: the receiver is the bottleneck");
	expect("tcp.0.sndbuf_limited_us", "500", 0, "sender's socket buffer is the bottleneck");
	expect("plugin.0.error", "'no route'", 2, "through the plugin (tcp): no route");
	/* A rate is reported only after enough measurements, if all of them were that low. */
	expect("plugin.0.runs.1.bytes", "10", 0, "");
	expect("plugin.0.rates", "{'server': [9, 10, 8, 9, 9], 'client': [1, 2, 1, 1, 1]}", 1,
	       "5 measurements: 0.01 (0.01 to 0.01) GB/s to the other host");
	expect("plugin.0.rates", "{'server': [1, 2, 1, 1, 1], 'client': [9, 10, 8, 9, 9]}", 1,
	       "One direction is much slower: a faulty link");
	expect("plugin.0.rates", "{'server': [9, 10, 8, 9, 9], 'client': [1, 2, 1, 1]}", 0, "");
	expect("plugin.0.rates", "{'server': [9, 10, 8, 9, 9], 'client': [1, 2, 1, 1, 9]}", 0, "");
	expect("plugin.0.rates", "{'server': [9, 10, 1, 9, 9], 'client': [1, 2, 1, 1, 1]}", 0, "");
	expect("plugin.0.rates", "{'server': 7, 'client': ['x', -1, 0]}", 0, "");
	expect("failure", "{'step': 'x', 'reason': 'it vanished'}", 2, "x: it vanished");
}

static void test_limits(void **state)
{
	static const struct {
		const char *stream, *limit;
	} rows[] = {
		{ "{'streams': 1, 'us': 1000, 'busy_us': 100}", "sender" },
		{ "{'streams': 1, 'us': 1000, 'busy_us': 900}", "network" },
		{ "{'streams': 4, 'us': 1000, 'busy_us': 900}", "sender" },
		/* Exactly half of the time, and slightly less. */
		{ "{'us': 1000, 'busy_us': 500}", "network" },
		{ "{'us': 1000, 'busy_us': 499, 'rwnd_limited_us': 400}", "sender" },
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 400}", "receiver's window" },
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 271}", "receiver's window" },
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 270}", "network" },
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 270, 'sndbuf_limited_us': 271}",
		  "sender's buffer" },
		/* A window of 16 KB: half of it in flight, and slightly more. */
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 400, 'bytes': 81920, 'rtt_us': 100,"
		  " 'window_bytes': 16384}",
		  "receiver" },
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 400, 'bytes': 81921, 'rtt_us': 100,"
		  " 'window_bytes': 16384}",
		  "receiver's window" },
		/* 64 KB in flight with a window of 64 KB, and of 1 MB. */
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 400, 'bytes': 655360, 'rtt_us': 100,"
		  " 'window_bytes': 65536}",
		  "receiver's window" },
		{ "{'us': 1000, 'busy_us': 900, 'rwnd_limited_us': 400, 'bytes': 655360, 'rtt_us': 100,"
		  " 'window_bytes': 1048576}",
		  "receiver" },
		{ "{'us': 1000, 'busy_us': 900, 'sndbuf_limited_us': 400}", "sender's buffer" },
		{ "{}", "sender" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *stream = load(rows[i].stream);

		assert_string_equal(verdict_limit(stream), rows[i].limit);
		json_decref(stream);
	}
}

/* A repetition that failed shows no loss, and an error of one is an error of the pair. */
static void test_repetitions(void **state)
{
	json_t *first = load("{'state': 'ok', 'segments': 100, 'retransmits': 5}"), *pair, *again;

	(void)state;
	first = verdict_less_lost(first, load("{'state': 'refused', 'segments': 0}"));
	assert_true(verdict_loses(first));
	assert_null(json_object_get(first, "losses"));
	first = verdict_less_lost(first,
				  load("{'state': 'ok', 'segments': 100, 'retransmits': 2}"));
	assert_int_equal(json_array_size(json_object_get(first, "losses")), 2);
	assert_true(fabs(verdict_loss(first) - 0.02) < 1e-9);
	json_decref(first);
	pair = load("{'error': '', 'runs': [{'to': 'server', 'bytes': 100, 'us': 10}]}");
	again = load("{'error': '', 'runs': [{'to': 'server', 'bytes': 300, 'us': 10},"
		     " {'to': 'client', 'bytes': 200, 'us': 10}]}");
	rates_repeat(pair, again);
	json_decref(again);
	assert_string_equal(json_string_value(json_object_get(pair, "error")), "");
	again = load("{'error': 'no answer'}");
	rates_repeat(pair, again);
	json_decref(again);
	assert_string_equal(json_string_value(json_object_get(pair, "error")), "no answer");
	first = load("{'server': [10.0, 30.0], 'client': [20.0]}");
	assert_true(json_equal(json_object_get(pair, "rates"), first));
	json_decref(first);
	json_decref(pair);
}

/* The peer's part of the result may be anything. */
static void test_invalid_results(void **state)
{
	static const char *const values[] = {
		"null", "5", "'x'", "[]", "{}", "[[], 5, 'x', null]", "{'NCCL_X': 5, 'env': []}"
	};
	static const char *const paths[] = { "remote",     "remote.env",    "remote.devices",
					     "way.remote", "ports",         "tcp",
					     "plugin",     "plugin.0.runs", "clock" };

	(void)state;
	for (size_t p = 0; p < sizeof(paths) / sizeof(paths[0]); p++) {
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
			json_t *result = changed(paths[p], values[v]);
			json_t *findings = verdict_find(result);

			assert_true(json_is_array(findings));
			json_decref(findings);
			json_decref(result);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_findings),     cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_addresses),       cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_clock_and_route), cmocka_unit_test(test_ports),
		cmocka_unit_test(test_streams),         cmocka_unit_test(test_limits),
		cmocka_unit_test(test_invalid_results), cmocka_unit_test(test_repetitions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
