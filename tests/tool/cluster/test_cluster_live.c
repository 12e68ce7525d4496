/* SPDX-License-Identifier: Apache-2.0 */
/* Findings while a job runs: the facts of three hosts, look after look, and the verdict on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "made_up.h"
#include "tools/cluster/live_judge.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/member.h"

#define HOSTS           3
#define WIDE            "10.79.0."
#define NARROW          "10.80.0."
#define PACKETS         1000
#define ACKED           1400000 /* bytes */
#define LOOKS_OF_BREAKS 4

/* The faults; numbers of hosts from 1, 0 = none. */
struct plan {
	int silent, starved, mute, waited; /* a host */
	int gone[2], lossy[2], slow[2], third[2], crowded[2], brief[2], single[2], idle[2],
		unused[2], broke[2], failed[2], moved[2], guest[2], detour[2],
		device; /* device: the host whose narrow network is gone; the others: a pair of hosts */
	int loss;       /* packets of every path */
	bool unused_all; /* no path carries data */
};

static unsigned looks_done;

static bool is_pair(const int *pair, int a, int b)
{
	return (pair[0] == a && pair[1] == b) || (pair[0] == b && pair[1] == a);
}

/* What the senders of a path measured in one look. */
struct traffic {
	int packets, acked, busy_us, rtt_us;
};

static struct traffic traffic(const struct plan *p, int a, int b, bool narrow)
{
	if (p->unused_all || (narrow && (is_pair(p->unused, a, b) || is_pair(p->failed, a, b))))
		return (struct traffic){ 0 };
	if (narrow && is_pair(p->slow, a, b))
		return (struct traffic){ PACKETS, ACKED, 900000, 900 };
	/* A third of the others' rate, and in every second look no queue: the plugin sends little on it. */
	if (narrow && is_pair(p->third, a, b))
		return (struct traffic){ PACKETS, ACKED / 3, 100000, looks_done % 2 ? 110 : 200 };
	/* Delayed by the packets of a slower path. */
	if (!narrow && is_pair(p->crowded, a, b))
		return (struct traffic){ PACKETS, ACKED, 250000, 900 };
	if (narrow && is_pair(p->brief, a, b))
		return (struct traffic){ PACKETS / 30, ACKED / 30, 30000, 900 };
	/* One piece in flight now and then, each for a round trip. */
	if (narrow && is_pair(p->single, a, b))
		return (struct traffic){ PACKETS / 8, ACKED / 8, 35000, 250 };
	if (narrow && is_pair(p->idle, a, b))
		return (struct traffic){ PACKETS, ACKED, 900000, 100 };
	return (struct traffic){ PACKETS, ACKED, 100000, 100 };
}

static json_t *path(const struct plan *p, int a, int b, bool narrow)
{
	bool gone = narrow && (is_pair(p->gone, a, b) || p->device == a || p->device == b);
	bool failed = narrow && is_pair(p->failed, a, b);
	bool broke = failed || (narrow && is_pair(p->broke, a, b));
	struct traffic t = traffic(p, a, b, narrow);
	int resent = !t.packets ? 0 : narrow && is_pair(p->lossy, a, b) ? 100 : p->loss;
	char host[8], other[8], address[32];

	if (gone)
		return NULL;
	snprintf(host, sizeof(host), "n%d", a);
	snprintf(other, sizeof(other), "n%d", b);
	snprintf(address, sizeof(address), "%s%d",
		 narrow && !is_pair(p->detour, a, b) ? NARROW : WIDE, b);
	return json_pack("{s:s, s:i, s:s, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
			 "host", host, "pid", 100 + a, "for_host", other, "for_pid", 100 + b,
			 "device", narrow ? "eth1" : "eth0", "address", address, "up",
			 failed                              ? 0
			 : narrow && is_pair(p->moved, a, b) ? 1
			 : narrow && is_pair(p->guest, a, b) ? 3
							     : 2,
			 "down", 0, "broke", broke, "packets", t.packets, "resent", resent, "acked",
			 t.acked, "busy_us", t.busy_us, "rtt_us", t.rtt_us);
}

