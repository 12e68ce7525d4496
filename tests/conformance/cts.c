/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overhead besides the messages, on the fake libibverbs (ANYNET_IBVERBS_LIB): memory and CTS. A CTS is an RDMA WRITE
 * that tells where a message may be written. Its bytes may become visible in any order: here its end comes first.
 */
#include <nccl_net/wire.h>
#include <support/buffer.h>
#include <support/check.h>
#include <support/fake.h>
#include <support/flow.h>
#include <support/link.h>

#define MESSAGES (5 * ANYNET_CTS_RING_ENTRIES)
#define WINDOW   32
/* No common divisor with the CTS ring: old entries there are of other slots. */
#define PLACES      37
#define PLACE_BYTES 8192
#define BYTES_MIN   600                /* smaller messages are copied, and need no CTS */
#define LINKS       8                  /* opened one after another */
#define COPIED      60                 /* messages: twice the slots of a receiver */
#define SHORT       4000               /* messages, copied as well */
#define AHEAD       24                 /* messages, each of … */
#define AHEAD_BYTES ((size_t)16 << 10) /* … together less than 400 Gb/s carry in 10 us */
#define LOOKS       8 /* requests: a CTS, and what is sent while it is waited for */

static struct {
	struct link link;
	struct buffer from, to;
	void *mhandles[2];
	struct transfer transfers[2][MESSAGES];
	uint64_t sent, received;
} stream;

static size_t bytes_of(size_t i)
{
	return BYTES_MIN + i * 1009 % (PLACE_BYTES - BYTES_MIN);
}

static uint64_t seed_of(uint64_t number)
{
	return number * 77 + 5;
}

static void fill_next(struct flow *flow, size_t i)
{
	pattern_fill(flow->transfers[i].data[0], bytes_of(i), seed_of(stream.sent++));
}

static void check_next(struct flow *flow, size_t i)
{
	check_int(flow->transfers[i].sizes[0], bytes_of(i));
	pattern_check(flow->transfers[i].data[0], bytes_of(i), seed_of(stream.received++));
}

static void stream_open(struct test_net *net)
{
	link_open(net, &stream.link);
	buffer_alloc(&stream.from, PLACES * PLACE_BYTES);
	buffer_alloc(&stream.to, PLACES * PLACE_BYTES);
	stream.mhandles[0] =
		flow_reg(net, stream.link.send, stream.from.data, PLACES * PLACE_BYTES);
	stream.mhandles[1] = flow_reg(net, stream.link.recv, stream.to.data, PLACES * PLACE_BYTES);
}

/* With this many sends at a time. */
static void stream_run(struct test_net *net, size_t sends)
{
	struct flow flows[] = {
		{ .comm = stream.link.send,
		  .is_send = true,
		  .transfers = stream.transfers[0],
		  .count = MESSAGES,
		  .window = sends,
		  .prepare = fill_next },
		{ .comm = stream.link.recv,
		  .transfers = stream.transfers[1],
		  .count = MESSAGES,
		  .window = WINDOW,
		  .finish = check_next },
	};

	for (size_t i = 0; i < MESSAGES; i++) {
		size_t at = i % PLACES * PLACE_BYTES;

		stream.transfers[0][i] =
			transfer_of(stream.from.data + at, bytes_of(i), 7, stream.mhandles[0]);
		stream.transfers[1][i] =
			transfer_of(stream.to.data + at, PLACE_BYTES, 7, stream.mhandles[1]);
	}
	flows_run(net, flows, 2);
}

static void stream_close(struct test_net *net)
{
	check_ok(driver_dereg_mr(net->driver, stream.link.send, stream.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, stream.link.recv, stream.mhandles[1]));
	buffer_free(&stream.from);
	buffer_free(&stream.to);
	link_close(net, &stream.link);
}

/* Repeats until the data goes through queue pairs: on a loaded machine the proof of one may come too late. */
static void check_by_verbs(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "queue pairs to be used");
	struct fake_verbs_counts before;

	do {
		before = fake_counts();
		stream_run(net, WINDOW);
		deadline_turn(&deadline);
	} while (fake_counts().sends - before.sends < MESSAGES);
}

/* First complete CTS, so that the old contents of the ring are plausible. */
static void a_cts_is_used_when_it_is_complete(struct test_net *net)
{
	stream_open(net);
	check_by_verbs(net);
	fake_order("fault tear write count=1000000");
	check_by_verbs(net);
	stream_close(net);
}

static void check_first(struct flow *flow, size_t i)
{
	(void)i;
	pattern_check(flow->transfers->data[0], PLACE_BYTES, stream.received);
}

/* When only the end of the first CTS is visible, all but the mark is zero: so are number and tag of this message, and
 * the check of an all-zero CTS. */
