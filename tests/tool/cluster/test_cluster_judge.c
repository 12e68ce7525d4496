/* SPDX-License-Identifier: Apache-2.0 */
/* Findings on artificial runs with one fault each, in order, as "kind:hosts". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made_up.h"
#include "tools/cluster/judge.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/member.h"

static char *summary(const json_t *findings)
{
	static char text[4096];
	const json_t *finding, *host;
	size_t i, j;

	*text = '\0';
	json_array_foreach (findings, i, finding) {
		strcat(strcat(text, i ? " " : ""), member_text(finding, "id"));
		json_array_foreach (json_object_get(finding, "hosts"), j, host)
			strcat(strcat(text, j ? "," : ":"), json_string_value(host));
	}
	return text;
}

/* Judges and releases the run; one of the findings contains `says`. */
static void expect_against(json_t *run, json_t *before, int status, const char *what,
			   const char *says)
{
	json_t *findings = judge(run, before);
	char *text = json_dumps(findings, JSON_COMPACT);

	if (strcmp(summary(findings), what) != 0 || findings_status(findings) != status ||
	    !strstr(text, says))
		fail_msg("status %d, '%s' instead of '%s': %s", findings_status(findings),
			 summary(findings), what, text);
	free(text);
	json_decref(findings);
	json_decref(run);
	json_decref(before);
}

static void expect(json_t *run, int status, const char *what, const char *says)
{
	expect_against(run, NULL, status, what, says);
}

static void set_rates(json_t *run, size_t a, size_t b, double there, double back)
{
	json_object_set_new(made_up_link(run, a, b), "mb_s",
			    json_pack("[f, f]", a < b ? there : back, a < b ? back : there));
}

static void spoil(json_t *run, size_t a, size_t b, const char *part, const char *with)
{
	json_t *link = made_up_link(run, a, b);

	json_object_set_new(json_object_get(link, "measured"), part, made_up(with));
	if (!strcmp(part, "failure"))
		json_object_set_new(link, "state", json_string("broken"));
}

static void test_no_findings(void **state)
{
	(void)state;
	for (size_t hosts = 1; hosts < 9; hosts++)
		expect(made_up_run(hosts), 0, "", "");
}

static void test_one_pair(void **state)
{
	json_t *run = made_up_run(8);

	(void)state;
	set_rates(run, 1, 2, 400, 1000);
	expect(run, 1, "slow:n1,n2", "n1 to n2 0.400 GB/s, n2 to n1 1.000 GB/s");
	run = made_up_run(8);
	set_rates(run, 5, 2, 600, 1000);
	expect(run, 0, "", "");
	run = made_up_run(8);
	json_object_set_new(made_up_link(run, 0, 7), "us_least", json_real(301));
	expect(run, 1, "latency:n0,n7",
	       "n0 and n7: minimum round trip 301.0 us; the median of all is 100.0 us");
	run = made_up_run(8);
	spoil(run, 3, 4, "failure", "{'step': 'connecting', 'reason': 'filtered?'}");
	expect(run, 2, "broken:n3,n4", "n3 and n4: broken: from n3 to n4: connecting: filtered?");
	run = made_up_run(8);
	spoil(run, 3, 4, "tcp",
	      "[{'to': 'client', 'state': 'ok', 'segments': 100, 'retransmits': 2}]");
	set_rates(run, 3, 4, 1, 1); /* a consequence of the loss */
	expect(run, 1, "loss:n3,n4", "2.00 % of the packets from n4 to n3");
	run = made_up_run(8);
	spoil(run, 3, 4, "plugin", "[{'transport': 'tcp', 'error': 'it broke'}]");
	expect(run, 2, "broken:n3,n4", "it broke");
	/* One direction is faster than usual: no pair is slow. */
	run = made_up_run(8);
	set_rates(run, 3, 4, 4000, 1000);
	spoil(run, 3, 4, "plugin",
	      "[{'transport': 'tcp', 'error': '', 'runs': [{'to': 'server', 'bytes': 40, 'us': 1},"
	      " {'to': 'client', 'bytes': 10, 'us': 1}]}]");
	expect(run, 0, "", "");
}