static json_t *facts(const struct plan *p, int a)
{
	char host[8], rank[8];
	json_t *paths = json_array(), *waits = json_array(), *each;
	int ran = p->starved == a ? 50 : p->silent == a ? 0 : 900;
	int waited = p->starved == a ? 950 : p->silent == a ? 0 : 50;

	snprintf(host, sizeof(host), "n%d", a);
	snprintf(rank, sizeof(rank), "%d", a - 1);
	for (int b = 1; b <= HOSTS; b++) {
		char other[8];

		for (int narrow = 0; b != a && narrow < 2; narrow++) {
			each = path(p, a, b, narrow);
			if (each)
				json_array_append_new(paths, each);
		}
		snprintf(other, sizeof(other), "n%d", b);
		if (p->waited == b && b != a)
			json_array_append_new(waits,
					      json_pack("{s:s, s:i, s:s, s:i, s:i}", "host", host,
							"pid", 100 + a, "for_host", other,
							"for_pid", 100 + b, "ms", 5000));
	}
	return json_pack("{s:[{s:s, s:i, s:s, s:s, s:i, s:i, s:i}], s:o, s:o}", "processes", "host",
			 host, "pid", 100 + a, "rank", rank, "job", "", "silent_ms",
			 p->silent == a ? 4000 : 0, "ran_ms", ran, "waited_ms", waited, "waits",
			 waits, "paths", paths);
}

/* Judges this many looks; returns the findings of the last one, as "id:hosts". */
static const char *judged(struct live *live, const struct plan *p, int looks)
{
	static char text[600];

	for (; looks > 0; looks--, looks_done++) {
		json_t *hosts = json_array(), *findings;
		const json_t *finding, *name;
		size_t i, k;

		for (int a = 1; a <= HOSTS; a++) {
			char host[8];

			snprintf(host, sizeof(host), "h%d", a);
			json_array_append_new(hosts,
					      json_pack("{s:s, s:o}", "name", host, "facts",
							p->mute == a ? json_null() : facts(p, a)));
		}
		findings = live_judge(live, hosts);
		*text = '\0';
		json_array_foreach (findings, i, finding) {
			strcat(strcat(text, i ? " " : ""), member_text(finding, "id"));
			json_array_foreach (json_object_get(finding, "hosts"), k, name)
				strcat(strcat(text, k ? "," : ":"), json_string_value(name));
		}
		json_decref(findings);
		json_decref(hosts);
	}
	return text;
}

