/* SPDX-License-Identifier: Apache-2.0 */
/* A rail with a queue pair: what it posts and when, and what it takes of what the peer's adapter brings. */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ib_ends.h"
#include "support/capture.h"
#include "transports/common/recv_internal.h"
#include "transports/common/send_internal.h"

#define LARGE      4096
#define PLACE      0x500000000000u /* of message number 0, as the receiver says; the others follow */
#define PLACE_KEY  0x55
#define POSTED_MAX 64

/* What was posted since note_posted(). */
struct posted {
	enum ibv_wr_opcode opcode;
	struct anynet_wire_frame frame; /* of a SEND */
	uint64_t addr;
	uint32_t rkey, imm, bytes;
};

static struct posted posted[POSTED_MAX];
static unsigned posted_count;
static struct pair pair;

static void on_post(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	struct posted *next = &posted[posted_count];

	(void)qp;
	if (posted_count++ >= POSTED_MAX)
		return;
	*next = (struct posted){
		.opcode = wr->opcode,
		.addr = wr->wr.rdma.remote_addr,
		.rkey = wr->wr.rdma.rkey,
		.imm = wr->imm_data,
		.bytes = wr->sg_list->length,
	};
	if (wr->opcode == IBV_WR_SEND)
		memcpy(&next->frame, (void *)(uintptr_t)wr->sg_list->addr, sizeof(next->frame));
}

static void note_posted(void)
{
	posted_count = 0;
	stub_on_post = on_post;
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

/* The link that carries that rail's frames. */
static struct ib_link *link_of(const struct anynet_comm *comm, unsigned rail)
{
	assert_non_null(ib_rail_of(comm, rail)->link);
	return ib_rail_of(comm, rail)->link;
}

/* All that is posted there is done; the comm has yet to hear of it. */
static void arrive(unsigned rail)
{
	stub_complete(link_of(pair.send, rail)->qp, IB_SQ_WRS, IBV_WC_SUCCESS);
}

/* --- a send comm: its peer is the test --- */

static struct anynet_wire_grant grant_of(uint32_t seq, uint64_t bytes)
{
	struct anynet_wire_grant grant = {
		.addr = PLACE + (uint64_t)seq * 0x10000,
		.size = bytes,
		.rkey = PLACE_KEY,
		.seq = seq,
		.mark = seq + 1,
	};

	grant.check = ib_grant_check(&grant);
	return grant;
}

/* The peer writes to the board that message `seq` may come. */
static void grant(unsigned rail, uint32_t seq, uint64_t bytes)
{
	const struct anynet_wire_grant place = grant_of(seq, bytes);
	struct ib_link *link = link_of(pair.send, rail);

	assert_true(stub_write(link->qp, (uintptr_t)&link->board->grants[seq % ANYNET_BOARD_GRANTS],
			       link->mr->rkey, &place, sizeof(place)));
}

static void test_a_message_is_one_write_to_its_place(void **state)
{
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 1, 1);
	pair_send(&pair, pair_out, 8); /* another slot */
	grant(0, 1, LARGE + 1);
	note_posted();
	req = pair_isend(&pair, pair_out, LARGE, 0);
	assert_int_equal(posted_count, 1);
	assert_int_equal(posted[0].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(posted[0].addr, PLACE + 0x10000);
	assert_int_equal(posted[0].rkey, PLACE_KEY);
	assert_int_equal(posted[0].bytes, LARGE);
	assert_int_equal(be32toh(posted[0].imm), 1 << 24 | LARGE);
	pair_idle(req);
	arrive(0);
	assert_true(pair_done(req, NULL));
}

static void test_pieces_go_each_to_its_own_place(void **state)
{
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 2, 2);
	local_cfg.ib_split = true;
	grant(0, 0, LOCAL_CHUNK_BYTES * 2);
	grant(1, 0, LOCAL_CHUNK_BYTES * 2);
	note_posted();
	req = pair_isend(&pair, pair_out, LOCAL_CHUNK_BYTES * 2, 0);
	pair_idle(req);
	assert_int_equal(posted_count, 4);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(posted[2 * i].opcode, IBV_WR_RDMA_WRITE);
		assert_int_equal(posted[2 * i].addr, PLACE + i * LOCAL_CHUNK_BYTES);
		assert_int_equal(posted[2 * i].bytes, LOCAL_CHUNK_BYTES);
		assert_int_equal(posted[2 * i + 1].frame.type, ANYNET_FRAME_DATA);
		assert_int_equal(posted[2 * i + 1].frame.offset, i * LOCAL_CHUNK_BYTES);
		assert_int_equal(posted[2 * i + 1].frame.length, LOCAL_CHUNK_BYTES);
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
	grant(0, 0, LARGE - 1);
	note_posted();
	pair_idle(pair_isend(&pair, pair_out, LARGE, 0));
	assert_int_equal(posted_count, 1);
	assert_int_equal(posted[0].opcode, IBV_WR_SEND); /* the peer says what is wrong */
	assert_int_equal(posted[0].bytes, sizeof(struct anynet_wire_frame));
}