static void the_first_cts_is_used_when_it_is_complete(struct test_net *net)
{
	static char from[PLACE_BYTES], to[PLACE_BYTES];

	for (stream.received = 1; stream.received <= LINKS; stream.received++) {
		struct transfer send = transfer_of(from, PLACE_BYTES, 0, NULL);
		struct transfer recv = transfer_of(to, PLACE_BYTES, 0, NULL);
		struct flow flows[] = {
			{ .transfers = &recv, .count = 1, .finish = check_first },
			{ .is_send = true, .transfers = &send, .count = 1 },
		};

		pattern_fill(from, PLACE_BYTES, stream.received);
		link_open(net, &stream.link);
		flows[0].comm = stream.link.recv;
		flows[1].comm = stream.link.send;
		fake_order("fault tear write");
		flows_run(net, flows, 2);
		fake_order("no-faults");
		link_close(net, &stream.link);
	}
}

/* A message is one work request; a CTS may cover several receives. */
static void cts_of_several_receives_share_a_write(struct test_net *net)
{
	uint64_t sends;

	stream_open(net);
	check_by_verbs(net);
	sends = fake_counts().sends;
	stream_run(net, 1);
	sends = fake_counts().sends - sends;
	check_that(sends <= MESSAGES * 3 / 2, "%llu requests for %d messages",
		   (unsigned long long)sends, MESSAGES);
	stream_close(net);
}

/* Repeats until there are queue pairs, as above. The counts before. */
static struct fake_verbs_counts open_by_verbs(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a comm by a queue pair");
	struct fake_verbs_counts before;

	for (;;) {
		before = fake_counts();
		link_open(net, &stream.link);
		if (fake_counts().qps - before.qps == 2)
			return before;
		link_close(net, &stream.link);
		deadline_turn(&deadline);
	}
}

/* Copied messages, more than the receiver has slots, and none is consumed: a sender without known free slots waits. */
static void no_send_meets_an_empty_receive_queue(struct test_net *net)
{
	static char from[COPIED][8], to[COPIED][8];
	struct flow flows[] = {
		{ .is_send = true, .transfers = stream.transfers[0], .count = COPIED },
		{ .transfers = stream.transfers[1], .count = COPIED },
	};

	open_by_verbs(net);
	flows[0].comm = stream.link.send;
	flows[1].comm = stream.link.recv;
	for (size_t i = 0; i < COPIED; i++) {
		pattern_fill(from[i], sizeof(from[i]), seed_of(i));
		stream.transfers[0][i] = transfer_of(from[i], sizeof(from[i]), 7, NULL);
		stream.transfers[1][i] = transfer_of(to[i], sizeof(to[i]), 7, NULL);
	}
	for (int i = 0; i < 10 * COPIED; i++)
		flow_step(net, &flows[0]);
	flows_run(net, flows, 2);
	for (size_t i = 0; i < COPIED; i++)
		pattern_check(to[i], sizeof(to[i]), seed_of(i));
	check_int(fake_counts().rnr, 0);
	link_close(net, &stream.link);
}

/* The receiver reports free slots by WRITEs of 4 bytes. With adaptive routing an older one may arrive after a newer
 * one: the number of free slots must not decrease. */
static void free_slots_are_not_taken_back(struct test_net *net)
{
	static char from[SHORT][8], to[SHORT][8];
	static struct transfer sends[SHORT], recvs[SHORT];
	struct flow flows[] = {
		{ .is_send = true, .transfers = sends, .count = SHORT, .window = 64 },
		{ .transfers = recvs, .count = SHORT, .window = WINDOW },
	};

	open_by_verbs(net);
	flows[0].comm = stream.link.send;
	flows[1].comm = stream.link.recv;
	fake_order("fault overtake write count=1000000 max=4");
	for (size_t i = 0; i < SHORT; i++) {
		pattern_fill(from[i], sizeof(from[i]), seed_of(i));
		sends[i] = transfer_of(from[i], sizeof(from[i]), 7, NULL);
		recvs[i] = transfer_of(to[i], sizeof(to[i]), 7, NULL);
	}
	flows_run(net, flows, 2);
	for (size_t i = 0; i < SHORT; i++)
		pattern_check(to[i], sizeof(to[i]), seed_of(i));
	check_int(fake_counts().rnr, 0);
	link_close(net, &stream.link);
}

/* Adapters report late what has come. Meanwhile the sender has CTS for enough receives to fill the path: by bytes, not by
 * number. */
