/* SPDX-License-Identifier: Apache-2.0 */
/* Large jobs: a look at them takes time in proportion to what the hosts report, and leaves out nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>

#include "tools/cluster/live_judge.h"
#include "tools/shared/member.h"

#define HOSTS 256

static json_t *host_new(int number, json_t *facts)
{
	char name[16];

	snprintf(name, sizeof(name), "h%d", number);
	return json_pack("{s:s, s:o}", "name", name, "facts", facts);
}

static void assert_one_finding(const json_t *findings, const char *id, const char *host)
{
	const json_t *finding = json_array_get(findings, 0);

	assert_int_equal(json_array_size(findings), 1);
	assert_string_equal(member_text(finding, "id"), id);
	assert_string_equal(json_string_value(json_array_get(json_object_get(finding, "hosts"), 0)),
			    host);
}

#define RANKS 256 /* of each host */

/* Each rank waits for that of the same number on the next host, but one waits for none. */
static json_t *hung_host(int number, int free_host, int free_rank)
{
	json_t *processes = json_array(), *waits = json_array();
	char host[16], next[16];

	snprintf(host, sizeof(host), "n%d", number);
	snprintf(next, sizeof(next), "n%d", (number + 1) % HOSTS);
	for (int pid = 1; pid <= RANKS; pid++) {
		json_array_append_new(processes, json_pack("{s:s, s:i}", "host", host, "pid", pid));
		if (number != free_host || pid != free_rank)
			json_array_append_new(waits, json_pack("{s:s, s:i, s:s, s:i, s:i}", "host",
							       host, "pid", pid, "for_host", next,
							       "for_pid", pid, "ms", 5000));
	}
	return host_new(number, json_pack("{s:o, s:o}", "processes", processes, "waits", waits));
}

/* To compare each wait with all others would take many minutes. */
static void test_a_hung_job_is_judged_at_once(void **state)
{
	struct live *live = live_new();
	json_t *hosts = json_array(), *findings;

	(void)state;
	for (int i = 0; i < HOSTS; i++)
		json_array_append_new(hosts, hung_host(i, 7, 9));
	json_decref(live_judge(live, hosts));
	findings = live_judge(live, hosts);
	assert_one_finding(findings, "rank-waited-for", "h7");
	json_decref(findings);
	json_array_set_new(hosts, 7, hung_host(7, -1, 0));
	findings = live_judge(live, hosts);
	assert_int_equal(json_array_size(findings), 0);
	json_decref(findings);
	json_decref(hosts);
}

#define WIDE 40 /* hosts */
#define NICS 8

/* Whether it is the path that the test breaks: the last ones that are reported. */
static bool is_broken(int a, int b, int nic)
{
	return nic == 6 && ((a == WIDE - 1 && b == WIDE - 3) || (b == WIDE - 1 && a == WIDE - 3));
}

static json_t *wide_path(int b, int nic)
{
	char other[16], device[16], address[32];

	snprintf(other, sizeof(other), "n%d", b);
	snprintf(device, sizeof(device), "mlx5_%d", nic);
	snprintf(address, sizeof(address), "10.%d.0.%d", nic, b);
	return json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:i}", "for_host", other,
			 "for_pid", 100, "device", device, "address", address, "up", 1, "packets",
			 1000, "acked", 1400000, "busy_us", 100000, "rtt_us", 100);
}

/* Every host has a path to every other by each of its NICs. */
static json_t *wide_host(int number, bool broken)
{
	json_t *paths = json_array();
	char host[16];

	snprintf(host, sizeof(host), "n%d", number);
	for (int b = 0; b < WIDE; b++) {
		for (int nic = 0; nic < NICS && b != number; nic++) {
			if (!broken || !is_broken(number, b, nic))
				json_array_append_new(paths, wide_path(b, nic));
		}
	}
	return host_new(number, json_pack("{s:[{s:s, s:i}], s:o}", "processes", "host", host, "pid",
					  100, "paths", paths));
}

/* No path of a job that uses all pairs of NICs is left out. */
static void test_the_last_path_is_judged(void **state)
{
	struct live *live = live_new();

	(void)state;
	for (int look = 0; look < 8; look++) {
		json_t *hosts = json_array(), *findings;

		for (int i = 0; i < WIDE; i++)
			json_array_append_new(hosts, wide_host(i, look >= 4));
		findings = live_judge(live, hosts);
		if (look < 4)
			assert_int_equal(json_array_size(findings), 0);
		if (look == 7)
			assert_one_finding(findings, "path-down", "h37");
		json_decref(findings);
		json_decref(hosts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_hung_job_is_judged_at_once),
		cmocka_unit_test(test_the_last_path_is_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
