/* SPDX-License-Identifier: Apache-2.0 */
/* A send comm with queue pairs: what it posts and when, and when that is done. The test is its peer. */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/message/send_internal.h"
#include "transports/session/pairs.h"
#include "unit/ib_ends.h"

#define LARGE     4096
#define PLACE     0x500000000000u /* CTS of message number 0 from the receiver; the others follow */
#define PLACE_KEY 0x55

static struct pair pair;
static uint64_t now_us;

uint64_t __wrap_os_now_us(void);
uint64_t __wrap_os_now_us(void)
{
	return now_us;
}

static int setup(void **state)
{
	pair_setup(state);
	ib_ends_start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stub_on_post = NULL;
	pair_close(&pair);
	ib_chores_finish();
	capture_check();
	assert_int_equal(stub_objects(), 0);
	return 0;
}

/* Everything posted there is done; the comm has not polled yet. */
static void arrive(unsigned stream)
{
	stub_complete(ib_qp_of(pair.send, stream)->ibv, IB_SQ_WRS, IBV_WC_SUCCESS);
}

static struct anynet_wire_cts cts_of(uint32_t seq, uint64_t bytes)
{
	struct anynet_wire_cts cts = {
		.addr = PLACE + (uint64_t)seq * 0x10000,
		.size = bytes,
		.rkey = PLACE_KEY,
		.seq = seq,
		.mark = seq + 1,
	};

	cts.check = ib_cts_check(&cts);
	return cts;
}

/* The peer writes this to the CTS ring, for message `seq`. */
static void put_cts(unsigned stream, uint32_t seq, const struct anynet_wire_cts *place)
{
	struct ib_qp *qp = ib_qp_of(pair.send, stream);

	assert_true(stub_write(qp->ibv,
			       (uintptr_t)&qp->memory.cts_ring->cts[seq % ANYNET_CTS_RING_ENTRIES],
			       qp->memory.mr->rkey, place, sizeof(*place)));
}

static void cts(unsigned stream, uint32_t seq, uint64_t bytes)
{
	const struct anynet_wire_cts place = cts_of(seq, bytes);

	put_cts(stream, seq, &place);
}

/* A stream that has moved to another NIC, which cannot register the memory, is not dialled there for a queue pair. */
static void test_a_nic_that_cannot_register_the_memory_is_left(void **state)
{
	struct anynet_wire_pair pairs[PAIRS_MAX];
	struct anynet_device other = local_dev;
	struct comm_paths *paths;

	(void)state;
	ib_open_send(&pair, 1, 1);
	paths = &pair.send->session->paths;
	paths->own_count = paths->peer_count = 1;
	paths->own[0] = &local_dev;
	paths->own_addrs[0].family = paths->peer[0].family = 4;
	paths->peer[0].port = 1;
	assert_int_equal(pairs_list(pair.send, pair.send->streams[0], PAIRS_HOME, pairs), 1);
	other.index++;
	pair.send->dev = &other;
	ib_leave_nic(ib_stream_of(pair.send, 0), "of a test");
	pair.send->dev = &local_dev;
	assert_false(pair.send->tcp_only);
	assert_true(comm_may_use_nic(pair.send, &other));
	assert_int_equal(pairs_list(pair.send, pair.send->streams[0], PAIRS_HOME, pairs), 0);
}

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

/* The statistics of the stream at this time of the clock. */
static struct stream_signs signs_at(uint64_t us)
{
	struct stream_signs signs;

	now_us = us;
	assert_true(pair.send->streams[0]->ops->signs(pair.send->streams[0], &signs));
	return signs;
}

/* Its speed: the bytes that arrived, and the time in which they were in flight. A small frame that the adapter has not
 * reported is not in flight for long. */
