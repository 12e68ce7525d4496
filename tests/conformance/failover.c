/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that break under a verified stream, by faults of the fake libibverbs (which the plugin loads by
 * ANYNET_IBVERBS_LIB): the stream continues by a new queue pair, or over TCP, and returns.
 */
#include <nccl_net/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/buffer.h>
#include <support/capture.h>
#include <support/check.h>
#include <support/fake.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/memory.h>
#include <support/stream.h>
#include <time.h>

/* --- one queue pair breaks --- */

static const char *fault;

static void strike(void)
{
	fake_order(fault);
}

/* The fault strikes under a stream of its own, because the pause before the next queue pair grows with those that failed
 * early. */
static void struck_by(struct test_net *net, const char *what, int tags)
{
	fault = what;
	stream_open(net);
	stream_check_by_verbs(net);
	stream.tags = tags;
	stream_run(net, strike);
	fake_order("no-faults");
	stream_check_by_verbs(net);
	stream_close(net);
}

/* Each kind of operation, at several positions, with each status that real queue pairs break with. */
static void a_broken_queue_pair_is_replaced(struct test_net *net)
{
	static const char *const kinds[] = { "send", "write", "write-imm", "recv" };
	static const int status[] = { 12, 10, 5, 13 };
	char text[80];

	for (unsigned k = 0; k < 4; k++) {
		for (int nth = 1; nth < 12; nth += 5) {
			snprintf(text, sizeof(text), "fault status %s nth=%d status=%d", kinds[k],
				 nth, status[(k + (unsigned)nth) % 4]);
			struck_by(net, text, 1);
		}
	}
}

static void lost_data_is_retransmitted(struct test_net *net)
{
	static const char *const lost[] = {
		"fault lose send nth=3",       "fault lose write nth=2",
		"fault lose write-imm nth=4",  "fault mute send nth=2",
		"fault mute write-imm nth=1",  "fault cut write-imm nth=2",
		"fault cut write nth=1",       "fault qp-fatal any nth=5",
		"fault delay any ms=30 nth=2", "fault drop any nth=3",
	};

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
		struck_by(net, lost[i], 1);
}

/* The sender knows by then that it has arrived, and does not retransmit it. */
static void arrived_data_counts_before_it_is_polled(struct test_net *net)
{
	char text[40];

	for (int nth = 1; nth <= 5; nth++) {
		snprintf(text, sizeof(text), "fault late recv nth=%d", nth);
		struck_by(net, text, 1);
	}
}

/* Data that the sender had to ask a CTS for: the CTS is lost with the queue pair. */
static void cts_are_asked_for_again(struct test_net *net)
{
	char text[80];

	for (int nth = 1; nth < 12; nth += 2) {
		snprintf(text, sizeof(text), "fault status write-imm nth=%d status=12", nth);
		struck_by(net, text, 3);
	}
}

/* The sender is closed while posted data is still to leave. */
static void sent_data_arrives_after_close(struct test_net *net)
{
	enum {
		COUNT = 10,
		BYTES = 8
	};
	static struct transfer sends[COUNT], recvs[COUNT];
	char from[COUNT][BYTES], to[COUNT][BYTES];
	struct flow flows[] = {
		{ .is_send = true, .transfers = sends, .count = COUNT, .window = COUNT },
		{ .transfers = recvs, .count = COUNT, .window = COUNT },
	};
	struct link link;

	link_open(net, &link);
	flows[0].comm = link.send;
	flows[1].comm = link.recv;
	link_check_host(net, &link, BYTES);
	for (int i = 0; i < COUNT; i++) {
		pattern_fill(from[i], BYTES, stream_seed((uint64_t)i));
		sends[i] = transfer_of(from[i], BYTES, 1, NULL);
		recvs[i] = transfer_of(to[i], BYTES, 1, NULL);
	}
	fake_order("fault delay send ms=30 nth=2");
	flows_run(net, flows, 1);
	memory_leave(net, link.send);
	check_ok(driver_close_send(net->driver, link.send));
	link.send = NULL;
	flows_run(net, &flows[1], 1);
	for (int i = 0; i < COUNT; i++)
		pattern_check(to[i], BYTES, stream_seed((uint64_t)i));
	link_close(net, &link);
}

/* All data has arrived and the sender is gone when the receiver's memory cannot be registered: the receiver leaves a
 * queue pair that has delivered everything. `late`: receives are posted when it may know that the peer is gone. */
