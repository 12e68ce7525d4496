/* SPDX-License-Identifier: Apache-2.0 */
/* A receive comm with queue pairs: what it accepts from the peer's adapter, and what it sends to the peer. */
#include "ib_comm.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"

#define SMALL      601 /* more than a slot holds */
#define LOCAL_MBPS 10000u

static void test_a_write_is_for_the_message_that_asked(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *reqs[2];

	(void)state;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	for (int tag = 0; tag < 2; tag++)
		reqs[tag] = pair_irecv(&pair, pair_in, LARGE, tag);
	for (uint32_t seq = 0; seq < 2; seq++) {
		struct anynet_wire_frame rts = frame_data(seq, 1 - seq, ANYNET_FLAG_MULTI, 0);

		rts.type = ANYNET_FRAME_RTS;
		rts.size = LARGE;
		ib_bring(ib_qp_of(pair.recv, 0), &rts, NULL, 0);
	}
	pair_idle(reqs[0]);
	pair_idle(reqs[1]);
	for (uint32_t slot = 0; slot < 2; slot++) {
		assert_true(stub_write_imm(ib_qp_of(pair.recv, 0)->ibv, htobe32(slot << 24 | LARGE),
					   LARGE));
		assert_true(pair_done(reqs[1 - slot], NULL));
	}
}

static void test_a_frame_has_to_have_the_length_it_says(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 100);
	struct anynet_request *req;

	(void)state;
	capture_allow_warn();
	open_recv(1);
	req = pair_irecv(&pair, pair_in, 200, 0);
	ib_bring(ib_qp_of(pair.recv, 0), &frame, pair_out, 50);
	pair_fails(req, -EPROTO);
}

/* It is not known which of several messages it is. */
static void test_a_write_does_for_a_message_on_a_single_stream_only(void **state)
{
	struct anynet_request *req;

	(void)state;
	capture_allow_warn();
	open_recv(2);
	req = pair_irecv(&pair, pair_in, LARGE, 0);
	assert_true(stub_write_imm(ib_qp_of(pair.recv, 1)->ibv, htobe32(LARGE), LARGE));
	pair_fails(req, -EPROTO);
}

/* NCCL tests in any order, and messages arrive in any order over several streams. */
static void test_a_receive_is_cleared_again_though_later_ones_are_over(void **state)
{
	struct anynet_request *first, *second;

	(void)state;
	open_recv(2);
	first = pair_irecv(&pair, pair_in, LARGE, 0);
	second = pair_irecv(&pair, pair_in + LARGE, 100, 0);
	bring(1, 1, 100);
	pair_finish(&second, 1, NULL);
	pair_idle(first);
	comm_enter(pair.recv);
	recv_cts_again((struct recv_comm *)pair.recv, pair.recv->streams[0]);
	comm_leave(pair.recv);
	assert_int_equal(pair.recv->streams[0]->qp.cleared, 0);
}

/* Receives are announced in the sender's CTS ring, adjacent ones together, none beyond its end. */
static void test_cts_stay_in_the_cts_ring(void **state)
{
	const uint32_t first = ANYNET_CTS_RING_ENTRIES - 3;
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *reqs[6];
	unsigned cleared = 0;

	(void)state;
	local_cfg.first_number = first;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	ib_turn(pair.recv); /* small messages may come in frames */
	ib_note_posted();
	for (int i = 0; i < 6; i++)
		reqs[i] = pair_irecv(&pair, pair_in, sizeof(pair_in), 0);
	pair_idle(reqs[0]);
	for (unsigned i = 0; i < ib_posted_count; i++) {
		const uint64_t size = sizeof(struct anynet_wire_cts);

		assert_int_equal(ib_posted[i].opcode, IBV_WR_RDMA_WRITE);
		assert_int_equal(ib_posted[i].rkey, PEER_RKEY);
		assert_int_equal(ib_posted[i].addr,
				 PEER_ADDR + (first + cleared) % ANYNET_CTS_RING_ENTRIES * size);
		assert_true(ib_posted[i].addr + ib_posted[i].bytes <=
			    PEER_ADDR + ANYNET_CTS_RING_ENTRIES * size);
		cleared += (unsigned)(ib_posted[i].bytes / size);
	}
	assert_int_equal(cleared, 6);
	assert_true(ib_posted_count < 6);
}