static void test_one_host(void **state)
{
	json_t *run = made_up_run(8);

	(void)state;
	for (size_t i = 1; i < 8; i++)
		set_rates(run, 0, i, 100, 1000);
	expect(run, 1, "slow:n0", "n0: slow with 7 of 7 hosts, such as: n0 to n1 0.100 GB/s");
	/* A fault of most of its pairs is the host's, and other faults are reported as well. */
	run = made_up_run(8);
	for (size_t i = 0; i < 5; i++)
		spoil(run, i, 6, "failure", "{}");
	spoil(run, 0, 1, "failure", "{}");
	expect(run, 2, "broken:n6 broken:n0,n1", "n6: broken with 5 of 7 hosts");
	/* Two faulty hosts: the pair between them is not a third finding. */
	run = made_up_run(8);
	for (size_t i = 0; i < 6; i++) {
		spoil(run, i, 6, "failure", "{}");
		spoil(run, i, 7, "failure", "{}");
	}
	spoil(run, 7, 6, "failure", "{}");
	expect(run, 2, "broken:n6 broken:n7", "n7: broken with 6 of 6 hosts");
	/* The same with three hosts. */
	run = made_up_run(3);
	spoil(run, 0, 2, "clock", "{'offset_ns': 90000000000, 'error_ns': 10}");
	spoil(run, 1, 2, "clock", "{'offset_ns': 90000000000, 'error_ns': 10}");
	expect(run, 1, "clock:n2", "such as: the clock of n2 is 90.000 s ahead of that of n0");
}

static void test_all_hosts(void **state)
{
	json_t *run = made_up_run(5);

	(void)state;
	for (size_t a = 0; a < 5; a++) {
		for (size_t b = 0; b < a; b++)
			spoil(run, a, b, "failure", "{}");
	}
	expect(run, 2, "broken", "all hosts: broken between all 10 pairs");
	run = made_up_run(2);
	spoil(run, 0, 1, "failure", "{}");
	expect(run, 2, "broken:n0,n1", "");
}

static void test_path(void **state)
{
	json_t *run = made_up_run(5);

	(void)state;
	for (size_t a = 0; a < 5; a++) {
		for (size_t b = 0; b < a; b++)
			json_object_set_new(made_up_link(run, a, b), "path",
					    json_string(a == 3 || b == 3 ? "TCP" : "IB"));
	}
	expect(run, 1, "path:n3", "n3: TCP, others have InfiniBand or RoCE with 4 of 4 hosts");
}

static void test_hosts(void **state)
{
	json_t *run = made_up_run(4);

	(void)state;
	json_object_set_new(made_up_host(run, 2), "error", json_string("no login"));
	json_object_set_new(made_up_host(run, 2), "facts", json_null());
	expect(run, 2, "missing:n2", "n2: no login");
	run = made_up_run(4);
	json_object_set_new(made_up_facts(run, 1), "nccl", json_string("2.19.3"));
	expect(run, 1, "version:n1", "2.19.3 on n1; 2.28.9 on n0, n2, n3");
	run = made_up_run(4);
	for (size_t i = 0; i < 4; i++)
		json_object_set_new(made_up_facts(run, i), "gpus",
				    json_string(i == 2 ? "7 x A" : "8 x A"));
	expect(run, 1, "device:n2", "GPUs: 7 x A on n2; 8 x A on n0, n1, n3");
	run = made_up_run(4);
	json_object_set_new(made_up_facts(run, 0), "env", made_up("{'NCCL_DEBUG': 'INFO'}"));
	expect(run, 1, "setting:n0 setting:n0", "NCCL_ALGO: not set on n0; Ring on n1, n2, n3");
	run = made_up_run(4);
	json_object_set_new(made_up_facts(run, 3), "devices", json_array());
	expect(run, 2, "device:n3 device:n3", "n3: no usable device");
	run = made_up_run(4);
	json_object_set_new(json_array_get(json_object_get(made_up_facts(run, 3), "devices"), 0),
			    "speed_mbps", json_integer(1000));
	expect(run, 1, "device:n3", "1 x TCP 1000 Mb/s on n3; 1 x TCP 10000 Mb/s on n0, n1, n2");
	/* A long list of names is shortened. */
	run = made_up_run(12);
	json_object_set_new(made_up_facts(run, 0), "kernel", json_string("5"));
	expect(run, 0, "version:n0", "6 on n1, n2, n3, n4, n5, n6 and 5 more");
}

