/* SPDX-License-Identifier: Apache-2.0 */
/* A send comm with queue pairs: what it posts, where and when. */
#include "ib_comm.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/message/send_internal.h"

static void test_a_message_is_one_write_to_its_place(void **state)
{
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 1, 1);
	pair_send(&pair, pair_out, 8); /* another slot */
	cts(0, 1, LARGE + 1);
	ib_note_posted();
	req = pair_isend(&pair, pair_out, LARGE, 0);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(ib_posted[0].addr, PLACE + 0x10000);
	assert_int_equal(ib_posted[0].rkey, PLACE_KEY);
	assert_int_equal(ib_posted[0].bytes, LARGE);
	assert_int_equal(be32toh(ib_posted[0].imm), 1 << 24 | LARGE);
	pair_idle(req);
	arrive(0);
	assert_true(pair_done(req, NULL));
}

/* Sends a message; the adapters confirm it, and its send is reported done. Returns its slot. */
static unsigned send_at_once(void)
{
	struct anynet_request *req = pair_isend(&pair, pair_out, 8, 0);

	ib_turn(pair.send);
	for (unsigned i = 0; i < pair.send->stream_count; i++)
		arrive(i);
	ib_turn(pair.send);
	pair_finish(&req, 1, NULL);
	return (unsigned)((struct send_msg *)req - to_send(pair.send)->msgs);
}

/* Its message may be unread at the receiver, whose completion is late, and a newer one could overtake it on another
 * stream. */
static void test_with_several_streams_slots_are_used_in_turn(void **state)
{
	static const unsigned slots[] = { ANYNET_SENDS - 2, ANYNET_SENDS - 1, 0, 2, 3 };

	(void)state;
	ib_open_send(&pair, 1, 1);
	ib_qp_of(pair.send, 0)->sq.signal_all = true;
	for (int i = 0; i < 5; i++)
		assert_int_equal(send_at_once(), 0);
	pair_close(&pair);
	ib_open_send(&pair, 2, 2);
	to_send(pair.send)->turn = ANYNET_SENDS - 2;
	to_send(pair.send)->msgs[1].state = SEND_WAITING;
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		assert_int_equal(send_at_once(), slots[i]);
	to_send(pair.send)->msgs[1].state = SEND_FREE;
}

static void test_pieces_go_each_to_its_own_place(void **state)
{
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 2, 2);
	local_cfg.ib_split = true;
	cts(0, 0, LOCAL_CHUNK_BYTES * 2);
	cts(1, 0, LOCAL_CHUNK_BYTES * 2);
	ib_note_posted();
	req = pair_isend(&pair, pair_out, LOCAL_CHUNK_BYTES * 2, 0);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 4);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(ib_posted[2 * i].opcode, IBV_WR_RDMA_WRITE);
		assert_int_equal(ib_posted[2 * i].addr, PLACE + i * LOCAL_CHUNK_BYTES);
		assert_int_equal(ib_posted[2 * i].bytes, LOCAL_CHUNK_BYTES);
		assert_int_equal(ib_posted[2 * i + 1].frame.type, ANYNET_FRAME_DATA);
		assert_int_equal(ib_posted[2 * i + 1].frame.offset, i * LOCAL_CHUNK_BYTES);
		assert_int_equal(ib_posted[2 * i + 1].frame.length, LOCAL_CHUNK_BYTES);
	}
	arrive(0);
	pair_idle(req);
	arrive(1);
	assert_true(pair_done(req, NULL));
}

static void test_a_message_larger_than_its_receive_is_not_written(void **state)
{
	(void)state;
	ib_open_send(&pair, 1, 1);
	cts(0, 0, LARGE - 1);
	ib_note_posted();
	pair_idle(pair_isend(&pair, pair_out, LARGE, 0));
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].opcode, IBV_WR_SEND); /* the peer reports the error */
	assert_int_equal(ib_posted[0].bytes, sizeof(struct anynet_wire_frame));
}

/* The adapter writes its bytes in any order. */
static void test_a_cts_counts_when_all_of_it_is_there(void **state)
{
	const struct anynet_wire_cts number_only = { .mark = 1 };
	struct anynet_wire_cts without_check = cts_of(0, LARGE);
	struct anynet_request *req;

	(void)state;
	without_check.check ^= 1;
	ib_open_send(&pair, 1, 1);
	ib_note_posted();
	req = pair_isend(&pair, pair_out, LARGE, 0);
	put_cts(0, 0, &number_only);
	pair_idle(req);
	put_cts(0, 0, &without_check);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 0);
	cts(0, 0, LARGE);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 1);
}

