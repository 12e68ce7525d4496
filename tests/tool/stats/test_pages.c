/* SPDX-License-Identifier: Apache-2.0 */
/* Stats pages that others have written, torn and hostile ones as well, and what is made of them. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/shared/stats/print.h"

#define COMMS 4
#define BYTES (ANYNET_STATS_COMMS_AT + COMMS * ANYNET_STATS_COMM_STEP)

#define NOW_MS 1000000u /* when pages are written and read, unless told otherwise */

static uint8_t bytes[BYTES];

static struct anynet_stats_process *head(void)
{
	return (struct anynet_stats_process *)bytes;
}

static struct anynet_stats_comm *comm(unsigned slot)
{
	return (struct anynet_stats_comm *)(bytes + anynet_stats_comm_at(slot));
}

static struct anynet_stats_events *events(unsigned slot)
{
	return (struct anynet_stats_events *)(bytes + anynet_stats_events_at(slot));
}

static void seal(void)
{
	head()->sum = anynet_stats_sum(head(), sizeof(*head()));
	for (unsigned i = 0; i < COMMS; i++)
		comm(i)->sum = anynet_stats_sum(comm(i), sizeof(*comm(i)));
	for (unsigned i = 0; i < COMMS; i++)
		events(i)->sum = anynet_stats_sum(events(i), sizeof(*events(i)));
}

/* A process with `comms` connections to another one, which is called pid 100 + it. */
static void fill(uint32_t pid, uint32_t peer, unsigned comms)
{
	memset(bytes, 0, sizeof(bytes));
	*head() = (struct anynet_stats_process){
		.magic = ANYNET_STATS_MAGIC,
		.version = ANYNET_STATS_VERSION,
		.comm_bytes = sizeof(struct anynet_stats_comm),
		.started_ms = 1,
		.written_ms = NOW_MS,
		.pid = pid,
		.comms = comms,
		.slots = comms,
		.host = "host-a",
		.job = "4711",
	};
	for (unsigned i = 0; i < comms; i++) {
		comm(i)->id = i + 1;
		comm(i)->is_send = 1;
		comm(i)->rail_count = 1;
		comm(i)->peer_pid = peer;
		strcpy(comm(i)->peer_host, "host-a");
		comm(i)->rails[0].kind = ANYNET_STATS_TCP;
		comm(i)->rails[0].state = ANYNET_STATS_UP;
		events(i)->id = i + 1;
		events(i)->count = 1;
		events(i)->events[0].kind = ANYNET_EVENT_OPENED;
		events(i)->events[0].at_ms = 1;
	}
	seal();
}

static struct page parse(void)
{
	struct page page;

	assert_int_equal(page_parse(&page, bytes, sizeof(bytes)), 0);
	page.read_ms = NOW_MS;
	return page;
}

/* --- the reader --- */

static void write_page(int dir, const char *name, uid_t uid)
{
	int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(fchown(fd, uid, (gid_t)-1), 0);
	assert_int_equal(close(fd), 0);
}

static void test_a_user_hides_no_other(void **state)
{
	enum {
		MANY = 1500,
		OTHER = 4242
	};
	char where[] = "/tmp/anynet-pages-XXXXXX", name[64];
	size_t own = 0;
	struct page_list list;
	int dir;

	(void)state;
	if (geteuid())
		skip(); /* only root reads what others have written */
	assert_non_null(mkdtemp(where));
	dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < MANY + 10; i++) {
		fill(i < MANY ? 1 : 100000 + i, 2, 1);
		snprintf(name, sizeof(name), "%s%u", ANYNET_STATS_PREFIX, i);
		write_page(dir, name, i < MANY ? OTHER : 0);
	}
	assert_int_equal(page_read_all(&list, where, &(struct page_wish){ .ended = true }), 0);
	for (size_t i = 0; i < list.count; i++)
		own += !list.pages[i].uid;
	assert_int_equal(own, 10);
	assert_int_equal(list.count, 1024);
	assert_int_equal(list.left_out, MANY + 10 - 1024);
	page_free_all(&list);
	for (unsigned i = 0; i < MANY + 10; i++) {
		snprintf(name, sizeof(name), "%s%u", ANYNET_STATS_PREFIX, i);
		unlinkat(dir, name, 0);
	}
	close(dir);
	rmdir(where);
}

