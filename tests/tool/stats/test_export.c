/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of statistics files, including hostile ones: the output is always valid for Prometheus. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exposition.h"
#include "tools/export/metrics.h"

static struct anynet_stats_comm comms[ANYNET_STATS_COMMS];

/* A file with this many comms, of two streams each. */
static struct page make_page(uint32_t pid, size_t count)
{
	struct page page = { .comms = comms, .count = count, .read_ms = 100000, .uid = 1000 };

	memset(comms, 0, sizeof(comms));
	page.process.pid = pid;
	page.process.comms = (uint32_t)count;
	page.process.started_ms = 40000;
	page.process.written_ms = 99950;
	strcpy(page.process.host, "host-a");
	strcpy(page.process.rank, "3");
	for (size_t i = 0; i < count; i++) {
		comms[i].id = i + 1;
		comms[i].is_send = !(i % 2);
		comms[i].bytes = 1234567;
		comms[i].peer_pid = 77;
		strcpy(comms[i].peer_host, "host-b");
		strcpy(comms[i].device, "eth0");
		for (uint16_t k = 0; k < 2; k++) {
			comms[i].streams[k].kind = ANYNET_STATS_TCP;
			comms[i].streams[k].state = ANYNET_STATS_UP;
			comms[i].streams[k].index = k;
			strcpy(comms[i].streams[k].device, "eth1");
		}
	}
	return page;
}

/* Checks the output. The caller frees it. */
static char *write_pages(struct page *pages, size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	const char *why;

	metrics_write(&(struct page_list){ .pages = pages, .count = count }, out);
	assert_int_equal(fclose(out), 0);
	why = exposition_check(text);
	if (why)
		fail_msg("%s", why);
	return text;
}

static void has(const char *text, const char *line)
{
	const char *found = strstr(text, line);

	if (!found || (found > text && found[-1] != '\n') || found[strlen(line)] != '\n')
		fail_msg("no line '%s' in %s", line, text);
}

/* The number of lines that begin like this. */
static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	for (; *text; text = strchr(text, '\n') + 1)
		count += !strncmp(text, what, strlen(what));
	return count;
}

#define PROCESS "pid=\"5\",uid=\"1000\",host=\"host-a\",job_id=\"\",rank=\"3\""
#define SEND    PROCESS ",connection=\"1\",direction=\"send\""
#define PEER    ",peer_host=\"host-b\",peer_pid=\"77\""

static void test_everything_has_its_unit(void **state)
{
	struct page page = make_page(5, 2);
	char *text;

	(void)state;
	comms[0].stalled_ms = 97500;
	comms[0].error = -ECONNRESET;
	comms[0].breaks = 2;
	comms[0].streams[1].rtt_us = 1500;
	comms[0].streams[1].state = ANYNET_STATS_SUSPECT;
	comms[0].streams[1].kind = ANYNET_STATS_QP;
	text = write_pages(&page, 1);
	has(text, "anynet_processes 1");
	has(text, "anynet_left_out 0");
	has(text,
	    "anynet_process_info{" PROCESS ",program=\"\",net=\"\",anynet=\"\",nccl=\"0\"} 1");
	has(text, "anynet_process_connections{" PROCESS "} 2");
	has(text, "anynet_process_silence_seconds{" PROCESS "} 0.050");
	has(text, "anynet_connection_bytes_total{" SEND ",device=\"eth0\"" PEER "} 1234567");
	has(text, "anynet_connection_bytes_total{" PROCESS
		  ",connection=\"2\",direction=\"receive\",device=\"eth0\"" PEER "} 1234567");
	has(text, "anynet_connection_stalled_seconds{" SEND ",device=\"eth0\"" PEER "} 2.500");
	has(text,
	    "anynet_connection_oldest_request_seconds{" SEND ",device=\"eth0\"" PEER "} 0.000");
	has(text, "anynet_connection_breaks_total{" SEND ",device=\"eth0\"" PEER "} 2");
	has(text, "anynet_connection_failed{" SEND ",device=\"eth0\"" PEER "} 1");
	has(text, "anynet_path_up{" SEND ",device=\"eth1\"" PEER ",path=\"0\"} 1");
	has(text, "anynet_path_up{" SEND ",device=\"eth1\"" PEER ",path=\"1\"} 0");
	has(text, "anynet_path_queue_pair{" SEND ",device=\"eth1\"" PEER ",path=\"1\"} 1");
	has(text, "anynet_path_rtt_seconds{" SEND ",device=\"eth1\"" PEER ",path=\"1\"} 0.001500");
	free(text);
}

static void test_without_pages_there_are_metrics_without_samples(void **state)
{
	char *text = write_pages(NULL, 0);

	(void)state;
	has(text, "anynet_processes 0");
	assert_null(strchr(text, '{'));
	assert_true(count_of(text, "# TYPE ") > 20);
	free(text);
}

