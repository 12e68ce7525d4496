/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `anynet top` and `dump` for statistics files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "planted_page.h"

/* The output for these files, each of them read twice. The caller frees it. */
static char *print(struct page *pages, size_t count, int width, int lines, bool json)
{
	struct page_list list = { .pages = pages, .count = count };
	struct print_style style = { .width = width, .lines = lines };
	struct view view;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	view_make(&view, &list, &list);
	if (json)
		print_view_json(&view, "top", out);
	else
		print_view(&view, &style, out);
	assert_int_equal(fclose(out), 0);
	view_free(&view);
	return text;
}

static void test_rates_are_of_the_time_between_two_looks(void **state)
{
	struct page pages[2];
	struct view view;

	(void)state;
	planted_fill(1, 2, 2);
	planted_head()->written_ms -= 500;
	planted_comm(0)->bytes = 1000;
	planted_comm(0)->streams[0].bytes = 1000;
	planted_seal();
	pages[0] = planted_parse();
	planted_head()->written_ms += 500;
	planted_comm(0)->bytes = 6000;
	planted_comm(0)->streams[0].bytes = 5000;
	planted_comm(1)->is_send = 0;
	planted_comm(1)->bytes = 70;
	planted_seal();
	pages[1] = planted_parse();
	view_make(&view, &(struct page_list){ .pages = &pages[0], .count = 1 },
		  &(struct page_list){ .pages = &pages[1], .count = 1 });
	assert_int_equal(view.processes[0].connections[0].rate, 10000);
	assert_int_equal(view.processes[0].connections[0].stream_rates[0], 8000);
	assert_true(view.processes[0].connections[1].stream_rates[0] < 0);
	assert_int_equal(view.sent, 10000);
	assert_int_equal(view.received, 140);
	view_free(&view);
	/* Another process with the same pid, and a new one. */
	pages[0].process.started_ms++;
	view_make(&view, &(struct page_list){ .pages = &pages[0], .count = 1 },
		  &(struct page_list){ .pages = &pages[1], .count = 1 });
	assert_true(view.processes[0].connections[0].rate < 0);
	assert_true(view.processes[0].sent < 0);
	assert_true(view.sent < 0);
	view_free(&view);
	page_free(&pages[0]);
	page_free(&pages[1]);
}

static void test_problems_come_first(void **state)
{
	struct page pages[3];
	struct view view;

	(void)state;
	planted_fill(1, 9, 1);
	strcpy(planted_head()->job, "good");
	planted_seal();
	pages[0] = planted_parse();
	planted_fill(2, 9, 1);
	pages[1] = planted_parse();
	planted_fill(3, 9, 4);
	planted_comm(1)->breaks = 1;
	planted_comm(2)->error = -ECONNRESET;
	planted_comm(3)->streams[0].state = ANYNET_STATS_DOWN;
	planted_seal();
	pages[2] = planted_parse();
	view_make(&view, &(struct page_list){ 0 },
		  &(struct page_list){ .pages = pages, .count = 3 });
	assert_int_equal(view.trouble, TROUBLE_ERROR);
	assert_int_equal(view.processes[0].page->process.pid, 3);
	assert_int_equal(view.processes[1].page->process.pid, 2);
	assert_int_equal(view.processes[2].page->process.pid, 1);
	assert_int_equal(view.processes[0].connections[0].trouble, TROUBLE_ERROR);
	assert_int_equal(view.processes[0].connections[1].trouble, TROUBLE_CUT);
	assert_int_equal(view.processes[0].connections[2].trouble, TROUBLE_FLAPS);
	assert_int_equal(view.processes[0].connections[3].trouble, TROUBLE_NONE);
	view_free(&view);
	for (int i = 0; i < 3; i++)
		page_free(&pages[i]);
}