static void test_shares(void **state)
{
	static const size_t wants[] = { 5, 100, 1000, 0 };

	(void)state;
	assert_int_equal(page_share(wants, 4, 205), 100);
	assert_int_equal(page_share(wants, 4, 25), 10);
	assert_int_equal(page_share(wants, 4, 0), 0);
	assert_int_equal(page_share(wants, 4, 2000), 2000);
	assert_int_equal(page_share(wants, 0, 7), 7);
}

static void test_what_is_no_page_is_refused(void **state)
{
	struct page page;

	(void)state;
	fill(1, 2, 1);
	for (size_t count = 0; count < sizeof(*head()); count++)
		assert_int_equal(page_parse(&page, bytes, count), -EINVAL);
#define REFUSED(field, value)  \
	fill(1, 2, 1);         \
	head()->field = value; \
	seal();                \
	assert_int_equal(page_parse(&page, bytes, sizeof(bytes)), -EINVAL)
	REFUSED(magic, 1);
	REFUSED(version, ANYNET_STATS_VERSION + 1);
	REFUSED(comm_bytes, 8);
	REFUSED(slots, ANYNET_STATS_COMMS + 1);
	fill(1, 2, 1);
	head()->pid++; /* torn */
	assert_int_equal(page_parse(&page, bytes, sizeof(bytes)), -EINVAL);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(page_parse(&page, bytes, sizeof(bytes)), -EINVAL);
}

static void test_torn_and_false_records_are_left_out(void **state)
{
	struct page page;

	(void)state;
	fill(1, 2, 4);
	comm(0)->bytes++;
	comm(2)->rails[15].path[111]++;
	page = parse();
	assert_int_equal(page.count, 2);
	assert_int_equal(page.comms[0].id, 2);
	assert_int_equal(page.comms[1].id, 4);
	page_free(&page);
	fill(1, 2, 4);
	comm(0)->id = 0;
	comm(1)->rails[3].kind = 3;
	comm(1)->rails[3].state = ANYNET_STATS_UP;
	comm(2)->rails[0].state = 0;
	comm(3)->is_send = 2;
	seal();
	page = parse();
	assert_int_equal(page.count, 0);
	page_free(&page);
	fill(1, 2, 4);
	comm(0)->error = 1;
	comm(1)->error = -4096; /* no errno */
	comm(2)->error = INT32_MIN;
	comm(3)->error = -4095;
	seal();
	page = parse();
	assert_int_equal(page.count, 1);
	assert_int_equal(page.comms[0].id, 4);
	page_free(&page);
}

static void test_a_page_that_ends_early_has_fewer_records(void **state)
{
	struct page page;

	(void)state;
	fill(1, 2, 4);
	head()->slots = ANYNET_STATS_COMMS;
	seal();
	assert_int_equal(page_parse(&page, bytes, anynet_stats_comm_at(2) + 17), 0);
	assert_int_equal(page.count, 2);
	page_free(&page);
	assert_int_equal(page_parse(&page, bytes, sizeof(*head())), 0);
	assert_int_equal(page.count, 0);
	page_free(&page);
}

static void test_texts_end_and_are_printable(void **state)
{
	struct page page;

	(void)state;
	fill(1, 2, 1);
	memset(head()->host, 'h', sizeof(head()->host));
	memcpy(head()->job, "\033[2Jx\xff", 6);
	memset(comm(0)->peer_host, 0x9b, sizeof(comm(0)->peer_host));
	memset(comm(0)->rails[0].path, '\n', sizeof(comm(0)->rails[0].path));
	memset(comm(0)->asked, 'a', sizeof(comm(0)->asked));
	seal();
	page = parse();
	assert_int_equal(strlen(page.process.host), sizeof(page.process.host) - 1);
	assert_string_equal(page.process.job, "?[2Jx?");
	assert_int_equal(strspn(page.comms[0].peer_host, "?"), 63);
	assert_int_equal(strspn(page.comms[0].rails[0].path, "?"), 111);
	assert_int_equal(strlen(page.comms[0].asked), 95);
	page_free(&page);
}