static void what_has_arrived_outlives_its_queue_pair(struct test_net *net, bool late)
{
	enum {
		COUNT = 10,
		BYTES = 8
	};
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the sender's end");
	static struct transfer sends[COUNT], recvs[COUNT];
	char from[COUNT][BYTES], to[COUNT][BYTES], *memory = malloc(1 << 20);
	struct flow flows[] = {
		{ .is_send = true, .transfers = sends, .count = COUNT, .window = COUNT },
		{ .transfers = recvs, .count = COUNT, .window = COUNT },
	};
	struct link link;
	uint64_t qps;
	void *mhandle;

	capture_allow_warn(); /* slower from now on */
	check(memory);
	link_open(net, &link);
	flows[0].comm = link.send;
	flows[1].comm = link.recv;
	link_check_host(net, &link, BYTES);
	for (int i = 0; i < COUNT; i++) {
		pattern_fill(from[i], BYTES, stream_seed((uint64_t)i));
		sends[i] = transfer_of(from[i], BYTES, 1, NULL);
		recvs[i] = transfer_of(to[i], BYTES, 1, NULL);
	}
	flows_run(net, flows, 1);
	memory_leave(net, link.send);
	qps = fake_counts().qps;
	check_ok(driver_close_send(net->driver, link.send));
	link.send = NULL;
	while (fake_counts().qps == qps)
		deadline_turn(&deadline);
	fake_order("fault call reg_mr errno=12 count=1000000");
	check_ok(driver_reg_mr(net->driver, link.recv, memory, 1 << 20, ANYNET_PTR_HOST, &mhandle));
	fake_order("no-faults");
	if (late)
		nanosleep(&(struct timespec){ .tv_nsec = 400000000 }, NULL);
	flows_run(net, &flows[1], 1);
	for (int i = 0; i < COUNT; i++)
		pattern_check(to[i], BYTES, stream_seed((uint64_t)i));
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandle));
	link_close(net, &link);
	free(memory);
}

static void arrived_data_is_received_without_its_queue_pair(struct test_net *net)
{
	what_has_arrived_outlives_its_queue_pair(net, false);
	what_has_arrived_outlives_its_queue_pair(net, true);
}

/* --- no queue pair can be created --- */

/* After the fault `breaks` the stream continues over TCP; after the order `mend`, by queue pairs again. */
static void goes_on_over_tcp_and_back(struct test_net *net, void (*breaks)(void), const char *mend)
{
	struct fake_verbs_counts before;

	stream_open(net);
	stream_check_by_verbs(net);
	stream_run(net, breaks);
	before = fake_counts();
	stream_run(net, NULL);
	check_that(!stream_by_verbs(&before), "no queue pair can have brought it");
	fake_order(mend);
	stream_check_by_verbs(net);
	stream_close(net);
}

static void break_for_good(void)
{
	fake_order("vanish fake0:1 any; vanish fake1:1 any");
}

static void without_verbs_the_stream_uses_tcp_and_returns(struct test_net *net)
{
	goes_on_over_tcp_and_back(net, break_for_good, "no-faults");
}

static void port_down(void)
{
	fake_order("set fake0:1 state=down; set fake1:1 state=down");
}

static void a_port_may_go_down_and_come_up(struct test_net *net)
{
	goes_on_over_tcp_and_back(net, port_down,
				  "set fake0:1 state=active; set fake1:1 state=active");
}

/* Their acknowledgements are not urgent, and a queue pair needs none: they must arrive all the same. */
static void few_small_messages_over_tcp_delay_nothing(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "queue pairs to be used");
	struct fake_verbs_counts before;
	struct link link;

	link_open(net, &link);
	link_check(net, &link, 8);
	port_down();
	do {
		before = fake_counts();
		link_check(net, &link, 8);
		deadline_turn(&deadline);
	} while (fake_counts().sends != before.sends);
	fake_order("set fake0:1 state=active; set fake1:1 state=active");
	for (before = fake_counts(); fake_counts().sends == before.sends; deadline_turn(&deadline))
		link_check(net, &link, 0);
	for (int i = 0; i < 300; i++) /* more than the ring can hold */
		link_check(net, &link, 400);
	link_close(net, &link);
}

/* --- a port or a device fails, and there is another one --- */