static void test_suspect_and_down_streams_are_reported(void **state)
{
	struct page page;
	struct view view;

	(void)state;
	planted_fill(1, 9, 2);
	planted_comm(0)->streams[0].state = ANYNET_STATS_SUSPECT;
	planted_comm(1)->stream_count = 2;
	planted_comm(1)->streams[0].state = ANYNET_STATS_DOWN;
	planted_comm(1)->streams[1] = planted_comm(1)->streams[0];
	planted_comm(1)->streams[1].state = ANYNET_STATS_UP;
	planted_seal();
	page = planted_parse();
	view_make(&view, &(struct page_list){ 0 },
		  &(struct page_list){ .pages = &page, .count = 1 });
	assert_int_equal(view.processes[0].connections[0].trouble, TROUBLE_PATH);
	assert_int_equal(view.processes[0].connections[1].trouble, TROUBLE_PATH);
	view_free(&view);
	page_free(&page);
}

static void test_who_waits_for_whom(void **state)
{
	struct page pages[3];
	struct view view;

	(void)state;
	for (uint32_t pid = 1; pid <= 3; pid++) {
		planted_fill(pid, pid + 1, 2);
		for (unsigned i = 0; i < 2 && pid < 3; i++)
			planted_comm(i)->stalled_ms = PLANTED_MS - 3000 * pid - i;
		if (pid == 3)
			planted_head()->written_ms -= 5000;
		planted_seal();
		pages[pid - 1] = planted_parse();
	}
	view_make(&view, &(struct page_list){ 0 },
		  &(struct page_list){ .pages = pages, .count = 3 });
	assert_int_equal(view.trouble, TROUBLE_SILENT);
	assert_int_equal(view.wait_count, 2);
	assert_int_equal(view.waits[0].process->page->process.pid, 2);
	assert_int_equal(view.waits[0].peer->page->process.pid, 3);
	assert_int_equal(view.waits[0].connections, 2);
	assert_int_equal(view.waits[0].comm->id, 2); /* the longest one */
	assert_false(view.waits[0].peer_waits);
	assert_true(view.waits[0].peer->silent_ms);
	assert_int_equal(view.waits[1].peer->page->process.pid, 2);
	assert_true(view.waits[1].peer_waits);
	view_free(&view);
	for (int i = 0; i < 3; i++)
		page_free(&pages[i]);
}

static void test_lines_fit_the_terminal(void **state)
{
	struct page page;
	char *text, *line, *rest;
	int lines = 0;

	(void)state;
	planted_fill(1, 2, 4);
	memset(planted_head()->host, 'h', sizeof(planted_head()->host));
	for (unsigned i = 0; i < 4; i++) {
		planted_comm(i)->error = -ECONNRESET;
		memset(planted_comm(i)->peer_host, 'h', sizeof(planted_comm(i)->peer_host));
	}
	planted_seal();
	page = planted_parse();
	text = print(&page, 1, 60, 7, false);
	assert_null(strchr(text, '\033'));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		assert_in_range(strlen(line), 1, 60);
		lines++;
	}
	assert_int_equal(lines, 7);
	free(text);
	page_free(&page);
}

/* A file in which every number is too large, and no text is terminated. */
static struct page wild(void)
{
	planted_fill(UINT32_MAX, UINT32_MAX, 1);
	memset(planted_head()->program, '\n', sizeof(planted_head()->program));
	planted_head()->started_ms = UINT64_MAX;
	planted_events(0)->count = UINT64_MAX;
	for (int i = 0; i < ANYNET_STATS_EVENTS; i++) {
		struct anynet_stats_event *event = &planted_events(0)->events[i];

		memset(event, 0xff, sizeof(*event));
		event->kind = (uint8_t)(1 + i % (ANYNET_EVENT_KINDS - 1));
		event->error = -4095;
	}
	planted_seal();
	return planted_parse();
}

static char *dump_at(struct page *page, bool json, int width)
{
	struct page_list list = { .pages = page, .count = 1 };
	struct view view;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	view_make(&view, &(struct page_list){ 0 }, &list);
	if (json)
		print_view_json(&view, "top", out);
	else
		print_dump(&view, &(struct terminal){ .width = width }, out);
	assert_int_equal(fclose(out), 0);
	view_free(&view);
	return text;
}

static char *dump(struct page *page, bool json)
{
	return dump_at(page, json, 0);
}

static void told(char *text, const char *const *wanted, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strstr(text, wanted[i]))
			fail_msg("no %s in %s", wanted[i], text);
	free(text);
}