/* Small messages go in the frame; but if receives are in GPU memory they are written there. */
static void test_a_small_message_is_written_where_that_is_wanted(void **state)
{
	static const uint64_t rooms[] = { 99, 100 };

	(void)state;
	ib_open_send(&pair, 1, 1);
	ib_takes_frames(ib_qp_of(pair.send, 0), false);
	ib_note_posted();
	for (uint32_t i = 0; i < 2; i++) {
		cts(0, i, rooms[i]);
		pair_send(&pair, pair_out, 100);
	}
	assert_int_equal(ib_posted_count, 2);
	assert_int_equal(ib_posted[0].opcode, IBV_WR_SEND); /* the peer reports the error */
	assert_int_equal(ib_posted[1].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(ib_posted[1].addr, PLACE + 0x10000);
}

/* … for which they wait, except for empty ones. With several tags they need a CTS. */
static void test_a_small_message_waits_for_its_cts_then(void **state)
{
	struct anynet_request *req;
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	ib_takes_frames(qp, false);
	ib_note_posted();
	pair_send(&pair, pair_out, 0);
	req = pair_isend(&pair, pair_out, 100, 0);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 1);
	cts(0, 1, 100);
	assert_true(pair_done(req, NULL) || pair_done(req, NULL));
	assert_int_equal(ib_posted_count, 2);
	assert_int_equal(ib_posted[1].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	req = pair_isend(&pair, pair_out, 100, 0);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 2);
	pair_isend(&pair, pair_out, 100, 1); /* the first one needs one now, too */
	pair_idle(req);
	assert_int_equal(ib_posted_count, 4);
	for (unsigned i = 2; i < 4; i++) {
		assert_int_equal(ib_posted[i].frame.type, ANYNET_FRAME_RTS);
		assert_int_equal(ib_posted[i].frame.seq, i);
		assert_int_equal(ib_posted[i].frame.flags, ANYNET_FLAG_MULTI);
	}
}

/* They wait until the receiver allows them in frames, too. */
static void test_a_small_message_goes_when_it_may(void **state)
{
	struct anynet_request *req;
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	ib_takes_frames(qp, false);
	ib_note_posted();
	req = pair_isend(&pair, pair_out, 100, 0);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 0);
	ib_takes_frames(qp, true);
	assert_true(pair_done(req, NULL) || pair_done(req, NULL));
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].opcode, IBV_WR_SEND);
	assert_int_equal(ib_posted[0].bytes, sizeof(struct anynet_wire_frame) + 100);
}

/* It may be larger than its receive, which then gets no CTS. */
static void test_the_oldest_message_that_waits_is_shown(void **state)
{
	struct anynet_request *req;
	struct anynet_stream *stream;
	struct stream_signs signs;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	cts(0, 0, LARGE);
	pair_idle(req);
	arrive(0);
	assert_true(pair_done(req, NULL));
	pair_idle(pair_isend(&pair, pair_out, LARGE, 0));
	ib_note_posted();
	assert_true(stream->ops->signs(stream, &signs));
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].frame.type, ANYNET_FRAME_LOOK);
	assert_int_equal(ib_posted[0].frame.seq, 1);
	assert_int_equal(ib_posted[0].frame.size, LARGE);
}

/* --- with adaptive routing an older CTS may arrive after a newer one, in the same place --- */

static void put_older_cts(void)
{
	const struct anynet_wire_cts older = cts_of(-(uint32_t)ANYNET_CTS_RING_ENTRIES, PAIR_LARGE);

	put_cts(0, 0, &older);
}

static bool
	overtaken; /* once: an older one comes before memory is looked up, which is after the CTS has been found */

__typeof__(ib_memory_on) __real_ib_memory_on, __wrap_ib_memory_on;

const struct ib_mr *__wrap_ib_memory_on(struct anynet_mr *mr, struct ib_nic *nic, char *why,
					size_t why_bytes)
{
	if (overtaken)
		put_older_cts();
	overtaken = false;
	return __real_ib_memory_on(mr, nic, why, why_bytes);
}