/* Only the events report some of these faults. */
static void another_port_takes_over(struct test_net *net)
{
	static const char *const events[] = {
		"set fake0:1 state=down",
		"set fake0:1 state=active; set fake1:1 state=down",
		"set fake1:1 state=active; event fake0 qp-fatal",
		"event fake0:1 gid-change; event fake0:1 lid-change; event fake0:1 client-reregister",
		"fault port-down any nth=4 device=fake0",
		"set fake0:1 state=active",
		"fatal fake0",
	};

	stream_open(net);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		fault = events[i];
		stream_run(net, strike);
		stream_check_by_verbs(net);
	}
	stream_close(net);
}

/* Data that has arrived is not retransmitted, even if it was not yet requested. */
static void unexpected_data_survives_the_queue_pair(struct test_net *net)
{
	enum {
		COUNT = 20,
		BYTES = 8
	};
	static struct transfer sends[COUNT], recvs[COUNT];
	char from[COUNT][BYTES], to[COUNT][BYTES];
	struct link link;

	link_open(net, &link);
	link_check_host(net, &link, BYTES);
	for (int round = 0; round < 4; round++) {
		memset(to, 0, sizeof(to));
		for (int i = 0; i < COUNT; i++) {
			pattern_fill(from[i], BYTES, stream_seed((uint64_t)(round * COUNT + i)));
			sends[i] = transfer_of(from[i], BYTES, 1, NULL);
			recvs[i] = transfer_of(to[i], BYTES, 1, NULL);
			transfer_post_soon(net, link.send, true, &sends[i]);
		}
		struct flow flows[] = {
			{ .comm = link.send,
			  .is_send = true,
			  .transfers = sends,
			  .count = COUNT,
			  .posted = COUNT },
			{ .comm = link.recv, .transfers = recvs, .count = COUNT, .window = COUNT },
		};
		flows_run(net, flows, 1);
		fake_order(round % 2 ? "set fake0:1 state=active; set fake1:1 state=down"
				     : "set fake1:1 state=active; set fake0:1 state=down");
		if (round < 2)
			fake_order("event fake0 qp-fatal; event fake1 qp-fatal");
		flows_run(net, &flows[1], 1);
		for (int i = 0; i < COUNT; i++)
			pattern_check(to[i], BYTES, stream_seed((uint64_t)(round * COUNT + i)));
	}
	link_close(net, &link);
}

/* Receives in another order than the sends: the sender has to ask, although it knows one tag only. */
static void receives_of_another_tag_may_come_first(struct test_net *net)
{
	static char from[2][100000], to[2][100000];
	struct transfer sends[2], recvs[2];
	struct link link;

	link_open(net, &link);
	for (int i = 0; i < 2; i++) {
		pattern_fill(from[i], sizeof(from[i]), stream_seed((uint64_t)i));
		sends[i] = transfer_of(from[i], sizeof(from[i]), i, NULL);
		recvs[!i] = transfer_of(to[i], sizeof(to[i]), i, NULL);
	}
	transfer_post_soon(net, link.recv, false, &recvs[0]);
	transfer_post_soon(net, link.recv, false, &recvs[1]);
	for (int i = 0; i < 2; i++) {
		struct flow flows[] = {
			{ .comm = link.send, .is_send = true, .transfers = &sends[i], .count = 1 },
			{ .comm = link.recv, .transfers = &recvs[!i], .count = 1, .posted = 1 },
		};
		flows_run(net, flows, 2);
		pattern_check(to[i], sizeof(to[i]), stream_seed((uint64_t)i));
	}
	link_close(net, &link);
}

/* --- set-up --- */

static void packets_that_do_not_get_through_are_noticed_at_set_up(struct test_net *net)
{
	struct fake_verbs_counts before;

	link_open(net, &stream.link); /* loads the library */
	link_close(net, &stream.link);
	fake_order("vanish fake0:1 any; vanish fake1:1 any");
	stream_open(net);
	before = fake_counts();
	stream_run(net, NULL);
	check_that(!stream_by_verbs(&before), "what vanishes cannot have brought it");
	stream_close(net);
	fake_order("no-faults");
}

/* Whichever call fails, the comm is established, with a queue pair or without. */
static void every_call_for_a_queue_pair_may_fail(struct test_net *net)
{
	static const char *const functions[] = { "create_cq", "create_qp", "modify_qp",
						 "reg_mr",    "post_send", "post_recv" };
	char text[80];

	capture_allow_warn();
	link_open(net, &stream.link);
	link_close(net, &stream.link);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		for (int nth = 1; nth < 4; nth++) { /* the fourth call registers memory of the test */
			snprintf(text, sizeof(text), "fault call %s nth=%d errno=12", functions[i],
				 nth);
			fake_order(text);
			link_open(net, &stream.link);
			link_check(net, &stream.link, 8);
			link_check(net, &stream.link, 100000);
			link_close(net, &stream.link);
			fake_order("no-faults");
		}
	}
}

