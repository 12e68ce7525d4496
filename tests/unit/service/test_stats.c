/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of this process, as the reader of its file sees them. */
#include "stats_pair.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "tools/shared/now.h"
#include "transports/service/stats.h"
#include "transports/session/registry.h"
#include "unit/own_page.h"

static const struct anynet_stats_comm *comm_of(const struct page *page, bool is_send)
{
	for (size_t i = 0; i < page->count; i++)
		if (page->comms[i].is_send == is_send)
			return &page->comms[i];
	fail_msg("no record");
	return NULL;
}

static void test_a_page_tells_of_process_comms_and_streams(void **state)
{
	const struct anynet_stats_comm *send, *recv;
	struct anynet_request *reqs[2];
	struct page page;

	(void)state;
	open_pair(2);
	stats_begin();
	reqs[0] = pair_irecv(&pair, pair_in, PAIR_LARGE, 7);
	reqs[1] = pair_isend(&pair, pair_out, PAIR_LARGE, 7);
	pair_finish(reqs, 2, NULL);
	reqs[0] = pair_irecv(&pair, pair_in, 100, 7);
	pair.send->streams[1]->path.health.seen.acked = 4096;
	pair.send->streams[1]->path.health.seen.busy_us = 300;
	/* A queue pair says it elsewhere. */
	pair.send->streams[0]->path.health.seen.qp.acked = 8192;
	pair.send->streams[0]->path.health.seen.qp.busy_us = 700;
	pair.send->streams[0]->path.health.seen.qp.rtt_us = 80;
	page = own_page_look();
	assert_int_equal(page.process.pid, getpid());
	assert_string_equal(page.process.net, "IB");
	assert_string_equal(page.process.plugin, ANYNET_VERSION);
	assert_int_equal(page.process.comms, 2);
	assert_int_equal(page.count, 2);
	send = comm_of(&page, true);
	recv = comm_of(&page, false);
	assert_int_equal(send->bytes, PAIR_LARGE);
	assert_int_equal(recv->bytes, PAIR_LARGE);
	assert_int_equal(send->requests, 1);
	assert_int_equal(recv->requests, 2);
	assert_int_equal(send->pending, 0);
	assert_int_equal(recv->pending, 1);
	assert_true(recv->oldest_ms && recv->oldest_ms <= now_ms());
	assert_int_equal(send->oldest_ms, 0);
	assert_string_equal(send->peer_host, "host-b");
	assert_int_equal(send->peer_pid, 4242);
	assert_string_equal(send->device, "lo");
	assert_int_equal(send->stream_count, 2);
	assert_int_equal(send->streams[0].bytes + send->streams[1].bytes, PAIR_LARGE);
	assert_int_equal(send->streams[1].acked, 4096);
	assert_int_equal(send->streams[1].busy_us, 300);
	assert_int_equal(send->streams[0].acked, 8192);
	assert_int_equal(send->streams[0].busy_us, 700);
	assert_int_equal(send->streams[0].rtt_us, 80);
	assert_int_equal(recv->streams[1].kind, ANYNET_STATS_TCP);
	assert_int_equal(recv->streams[1].state, ANYNET_STATS_UP);
	assert_int_equal(recv->streams[1].index, 1);
	assert_int_equal(recv->streams[2].kind, 0);
	assert_int_equal(send->streams[0].frames + send->streams[1].frames,
			 recv->streams[0].frames + recv->streams[1].frames);
	page_free(&page);
	close_pair();
}

/* Several ports may have the address of one interface. */
static void test_a_queue_pair_is_on_its_own_port(void **state)
{
	struct anynet_device port = local_dev;
	struct anynet_stats_stream told[2];
	struct page page;

	(void)state;
	strcpy(port.name, "mlx5_1");
	open_pair(1);
	stats_begin();
	local_dev.transport = ANYNET_TRANSPORT_IB;
	pair.send->streams[0]->path.nic.dev = &local_dev;
	pair.send->streams[0]->qp.nic = &port;
	for (int carries = 0; carries < 2; carries++) {
		pair.send->streams[0]->qp.carries = carries;
		page = own_page_look();
		told[carries] = comm_of(&page, true)->streams[0];
		page_free(&page);
	}
	pair.send->streams[0]->qp.carries = false;
	local_dev.transport = ANYNET_TRANSPORT_TCP;
	close_pair();
	assert_int_equal(told[0].kind, ANYNET_STATS_TCP);
	assert_string_equal(told[0].device, "lo");
	assert_int_equal(told[1].kind, ANYNET_STATS_QP);
	assert_string_equal(told[1].device, "mlx5_1");
}