/* The buffer of the older one may have another message by now. */
static void test_a_message_is_written_where_the_cts_said_that_was_found(void **state)
{
	(void)state;
	ib_open_send(&pair, 1, 1);
	cts(0, 0, PAIR_LARGE);
	ib_note_posted();
	overtaken = true;
	pair_idle(pair_isend(&pair, pair_out, PAIR_LARGE, 0));
	assert_false(overtaken);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].addr, PLACE);
}

static void overwrite_after_the_first(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	(void)qp;
	if (wr->opcode == IBV_WR_RDMA_WRITE && wr->wr.rdma.remote_addr == PLACE)
		put_older_cts();
}

/* The next message that waits has a CTS of its own. */
static void test_a_message_that_is_sent_in_part_is_shown_first(void **state)
{
	struct anynet_stream *stream;
	struct stream_signs signs;
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	to_send(pair.send)->limits.frame = LARGE;
	cts(0, 0, LARGE * 2);
	stub_on_post = overwrite_after_the_first;
	req = pair_isend(&pair, pair_out, LARGE * 2, 0);
	pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	ib_note_posted();
	assert_true(stream->ops->signs(stream, &signs));
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].frame.type, ANYNET_FRAME_LOOK);
	assert_int_equal(ib_posted[0].frame.seq, 0);
	assert_int_equal(ib_posted[0].frame.size, LARGE * 2);
	ib_note_posted();
	cts(0, 0, LARGE * 2);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 2);
	assert_int_equal(ib_posted[0].addr, PLACE + LARGE);
}

/* The peer may write to the CTS ring, and not beyond: small messages are sent from memory that only this end writes. */
static void test_a_peer_does_not_write_into_the_ring(void **state)
{
	const uint8_t bytes[4] = { 1, 2, 3, 4 };
	const struct send_comm *comm;
	struct ib_qp *qp;

	(void)state;
	capture_allow_warn();
	ib_open_send(&pair, 1, 1);
	comm = (const struct send_comm *)pair.send;
	qp = ib_qp_of(pair.send, 0);
	assert_true(stub_write(qp->ibv, (uintptr_t)&qp->memory.cts_ring->consumed,
			       qp->memory.mr->rkey, bytes, 0));
	assert_false(stub_write(qp->ibv, (uintptr_t)comm->ring.memory, qp->ring->rkey, bytes,
				sizeof(bytes)));
	assert_int_equal(qp->ibv->state, IBV_QPS_ERR);
}

/* It is the slower path, and the order between two connections is not known. */
static void test_a_message_waits_for_another_streams_queue_pair(void **state)
{
	struct anynet_wire_frame frame;
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 2, 1);
	assert_true(frame_get(pair.fds[1], &frame, pair_in, sizeof(pair_in)));
	assert_int_equal(frame.type, ANYNET_FRAME_PING); /* over TCP, because it has no queue pair */
	ib_note_posted();
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 0);
	assert_false(frame_get(pair.fds[1], &frame, pair_in, sizeof(pair_in)));
	cts(0, 0, LARGE);
	pair_idle(req);
	assert_true(ib_posted_count > 0);
	assert_int_equal(ib_posted[0].opcode, IBV_WR_RDMA_WRITE);
	assert_false(frame_get(pair.fds[1], &frame, pair_in, sizeof(pair_in)));
	arrive(0);
	assert_true(pair_done(req, NULL));
}

/* Without a slot, heartbeats are READs. */
static unsigned posted_sends(void)
{
	unsigned sends = 0;

	for (unsigned i = 0; i < ib_posted_count; i++)
		sends += ib_posted[i].opcode == IBV_WR_SEND;
	return sends;
}

static void test_a_heartbeat_needs_a_slot_of_the_peers(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	ib_note_posted();
	for (int i = 0; i < 2 * IB_SLOTS; i++) {
		stream->ops->ping(stream);
		ib_complete(ib_qp_of(pair.send, 0));
	}
	assert_int_equal(posted_sends(), IB_SLOTS - 1); /* one is used by the proof */
}

