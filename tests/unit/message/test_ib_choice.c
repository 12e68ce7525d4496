/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a stream for a message of an IB comm (send_streams.c), with streams that only accept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transports/message/send_internal.h"
#include "transports/path/ib/ib_stream.h"
#include "unit/local_net.h"

#define STREAMS 3
#define SMALL 100
#define LARGE (3 * LOCAL_CHUNK_BYTES)

struct taker {
	struct ib_stream stream; /* first */
	bool may_write;      /* the receiver has sent a CTS */
	bool full;
	size_t backlog;
	unsigned frames;
	struct frame_id last;
};

static struct taker takers[STREAMS];
static struct anynet_comm *comm;
static struct anynet_mr mr;
static struct gpu *const gpu = (struct gpu *)(void *)&mr; /* some address */
static uint8_t data[LARGE];

static int receive(struct anynet_stream *stream)
{
	(void)stream;
	return 0;
}

static int transmit(struct anynet_stream *stream)
{
	struct taker *taker = (struct taker *)stream;
	struct frame_id id;

	while (!taker->full && send_next(to_send(comm), stream, &id)) {
		taker->last = id;
		taker->frames++;
		taker->backlog += id.length;
		stream->sent.bytes += id.length;
	}
	return 0;
}

static size_t backlog(struct anynet_stream *stream)
{
	const struct taker *taker = (const struct taker *)stream;

	return taker->full ? SIZE_MAX : taker->backlog;
}

static bool cleared(struct anynet_stream *stream, const struct send_msg *msg)
{
	const struct taker *taker = (const struct taker *)stream;

	return taker->may_write || (taker->stream.qp && msg->record);
}

static void close_nothing(struct anynet_stream *stream)
{
	(void)stream;
}

static const struct anynet_stream_ops ops = {
	.receive = receive,
	.transmit = transmit,
	.backlog = backlog,
	.cleared = cleared,
	.close = close_nothing,
};

static int setup(void **state)
{
	(void)state;
	local_net_start();
	local_dev.transport = ANYNET_TRANSPORT_IB;
	comm = send_comm_create(&local_dev, STREAMS);
	if (!comm)
		return -1;
	memset(takers, 0, sizeof(takers));
	mr.gpu = NULL;
	for (uint16_t i = 0; i < STREAMS; i++) {
		struct anynet_stream *stream = &takers[i].stream.tcp.base;

		stream->ops = &ops;
		stream->comm = comm;
		stream->index = i;
		stream->path.readable = stream->path.writable = true;
		takers[i].stream.qp = (struct ib_qp *)takers; /* there is a CTS */
		stream->qp.carries = true;
		takers[i].may_write = true;
		stream->state = STREAM_UP;
		comm->streams[i] = stream;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	comm_destroy(comm);
	return 0;
}

/* All at once, of one tag; polls until everything possible is in flight. */
static void send_messages(int count, size_t bytes)
{
	for (int i = 0; i < count; i++) {
		struct anynet_request *req;

		assert_int_equal(anynet_isend(comm, &(struct anynet_send){ data, bytes, 0, &mr, NULL }, &req), 0);
		assert_non_null(req);
	}
	for (int i = 0; i < count; i++)
		assert_int_equal(comm_transmit(comm), 0);
}

static void expect_frames(unsigned a, unsigned b, unsigned c)
{
	assert_int_equal(takers[0].frames, a);
	assert_int_equal(takers[1].frames, b);
	assert_int_equal(takers[2].frames, c);
}

static void test_whole_messages_rotate_over_the_streams(void **state)
{
	(void)state;
	send_messages(6, LARGE);
	expect_frames(2, 2, 2);
	assert_int_equal(takers[1].last.length, LARGE);
}

static void test_they_are_cut_if_so_asked(void **state)
{
	(void)state;
	local_cfg.ib_split = true;
	send_messages(1, LARGE);
	expect_frames(1, 1, 1);
	assert_int_equal(takers[1].last.length, LOCAL_CHUNK_BYTES);
}

/* Streams over several ports exist to carry a message together. */
static void test_they_are_cut_to_go_by_several_ports(void **state)
{
	(void)state;
	comm->spread = true;
	send_messages(1, LARGE);
	expect_frames(1, 1, 1);
	send_messages(3, SMALL);
	expect_frames(2, 2, 2);
}

/* Nothing uses TCP, room or not. */
static void test_queue_pairs_are_preferred(void **state)
{
	(void)state;
	takers[0].stream.qp = NULL;
	takers[0].stream.tcp.base.qp.carries = false;
	takers[0].may_write = false;
	send_messages(4, SMALL);
	expect_frames(0, 2, 2);
	send_messages(2, LARGE);
	expect_frames(0, 3, 3);
	takers[1].full = takers[2].full = true;
	send_messages(1, SMALL);
	expect_frames(0, 3, 3);
}

/* Also when nothing is in flight any more: the fabric has many paths. */
static void test_one_after_the_other_they_go_round_too(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		send_messages(1, SMALL);
		for (int k = 0; k < STREAMS; k++)
			takers[k].backlog = 0;
	}
	expect_frames(2, 2, 2);
}

