/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: recorded events, their place in the statistics file, and the log when a comm fails. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "tools/shared/now.h"
#include "transports/base/dump.h"
#include "transports/device/carrier.h"
#include "transports/service/stats.h"
#include "transports/session/registry.h"
#include "transports/session/watch.h"
#include "unit/own_page.h"
#include "unit/pair.h"

#define PATIENCE_MS 20000

static struct pair pair;
static char dir[64];
static atomic_bool disk_hangs;

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);

/* Replaces the C library's function by the linker. */
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	while (atomic_load(&disk_hangs))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return __real_write(fd, data, bytes);
}

static int setup(void **state)
{
	setenv("NCCL_DEBUG", "INFO", 1);
	strcpy(dir, "/tmp/anynet-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	pair_setup_recovery(state);
	strcpy(local_cfg.stats, dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stats_end();
	pair_close(&pair);
	capture_check();
	return rmdir(dir);
}

/* Fills the recorder of a comm: event number i. */
static const struct anynet_stats_event *event(const struct anynet_comm *comm, uint64_t i)
{
	assert_true(i < comm->session->recorder.page.count);
	return &comm->session->recorder.page.events[i % ANYNET_STATS_EVENTS];
}

/* The newest event is of this kind, and has this text. */
static void newest(const struct anynet_comm *comm, enum anynet_stats_event_kind kind,
		   const char *words)
{
	char text[ANYNET_STATS_EVENT_BYTES];

	assert_int_equal(event(comm, comm->session->recorder.page.count - 1)->kind, kind);
	anynet_stats_event_text(event(comm, comm->session->recorder.page.count - 1), text, sizeof(text));
	assert_string_equal(text, words);
}

/* --- events --- */

static void test_breaks_returns_and_replays_are_noted(void **state)
{
	struct anynet_request *req;
	int fds[2];

	(void)state;
	pair_open_send(&pair, 1);
	newest(pair.send, ANYNET_EVENT_OPENED,
	       "opened with 1 path, first TCP ?:0 -> ?:0");
	req = pair_isend(&pair, pair_out, 100, 7);
	pair_finish(&req, 1, NULL);
	comm_sever(pair.send, pair.send->streams[0], -ETIMEDOUT);
	newest(pair.send, ANYNET_EVENT_BROKE, "path 0 (TCP, epoch 0) broke: Connection timed out");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	comm_stream_back(pair.send, pair.send->streams[0], fds[0], 3,
			 (struct anynet_wire_pair){ 0, 0 }, (struct stream_position){ 0, 0 });
	close(fds[1]);
	newest(pair.send, ANYNET_EVENT_REPLAY, "path 0: 1 frame to retransmit");
	assert_int_equal(event(pair.send, 2)->kind, ANYNET_EVENT_BACK);
	assert_int_equal(event(pair.send, 2)->epoch, 3);
	assert_int_equal(pair.send->session->recorder.page.count, 4);
}

static void test_a_connection_that_was_replaced_in_time_has_moved(void **state)
{
	int fds[2];

	(void)state;
	pair_open_send(&pair, 1);
	comm_sever(pair.send, pair.send->streams[0], 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	comm_stream_back(pair.send, pair.send->streams[0], fds[0], 1,
			 (struct anynet_wire_pair){ 0, 0 }, (struct stream_position){ 0, 0 });
	close(fds[1]);
	newest(pair.send, ANYNET_EVENT_MOVED,
	       "path 0 (TCP, epoch 1) has moved to ?:0 -> ?:0");
	assert_int_equal(pair.send->session->recorder.page.count, 2);
}

static void test_a_stall_is_noted_and_its_end(void **state)
{
	struct anynet_request *req;
	uint64_t now = os_now_ms();

	(void)state;
	local_cfg.stall_warn_ms = 30000;
	pair_open(&pair, 1);
	req = pair_irecv(&pair, pair_in, 100, 0);
	watch_comm(pair.recv, now);
	watch_comm(pair.recv, now + 29000);
	assert_int_equal(pair.recv->session->recorder.page.count, 1);
	watch_comm(pair.recv, now + 31000);
	watch_comm(pair.recv, now + 32000);
	newest(pair.recv, ANYNET_EVENT_STALLED,
	       "stalled: no progress for 31.0 s: 1 receives, the oldest of 100 bytes, tag 0");
	assert_int_equal(pair.recv->session->recorder.page.count, 2);
	pair_send(&pair, pair_out, 100);
	pair_finish(&req, 1, NULL);
	watch_comm(pair.recv, now + 33000);
	newest(pair.recv, ANYNET_EVENT_MOVING, "progress again after 33.0 s");
	watch_comm(pair.recv, now + 34000);
	assert_int_equal(pair.recv->session->recorder.page.count, 3);
}

static void test_links_of_its_nics_are_noted_when_they_change(void **state)
{
	(void)state;
	pair_open(&pair, 1);
	pair.send->session->paths.own[0] = &local_dev;
	pair.send->session->paths.own_count = 1;
	atomic_store(&pair.send->session->carrier_event, true);
	watch_comm(pair.send, os_now_ms());
	assert_int_equal(pair.send->session->recorder.page.count, 1);
	for (int i = 0; i < 2; i++) {
		carrier_set_port(&local_dev, true);
		atomic_store(&pair.send->session->carrier_event, true);
		watch_comm(pair.send, os_now_ms());
		newest(pair.send, ANYNET_EVENT_CARRIER_DOWN, "dev lo: link down");
		assert_int_equal(pair.send->session->recorder.page.count, 2);
	}
	carrier_set_port(&local_dev, false);
	atomic_store(&pair.send->session->carrier_event, true);
	watch_comm(pair.send, os_now_ms());
	newest(pair.send, ANYNET_EVENT_CARRIER_UP, "dev lo: link up");
}

static void test_the_peers_suspicions_are_noted_once(void **state)
{
	const struct anynet_wire_frame suspect = { .type = ANYNET_FRAME_SUSPECT, .slot = 1 };

	(void)state;
	pair_open_send(&pair, 2);
	for (int i = 0; i < 2; i++) {
		frame_put(pair.fds[0], &suspect, NULL);
		comm_turn(pair.send);
	}
	newest(pair.send, ANYNET_EVENT_SUSPECT, "path 1 suspect: reported by the peer");
	assert_int_equal(pair.send->session->recorder.page.count, 2);
}

static void test_the_end_is_noted(void **state)
{
	struct anynet_mr *mr;
	size_t size = 100;
	void *data = pair_in;
	int tag = 0;
	struct anynet_request *req;

	(void)state;
	pair_open(&pair, 1);
	comm_use_tcp(pair.send, "for a test");
	assert_int_equal(comm_settle(pair.send), 0);
	newest(pair.send, ANYNET_EVENT_TCP_ONLY, "TCP only from now on: for a test");
	assert_int_equal(anynet_reg_mr(pair.recv, pair_in, 100, ANYNET_PTR_HOST, NULL, &mr), 0);
	assert_int_equal(anynet_irecv(pair.recv, &(struct anynet_recv){ .n = 1, .data = &data, .bytes = &size, .tags = &tag, .mrs = (void *[]){ mr } }, &req), 0);
	anynet_dereg_mr(pair.recv, mr);
	newest(pair.recv, ANYNET_EVENT_CANCELLED, "cancelled: memory was deregistered while in use");
}

static void test_every_kind_has_words_of_its_own(void **state)
{
	char texts[ANYNET_EVENT_KINDS][ANYNET_STATS_EVENT_BYTES];

	(void)state;
	for (int i = 1; i < ANYNET_EVENT_KINDS; i++) {
		struct anynet_stats_event made = { .kind = (uint8_t)i, .text = "x" };

		anynet_stats_event_text(&made, texts[i], sizeof(texts[i]));
		assert_null(strstr(texts[i], "event"));
		for (int k = 1; k < i; k++)
			assert_string_not_equal(texts[i], texts[k]);
	}
}

/* --- the statistics file --- */

static void open_pair(void)
{
	pair_open(&pair, 1);
	assert_int_equal(registry_add(pair.send), 0);
	assert_int_equal(registry_add(pair.recv), 0);
}

static void close_pair(void)
{
	registry_remove(pair.send);
	registry_remove(pair.recv);
	pair_close(&pair);
}

static const struct anynet_stats_events *events_of(const struct page *page, bool is_send)
{
	for (size_t i = 0; i < page->count; i++)
		if (page->comms[i].is_send == is_send)
			return &page->events[i];
	fail_msg("no record");
	return NULL;
}

static void test_a_long_text_is_cut(void **state)
{
	char text[2 * sizeof(((struct anynet_stats_event *)NULL)->text)];
	size_t kept;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	open_pair();
	recorder_note(pair.send, NULL, ANYNET_EVENT_LOST, 0, 0, text);
	kept = strnlen(event(pair.send, pair.send->session->recorder.page.count - 1)->text, sizeof(text) / 2);
	close_pair();
	assert_int_equal(kept, sizeof(text) / 2 - 1);
}

static void test_the_page_holds_the_last_events(void **state)
{
	const struct anynet_stats_events *events;
	struct page page;

	(void)state;
	open_pair();
	stats_begin();
	page = own_page_look();
	events = events_of(&page, true);
	assert_int_equal(events->count, 1);
	assert_int_equal(events->events[0].kind, ANYNET_EVENT_OPENED);
	assert_true(events->events[0].at_ms && events->events[0].at_ms <= now_ms());
	page_free(&page);
	for (unsigned i = 0; i < ANYNET_STATS_EVENTS + 7; i++)
		recorder_note(pair.send, pair.send->streams[0], ANYNET_EVENT_REPLAY, 0, i, NULL);
	page = own_page_look();
	events = events_of(&page, true);
	assert_int_equal(events->count, ANYNET_STATS_EVENTS + 8);
	for (uint64_t i = anynet_stats_first_event(events); i < events->count; i++)
		assert_int_equal(events->events[i % ANYNET_STATS_EVENTS].number, i - 1);
	assert_int_equal(events_of(&page, false)->count, 1);
	page_free(&page);
	close_pair();
}

static void test_a_comm_in_the_place_of_another_has_its_own_events(void **state)
{
	struct page page;

	(void)state;
	open_pair();
	stats_begin();
	recorder_note(pair.send, NULL, ANYNET_EVENT_PEER_CLOSED, 0, 0, NULL);
	page = own_page_look();
	assert_int_equal(events_of(&page, true)->events[1].kind, ANYNET_EVENT_PEER_CLOSED);
	page_free(&page);
	close_pair();
	open_pair(); /* in the same places, before the next look */
	recorder_note(pair.send, NULL, ANYNET_EVENT_LOST, 0, 0, "other");
	page = own_page_look();
	assert_int_equal(events_of(&page, true)->count, 2);
	assert_int_equal(events_of(&page, true)->events[1].kind, ANYNET_EVENT_LOST);
	page_free(&page);
	close_pair();
}

/* --- when a comm fails --- */

static char *dump_path(void)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/anynet-dump.%s.%d", dir, anynet_net.host, (int)getpid());
	return path;
}

/* Reads the file that was written, and removes it. */
static unsigned lines_of(char first[512], char last[512])
{
	FILE *file = fopen(dump_path(), "r");
	unsigned count = 0;
	struct stat st;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	*first = 0;
	while (fgets(last, 512, file)) {
		if (!count++)
			strcpy(first, last);
	}
	fclose(file);
	unlink(dump_path());
	return count;
}

static void test_what_came_before_is_logged(void **state)
{
	char line[CAPTURE_LINE_BYTES];

	(void)state;
	pair_open(&pair, 2);
	comm_sever(pair.send, pair.send->streams[1], -ETIMEDOUT);
	comm_fail(pair.recv, NULL, -EPROTO, "for a test");
	assert_int_equal(capture_count(CAPTURE_INFO, "before that"), 0);
	comm_fail(pair.send, NULL, -ECONNRESET, "for a test");
	comm_fail(pair.send, NULL, -ECONNRESET, "a second time");
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 2);
	assert_int_equal(capture_count(CAPTURE_INFO, "before that"), 1);
	assert_true(capture_find(CAPTURE_INFO, "before that", line));
	assert_non_null(strstr(line, "Z send to peer host-b pid 4242 dev lo: path 1 (TCP, epoch 0) "
				     "broke: Connection timed out"));
	newest(pair.send, ANYNET_EVENT_FAILED,
	       "failed with 0 requests pending: for a test (Connection reset by peer)");
}

static void test_all_of_it_is_written_where_the_setting_says(void **state)
{
	char first[512], last[512];

	(void)state;
	strcpy(local_cfg.dump_dir, dir);
	pair_open(&pair, 1);
	comm_fail(pair.send, pair.send->streams[0], -ECONNRESET, "for a test");
	assert_true(dump_flush(PATIENCE_MS));
	assert_int_equal(lines_of(first, last), 2);
	assert_non_null(strstr(first, "Z send to peer host-b pid 4242 dev lo: opened with 1 path"));
	assert_non_null(strstr(last, "failed on path 0 with 0 requests pending: for a test"));
	for (unsigned i = 0; i < 2 * ANYNET_STATS_EVENTS; i++)
		recorder_note(pair.recv, NULL, ANYNET_EVENT_LOST, 0, i,
			      "a text of a length that "
			      "is cut, as it does not fit "
			      "into an event at all");
	comm_fail(pair.recv, NULL, -ECONNRESET, "for a test");
	assert_true(dump_flush(PATIENCE_MS));
	assert_int_equal(lines_of(first, last), ANYNET_STATS_EVENTS);
	assert_non_null(strstr(first, "lost while idle: a text of a length"));
	assert_non_null(strstr(last, "receive from peer"));
}

static void test_failures_of_one_process_are_one_file(void **state)
{
	char first[512], last[512];

	(void)state;
	strcpy(local_cfg.dump_dir, dir);
	pair_open(&pair, 1);
	comm_fail(pair.send, NULL, -ECONNRESET, "for a test");
	comm_fail(pair.recv, NULL, -ECONNRESET, "for a test");
	assert_true(dump_flush(PATIENCE_MS));
	assert_int_equal(lines_of(first, last), 4);
}

static void test_a_file_that_cannot_be_written_is_no_harm(void **state)
{
	char other[128];

	(void)state;
	strcpy(local_cfg.dump_dir, "/nowhere/at/all");
	pair_open(&pair, 1);
	comm_fail(pair.send, NULL, -ECONNRESET, "for a test");
	assert_true(dump_flush(PATIENCE_MS));
	assert_int_equal(capture_count(CAPTURE_INFO, "cannot write the events of the connection to /nowhere/at/all"), 1);
	assert_int_equal(comm_error(pair.send), -ECONNRESET);
	/* Nor is a symbolic link to another user's file. */
	strcpy(local_cfg.dump_dir, dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	assert_int_equal(symlink(other, dump_path()), 0);
	comm_fail(pair.recv, NULL, -ECONNRESET, "for a test");
	assert_true(dump_flush(PATIENCE_MS));
	assert_int_equal(capture_count(CAPTURE_INFO, "cannot write the events"), 2);
	unlink(dump_path());
	assert_int_equal(unlink(other), -1);
}

/* Another user may have made a file of the process's name, or a link of that name. */
static void test_a_file_that_is_anothers_too_is_not_written_to(void **state)
{
	char other[128];
	struct stat st;
	int fd;

	(void)state;
	strcpy(local_cfg.dump_dir, dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	fd = open(other, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(link(other, dump_path()), 0);
	pair_open(&pair, 1);
	comm_fail(pair.send, NULL, -ECONNRESET, "for a test");
	assert_true(dump_flush(PATIENCE_MS));
	assert_int_equal(capture_count(CAPTURE_INFO, "other users have access to the file"), 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	close(fd);
	unlink(dump_path());
	unlink(other);
}

/* Neither the comm's caller nor a holder of the lock may wait for a file system that does not answer. */
static void test_a_hanging_file_system_delays_no_caller(void **state)
{
	char first[512], last[512];

	(void)state;
	strcpy(local_cfg.dump_dir, dir);
	pair_open(&pair, 1);
	atomic_store(&disk_hangs, true);
	comm_fail(pair.send, NULL, -ECONNRESET, "for a test");
	assert_false(dump_flush(0));
	comm_fail(pair.recv, NULL, -ECONNRESET, "for a test");
	atomic_store(&disk_hangs, false);
	assert_true(dump_flush(PATIENCE_MS));
	assert_int_equal(lines_of(first, last), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_breaks_returns_and_replays_are_noted),
		TEST(test_a_connection_that_was_replaced_in_time_has_moved),
		TEST(test_a_stall_is_noted_and_its_end),
		TEST(test_links_of_its_nics_are_noted_when_they_change),
		TEST(test_the_peers_suspicions_are_noted_once),
		TEST(test_the_end_is_noted),
		TEST(test_every_kind_has_words_of_its_own),
		TEST(test_a_long_text_is_cut),
		TEST(test_the_page_holds_the_last_events),
		TEST(test_a_comm_in_the_place_of_another_has_its_own_events),
		TEST(test_what_came_before_is_logged),
		TEST(test_all_of_it_is_written_where_the_setting_says),
		TEST(test_failures_of_one_process_are_one_file),
		TEST(test_a_file_that_cannot_be_written_is_no_harm),
		TEST(test_a_file_that_is_anothers_too_is_not_written_to),
		TEST(test_a_hanging_file_system_delays_no_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