static void test_the_time_of_large_frames_is_known(void **state)
{
	struct anynet_request *first, *second;
	struct stream_signs signs;

	(void)state;
	now_us = 1000;
	ib_open_send(&pair, 1, 1);
	pair_send(&pair, pair_out, 100);
	arrive(0);
	signs = signs_at(2000);
	assert_true(!signs.qp.acked && !signs.qp.busy_us && !signs.qp.rtt_us);
	cts(0, 1, LARGE);
	cts(0, 2, LARGE);
	first = pair_isend(&pair, pair_out, LARGE, 0);
	now_us = 2300;
	second = pair_isend(&pair, pair_out, LARGE, 0);
	signs = signs_at(2400);
	assert_true(!signs.qp.acked && signs.qp.busy_us == 400);
	now_us = 2500;
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
	assert_true(pair_done(first, NULL));
	signs = signs_at(2700);
	assert_int_equal(signs.qp.acked, LARGE);
	assert_int_equal(signs.qp.busy_us, 700);
	assert_int_equal(signs.qp.rtt_us, 500);
	now_us = 3000;
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
	assert_true(pair_done(second, NULL));
	pair_send(&pair, pair_out, 100);
	signs = signs_at(9000);
	assert_int_equal(signs.qp.acked, 2 * LARGE);
	assert_int_equal(signs.qp.busy_us, 1000);
	assert_int_equal(signs.qp.rtt_us, 500); /* the second was posted while the first was timed */
	cts(0, 4, LARGE);
	first = pair_isend(&pair, pair_out, LARGE, 0);
	now_us = 9000 + 1300;
	arrive(0);
	assert_true(pair_done(first, NULL));
	assert_int_equal(signs_at(20000).qp.rtt_us, (7 * 500 + 1300) / 8);
	assert_int_equal(signs_at(20000).qp.busy_us, 2300);
}

static void test_the_tcp_connection_tells_that_the_peer_is_gone(void **state)
{
	struct anynet_stream *stream;
	struct stream_signs signs;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	assert_true(stream->ops->signs(stream, &signs));
	assert_false(stream->path.ended);
	pair_hang_up(&pair, 0);
	assert_true(stream->ops->signs(stream, &signs));
	assert_true(stream->path.ended);
}

/* The adapter has not heard so: its last acknowledgements were lost, and the receiver's queue pair ends. */
static void tell_by_bye(void)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE };
	struct anynet_request *req;

	ib_open_send(&pair, 1, 1);
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	cts(0, 0, LARGE);
	pair_idle(req);
	bye.offset = pair.send->streams[0]->log.next;
	ib_bring(ib_qp_of(pair.send, 0), &bye, NULL, 0);
	pair_finish(&req, 1, NULL);
}

static void test_bye_tells_what_has_arrived(void **state)
{
	(void)state;
	tell_by_bye();
}

/* The fence then destroys it. */
static void test_a_queue_pair_that_does_not_flush_is_not_used_after_bye(void **state)
{
	(void)state;
	stub_never_flushes = true;
	tell_by_bye();
	stub_never_flushes = false;
}

/* Memory may be deregistered then. The queue pair itself is destroyed later. */
static void test_nothing_is_written_when_a_comm_is_closed(void **state)
{
	const struct ibv_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0)->ibv;
	pair_close(&pair);
	assert_int_equal(qp->state, IBV_QPS_ERR);
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
	assert_false(stub_write(qp->ibv, (uintptr_t)comm->ring.memory, qp->ring.mr->rkey, bytes,
				sizeof(bytes)));
	assert_int_equal(qp->ibv->state, IBV_QPS_ERR);
}

static void test_only_what_has_arrived_is_done(void **state)
{
	struct anynet_request *reqs[3];
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	for (uint32_t i = 0; i < 3; i++) {
		cts(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	for (int i = 0; i < 3; i++) {
		stub_complete(qp->ibv, 1, IBV_WC_SUCCESS);
		assert_true(pair_done(reqs[i], NULL));
		if (i < 2)
			pair_idle(reqs[i + 1]);
	}
}

/* The receiver acknowledges what came by several paths, before this end's adapter completes it. A message before it gets
 * no acknowledgement: only the completion tells that it has arrived. */
static void test_frames_stay_in_the_log_until_they_complete(void **state)
{
	enum {
		FIRST = STREAM_LOG_FRAMES - 1 /* then the log is full with one more */
	};
	uint8_t bits[ANYNET_ACK_BYTES] = { 0 };
	const struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = sizeof(bits) };
	const struct stream_log *log;
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	log = &pair.send->streams[0]->log;
	for (unsigned i = 0; i < FIRST; i++) {
		uint32_t consumed = qp->credits.posted;

		pair_send(&pair, pair_out, 8);
		assert_true(stub_write(qp->ibv, (uintptr_t)&qp->memory.cts_ring->consumed,
				       qp->memory.mr->rkey, &consumed, sizeof(consumed)));
		bits[i / 8] |= (uint8_t)(i ? 1u << i % 8 : 0);
	}
	ib_bring(qp, &ack, bits, sizeof(bits));
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 1);
	for (int i = 0; i < 3; i++) /* two in the places of the first frames, if those were dropped */
		pair_send(&pair, pair_out, 8);
	stub_complete(qp->ibv, FIRST, IBV_WC_SUCCESS);
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 3);
	assert_int_equal(ib_stream_of(pair.send, 0)->use.bytes_out,
			 (log->next - log->arrived) * (sizeof(struct anynet_wire_frame) + 8));
}