static void test_a_busy_stream_gets_less(void **state)
{
	(void)state;
	takers[1].backlog = 2 * LARGE;
	send_messages(4, LARGE);
	expect_frames(2, 0, 2);
}

static void test_only_a_stream_with_a_cts_writes(void **state)
{
	(void)state;
	takers[0].may_write = takers[2].may_write = false;
	send_messages(3, LARGE);
	expect_frames(0, 3, 0);
	send_messages(3, SMALL); /* these need no CTS */
	expect_frames(1, 3, 2);
}

static void test_without_a_cts_nothing_is_sent(void **state)
{
	(void)state;
	for (int i = 0; i < STREAMS; i++)
		takers[i].may_write = false;
	send_messages(2, LARGE);
	expect_frames(0, 0, 0);
	takers[1].may_write = true;
	send_look_for_cts(to_send(comm), comm->streams[0]);
	send_look_for_cts(to_send(comm), comm->streams[1]);
	assert_int_equal(comm_transmit(comm), 0);
	expect_frames(0, 2, 0);
}

/* Its frames wait for room, its slots for receives: the others do not wait for it. */
static void test_a_stream_without_room_delays_no_other(void **state)
{
	(void)state;
	takers[0].full = true;
	send_messages(4, LARGE);
	expect_frames(0, 2, 2);
}

static void test_a_suspect_stream_delays_no_other(void **state)
{
	(void)state;
	comm->streams[0]->state = STREAM_SUSPECT;
	takers[1].may_write = takers[2].may_write = false;
	send_messages(2, SMALL);
	expect_frames(0, 1, 1);
}

/* There may be no room for the checksum in the ring: then a small message is copied completely, or waits. */
static void test_a_small_message_that_does_not_fit_waits(void **state)
{
	const size_t fits = 11, does_not = 12; /* in one unit of the ring, with the checksum */
	struct anynet_request *req;

	(void)state;
	comm->checksum = true;
	send_messages(1, fits);
	for (uint32_t used = 2 * REPLAY_ALIGN; used < to_send(comm)->ring.bytes;
	     used += 2 * REPLAY_ALIGN)
		send_messages(1, does_not);
	assert_int_equal(to_send(comm)->ring.bytes - to_send(comm)->ring.head, REPLAY_ALIGN);
	assert_int_equal(anynet_isend(comm, &(struct anynet_send){ data, does_not, 0, NULL, NULL },
				      &req),
			 0);
	assert_null(req);
	send_messages(1, fits);
}

static struct anynet_request *send_tag(int tag, size_t bytes)
{
	struct anynet_request *req;

	assert_int_equal(anynet_isend(comm, &(struct anynet_send){ data, bytes, tag, bytes ? &mr : NULL, NULL }, &req), 0);
	return req;
}

/* The receives are in GPU memory: small messages ask where they may go, and keep their room until they may. */
static void nothing_may_go(void)
{
	for (int i = 0; i < STREAMS; i++) {
		takers[i].stream.qp = NULL;
		takers[i].may_write = false;
	}
}

/* One message more of the first tag would have to wait for room; one of another tag does not, and goes from its own
 * memory. */
static void test_a_full_ring_holds_up_no_other_tag(void **state)
{
	struct anynet_wire_frame cts = { .type = ANYNET_FRAME_CTS };
	struct stream_frame frame;
	uint32_t seq = 1;

	(void)state;
	nothing_may_go();
	takers[1].full = takers[2].full = true;
	assert_non_null(send_tag(0, 1)); /* in the end there is room for a header */
	for (; send_tag(0, SMALL); seq++)
		assert_true(seq < ANYNET_SENDS);
	assert_true(seq < ANYNET_SENDS);
	assert_int_equal(takers[0].frames, 0); /* with one tag they wait for a CTS in the ring */
	assert_non_null(send_tag(1, SMALL));
	assert_int_equal(comm_transmit(comm), 0);
	assert_int_equal(takers[0].last.type, ANYNET_FRAME_RTS);
	assert_int_equal(takers[0].last.seq, seq);
	cts.slot = takers[0].last.slot;
	cts.seq = seq;
	cts.tag = 1;
	assert_int_equal(send_control(to_send(comm), comm->streams[0], &cts, NULL), 0);
	assert_int_equal(comm_transmit(comm), 0);
	assert_int_equal(takers[0].last.type, ANYNET_FRAME_DATA);
	assert_int_equal(takers[0].last.seq, seq);
	send_frame(to_send(comm), &takers[0].last, &frame);
	assert_ptr_equal(frame.payload, data);
	assert_false(frame.framed);
	assert_null(to_send(comm)->msgs[cts.slot].record); /* its frame needs no gathering */
	/* … and an empty one needs no place. */
	assert_non_null(send_tag(1, 0));
	assert_int_equal(comm_transmit(comm), 0);
	assert_int_equal(takers[0].last.type, ANYNET_FRAME_DATA);
	assert_int_equal(takers[0].last.seq, seq + 1);
	/* Now the first tag is one of several. */
	assert_non_null(send_tag(0, SMALL));
}