static void test_only_what_has_arrived_is_done(void **state)
{
	struct anynet_request *reqs[3];
	struct ib_link *link;

	(void)state;
	ib_open_send(&pair, 1, 1);
	link = link_of(pair.send, 0);
	for (uint32_t i = 0; i < 3; i++) {
		grant(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	for (int i = 0; i < 3; i++) {
		stub_complete(link->qp, 1, IBV_WC_SUCCESS);
		assert_true(pair_done(reqs[i], NULL));
		if (i < 2)
			pair_idle(reqs[i + 1]);
	}
}

/* It is the slower way, and between two connections nobody knows which is first. */
static void test_a_message_waits_for_another_rails_queue_pair(void **state)
{
	struct anynet_wire_frame frame;
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 2, 1);
	assert_true(frame_get(pair.fds[1], &frame, pair_in, sizeof(pair_in)));
	assert_int_equal(frame.type, ANYNET_FRAME_PING); /* by TCP, as it has none */
	note_posted();
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	assert_int_equal(posted_count, 0);
	assert_false(frame_get(pair.fds[1], &frame, pair_in, sizeof(pair_in)));
	grant(0, 0, LARGE);
	pair_idle(req);
	assert_true(posted_count > 0);
	assert_int_equal(posted[0].opcode, IBV_WR_RDMA_WRITE);
	assert_false(frame_get(pair.fds[1], &frame, pair_in, sizeof(pair_in)));
	arrive(0);
	assert_true(pair_done(req, NULL));
}

static void test_a_heartbeat_needs_a_slot_of_the_peers(void **state)
{
	struct anynet_rail *rail;

	(void)state;
	ib_open_send(&pair, 1, 1);
	rail = pair.send->rails[0];
	note_posted();
	for (int i = 0; i < 2 * IB_SLOTS; i++) {
		rail->ops->ping(rail);
		ib_complete(link_of(pair.send, 0));
	}
	assert_int_equal(posted_count, IB_SLOTS - 1); /* one took the proof */
}

static void test_a_message_without_a_place_asks_for_one_once(void **state)
{
	const struct anynet_wire_frame ask_all = { .type = ANYNET_FRAME_ASK_ALL };
	struct anynet_wire_frame go = { .type = ANYNET_FRAME_GRANT };
	const struct anynet_wire_grant place = grant_of(0, LARGE);
	struct anynet_request *req;

	(void)state;
	ib_open_send(&pair, 1, 1);
	ib_bring(link_of(pair.send, 0), &ask_all, NULL, 0);
	note_posted();
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	assert_int_equal(posted_count, 1);
	assert_int_equal(posted[0].frame.type, ANYNET_FRAME_RTS);
	ib_bring(link_of(pair.send, 0), &go, NULL, 0); /* as over TCP: it does not say where */
	pair_idle(req);
	assert_int_equal(posted_count, 2);
	assert_int_equal(posted[1].frame.type, ANYNET_FRAME_ASK);
	assert_int_equal(posted[1].frame.seq, 0);
	go.length = sizeof(place);
	ib_bring(link_of(pair.send, 0), &go, &place, sizeof(place));
	pair_idle(req);
	assert_int_equal(posted_count, 3);
	assert_int_equal(posted[2].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(posted[2].addr, PLACE);
	arrive(0);
	assert_true(pair_done(req, NULL));
}

static void test_a_grant_for_a_slot_that_cannot_be_is_refused(void **state)
{
	struct anynet_wire_frame go = { .type = ANYNET_FRAME_GRANT, .slot = ANYNET_WIRE_SLOTS };
	const struct anynet_wire_grant place = grant_of(0, LARGE);

	(void)state;
	capture_allow_warn();
	ib_open_send(&pair, 1, 1);
	go.length = sizeof(place);
	ib_bring(link_of(pair.send, 0), &go, &place, sizeof(place));
	ib_turn(pair.send);
	assert_int_equal(comm_error(pair.send), -EPROTO);
}

static void test_a_closed_comm_waits_until_its_bye_is_through(void **state)
{
	struct anynet_rail *rail;

	(void)state;
	ib_open_send(&pair, 1, 1);
	rail = pair.send->rails[0];
	send_bye(pair.send);
	assert_int_equal(rail->ops->linger(rail), -EAGAIN);
	note_posted();
	assert_int_equal(comm_transmit(pair.send), 0);
	assert_int_equal(posted_count, 1);
	assert_int_equal(posted[0].frame.type, ANYNET_FRAME_BYE);
	assert_int_equal(rail->ops->linger(rail), -EAGAIN);
	arrive(0);
	assert_int_equal(rail->ops->linger(rail), 0);
}

/* A queue pair that broke did not tell of all that it has brought; the receiver does. */
static void test_what_the_receiver_has_is_done(void **state)
{
	struct anynet_request *reqs[2];
	struct anynet_rail *rail;
	int fds[2];

	(void)state;
	ib_open_send(&pair, 1, 1);
	rail = pair.send->rails[0];
	for (uint32_t i = 0; i < 2; i++) {
		grant(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	comm_enter(pair.send);
	comm_sever(pair.send, rail, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	comm_rail_back(pair.send, rail, fds[0], 1, rail->home, 1, 0);
	comm_leave(pair.send);
	pair_hang_up(&pair, 0);
	pair.fds[0] = fds[1];
	assert_true(pair_done(reqs[0], NULL));
	pair_idle(reqs[1]); /* goes by TCP now */
	pair_expect(&pair, 0, ANYNET_FRAME_PING, 0);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 1);
}

/* --- a receive comm --- */

static void open_recv(unsigned rails)
{
	ib_open_recv(&pair, rails, rails);
}

static void bring(unsigned rail, uint32_t seq, uint32_t bytes)
{
	const struct anynet_wire_frame frame = frame_data(seq, 0, 0, bytes);

	ib_bring(link_of(pair.recv, rail), &frame, pair_out, bytes);
}

static void test_a_frame_has_to_have_the_length_it_says(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 100);
	struct anynet_request *req;

	(void)state;
	capture_allow_warn();
	open_recv(1);
	req = pair_irecv(&pair, pair_in, 200, 0);
	ib_bring(link_of(pair.recv, 0), &frame, pair_out, 50);
	pair_fails(req, -EPROTO);
}

/* Which of several messages it is would be anybody's guess. */
static void test_a_write_does_for_a_message_on_a_single_rail_only(void **state)
{
	struct anynet_request *req;

	(void)state;
	capture_allow_warn();
	open_recv(2);
	req = pair_irecv(&pair, pair_in, LARGE, 0);
	assert_true(stub_write_imm(link_of(pair.recv, 1)->qp, htobe32(LARGE), LARGE));
	pair_fails(req, -EPROTO);
}

static void position(uint64_t expected)
{
	struct anynet_rail *rail = pair.recv->rails[0];
	uint64_t frames = UINT64_MAX;
	uint32_t part;

	rail->ops->position(rail, &frames, &part);
	assert_int_equal(frames, expected);
}

static void test_what_a_queue_pair_had_brought_when_it_broke_counts(void **state)
{
	struct anynet_wire_frame ask = frame_data(0, 0, 0, 0), look = ask,
				 ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *req;
	struct ib_link *link;

	(void)state;
	ask.type = ANYNET_FRAME_ASK;
	look.type = ANYNET_FRAME_LOOK;
	open_recv(1);
	link = link_of(pair.recv, 0);
	req = pair_irecv(&pair, pair_in, 100, 0);
	ib_bring(link, &ping, NULL, 0);
	bring(0, 0, 100);
	pair_finish(&req, 1, NULL);
	position(1);
	for (uint32_t i = 1; i <= 2; i++)
		bring(0, i, 100); /* nobody has posted a receive for those */
	ib_bring(link, &ping, NULL, 0);
	ib_bring(link, &ask, NULL, 0);
	ib_bring(link, &look, NULL, 0);
	comm_enter(pair.recv);
	comm_sever(pair.recv, pair.recv->rails[0], 0);
	comm_leave(pair.recv);
	position(3);
	for (int i = 0; i < 2; i++) {
		req = pair_irecv(&pair, pair_in, 100, 0);
		comm_enter(pair.recv);
		pair.recv->rails[0]->ops->receive(pair.recv->rails[0]);
		comm_leave(pair.recv);
		assert_true(pair_done(req, NULL));
		assert_memory_equal(pair_in, pair_out, 100);
	}
	position(3);
}

/* Receives are told on the sender's board, neighbours together, and none beyond its end. */
static void test_grants_stay_on_the_board(void **state)
{
	const uint32_t first = ANYNET_BOARD_GRANTS - 3;
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *reqs[6];
	unsigned granted = 0;

	(void)state;
	local_cfg.first_number = first;
	open_recv(1);
	ib_bring(link_of(pair.recv, 0), &ping, NULL, 0);
	note_posted();
	for (int i = 0; i < 6; i++)
		reqs[i] = pair_irecv(&pair, pair_in, sizeof(pair_in), 0);
	pair_idle(reqs[0]);
	for (unsigned i = 0; i < posted_count; i++) {
		const uint64_t size = sizeof(struct anynet_wire_grant);

		assert_int_equal(posted[i].opcode, IBV_WR_RDMA_WRITE);
		assert_int_equal(posted[i].rkey, PEER_RKEY);
		assert_int_equal(posted[i].addr,
				 PEER_ADDR + (first + granted) % ANYNET_BOARD_GRANTS * size);
		assert_true(posted[i].addr + posted[i].bytes <=
			    PEER_ADDR + ANYNET_BOARD_GRANTS * size);
		granted += posted[i].bytes / size;
	}
	assert_int_equal(granted, 6);
	assert_true(posted_count < 6);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_message_is_one_write_to_its_place),
		T(test_pieces_go_each_to_its_own_place),
		T(test_a_message_larger_than_its_receive_is_not_written),
		T(test_only_what_has_arrived_is_done),
		T(test_a_message_waits_for_another_rails_queue_pair),
		T(test_a_heartbeat_needs_a_slot_of_the_peers),
		T(test_a_message_without_a_place_asks_for_one_once),
		T(test_a_grant_for_a_slot_that_cannot_be_is_refused),
		T(test_a_closed_comm_waits_until_its_bye_is_through),
		T(test_what_the_receiver_has_is_done),
		T(test_a_frame_has_to_have_the_length_it_says),
		T(test_a_write_does_for_a_message_on_a_single_rail_only),
		T(test_what_a_queue_pair_had_brought_when_it_broke_counts),
		T(test_grants_stay_on_the_board),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