/* A WRITE for each receive would cost more than it saves: it is deferred until the sender has few CTS left. */
static void test_cts_wait_for_others(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *reqs[12];
	struct ib_qp *qp;

	(void)state;
	open_recv(1);
	qp = ib_qp_of(pair.recv, 0);
	ib_bring(qp, &ping, NULL, 0);
	for (int i = 0; i < 10; i++)
		reqs[i] = pair_irecv(&pair, pair_in, LARGE, 0);
	pair_idle(reqs[0]);
	ib_note_posted();
	for (int i = 10; i < 12; i++)
		reqs[i] = pair_irecv(&pair, pair_in, LARGE, 0);
	for (uint32_t i = 0; i < 3; i++) {
		pair_idle(reqs[i]);
		assert_int_equal(ib_posted_count, 0);
		assert_true(stub_write_imm(qp->ibv, htobe32(i << 24 | LARGE), LARGE));
		assert_true(pair_done(reqs[i], NULL));
	}
	pair_idle(reqs[3]);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].addr, PEER_ADDR + 10 * sizeof(struct anynet_wire_cts));
	assert_int_equal(ib_posted[0].bytes, 2 * sizeof(struct anynet_wire_cts));
}

/* … and few means less than bandwidth x delay: 10 us of the NIC's speed. */
static void test_small_receives_are_told_while_the_way_is_not_full(void **state)
{
	const unsigned full = 10 * LOCAL_MBPS / 8 / SMALL + 1;
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *reqs[ANYNET_REQUESTS];

	(void)state;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	ib_turn(pair.recv); /* small messages may come in frames */
	ib_note_posted();
	for (unsigned i = 0; i < ANYNET_REQUESTS; i++) {
		reqs[i] = pair_irecv(&pair, pair_in, SMALL, 0);
		pair_idle(reqs[0]);
		assert_int_equal(ib_posted_count, anynet_min(i + 1, full));
	}
}

/* --- older WRITEs may arrive after newer ones, and nothing shows it here --- */

/* As at the next look of a comm that waits. */
static void look_at(struct anynet_comm *comm)
{
	struct stream_signs signs;

	comm->streams[0]->ops->signs(comm->streams[0], &signs);
}

static void test_free_slots_are_told_again_at_each_look(void **state)
{
	const uint64_t place = PEER_ADDR + offsetof(struct anynet_wire_cts_ring, consumed);
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	open_recv(1);
	ib_note_posted();
	look_at(pair.recv);
	assert_int_equal(ib_posted_count, 0); /* nothing shows yet that packets get through */
	for (unsigned i = 0; i < IB_SLOTS; i++)
		ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	ib_turn(pair.recv);
	for (unsigned i = 0; i < 2; i++) {
		ib_note_posted();
		look_at(pair.recv);
		assert_int_equal(ib_posted_count, 1);
		assert_int_equal(ib_posted[0].opcode, IBV_WR_RDMA_WRITE);
		assert_int_equal(ib_posted[0].addr, place);
		assert_int_equal(ib_qp_of(pair.recv, 0)->credits.told, IB_SLOTS);
	}
	while (ib_qp_has_room(ib_qp_of(pair.recv, 0), 1))
		look_at(pair.recv);
	look_at(pair.recv); /* otherwise the stub ends the program */
}

/* The sender shows that it waits for one. */
static void test_a_cts_that_is_waited_for_is_given_again(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING },
				 look = frame_data(1, 0, 0, 0);
	struct anynet_request *reqs[2];

	(void)state;
	look.type = ANYNET_FRAME_LOOK;
	look.size = LARGE;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	for (int i = 0; i < 2; i++)
		reqs[i] = pair_irecv(&pair, pair_in, LARGE, 0);
	pair_idle(reqs[0]);
	ib_note_posted();
	pair_idle(reqs[0]);
	assert_int_equal(ib_posted_count, 0);
	for (int i = 0; i < 2; i++) {
		ib_note_posted();
		ib_bring(ib_qp_of(pair.recv, 0), &look, NULL, 0);
		pair_idle(reqs[0]);
		assert_int_equal(ib_posted_count, 1);
		assert_int_equal(ib_posted[0].addr, PEER_ADDR + sizeof(struct anynet_wire_cts));
		assert_int_equal(ib_posted[0].bytes, sizeof(struct anynet_wire_cts));
	}
}

/* --- GPU memory, which is the host's here --- */

int __wrap_gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes, bool polled);

int __wrap_gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes, bool polled)
{
	(void)gpu;
	(void)polled;
	memcpy(to, from, bytes);
	return 0;
}