int __wrap_gpu_fetch(struct gpu *which, void *to, const void *from, size_t bytes);

int __wrap_gpu_fetch(struct gpu *which, void *to, const void *from, size_t bytes)
{
	assert_ptr_equal(which, gpu);
	memcpy(to, from, bytes);
	return 0;
}

/* … also if messages from GPU memory fill it: they have been copied there for adapters that gather nothing. */
static void test_a_ring_full_of_copies_holds_up_no_other_tag(void **state)
{
	mr.gpu = gpu;
	for (int i = 0; i < STREAMS; i++)
		comm->streams[i]->qp.fetches = true;
	test_a_full_ring_holds_up_no_other_tag(state);
}

/* A message that is completely on a path, and its frame there. */
static struct anynet_request *send_one(struct frame_id *id)
{
	struct anynet_request *req;
	unsigned frames[STREAMS];

	for (int i = 0; i < STREAMS; i++)
		frames[i] = takers[i].frames;
	assert_int_equal(anynet_isend(comm, &(struct anynet_send){ data, LARGE, 0, &mr, NULL }, &req), 0);
	assert_non_null(req);
	for (int i = 0; i < STREAMS; i++)
		if (takers[i].frames != frames[i])
			*id = takers[i].last;
	assert_int_equal(id->length, LARGE);
	send_written(to_send(comm), id);
	return req;
}

static bool is_done(struct anynet_request *req)
{
	int done;

	assert_int_equal(anynet_test(req, &done, NULL), 0);
	return done;
}

/* More frames than a 16-bit counter holds went over TCP, where only an acknowledgement confirms their arrival. */
static void test_many_frames_are_not_taken_for_few(void **state)
{
	const size_t frames = UINT16_MAX + 2, frame_bytes = ANYNET_PART_ALIGN;
	struct anynet_request *req;
	struct frame_id id;

	(void)state;
	comm->spread = true;
	to_send(comm)->limits.chunk = frame_bytes;
	for (int i = 0; i < STREAMS; i++)
		takers[i].full = true;
	for (int i = 1; i < STREAMS; i++)
		comm->streams[i]->state = STREAM_SUSPECT;
	assert_int_equal(anynet_isend(comm,
				      &(struct anynet_send){ data, frames * frame_bytes, 0, &mr,
							     NULL },
				      &req),
			 0);
	for (size_t i = 0; i < frames; i++) {
		assert_true(send_next(to_send(comm), comm->streams[0], &id));
		send_written(to_send(comm), &id);
	}
	send_arrived(to_send(comm), &id);
	assert_false(is_done(req));
}

/* Its message has been acknowledged over another path, and its slot belongs to a newer one. */
static void test_a_frame_that_arrives_late_counts_for_its_own_message(void **state)
{
	struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK };
	struct frame_id first, second;
	struct anynet_request *req = send_one(&first);

	(void)state;
	ack.slot = first.slot;
	ack.seq = first.seq;
	assert_false(is_done(req));
	assert_int_equal(send_control(to_send(comm), comm->streams[0], &ack, NULL), 0);
	assert_true(is_done(req));
	for (req = send_one(&second); second.slot != first.slot; req = send_one(&second)) {
		send_arrived(to_send(comm), &second);
		assert_true(is_done(req));
	}
	send_arrived(to_send(comm), &first);
	assert_false(is_done(req));
	send_arrived(to_send(comm), &second);
	assert_true(is_done(req));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_whole_messages_rotate_over_the_streams, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_they_are_cut_if_so_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_they_are_cut_to_go_by_several_ports, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_queue_pairs_are_preferred, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_after_the_other_they_go_round_too, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_busy_stream_gets_less, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_a_stream_with_a_cts_writes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_without_a_cts_nothing_is_sent, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_stream_without_room_delays_no_other, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_small_message_that_does_not_fit_waits, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_full_ring_holds_up_no_other_tag, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_ring_full_of_copies_holds_up_no_other_tag,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_frames_are_not_taken_for_few, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_suspect_stream_delays_no_other, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_a_frame_that_arrives_late_counts_for_its_own_message, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