static void test_each_fault_has_one_finding(void **state)
{
	static const struct {
		struct plan plan;
		const char *said;
	} cases[] = {
		{ { 0 }, "" },
		{ { .silent = 2 }, "rank-stopped:h2" },
		{ { .starved = 3 }, "host-busy:h3" },
		/* Silent because it gets no processor time: it is not stopped. */
		{ { .silent = 3, .starved = 3 }, "host-busy:h3" },
		{ { .mute = 1 }, "host-silent:h1" },
		{ { .waited = 2 }, "rank-waited-for:h2" },
		{ { .gone = { 1, 3 } }, "path-down:h1,h3" },
		{ { .lossy = { 2, 3 } }, "path-loss:h2,h3" },
		{ { .slow = { 1, 2 } }, "path-slow:h1,h2" },
		{ { .third = { 1, 2 } }, "path-slow:h1,h2" },
		/* A path that shares a host with a slower one may be slow because of that. */
		{ { .third = { 1, 2 }, .crowded = { 2, 3 } }, "path-slow:h1,h2" },
		{ { .slow = { 1, 2 }, .crowded = { 1, 3 } }, "path-slow:h1,h2" },
		/* A single piece in flight at a time has a low rate on a healthy path. */
		{ { .single = { 1, 2 } }, "" },
		/* A low rate without a queue is caused by the program. */
		{ { .idle = { 1, 2 } }, "" },
		/* Loss on all paths is normal for this network. */
		{ { .loss = 30 }, "" },
		{ { .loss = 20, .lossy = { 2, 3 } }, "path-loss:h2,h3" },
		/* If all paths of a host in one network are down, the host is reported once. */
		{ { .device = 2 }, "path-down:h2" },
		/* The slow paths are a consequence. */
		{ { .silent = 2, .slow = { 2, 3 }, .waited = 2 }, "rank-stopped:h2" },
		{ { .lossy = { 1, 2 }, .slow = { 1, 2 } }, "path-loss:h1,h2" },
		{ { .starved = 3, .slow = { 2, 3 } }, "host-busy:h3" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct live *live = live_new();

		assert_string_equal(judged(live, &(struct plan){ 0 }, 10), "");
		assert_string_equal(judged(live, &cases[i].plan, 10), cases[i].said);
		/* The finding ends with the fault. */
		assert_string_equal(judged(live, &(struct plan){ 0 }, 10), "");
	}
}

static void test_short_faults_are_ignored(void **state)
{
	struct live *live = live_new();

	(void)state;
	judged(live, &(struct plan){ 0 }, 10);
	for (int i = 0; i < 5; i++) {
		assert_string_equal(judged(live, &(struct plan){ .starved = 1 }, 2), "");
		assert_string_equal(judged(live, &(struct plan){ .waited = 2 }, 1), "");
		assert_string_equal(judged(live, &(struct plan){ .waited = 1 }, 1), "");
		assert_string_equal(judged(live, &(struct plan){ 0 }, 1), "");
		assert_string_equal(judged(live, &(struct plan){ .gone = { 1, 2 } }, 2), "");
		assert_string_equal(judged(live, &(struct plan){ 0 }, 1), "");
		assert_string_equal(judged(live, &(struct plan){ .lossy = { 1, 2 } }, 1), "");
		assert_string_equal(judged(live, &(struct plan){ 0 }, 2), "");
		assert_string_equal(judged(live, &(struct plan){ .slow = { 1, 2 } }, 1), "");
		assert_string_equal(judged(live, &(struct plan){ .broke = { 1, 3 } }, 1), "");
		assert_string_equal(judged(live, &(struct plan){ 0 }, 3), "");
		assert_string_equal(judged(live, &(struct plan){ .brief = { 2, 3 } }, 3), "");
		assert_string_equal(judged(live, &(struct plan){ 0 }, 3), "");
	}
}

/* The plugin moves data away from a bad path at once: little evidence is enough, and it is kept while there is no new
 * one. */
static void test_an_abandoned_path_is_reported(void **state)
{
	struct live *live = live_new();

	(void)state;
	judged(live, &(struct plan){ 0 }, 10);
	judged(live, &(struct plan){ .slow = { 1, 2 } }, 2);
	assert_string_equal(judged(live, &(struct plan){ .unused = { 1, 2 } }, 8),
			    "path-slow:h1,h2");
	assert_string_equal(judged(live, &(struct plan){ 0 }, 4), "");
	/* A connection breaks again and again, and the remaining ones carry no data. */
	assert_string_equal(judged(live, &(struct plan){ .broke = { 2, 3 }, .unused = { 2, 3 } },
				   LOOKS_OF_BREAKS),
			    "path-down:h2,h3");
}

/* If the plugin leaves the path within one look, that is the second sign, unless the whole job pauses. */
static void test_a_path_abandoned_at_once_is_reported(void **state)
{
	static const struct plan well = { 0 }, slow = { .slow = { 1, 2 } },
				 unused = { .unused = { 1, 2 } }, pause = { .unused_all = true },
				 fails = { .failed = { 1, 2 } };
	struct live *live = live_new();

	(void)state;
	judged(live, &well, 10);
	assert_string_equal(judged(live, &slow, 1), "");
	assert_string_equal(judged(live, &pause, 8), "");
	assert_string_equal(judged(live, &well, 8), "");
	assert_string_equal(judged(live, &slow, 1), "");
	assert_string_equal(judged(live, &unused, 1), "path-slow:h1,h2");
	assert_string_equal(judged(live, &well, 4), "");
	/* A healthy path is not slow because it is not used. */
	assert_string_equal(judged(live, &unused, 8), "");
	/* The plugin abandons its connections within one look. */
	assert_string_equal(judged(live, &fails, 1), "");
	assert_string_equal(judged(live, &unused, 2), "path-down:h1,h2");
}

/* One of a path's connections breaks, and its data moves to another path, for some looks with the connection. */
static void test_a_connection_that_moves_away_is_reported(void **state)
{
	static const struct plan well = { 0 },
				 breaks = { .broke = { 1, 2 },
					    .moved = { 1, 2 },
					    .unused = { 1, 2 } },
				 moved = { .moved = { 1, 2 }, .unused = { 1, 2 } },
				 fewer = { .moved = { 1, 2 } };
	struct live *live = live_new();

	(void)state;
	judged(live, &well, 10);
	assert_string_equal(judged(live, &breaks, 1), "");
	assert_string_equal(judged(live, &moved, 1), "path-down:h1,h2");
	assert_string_equal(judged(live, &well, 8), "");
	/* The program closes a connection. */
	assert_string_equal(judged(live, &fewer, 8), "");
}

/* A connection of another path comes for a moment, and breaks here when it returns. */
static void test_a_guest_that_leaves_is_not_missed(void **state)
{
	static const struct plan well = { 0 }, guest = { .guest = { 1, 2 } },
				 leaves = { .broke = { 1, 2 } };
	struct live *live = live_new();

	(void)state;
	judged(live, &well, 10);
	judged(live, &guest, 1);
	judged(live, &leaves, 1);
	for (int looks = 0; looks < 8; looks++)
		assert_string_equal(judged(live, &well, 1), "");
}

/* A connection goes from one network's address to the other's for a while. */
static void test_the_end_of_a_detour_is_no_fault(void **state)
{
	static const struct plan well = { 0 }, detour = { .detour = { 1, 2 } };
	struct live *live = live_new();

	(void)state;
	judged(live, &well, 10);
	judged(live, &detour, 2);
	assert_string_equal(judged(live, &well, 10), "");
}

/* What is not watched is a note: it is not a fault, and explains none. */
static void test_connections_beyond_the_limits(void **state)
{
	static const char words[] =
		"[{'name': 'h1', 'facts': {'left_out': 7, 'processes': [{'host': 'n1', 'pid': 1, 'silent_ms': %d}]}},"
		" {'name': 'h2', 'facts': {'left_out': 0}}, {'name': 'h3', 'facts': {'left_out': 5}}]";
	struct live *live = live_new();

	(void)state;
	for (int silent_ms = 0; silent_ms <= 9000; silent_ms += 9000) {
		char text[sizeof(words) + 10];
		json_t *hosts, *findings, *note;

		snprintf(text, sizeof(text), words, silent_ms);
		hosts = made_up(text);
		findings = live_judge(live, hosts);
		assert_int_equal(json_array_size(findings), silent_ms ? 2 : 1);
		assert_int_equal(findings_status(findings), silent_ms ? 2 : 0);
		note = json_array_get(findings, json_array_size(findings) - 1);
		assert_string_equal(member_text(note, "id"), "paths-left-out");
		assert_string_equal(member_text(note, "finding"),
				    "12 connections of 2 hosts are not watched");
		json_decref(findings);
		json_decref(hosts);
	}
}

/* Longer names than are stored are the same at each look. */
static void test_a_long_name(void **state)
{
	json_t *host =
		made_up("{'facts': {'processes': [{'pid': 5, 'ran_ms': 1, 'waited_ms': 900}]}}");
	json_t *idle = made_up(
		"{'name': 'h2', 'facts': {'processes': [{'pid': 5, 'ran_ms': 1, 'waited_ms': 0},"
		" {'pid': 6, 'ran_ms': 1, 'waited_ms': 0}]}}");
	json_t *hosts = json_pack("[o, o]", host, idle), *findings = NULL;
	struct live *live = live_new();

	(void)state;
	json_object_set_new(host, "name", json_sprintf("%0100d", 1));
	for (int look = 0; look < 10; look++) {
		json_decref(findings);
		findings = live_judge(live, hosts);
	}
	assert_string_equal(member_text(json_array_get(findings, 0), "id"), "host-busy");
	json_decref(findings);
	json_decref(hosts);
}

/* Input from another host may be anything. */
static void test_invalid_facts(void **state)
{
	static const char *const words[] = {
		"[]",
		"[5, 'x', null, [], {}]",
		"[{'name': 5, 'facts': {'paths': 7}}]",
		("[{'name': 'a', 'facts': {'paths': [{}, 5, {'packets': -1, 'resent': 'x', 'acked': 9e18, 'busy_us': 1e300}],"
		 " 'waits': [{'ms': -5}, {}], 'processes': [{'pid': 99999999999, 'silent_ms': 1e9}, []]}}]"),
	};
	struct live *live = live_new();

	(void)state;
	for (size_t i = 0; i < 4 * sizeof(words) / sizeof(words[0]); i++) {
		json_t *hosts = made_up(words[i % (sizeof(words) / sizeof(words[0]))]);

		json_decref(live_judge(live, hosts));
		json_decref(hosts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_fault_has_one_finding),
		cmocka_unit_test(test_short_faults_are_ignored),
		cmocka_unit_test(test_an_abandoned_path_is_reported),
		cmocka_unit_test(test_a_path_abandoned_at_once_is_reported),
		cmocka_unit_test(test_a_connection_that_moves_away_is_reported),
		cmocka_unit_test(test_a_guest_that_leaves_is_not_missed),
		cmocka_unit_test(test_the_end_of_a_detour_is_no_fault),
		cmocka_unit_test(test_connections_beyond_the_limits),
		cmocka_unit_test(test_a_long_name),
		cmocka_unit_test(test_invalid_facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