/* Control frames that the sending end has consumed free its own slots, and none of the peer's. */
static void test_control_frames_free_no_slot_of_the_peers(void **state)
{
	const struct anynet_wire_frame stale = { .type = ANYNET_FRAME_CTS };
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	ib_note_posted();
	for (int i = 0; i < IB_SLOTS; i++) {
		stream->ops->ping(stream);
		ib_complete(ib_qp_of(pair.send, 0));
	}
	for (int i = 0; i < 8; i++) {
		ib_bring(ib_qp_of(pair.send, 0), &stale, NULL, 0);
		assert_int_equal(stream->ops->receive(stream), 0);
	}
	stream->ops->ping(stream);
	assert_int_equal(posted_sends(), IB_SLOTS - 1);
}

static void check_asking(uint32_t number)
{
	const struct anynet_wire_frame ask_all = { .type = ANYNET_FRAME_ASK_ALL };
	struct anynet_wire_frame go = { .type = ANYNET_FRAME_CTS, .seq = number };
	const struct anynet_wire_cts place = cts_of(number, LARGE);
	struct anynet_request *req;

	local_cfg.first_number = number;
	ib_open_send(&pair, 1, 1);
	ib_bring(ib_qp_of(pair.send, 0), &ask_all, NULL, 0);
	ib_note_posted();
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].frame.type, ANYNET_FRAME_RTS);
	ib_bring(ib_qp_of(pair.send, 0), &go, NULL, 0); /* as over TCP: it does not say where */
	pair_idle(req);
	assert_int_equal(ib_posted_count, 2);
	assert_int_equal(ib_posted[1].frame.type, ANYNET_FRAME_ASK);
	assert_int_equal(ib_posted[1].frame.seq, number);
	ib_bring(ib_qp_of(pair.send, 0), &ask_all, NULL, 0); /* it was not waiting for questions then */
	pair_idle(req);
	assert_int_equal(ib_posted_count, 3);
	assert_int_equal(ib_posted[2].frame.type, ANYNET_FRAME_ASK);
	assert_int_equal(ib_posted[2].frame.seq, number);
	go.length = sizeof(place);
	ib_bring(ib_qp_of(pair.send, 0), &go, &place, sizeof(place));
	pair_idle(req);
	assert_int_equal(ib_posted_count, 4);
	assert_int_equal(ib_posted[3].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(ib_posted[3].addr, place.addr);
	arrive(0);
	assert_true(pair_done(req, NULL));
	pair_close(&pair);
}

/* … and again after ASK_ALL: a receiver that gave CTS unasked has dropped the question. */
static void test_a_message_without_a_place_asks_for_one_once(void **state)
{
	(void)state;
	check_asking(0);
	check_asking(UINT32_MAX); /* whose mark is 0 */
}

static void test_a_cts_for_a_slot_that_cannot_be_is_refused(void **state)
{
	struct anynet_wire_frame go = { .type = ANYNET_FRAME_CTS, .slot = ANYNET_WIRE_SLOTS };
	const struct anynet_wire_cts place = cts_of(0, LARGE);

	(void)state;
	capture_allow_warn();
	ib_open_send(&pair, 1, 1);
	go.length = sizeof(place);
	ib_bring(ib_qp_of(pair.send, 0), &go, &place, sizeof(place));
	ib_turn(pair.send);
	assert_int_equal(comm_error(pair.send), -EPROTO);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, ib_comm_setup, ib_comm_teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_message_is_one_write_to_its_place),
		T(test_with_several_streams_slots_are_used_in_turn),
		T(test_pieces_go_each_to_its_own_place),
		T(test_a_message_larger_than_its_receive_is_not_written),
		T(test_a_cts_counts_when_all_of_it_is_there),
		T(test_a_small_message_is_written_where_that_is_wanted),
		T(test_a_small_message_waits_for_its_cts_then),
		T(test_a_small_message_goes_when_it_may),
		T(test_the_oldest_message_that_waits_is_shown),
		T(test_a_message_is_written_where_the_cts_said_that_was_found),
		T(test_a_message_that_is_sent_in_part_is_shown_first),
		T(test_a_peer_does_not_write_into_the_ring),
		T(test_a_message_waits_for_another_streams_queue_pair),
		T(test_a_heartbeat_needs_a_slot_of_the_peers),
		T(test_control_frames_free_no_slot_of_the_peers),
		T(test_a_message_without_a_place_asks_for_one_once),
		T(test_a_cts_for_a_slot_that_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