static struct anynet_request *irecv_on_gpu(void *data, size_t bytes, struct anynet_mr *mr)
{
	struct anynet_request *req;
	int tag = 0;

	assert_int_equal(anynet_irecv(pair.recv,
				      &(struct anynet_recv){ .n = 1,
							     .data = &data,
							     .bytes = &bytes,
							     .tags = &tag,
							     .mrs = (void *[]){ mr } },
				      &req),
			 0);
	assert_non_null(req);
	return req;
}

/* A comm of one stream that has heard from its peer, and memory of a GPU. */
static struct anynet_mr *open_recv_on_gpu(void)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_mr *mr;

	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	assert_int_equal(anynet_reg_mr(pair.recv, pair_in, LARGE, ANYNET_PTR_HOST, NULL, &mr), 0);
	mr->gpu = (struct gpu *)(uintptr_t)1; /* nobody looks into it */
	return mr;
}

/* Was it written since ib_note_posted()? */
static bool frames_told(void)
{
	for (unsigned i = 0; i < ib_posted_count; i++)
		if (ib_posted[i].addr ==
		    PEER_ADDR + offsetof(struct anynet_wire_cts_ring, frames))
			return true;
	return false;
}

/* It was posted before the first one in GPU memory, so it has no CTS yet. */
static void test_a_small_receive_is_cleared_once_nothing_comes_in_frames(void **state)
{
	struct anynet_mr *mr = open_recv_on_gpu();
	struct anynet_request *req;

	(void)state;
	req = pair_irecv(&pair, pair_in, 100, 0);
	pair_idle(req);
	ib_note_posted();
	irecv_on_gpu(pair_in, 100, mr);
	pair_idle(req);
	assert_true(frames_told());
	assert_int_equal(ib_posted[ib_posted_count - 1].addr, PEER_ADDR);
	assert_int_equal(ib_posted[ib_posted_count - 1].bytes, 2 * sizeof(struct anynet_wire_cts));
	anynet_dereg_mr(pair.recv, mr);
}

/* The 1 that was written before may have arrived after the 0. */
static void test_a_sender_that_believes_in_frames_is_told_again(void **state)
{
	struct anynet_mr *mr = open_recv_on_gpu();
	struct anynet_request *req;

	(void)state;
	ib_turn(pair.recv); /* small messages may come in frames */
	for (uint32_t seq = 0; seq < 2; seq++) {
		ib_note_posted();
		req = irecv_on_gpu(pair_in, 100, mr);
		pair_idle(req);
		assert_true(frames_told());
		bring(0, seq, 100);
		assert_true(pair_done(req, NULL));
	}
	anynet_dereg_mr(pair.recv, mr);
}

static void test_bye_tells_what_has_arrived(void **state)
{
	struct anynet_request *req;

	(void)state;
	open_recv(1);
	req = pair_irecv(&pair, pair_in, 100, 0);
	bring(0, 0, 100);
	pair_finish(&req, 1, NULL);
	ib_note_posted();
	comm_enter(pair.recv);
	recv_bye(pair.recv);
	comm_transmit(pair.recv);
	comm_leave(pair.recv);
	assert_true(ib_posted_count > 0);
	assert_int_equal(ib_posted[ib_posted_count - 1].frame.type, ANYNET_FRAME_BYE);
	assert_int_equal(ib_posted[ib_posted_count - 1].frame.offset, 1);
}

static void test_nothing_is_written_when_a_comm_is_closed(void **state)
{
	const struct ibv_qp *qp;

	(void)state;
	open_recv(1);
	qp = ib_qp_of(pair.recv, 0)->ibv;
	pair_close(&pair);
	assert_int_equal(qp->state, IBV_QPS_ERR);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, ib_comm_setup, ib_comm_teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_write_is_for_the_message_that_asked),
		T(test_a_frame_has_to_have_the_length_it_says),
		T(test_a_write_does_for_a_message_on_a_single_stream_only),
		T(test_a_receive_is_cleared_again_though_later_ones_are_over),
		T(test_cts_stay_in_the_cts_ring),
		T(test_cts_wait_for_others),
		T(test_small_receives_are_told_while_the_way_is_not_full),
		T(test_free_slots_are_told_again_at_each_look),
		T(test_a_cts_that_is_waited_for_is_given_again),
		T(test_a_small_receive_is_cleared_once_nothing_comes_in_frames),
		T(test_a_sender_that_believes_in_frames_is_told_again),
		T(test_bye_tells_what_has_arrived),
		T(test_nothing_is_written_when_a_comm_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