static void test_launchers(void **state)
{
	static const char *const ranks[] = { "'0'", "'8'", "'8'" };
	json_t *run = made_up_run(3);

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		json_t *launcher = json_object_get(made_up_host(run, i), "launcher");

		json_object_set_new(launcher, "RANK", made_up(ranks[i]));
		json_object_set_new(launcher, "MASTER_ADDR", json_string(i ? "a" : "b"));
	}
	expect(run, 2, "launcher:n0 launcher", "RANK: 8 on n1, n2");
}

/* `values` of the variables `names`, host by host; NULL = not set. */
static json_t *launched(const char *const *names, const char *const (*values)[3], size_t hosts)
{
	json_t *run = made_up_run(hosts);

	for (size_t i = 0; i < hosts; i++) {
		for (size_t k = 0; k < 3 && names[k]; k++) {
			if (values[i][k])
				json_object_set_new(json_object_get(made_up_host(run, i),
								    "launcher"),
						    names[k], json_string(values[i][k]));
		}
	}
	return run;
}

static void test_layout(void **state)
{
	static const char *const torch[3] = { "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE" };
	static const char *const slurm[3] = { "SLURM_NODEID", "SLURM_NNODES" };
	static const char *const good[][3] = { { "0", "6", "2" },
					       { "2", "6", "2" },
					       { "1", "6", "2" } };
	static const char *const few[][3] = { { "0", "8", "2" },
					      { "1", "8", "2" },
					      { "2", "8", "2" } };
	static const char *const odd[][3] = { { "0", "7", "2" },
					      { "1", "7", "2" },
					      { "2", "7", "3" } };
	static const char *const gap[][3] = { { "0", "6", "2" },
					      { "1", "6", "2" },
					      { "3", "6", "2" } };
	static const char *const untold[][3] = { { "0", "8", "2" },
						 { "1", "8", NULL },
						 { NULL, "8", "2" } };
	static const char *const huge[][3] = { { "0", "99999999999", "2" }, { "1", "x", "-2" } };
	static const char *const last[][3] = { { "0", "3" }, { "1", "3" } };

	(void)state;
	expect(launched(torch, good, 3), 0, "", "");
	expect(launched(torch, few, 3), 2, "launcher",
	       "WORLD_SIZE is 8, and LOCAL_WORLD_SIZE of these hosts adds up to 6");
	expect(launched(torch, odd, 3), 1, "launcher:n2", "LOCAL_WORLD_SIZE: 3 on n2; 2 on n0, n1");
	expect(launched(torch, gap, 3), 2, "launcher", "NODE_RANK: no host has 2, of 4 hosts");
	expect(launched(torch, untold, 3), 1, "launcher:n1", "not set on n1");
	expect(launched(torch, huge, 2), 2, "launcher:n1 launcher:n1", "WORLD_SIZE: x on n1");
	expect(launched(slurm, last, 2), 2, "launcher", "SLURM_NODEID: no host has 2, of 3 hosts");
}

static void test_earlier_run(void **state)
{
	json_t *run = made_up_run(4), *before = made_up_run(4);

	(void)state;
	set_rates(run, 0, 1, 690, 710);
	expect_against(run, before, 1, "slower:n0,n1", "n0 to n1 0.690 GB/s, earlier 1.000 GB/s");
	run = made_up_run(4);
	before = made_up_run(5);
	for (size_t i = 1; i < 4; i++)
		json_object_set_new(made_up_link(before, 0, i), "us_least", json_real(40));
	expect_against(run, before, 1, "later:n0 baseline:n4", "n4: was in the earlier run");
	/* A measurement that is missing in one of the runs is not slower. */
	run = made_up_run(4);
	before = made_up_run(4);
	set_rates(before, 0, 1, 0, 0);
	set_rates(run, 2, 3, 0, 0);
	expect_against(run, before, 0, "", "");
}

static void expect_unclear(json_t *run, const char *pairs)
{
	json_t *list = judge_unclear(run, NULL);
	char *text = json_dumps(list, JSON_COMPACT);

	assert_string_equal(text, pairs);
	free(text);
	json_decref(list);
	json_decref(run);
}

static void test_pairs_to_repeat(void **state)
{
	json_t *run = made_up_run(6);

	(void)state;
	set_rates(run, 1, 2, 100, 1000);
	json_object_set_new(made_up_link(run, 3, 4), "us_least", json_real(900));
	spoil(run, 1, 5, "failure", "{}");
	spoil(run, 0, 5, "tcp",
	      "[{'to': 'server', 'state': 'ok', 'segments': 9, 'retransmits': 5}]");
	expect_unclear(run, "[[0,5],[1,2],[3,4]]");
	expect_unclear(made_up_run(6), "[]");
	expect_unclear(json_object(), "[]");
}