static void test_torn_and_false_events_are_left_out(void **state)
{
	struct page page;

	(void)state;
	fill(1, 2, 4);
	events(1)->count++; /* torn */
	events(3)->events[31].text[71]++;
	page = parse();
	assert_int_equal(page.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(page.events[i].count, i % 2 ? 0 : 1);
	page_free(&page);
	fill(1, 2, 4);
	events(0)->id = 2; /* another comm's */
	events(1)->events[0].kind = 0;
	events(2)->events[0].kind = ANYNET_EVENT_KINDS;
	events(3)->events[0].error = 1;
	seal();
	page = parse();
	assert_int_equal(page.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(page.events[i].count, 0);
	page_free(&page);
	fill(1, 2, 1);
	assert_int_equal(page_parse(&page, bytes, anynet_stats_events_at(0) + 100), 0);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.events[0].count, 0);
	page_free(&page);
}

/* --- the view --- */

/* What is printed of these pages, of which the first was read twice. To be freed. */
static char *print(struct page *pages, size_t count, int width, int lines, bool json)
{
	struct page_list list = { .pages = pages, .count = count };
	struct print_style style = { .width = width, .lines = lines };
	struct view view;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(view_make(&view, &list, &list), 0);
	if (json)
		assert_int_equal(print_view_json(&view, "top", out), 0);
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
	fill(1, 2, 2);
	head()->written_ms -= 500;
	comm(0)->bytes = 1000;
	comm(0)->rails[0].bytes = 1000;
	seal();
	pages[0] = parse();
	head()->written_ms += 500;
	comm(0)->bytes = 6000;
	comm(0)->rails[0].bytes = 5000;
	comm(1)->is_send = 0;
	comm(1)->bytes = 70;
	seal();
	pages[1] = parse();
	assert_int_equal(view_make(&view, &(struct page_list){ .pages = &pages[0], .count = 1 },
				   &(struct page_list){ .pages = &pages[1], .count = 1 }),
			 0);
	assert_int_equal(view.processes[0].connections[0].rate, 10000);
	assert_int_equal(view.processes[0].connections[0].rail_rates[0], 8000);
	assert_true(view.processes[0].connections[1].rail_rates[0] < 0);
	assert_int_equal(view.sent, 10000);
	assert_int_equal(view.received, 140);
	view_free(&view);
	/* Another process of the same number, and one that was not there before. */
	pages[0].process.started_ms++;
	assert_int_equal(view_make(&view, &(struct page_list){ .pages = &pages[0], .count = 1 },
				   &(struct page_list){ .pages = &pages[1], .count = 1 }),
			 0);
	assert_true(view.processes[0].connections[0].rate < 0);
	assert_true(view.processes[0].sent < 0);
	assert_true(view.sent < 0);
	view_free(&view);
	page_free(&pages[0]);
	page_free(&pages[1]);
}

static void test_what_is_wrong_comes_first(void **state)
{
	struct page pages[3];
	struct view view;

	(void)state;
	fill(1, 9, 1);
	strcpy(head()->job, "good");
	seal();
	pages[0] = parse();
	fill(2, 9, 1);
	pages[1] = parse();
	fill(3, 9, 4);
	comm(1)->breaks = 1;
	comm(2)->error = -ECONNRESET;
	comm(3)->rails[0].state = ANYNET_STATS_DOWN;
	seal();
	pages[2] = parse();
	assert_int_equal(view_make(&view, &(struct page_list){ 0 },
				   &(struct page_list){ .pages = pages, .count = 3 }),
			 0);
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

static void test_a_rail_in_doubt_is_trouble_and_one_of_many_that_is_down(void **state)
{
	struct page page;
	struct view view;

	(void)state;
	fill(1, 9, 2);
	comm(0)->rails[0].state = ANYNET_STATS_SUSPECT;
	comm(1)->rail_count = 2;
	comm(1)->rails[0].state = ANYNET_STATS_DOWN;
	comm(1)->rails[1] = comm(1)->rails[0];
	comm(1)->rails[1].state = ANYNET_STATS_UP;
	seal();
	page = parse();
	assert_int_equal(view_make(&view, &(struct page_list){ 0 },
				   &(struct page_list){ .pages = &page, .count = 1 }),
			 0);
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
		fill(pid, pid + 1, 2);
		for (unsigned i = 0; i < 2 && pid < 3; i++)
			comm(i)->stalled_ms = NOW_MS - 3000 * pid - i;
		if (pid == 3)
			head()->written_ms -= 5000;
		seal();
		pages[pid - 1] = parse();
	}
	assert_int_equal(view_make(&view, &(struct page_list){ 0 },
				   &(struct page_list){ .pages = pages, .count = 3 }),
			 0);
	assert_int_equal(view.trouble, TROUBLE_SILENT);
	assert_int_equal(view.wait_count, 2);
	assert_int_equal(view.waits[0].process->page->process.pid, 2);
	assert_int_equal(view.waits[0].peer->page->process.pid, 3);
	assert_int_equal(view.waits[0].connections, 2);
	assert_int_equal(view.waits[0].comm->id, 2); /* the longest */
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
	fill(1, 2, 4);
	memset(head()->host, 'h', sizeof(head()->host));
	for (unsigned i = 0; i < 4; i++) {
		comm(i)->error = -ECONNRESET;
		memset(comm(i)->peer_host, 'h', sizeof(comm(i)->peer_host));
	}
	seal();
	page = parse();
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

/* A page on which everything that can be is too large, or does not end. */
static struct page wild(void)
{
	fill(UINT32_MAX, UINT32_MAX, 1);
	memset(head()->program, '\n', sizeof(head()->program));
	head()->started_ms = UINT64_MAX;
	events(0)->count = UINT64_MAX;
	for (int i = 0; i < ANYNET_STATS_EVENTS; i++) {
		struct anynet_stats_event *event = &events(0)->events[i];

		memset(event, 0xff, sizeof(*event));
		event->kind = (uint8_t)(1 + i % (ANYNET_EVENT_KINDS - 1));
		event->error = -4095;
	}
	seal();
	return parse();
}

static char *dump_at(struct page *page, bool json, int width)
{
	struct page_list list = { .pages = page, .count = 1 };
	struct view view;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(view_make(&view, &(struct page_list){ 0 }, &list), 0);
	if (json)
		assert_int_equal(print_view_json(&view, "top", out), 0);
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

/* Replays and stalls are told by top as well, and a terminal's width is kept without a loss. */
static void test_counters(void **state)
{
	struct page page;
	char *text, *next, *row;

	(void)state;
	fill(1, 2, 1);
	comm(0)->breaks = comm(0)->recoveries = 2;
	comm(0)->again = 7;
	comm(0)->stalls = 3;
	seal();
	page = parse();
	text = print(&page, 1, 200, 0, false);
	if (!strstr(text, "broke 2, recovered 2  7 frames retransmitted  stalled 3 times"))
		fail_msg("%s", text);
	free(text);
	text = next = dump_at(&page, false, 40);
	while ((row = strsep(&next, "\n")))
		if (strlen(row) > 40)
			fail_msg("%zu columns: %s", strlen(row), row);
	free(text);
	told(dump(&page, false),
	     (const char *const[]){ "broke 2, recovered 2, 7 frames retransmitted, stalled 3\n" }, 1);
	page_free(&page);
}

static void test_a_dump_tells_events_oldest_first(void **state)
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
	fill(1, 2, 1);
	events(0)->count = 34;
	for (uint32_t i = 0; i < 34; i++)
		events(0)->events[i % 32] = (struct anynet_stats_event){
			.kind = ANYNET_EVENT_REPLAY, .number = i, .at_ms = 1
		};
	seal();
	page = parse();
	page.ended = true;
	text = dump(&page, false);
	assert_true(strstr(text, ": 2 frames") < strstr(text, ": 33 frames"));
	assert_null(strstr(text, ": 1 frame"));
	told(text, wanted, sizeof(wanted) / sizeof(*wanted));
	told(dump(&page, true), json, sizeof(json) / sizeof(*json));
	page_free(&page);
}

static void test_a_dump_of_a_wild_page_is_text(void **state)
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
	fill(1, 2, 2);
	comm(0)->error = -ECONNRESET;
	comm(0)->again = 17;
	comm(0)->rails[0].kind = ANYNET_STATS_QP;
	comm(1)->stalled_ms = NOW_MS - 2000;
	seal();
	page = parse();
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
		cmocka_unit_test(test_what_is_no_page_is_refused),
		cmocka_unit_test(test_a_user_hides_no_other),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_torn_and_false_records_are_left_out),
		cmocka_unit_test(test_a_page_that_ends_early_has_fewer_records),
		cmocka_unit_test(test_texts_end_and_are_printable),
		cmocka_unit_test(test_torn_and_false_events_are_left_out),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_a_dump_tells_events_oldest_first),
		cmocka_unit_test(test_a_dump_of_a_wild_page_is_text),
		cmocka_unit_test(test_rates_are_of_the_time_between_two_looks),
		cmocka_unit_test(test_what_is_wrong_comes_first),
		cmocka_unit_test(test_a_rail_in_doubt_is_trouble_and_one_of_many_that_is_down),
		cmocka_unit_test(test_who_waits_for_whom),
		cmocka_unit_test(test_lines_fit_the_terminal),
		cmocka_unit_test(test_json_tells_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