static void the_path_stays_full_while_completions_are_late(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "all messages to be sent");
	struct flow flows[] = {
		{ .is_send = true,
		  .transfers = stream.transfers[0],
		  .count = AHEAD,
		  .window = AHEAD },
		{ .transfers = stream.transfers[1], .count = AHEAD, .window = 1 },
	};
	struct buffer from, to;
	void *mhandles[2];
	uint64_t sent;

	open_by_verbs(net);
	buffer_alloc(&from, AHEAD * AHEAD_BYTES);
	buffer_alloc(&to, AHEAD * AHEAD_BYTES);
	mhandles[0] = flow_reg(net, stream.link.send, from.data, AHEAD * AHEAD_BYTES);
	mhandles[1] = flow_reg(net, stream.link.recv, to.data, AHEAD * AHEAD_BYTES);
	flows[0].comm = stream.link.send;
	flows[1].comm = stream.link.recv;
	pattern_fill(from.data, AHEAD * AHEAD_BYTES, 3);
	for (size_t i = 0; i < AHEAD; i++) {
		stream.transfers[0][i] =
			transfer_of(from.data + i * AHEAD_BYTES, AHEAD_BYTES, 1, mhandles[0]);
		stream.transfers[1][i] =
			transfer_of(to.data + i * AHEAD_BYTES, AHEAD_BYTES, 1, mhandles[1]);
	}
	/* With the same tag; from then on it goes by the queue pair. */
	link_check(net, &stream.link, 1);
	sent = fake_counts().bytes_sent[0];
	fake_order("fault slow recv ms=1000000");
	while (fake_counts().bytes_sent[0] - sent < AHEAD * AHEAD_BYTES) {
		if (flows[1].window < AHEAD)
			flows[1].window++; /* one at a time, because all pending ones share one report */
		flow_step(net, &flows[1]);
		flow_step(net, &flows[0]);
		check_int(flows[1].done, 0);
		deadline_turn(&deadline);
	}
	fake_order("no-faults");
	flows_run(net, flows, 2);
	pattern_check(to.data, AHEAD * AHEAD_BYTES, 3);
	for (int i = 0; i < 2; i++)
		check_ok(driver_dereg_mr(net->driver, i ? stream.link.recv : stream.link.send,
					 mhandles[i]));
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &stream.link);
}

/* While a message waits for its CTS, the receiver is shown it from time to time. The receive with its number may have
 * another tag, and be too small. */
static void a_message_is_compared_with_receives_of_its_tag(struct test_net *net)
{
	struct deadline deadline =
		deadline_in(TEST_PATIENCE_MS, "the receiver to be shown a message");
	static char from[2][PLACE_BYTES], to[2][PLACE_BYTES];
	static const size_t bytes[] = { BYTES_MIN, PLACE_BYTES };
	struct transfer sends[2], recvs[2];
	uint64_t requests;

	open_by_verbs(net);
	for (int tag = 0; tag < 2; tag++) {
		pattern_fill(from[tag], bytes[tag], seed_of((uint64_t)tag));
		sends[tag] = transfer_of(from[tag], bytes[tag], tag, NULL);
		recvs[tag] = transfer_of(to[tag], bytes[tag], tag, NULL);
	}
	transfer_post_soon(net, stream.link.recv, false, &recvs[0]);
	transfer_post_soon(net, stream.link.send, true, &sends[1]);
	for (requests = fake_counts().sends; fake_counts().sends < requests + LOOKS;
	     deadline_turn(&deadline)) {
		check_ok(transfer_test(net, &recvs[0]));
		check_ok(transfer_test(net, &sends[1]));
	}
	for (int tag = 1; tag >= 0; tag--) {
		struct flow flows[] = {
			{ .comm = stream.link.send,
			  .is_send = true,
			  .transfers = &sends[tag],
			  .count = 1,
			  .posted = (size_t)tag },
			{ .comm = stream.link.recv,
			  .transfers = &recvs[tag],
			  .count = 1,
			  .posted = (size_t)!tag },
		};
		flows_run(net, flows, 2);
		pattern_check(to[tag], bytes[tag], seed_of((uint64_t)tag));
	}
	link_close(net, &stream.link);
}

/* Both ends of a comm in this process. */
static void a_comm_pins_little(struct test_net *net)
{
	struct fake_verbs_counts before = open_by_verbs(net), after = fake_counts();

	check_that(after.bytes_pinned - before.bytes_pinned <= 64 << 10, "%llu bytes are pinned",
		   (unsigned long long)(after.bytes_pinned - before.bytes_pinned));
	link_close(net, &stream.link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_cts_is_used_when_it_is_complete",
		  a_cts_is_used_when_it_is_complete },
		{ .name = "the_first_cts_is_used_when_it_is_complete",
		  the_first_cts_is_used_when_it_is_complete },
		{ .name = "cts_of_several_receives_share_a_write", cts_of_several_receives_share_a_write },
		{ .name = "no_send_meets_an_empty_receive_queue",
		  no_send_meets_an_empty_receive_queue },
		{ .name = "free_slots_are_not_taken_back", free_slots_are_not_taken_back },
		{ .name = "the_path_stays_full_while_completions_are_late",
		  the_path_stays_full_while_completions_are_late,
		  .settings = { "FAKE_VERBS=device fake0; port layer=eth rate=4000 gid=0,127.0.0.1,v2,lo" } },
		{ .name = "a_message_is_compared_with_receives_of_its_tag",
		  a_message_is_compared_with_receives_of_its_tag },
		{ .name = "a_comm_pins_little", a_comm_pins_little },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