/* top shows retransmissions and stalls, too; and dump wraps lines at the terminal's width without losing text. */
static void test_counters(void **state)
{
	struct page page;
	char *text, *next, *row;

	(void)state;
	planted_fill(1, 2, 1);
	planted_comm(0)->breaks = planted_comm(0)->recoveries = 2;
	planted_comm(0)->again = 7;
	planted_comm(0)->stalls = 3;
	planted_seal();
	page = planted_parse();
	text = print(&page, 1, 200, 0, false);
	if (!strstr(text, ", broke 2, recovered 2, 7 frames retransmitted, stalled 3 times"))
		fail_msg("%s", text);
	free(text);
	text = next = dump_at(&page, false, 40);
	while ((row = strsep(&next, "\n")))
		if (strlen(row) > 40)
			fail_msg("%zu columns: %s", strlen(row), row);
	free(text);
	told(dump(&page, false),
	     (const char *const[]){
		     ", broke 2, recovered 2, 7 frames retransmitted, stalled 3 times\n" },
	     1);
	page_free(&page);
}

static void test_dump_lists_events_oldest_first(void **state)
{
	static const char *const wanted[] = {
		"pid 1 ",
		"job 4711",
		"to host-a pid 2",
		"the process has ended",
		"events, the last 32 of 34\n",
		"Z path 0: 2 frames to retransmit\n",
		"Z path 0: 33 frames to retransmit\n",
	};
	static const char *const json[] = { "\"kind\": \"replay\"", "\"number\": 33",
					    "\"event_count\": 34", "\"ended\": true" };
	char *text;
	struct page page;

	(void)state;
	planted_fill(1, 2, 1);
	planted_events(0)->count = 34;
	for (uint32_t i = 0; i < 34; i++)
		planted_events(0)->events[i % 32] = (struct anynet_stats_event){
			.kind = ANYNET_EVENT_REPLAY, .number = i, .at_ms = 1
		};
	planted_seal();
	page = planted_parse();
	page.ended = true;
	text = dump(&page, false);
	assert_true(strstr(text, ": 2 frames") < strstr(text, ": 33 frames"));
	assert_null(strstr(text, ": 1 frame"));
	told(text, wanted, sizeof(wanted) / sizeof(*wanted));
	told(dump(&page, true), json, sizeof(json) / sizeof(*json));
	page_free(&page);
}

static void test_dump_of_an_extreme_page_is_text(void **state)
{
	static const char *const wanted[] = { "the last 32 of 18446744073709551615" };
	struct page page = wild();
	char *text = dump(&page, false);

	(void)state;
	for (const char *at = text; *at; at++)
		assert_true((*at >= ' ' && *at <= '~') || *at == '\n');
	told(text, wanted, 1);
	free(dump(&page, true));
	page_free(&page);
}

static void test_json_tells_everything(void **state)
{
	static const char *const wanted[] = {
		"\"trouble\": \"failed\"",
		"\"pid\": 1",
		"\"job\": \"4711\"",
		"\"error\": -104",
		"\"kind\": \"queue pair\"",
		"\"retransmitted_frames\": 17",
		"\"for_pid\": 2",
		"\"bytes_per_s\": null",
		"\"peer\": {",
		"\"host\": \"host-a\"",
	};
	struct page page;
	char *text;

	(void)state;
	planted_fill(1, 2, 2);
	planted_comm(0)->error = -ECONNRESET;
	planted_comm(0)->again = 17;
	planted_comm(0)->streams[0].kind = ANYNET_STATS_QP;
	planted_comm(1)->stalled_ms = PLANTED_MS - 2000;
	planted_seal();
	page = planted_parse();
	text = print(&page, 1, 0, 0, true);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		if (!strstr(text, wanted[i]))
			fail_msg("no %s in %s", wanted[i], text);
	free(text);
	page_free(&page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_dump_lists_events_oldest_first),
		cmocka_unit_test(test_dump_of_an_extreme_page_is_text),
		cmocka_unit_test(test_rates_are_of_the_time_between_two_looks),
		cmocka_unit_test(test_problems_come_first),
		cmocka_unit_test(test_suspect_and_down_streams_are_reported),
		cmocka_unit_test(test_who_waits_for_whom),
		cmocka_unit_test(test_lines_fit_the_terminal),
		cmocka_unit_test(test_json_tells_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