/* regMr still succeeds: the sender's buffer, the receiver's, both. */
static void memory_that_cannot_be_registered_goes_over_tcp(struct test_net *net)
{
	static const char *const failures[] = { "nth=1", "nth=2", "nth=1 count=2" };
	const size_t bytes = 100000;
	struct fake_verbs_counts before;
	char text[80];

	capture_allow_warn();
	link_open(net, &stream.link);
	link_check(net, &stream.link, bytes); /* registered at the first use */
	link_close(net, &stream.link);
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		capture_forget();
		link_open(net, &stream.link);
		snprintf(text, sizeof(text), "fault call reg_mr errno=12 %s", failures[i]);
		fake_order(text);
		link_check(net, &stream.link, bytes);
		before = fake_counts();
		link_check(net, &stream.link, bytes);
		/* a few bytes are possible: queue pairs of other ports are still being proven */
		check_that(stream_bytes_by_verbs(&before) < bytes, "the message goes over TCP");
		check_int(capture_count(CAPTURE_WARN, "continuing over TCP"), i == 2 ? 2 : 1);
		link_close(net, &stream.link);
		fake_order("no-faults");
	}
}

/* On the port that takes over: the memory of the links, the ring, NCCL's buffers. */
static void memory_may_be_short_on_another_port(struct test_net *net)
{
	char text[100];

	capture_allow_warn();
	for (int nth = 1; nth <= 6; nth++) {
		stream_open(net);
		snprintf(text, sizeof(text),
			 "set fake0:1 state=down; fault call reg_mr errno=12 nth=%d device=fake1",
			 nth);
		fault = text;
		stream_run(net, strike);
		stream_run(net, NULL);
		stream_close(net);
		fake_order("no-faults; set fake0:1 state=active");
	}
}

static void nothing_is_left_behind(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "everything to be given back");
	struct fake_verbs_counts before, after;
	uint64_t kept = memory_is_cuda() ? 2 : 0; /* used for flushes by the ports in use */

	stream_open(net);
	stream_close(net);
	while (before = fake_counts(), before.qps > kept)
		deadline_turn(&deadline);
	stream_open(net);
	stream_run(net, NULL);
	stream_close(net);
	/* Closed comms still send their last frames; those of the first may still be in progress. */
	while (after = fake_counts(), after.qps > before.qps || after.cqs > before.cqs ||
					      after.mrs > before.mrs ||
					      after.bytes_pinned > before.bytes_pinned)
		deadline_turn(&deadline);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_broken_queue_pair_is_replaced", a_broken_queue_pair_is_replaced },
		{ .name = "lost_data_is_retransmitted", lost_data_is_retransmitted },
		{ .name = "arrived_data_counts_before_it_is_polled",
		  arrived_data_counts_before_it_is_polled },
		{ .name = "cts_are_asked_for_again", cts_are_asked_for_again },
		{ .name = "sent_data_arrives_after_close", sent_data_arrives_after_close },
		{ .name = "arrived_data_is_received_without_its_queue_pair",
		  arrived_data_is_received_without_its_queue_pair },
		{ .name = "without_verbs_the_stream_uses_tcp_and_returns",
		  without_verbs_the_stream_uses_tcp_and_returns },
		{ .name = "a_port_may_go_down_and_come_up", a_port_may_go_down_and_come_up },
		{ .name = "few_small_messages_over_tcp_delay_nothing",
		  few_small_messages_over_tcp_delay_nothing },
		{ .name = "another_port_takes_over", another_port_takes_over },
		{ .name = "unexpected_data_survives_the_queue_pair",
		  unexpected_data_survives_the_queue_pair },
		{ .name = "receives_of_another_tag_may_come_first",
		  receives_of_another_tag_may_come_first },
		{ .name = "packets_that_do_not_get_through_are_noticed_at_set_up",
		  packets_that_do_not_get_through_are_noticed_at_set_up },
		{ .name = "every_call_for_a_queue_pair_may_fail",
		  every_call_for_a_queue_pair_may_fail },
		{ .name = "memory_that_cannot_be_registered_goes_over_tcp",
		  memory_that_cannot_be_registered_goes_over_tcp },
		{ .name = "memory_may_be_short_on_another_port",
		  memory_may_be_short_on_another_port },
		{ .name = "nothing_is_left_behind", nothing_is_left_behind },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