/* A heartbeat is always signalled, a small message is not. */
static void test_a_heartbeat_confirms_the_frames_before_it(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	for (int i = 0; i < 2; i++)
		pair_send(&pair, pair_out, 8);
	stream->ops->ping(stream);
	assert_int_equal(to_send(pair.send)->unconfirmed, 2);
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 3, IBV_WC_SUCCESS);
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 0);
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
	assert_int_equal(ib_posted_count, IB_SLOTS - 1); /* one is used by the proof */
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
	assert_int_equal(ib_posted_count, IB_SLOTS - 1);
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

static void test_a_closed_comm_waits_until_its_bye_is_through(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	send_bye(pair.send);
	assert_int_equal(stream->ops->drain(stream), -EAGAIN);
	ib_note_posted();
	assert_int_equal(comm_transmit(pair.send), 0);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].frame.type, ANYNET_FRAME_BYE);
	assert_int_equal(stream->ops->drain(stream), -EAGAIN);
	arrive(0);
	assert_int_equal(stream->ops->drain(stream), 0);
}

/* A broken queue pair did not report everything that it has delivered; the receiver does. */
static void test_what_the_receiver_has_is_done(void **state)
{
	struct anynet_request *reqs[2];
	struct anynet_stream *stream;
	int fds[2];

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	for (uint32_t i = 0; i < 2; i++) {
		cts(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	comm_enter(pair.send);
	comm_sever(pair.send, stream, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	comm_stream_back(pair.send, stream, fds[0], 1, stream->home,
			 (struct stream_position){ 1, 0 });
	comm_leave(pair.send);
	pair_hang_up(&pair, 0);
	pair.fds[0] = fds[1];
	assert_true(pair_done(reqs[0], NULL));
	pair_idle(reqs[1]); /* uses TCP now */
	pair_expect(&pair, 0, ANYNET_FRAME_PING, 0);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_message_is_one_write_to_its_place),
		T(test_with_several_streams_slots_are_used_in_turn),
		T(test_a_nic_that_cannot_register_the_memory_is_left),
		T(test_pieces_go_each_to_its_own_place),
		T(test_a_message_larger_than_its_receive_is_not_written),
		T(test_a_cts_counts_when_all_of_it_is_there),
		T(test_a_small_message_is_written_where_that_is_wanted),
		T(test_a_small_message_waits_for_its_cts_then),
		T(test_a_small_message_goes_when_it_may),
		T(test_the_oldest_message_that_waits_is_shown),
		T(test_the_time_of_large_frames_is_known),
		T(test_the_tcp_connection_tells_that_the_peer_is_gone),
		T(test_bye_tells_what_has_arrived),
		T(test_a_queue_pair_that_does_not_flush_is_not_used_after_bye),
		T(test_nothing_is_written_when_a_comm_is_closed),
		T(test_a_peer_does_not_write_into_the_ring),
		T(test_only_what_has_arrived_is_done),
		T(test_frames_stay_in_the_log_until_they_complete),
		T(test_a_message_waits_for_another_streams_queue_pair),
		T(test_a_heartbeat_confirms_the_frames_before_it),
		T(test_a_heartbeat_needs_a_slot_of_the_peers),
		T(test_control_frames_free_no_slot_of_the_peers),
		T(test_a_message_without_a_place_asks_for_one_once),
		T(test_a_cts_for_a_slot_that_cannot_be_is_refused),
		T(test_a_closed_comm_waits_until_its_bye_is_through),
		T(test_what_the_receiver_has_is_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