static void test_labels_are_escaped(void **state)
{
	struct page page = make_page(5, 1);
	char *text;

	(void)state;
	strcpy(page.process.job, "a\"b\\c{}");
	strcpy(comms[0].peer_host, "\\\"\\");
	text = write_pages(&page, 1);
	assert_non_null(strstr(text, "job_id=\"a\\\"b\\\\c{}\",rank"));
	assert_non_null(strstr(text, "peer_host=\"\\\\\\\"\\\\\",peer_pid"));
	free(text);
}

static void test_no_series_comes_twice(void **state)
{
	struct page pages[4];
	char *text;

	(void)state;
	pages[0] = pages[1] = pages[2] = pages[3] = make_page(5, 3);
	comms[2].id = comms[0].id;
	comms[1].streams[1].index = comms[1].streams[0].index;
	pages[2].uid++;
	strcpy(pages[3].process.host, "host-c"); /* in a container */
	text = write_pages(pages, 4);
	has(text, "anynet_processes 3");
	/* A process with 3 comms of 2 streams; of each other process a comm with its streams, and a stream. */
	has(text, "anynet_left_out 22");
	assert_int_equal(count_of(text, "anynet_connection_bytes_total{"), 6);
	free(text);
}

static void test_number_of_series_is_limited(void **state)
{
	struct page pages[6];
	char *text;

	(void)state;
	for (uint32_t i = 0; i < 6; i++)
		pages[i] = make_page(i, ANYNET_STATS_COMMS);
	text = write_pages(pages, 6);
	assert_int_equal(count_of(text, "anynet_connection_bytes_total{"), METRICS_CONNECTIONS_MAX);
	assert_int_equal(count_of(text, "anynet_path_bytes_total{"), METRICS_STREAMS_MAX);
	assert_int_equal(count_of(text, "anynet_process_connections{"), 6);
	has(text, "anynet_left_out 6144"); /* comms, of 2 streams each */
	free(text);
}

/* Neither the number of its files nor the pids in them affect those of another user. */
static void test_users_do_not_displace_each_other(void **state)
{
	static struct anynet_stats_comm few[8];
	struct page pages[7], small = make_page(999999, 8);
	char *text;

	(void)state;
	memcpy(few, comms, sizeof(few));
	small.comms = few;
	small.uid = 1001;
	for (uint32_t i = 0; i < 6; i++)
		pages[i] = make_page(i, ANYNET_STATS_COMMS);
	pages[6] = small;
	text = write_pages(pages, 7);
	assert_int_equal(count_of(text, "anynet_connection_bytes_total{pid=\"999999\""), 8);
	assert_int_equal(count_of(text, "anynet_path_bytes_total{pid=\"999999\""), 16);
	assert_int_equal(count_of(text, "anynet_connection_bytes_total{"), METRICS_CONNECTIONS_MAX);
	free(text);
}

static void test_extreme_numbers(void **state)
{
	struct page page = make_page(UINT32_MAX, 1);

	(void)state;
	page.uid = (uid_t)-1;
	comms[0].id = comms[0].bytes = comms[0].oldest_ms = UINT64_MAX;
	comms[0].error = -4095;
	page.process.started_ms = UINT64_MAX;
	free(write_pages(&page, 1));
}

/* --- the checker: texts that it must reject --- */

static void test_checker_rejects_invalid_text(void **state)
{
#define HEAD "# HELP a_total x\n# TYPE a_total counter\n"
	static const char *const bad[] = {
		"",
		"a 1",
		"a 1\n",
		"# HELP a x\na 1\n",
		"# TYPE a gauge\na 1\n",
		"# HELP a_total x\n# TYPE a_total gauge\n",
		"# HELP a x\n# TYPE a counter\n",
		HEAD HEAD,
		HEAD "a_total{b=\"c} 1\n",
		HEAD "a_total{b=\"c\\x\"} 1\n",
		HEAD "a_total{b=\"c\"d=\"e\"} 1\n",
		HEAD "a_total{1=\"c\"} 1\n",
		HEAD "a_total{b=\"c\"} one\n",
		HEAD "a_total{b=\"c\"} \n",
		HEAD "a_total 1\na_total 1\n",
		HEAD "a_total 1\n# HELP b x\n# TYPE b gauge\nb 1\na_total{c=\"d\"} 1\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!exposition_check(bad[i]))
			fail_msg("taken: %s", bad[i]);
	assert_null(exposition_check(HEAD "a_total{b=\"\\\\\\\"\\n\",c=\"\"} 1e5\na_total 1\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_has_its_unit),
		cmocka_unit_test(test_without_pages_there_are_metrics_without_samples),
		cmocka_unit_test(test_labels_are_escaped),
		cmocka_unit_test(test_no_series_comes_twice),
		cmocka_unit_test(test_number_of_series_is_limited),
		cmocka_unit_test(test_users_do_not_displace_each_other),
		cmocka_unit_test(test_extreme_numbers),
		cmocka_unit_test(test_checker_rejects_invalid_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