static void test_the_oldest_request_keeps_its_age(void **state)
{
	struct anynet_request *reqs[2];
	uint64_t since, before, age;
	struct page page;

	(void)state;
	open_pair(1);
	stats_begin();
	reqs[0] = pair_irecv(&pair, pair_in, 100, 0);
	page = own_page_look();
	page_free(&page);
	since = pair.recv->session->tally.mark_ms;
	reqs[1] = pair_irecv(&pair, pair_in, 100, 0);
	while (os_now_ms() <= since) /* so that another time is another number */
		;
	before = os_now_ms();
	page = own_page_look();
	age = page.process.written_ms - comm_of(&page, false)->oldest_ms;
	assert_in_range(since + age, before, os_now_ms());
	page_free(&page);
	pair_send(&pair, pair_out, 100);
	pair_send(&pair, pair_out, 100);
	pair_finish(reqs, 2, NULL);
	page = own_page_look();
	assert_int_equal(comm_of(&page, false)->oldest_ms, 0);
	page_free(&page);
	close_pair();
}

static void test_breaks_and_errors_are_told(void **state)
{
	const struct anynet_stats_comm *send;
	struct page page;

	(void)state;
	open_pair(2);
	stats_begin();
	comm_sever(pair.send, pair.send->streams[1], -ETIMEDOUT);
	page = own_page_look();
	send = comm_of(&page, true);
	assert_int_equal(send->breaks, 1);
	assert_int_equal(send->recoveries, 0);
	assert_int_equal(send->streams[1].breaks, 1);
	assert_int_equal(send->streams[1].state, ANYNET_STATS_DOWN);
	assert_int_equal(send->streams[0].state, ANYNET_STATS_UP);
	assert_true(send->streams[1].down_ms && send->streams[1].down_ms <= now_ms());
	page_free(&page);
	pair.send->streams[0]->state = STREAM_SUSPECT;
	comm_fail(pair.recv, NULL, -ECONNRESET, "for a test");
	capture_forget();
	page = own_page_look();
	assert_int_equal(comm_of(&page, true)->streams[0].state, ANYNET_STATS_SUSPECT);
	assert_int_equal(comm_of(&page, false)->error, -ECONNRESET);
	page_free(&page);
	close_pair();
}

static void test_a_stall_is_described(void **state)
{
	struct page page;

	(void)state;
	open_pair(1);
	stats_begin();
	pair_irecv(&pair, pair_in, 100, 7);
	pair.recv->session->watch.since_ms = os_now_ms() - 5000;
	page = own_page_look();
	assert_true(comm_of(&page, false)->stalled_ms);
	assert_string_equal(comm_of(&page, false)->asked,
			    "1 receives, the oldest of 100 bytes, tag 7");
	page_free(&page);
	pair.recv->session->watch.since_ms = os_now_ms() + 60000; /* the duration of the look is not known */
	page = own_page_look();
	assert_int_equal(comm_of(&page, false)->stalled_ms, 0);
	assert_string_equal(comm_of(&page, false)->asked, "");
	page_free(&page);
	close_pair();
}

static void test_a_comm_at_work_keeps_its_record(void **state)
{
	struct page page;

	(void)state;
	open_pair(1);
	stats_begin();
	page = own_page_look();
	assert_int_equal(page.count, 2);
	page_free(&page);
	comm_enter(pair.recv);
	pair_send(&pair, pair_out, 100);
	page = own_page_look();
	comm_leave(pair.recv);
	assert_int_equal(comm_of(&page, true)->requests, 1);
	assert_int_equal(page.count, 2);
	page_free(&page);
	close_pair();
}

static void test_a_comm_that_is_gone_has_no_record(void **state)
{
	struct page page;
	uint64_t id;

	(void)state;
	open_pair(1);
	stats_begin();
	page = own_page_look();
	id = comm_of(&page, true)->id;
	page_free(&page);
	registry_remove(pair.send);
	page = own_page_look();
	assert_int_equal(page.count, 1);
	assert_int_equal(page.process.comms, 1);
	page_free(&page);
	close_pair();
	open_pair(1); /* in the same places */
	page = own_page_look();
	assert_int_equal(page.count, 2);
	assert_int_not_equal(comm_of(&page, true)->id, id);
	page_free(&page);
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, stats_pair_setup, stats_pair_teardown)
		TEST(test_a_page_tells_of_process_comms_and_streams),
		TEST(test_a_queue_pair_is_on_its_own_port),
		TEST(test_the_oldest_request_keeps_its_age),
		TEST(test_breaks_and_errors_are_told),
		TEST(test_a_stall_is_described),
		TEST(test_a_comm_at_work_keeps_its_record),
		TEST(test_a_comm_that_is_gone_has_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