/* The better of two measurements counts, but a failure of the second one counts, too. */
static void test_repeated_measurement(void **state)
{
	json_t *run = made_up_run(2), *link = made_up_link(run, 0, 1), *again;

	(void)state;
	json_object_set_new(link, "lost", json_pack("[f, f]", 0.1, 0.0));
	again = json_deep_copy(link);
	json_object_set_new(again, "mb_s", json_pack("[f, f]", 500.0, 2000.0));
	json_object_set_new(again, "us_least", json_real(50));
	json_object_set_new(again, "lost", json_pack("[f, f]", 0.0, 0.0));
	link_improve(link, again);
	assert_true(member_real(link, "us_least") == 50);
	assert_true(json_real_value(json_array_get(json_object_get(link, "mb_s"), 0)) == 1000);
	assert_true(json_real_value(json_array_get(json_object_get(link, "mb_s"), 1)) == 2000);
	assert_true(json_real_value(json_array_get(json_object_get(link, "lost"), 0)) == 0);
	again = json_deep_copy(link);
	json_object_set_new(again, "state", json_string("broken"));
	link_improve(link, again);
	assert_string_equal(member_text(link, "state"), "broken");
	json_decref(run);
}

/* Files and other hosts may contain anything. */
static void test_invalid_input(void **state)
{
	static const char *const values[] = {
		"null",  "5", "'x'", "[]", "{}", "[[], 5, 'x', null]", "{'name': 5, 'env': []}",
		"-1e300"
	};
	static const char *const keys[] = { "hosts", "links", "format", "a",    "b",  "measured",
					    "us",    "mb_s",  "facts",  "name", "env" };

	(void)state;
	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
			json_t *run = made_up_run(3), *before = made_up_run(3), *findings;

			json_object_set_new(run, keys[k], made_up(values[v]));
			json_object_set_new(made_up_link(run, 0, 1), keys[k], made_up(values[v]));
			json_object_set_new(made_up_host(before, 0), keys[k], made_up(values[v]));
			json_object_set_new(made_up_facts(run, 0), keys[k], made_up(values[v]));
			findings = judge(run, before);
			assert_true(json_is_array(findings));
			json_decref(findings);
			findings = judge(before, run);
			assert_true(json_is_array(findings));
			json_decref(findings);
			json_decref(run);
			json_decref(before);
		}
	}
}

static size_t kept(const json_t *link, const char *list)
{
	return json_array_size(json_object_get(json_object_get(link, "measured"), list));
}

/* A worker that reports more than can exist fills neither memory nor the report. */
static void test_too_many_results(void **state)
{
	json_t *many = json_array(), *link, *findings;
	char *long_text = malloc(LINK_BYTES + 1);

	(void)state;
	for (size_t i = 0; i < 2 * LINK_PORTS; i++)
		json_array_append_new(many, json_object());
	link = link_new("n0", "n1",
			json_pack("{s:o, s:o, s:[{s:s, s:o}]}", "ports", json_copy(many), "tcp",
				  json_copy(many), "plugin", "error", "", "runs", json_copy(many)));
	assert_int_equal(kept(link, "ports"), LINK_PORTS);
	assert_int_equal(kept(link, "tcp"), LINK_RUNS);
	json_decref(link);
	json_decref(many);
	memset(long_text, 'x', LINK_BYTES);
	long_text[LINK_BYTES] = '\0';
	link = link_new("n0", "n1", json_pack("{s:{s:s}}", "way", "local", long_text));
	free(long_text);
	assert_string_equal(member_text(link, "state"), "broken");
	findings = verdict_link(json_object_get(link, "measured"), &(struct verdict_hosts){ "n0", "n1" });
	assert_int_equal(json_array_size(findings), 1);
	assert_non_null(
		strstr(member_text(json_array_get(findings, 0), "finding"), "too many results"));
	json_decref(findings);
	json_decref(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_findings),
		cmocka_unit_test(test_one_pair),
		cmocka_unit_test(test_one_host),
		cmocka_unit_test(test_all_hosts),
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_launchers),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_earlier_run),
		cmocka_unit_test(test_pairs_to_repeat),
		cmocka_unit_test(test_repeated_measurement),
		cmocka_unit_test(test_invalid_input),
		cmocka_unit_test(test_too_many_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
