/* SPDX-License-Identifier: Apache-2.0 */
/* A joined queue pair: how many requests may be posted, the proof that packets get through, and how it is left. */
#include "qp_end.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <nccl_net/util.h>

#include "transports/device/ib_events.h"

/* --- beginning anew, and leaving --- */

static void test_a_queue_pair_that_begins_anew_has_its_receives_once(void **state)
{
	(void)state;
	qp = ib_acceptor();
	assert_int_equal(qp->rq.posted, IB_SLOTS);
	assert_int_equal(ib_qp_rejoin(qp), 0);
	assert_int_equal(qp->rq.posted, IB_SLOTS);
	ib_qp_fence(qp, NULL);
	assert_int_equal(qp->rq.posted, 0);
	assert_non_null(qp->ibv); /* it was flushed */
}

static int refuse_to_modify(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	(void)ibv;
	(void)attr;
	(void)mask;
	return EIO;
}

static int refuse_rtr(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	return attr->qp_state == IBV_QPS_RTR ? EINVAL : stub->modify_qp(ibv, attr, mask);
}

/* It may still write. */
static void test_a_queue_pair_that_cannot_begin_anew_is_destroyed(void **state)
{
	(void)state;
	qp = ib_acceptor();
	verbs.modify_qp = refuse_to_modify;
	assert_int_equal(ib_qp_rejoin(qp), -EIO);
	assert_non_null(qp->ibv);
	ib_qp_fence(qp, NULL);
	assert_null(qp->ibv);
}

static void test_data_that_came_before_a_queue_pair_was_left_is_kept(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	qp = ib_acceptor();
	stub_hold_back(qp->ibv);
	for (int i = 0; i < 3; i++)
		ib_bring(qp, &ping, NULL, 0);
	assert_int_equal(ib_qp_poll(qp, NULL), 0);
	assert_null(ib_qp_inbound(qp));
	ib_qp_fence(qp, NULL);
	assert_int_equal(qp->ibv->state, IBV_QPS_ERR);
	assert_int_equal(qp->rq.posted, 0);
	assert_int_equal(qp->rq.tail - qp->rq.head, 3);
}

/* A clock that advances a millisecond with each call, and a queue pair that takes some of them for each receive. */
static bool ticking;
/* One that stands until a completion queue has been polled in vain, and is then a second later. */
static bool pausing, looked, paused;
uint64_t __real_os_now_ms(void);
uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
	static uint64_t now = 1000;

	paused |= pausing && looked;
	if (pausing)
		return paused ? now + 1000 : now;
	return ticking ? ++now : __real_os_now_ms();
}

static int (*poll_at_once)(struct ibv_cq *cq, int count, struct ibv_wc *wcs);

static int poll_slowly(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	static unsigned polls;

	return ++polls % 2000 ? 0 : poll_at_once(cq, count > 0, wcs);
}

static void test_a_queue_pair_is_left_when_its_receives_are_flushed(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	qp = ib_acceptor();
	stub_hold_back(qp->ibv);
	for (int i = 0; i < 3; i++)
		ib_bring(qp, &ping, NULL, 0);
	poll_at_once = qp->cq->context->ops.poll_cq;
	qp->cq->context->ops.poll_cq = poll_slowly;
	ticking = true;
	ib_qp_fence(qp, NULL);
	ticking = false;
	qp->cq->context->ops.poll_cq = poll_at_once;
	assert_non_null(qp->ibv);
	assert_int_equal(qp->rq.posted, 0);
	assert_int_equal(qp->rq.tail - qp->rq.head, 3);
}

/* The thread is off its processor until the time is over; meanwhile the receives are flushed. */
static int poll_behind_a_pause(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	looked = true;
	return paused ? poll_at_once(cq, count, wcs) : 0;
}

static void test_receives_that_were_flushed_during_a_pause_count(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	qp = ib_acceptor();
	stub_hold_back(qp->ibv);
	ib_bring(qp, &ping, NULL, 0);
	poll_at_once = qp->cq->context->ops.poll_cq;
	qp->cq->context->ops.poll_cq = poll_behind_a_pause;
	pausing = true;
	ib_qp_fence(qp, NULL);
	pausing = false;
	qp->cq->context->ops.poll_cq = poll_at_once;
	assert_true(paused);
	assert_non_null(qp->ibv);
	assert_int_equal(qp->rq.tail - qp->rq.head, 1);
}

/* --- the port of one that is given up --- */

static bool is_read_again(void)
{
	bool stale = ib_events_stale();

	ib_events_settle();
	return stale;
}

/* No event tells of another MTU. */
static void test_a_port_is_read_again_when_nothing_gets_through(void **state)
{
	(void)state;
	is_read_again(); /* for what the tests before have given up */
	qp = ib_connector(false);
	ib_qp_retire(qp);
	assert_true(is_read_again());
	qp = ib_connector(false);
	assert_int_equal(ib_qp_begin_proof(qp), 0);
	stub_complete(qp->ibv, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ib_qp_prove(qp), -ETIMEDOUT);
	assert_true(is_read_again());
	ib_qp_retire(qp);
	qp = ib_acceptor();
	ib_qp_end(qp, NULL);
	assert_true(is_read_again());
	ib_qp_retire(qp);
	qp = ib_connector(true);
	ib_qp_end(qp, NULL);
	ib_qp_retire(qp);
	qp = NULL;
	assert_false(is_read_again());
	ib_chores_finish();
}

/* … or if an adapter does not even take it. */
static void test_a_port_is_read_again_when_a_queue_pair_cannot_be_connected(void **state)
{
	struct anynet_wire_hello hello = ib_peer(true), answer = { .type = ANYNET_WELCOME };

	(void)state;
	is_read_again();
	verbs.modify_qp = refuse_rtr;
	assert_null(ib_qp_accept(&local_dev, &hello, &answer));
	assert_true(is_read_again());
}

/* --- limits of posting --- */

static void test_a_sender_posts_no_more_than_the_peer_has_slots(void **state)
{
	static const uint8_t frame[sizeof(struct anynet_wire_frame)];
	uint32_t taken = 5, posted = 0;

	(void)state;
	qp = ib_connector(false);
	while (ib_qp_has_room(qp, 1) && ib_qp_credits(qp)) {
		assert_int_equal(ib_qp_say(qp, frame, sizeof(frame), true), 0);
		ib_complete(qp); /* it has arrived, and was not consumed */
		posted++;
	}
	assert_int_equal(posted, IB_SLOTS);
	assert_true(stub_write(qp->ibv, (uintptr_t)&qp->memory.cts_ring->consumed,
			       qp->memory.mr->rkey, &taken, sizeof(taken)));
	assert_int_equal(ib_qp_credits(qp), taken);
}

/* The peer's reports of that may arrive out of order, and may be nonsense. */
static void test_slots_that_were_free_are_not_taken_back(void **state)
{
	static const struct {
		uint32_t taken, credits;
	} words[] = { { 5, 5 }, { 3, 0 }, { 0, 0 }, { 1000, 0 }, { UINT32_MAX, 0 }, { 7, 2 } };
	static const uint8_t frame[sizeof(struct anynet_wire_frame)];

	(void)state;
	qp = ib_connector(false);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		while (ib_qp_credits(qp)) {
			assert_int_equal(ib_qp_say(qp, frame, sizeof(frame), true), 0);
			ib_complete(qp);
		}
		assert_true(stub_write(qp->ibv, (uintptr_t)&qp->memory.cts_ring->consumed,
				       qp->memory.mr->rkey, &words[i].taken,
				       sizeof(words[i].taken)));
		assert_int_equal(ib_qp_credits(qp), words[i].credits);
	}
}

/* … which is notified of free slots when half of them are free, by a WRITE to its CTS ring. */
static void test_a_receiver_tells_of_its_slots_in_time(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	qp = ib_acceptor();
	ib_note_posted();
	for (unsigned i = 1; i <= IB_SLOTS; i++) {
		ib_bring(qp, &ping, NULL, 0);
		assert_int_equal(ib_qp_poll(qp, NULL), 0);
		assert_int_equal(ib_qp_consumed(qp), 0);
		assert_int_equal(ib_posted_count, i / (IB_SLOTS / 2));
	}
	assert_int_equal(ib_posted[1].opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(ib_posted[1].addr,
			 PEER_ADDR + offsetof(struct anynet_wire_cts_ring, consumed));
	assert_int_equal(ib_posted[1].rkey, PEER_RKEY);
}

/* As many as fit. */
static uint32_t fill_queue(void)
{
	uint32_t word = 0, posted = 0;

	while (ib_qp_has_room(qp, 1)) {
		assert_int_equal(ib_qp_write(qp, &word, sizeof(word), PEER_ADDR), 0);
		posted++;
	}
	return posted;
}

static void test_the_queue_is_never_overrun(void **state)
{
	(void)state;
	qp = ib_acceptor();
	assert_int_equal(fill_queue(), IB_SQ_WRS); /* otherwise the stub ends the program */
	stub_complete(qp->ibv, 40, IBV_WC_SUCCESS);
	assert_int_equal(ib_qp_poll(qp, NULL), 0);
	assert_int_equal(fill_queue(), 32); /* every 16th has a completion */
}

/* --- the proof that packets get through --- */

static void test_a_sender_is_sure_when_what_it_wrote_has_come_back(void **state)
{
	const enum ibv_wr_opcode steps[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND };
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	const uint64_t slots = IB_SLOTS * IB_SLOT_BYTES;

	(void)state;
	qp = ib_connector(false);
	ib_note_posted();
	assert_int_equal(ib_qp_begin_proof(qp), 0);
	ib_bring(qp, &ping, NULL, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ib_qp_prove(qp), -EAGAIN);
		assert_int_equal(qp->state, IB_QP_JOINED);
		assert_int_equal(ib_posted_count, i + 1);
		assert_int_equal(ib_posted[i].opcode, steps[i]);
		if (steps[i] != IBV_WR_SEND) { /* a packet of full size, in a place without frames */
			assert_int_equal(ib_posted[i].bytes, 4096);
			assert_int_equal(ib_posted[i].addr, PEER_ADDR + slots - 4096);
			assert_int_equal(ib_posted[i].rkey, PEER_RKEY);
		}
		ib_complete(qp);
	}
	assert_int_equal(ib_qp_prove(qp), 0);
	assert_int_equal(qp->state, IB_QP_UP);
	assert_int_equal(ib_qp_credits(qp), IB_SLOTS - 1); /* that of the PING */
}

static void test_a_port_that_returns_other_bytes_is_not_offered(void **state)
{
	char why[160];

	(void)state;
	qp = ib_connector(false);
	assert_int_equal(ib_qp_begin_proof(qp), 0);
	ib_complete(qp);
	assert_int_equal(ib_qp_prove(qp), -EAGAIN);
	qp->memory.proof[4095] ^= 1;
	ib_complete(qp);
	assert_int_equal(ib_qp_prove(qp), -EBADMSG);
	ib_qp_unproven(qp, -EBADMSG, why, sizeof(why));
	assert_string_equal(why, "a READ returns other data than was written");
}

/* Each step names itself in the error. */
static void test_a_proof_that_fails_names_the_step(void **state)
{
	static const struct {
		enum ibv_wc_status status;
		int err;
		const char *words[3];
	} ends[] = {
		{ IBV_WC_RETRY_EXC_ERR,
		  -ETIMEDOUT,
		  { "packets of 4096 bytes do not get through: no answer to a WRITE (status 12, vendor 0)",
		    "packets of 4096 bytes do not get through: no answer to a READ (status 12, vendor 0)",
		    "packets of 32 bytes do not get through: no answer to a SEND (status 12, vendor 0)" } },
		{ IBV_WC_REM_ACCESS_ERR,
		  -EREMOTEIO,
		  { "a WRITE of 4096 bytes fails: Remote I/O error (status 10, vendor 0)",
		    "a READ of 4096 bytes fails: Remote I/O error (status 10, vendor 0)",
		    "a SEND of 32 bytes fails: Remote I/O error (status 10, vendor 0)" } },
	};
	char why[160];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		for (int step = 0; step < 3; step++) {
			qp = ib_connector(false);
			assert_int_equal(ib_qp_begin_proof(qp), 0);
			for (int done = 0; done < step; done++) {
				ib_complete(qp);
				assert_int_equal(ib_qp_prove(qp), -EAGAIN);
			}
			stub_complete(qp->ibv, 1, ends[i].status);
			assert_int_equal(ib_qp_prove(qp), ends[i].err);
			ib_qp_unproven(qp, ends[i].err, why, sizeof(why));
			assert_string_equal(why, ends[i].words[step]);
			ib_qp_free(qp);
		}
	}
	qp = NULL;
}

/* If an adapter has no inline data the queue pair copies, each request to its own place. */
static void test_without_inline_data_copies_are_posted(void **state)
{
	const struct anynet_wire_frame frame = { .type = ANYNET_FRAME_PING, .seq = 7 };

	(void)state;
	nic->takes_inline = false;
	qp = ib_connector(true);
	nic->takes_inline = true;
	assert_int_equal(qp->limits.inline_bytes, 0);
	assert_int_equal(ib_qp_copy_max(qp), IB_COPY_BYTES);
	ib_note_posted();
	for (int i = 0; i < 2; i++)
		assert_int_equal(ib_qp_say(qp, &frame, sizeof(frame), true), 0);
	assert_int_equal(ib_posted[0].frame.seq, 7);
	assert_true(ib_posted[0].local != ib_posted[1].local);
	ib_complete(qp);
}

static void test_a_receiver_is_sure_when_something_comes(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	qp = ib_acceptor();
	assert_int_equal(ib_qp_poll(qp, NULL), 0);
	assert_int_equal(qp->state, IB_QP_JOINED);
	ib_bring(qp, &ping, NULL, 0);
	assert_int_equal(ib_qp_poll(qp, NULL), 0);
	assert_int_equal(qp->state, IB_QP_UP);
}

/* The errno determines what to try next: after silence, another path first. */
static void test_how_it_breaks_is_told(void **state)
{
	static const struct {
		enum ibv_wc_status status;
		int err;
	} ends[] = {
		{ IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT },   { IBV_WC_RNR_RETRY_EXC_ERR, -EBUSY },
		{ IBV_WC_REM_ACCESS_ERR, -EREMOTEIO },  { IBV_WC_REM_OP_ERR, -EREMOTEIO },
		{ IBV_WC_WR_FLUSH_ERR, -ECONNABORTED }, { IBV_WC_LOC_PROT_ERR, -EIO },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		qp = ib_connector(true);
		assert_int_equal(ib_qp_ping(qp), 0);
		stub_complete(qp->ibv, 1, ends[i].status);
		assert_int_equal(ib_qp_poll(qp, NULL), ends[i].err);
		ib_qp_free(qp);
	}
	qp = NULL;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, qp_end_setup, qp_end_teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_queue_pair_that_begins_anew_has_its_receives_once),
		T(test_a_queue_pair_that_cannot_begin_anew_is_destroyed),
		T(test_data_that_came_before_a_queue_pair_was_left_is_kept),
		T(test_a_queue_pair_is_left_when_its_receives_are_flushed),
		T(test_receives_that_were_flushed_during_a_pause_count),
		T(test_a_port_is_read_again_when_nothing_gets_through),
		T(test_a_port_is_read_again_when_a_queue_pair_cannot_be_connected),
		T(test_a_sender_posts_no_more_than_the_peer_has_slots),
		T(test_slots_that_were_free_are_not_taken_back),
		T(test_a_receiver_tells_of_its_slots_in_time),
		T(test_the_queue_is_never_overrun),
		T(test_a_sender_is_sure_when_what_it_wrote_has_come_back),
		T(test_a_port_that_returns_other_bytes_is_not_offered),
		T(test_a_proof_that_fails_names_the_step),
		T(test_without_inline_data_copies_are_posted),
		T(test_a_receiver_is_sure_when_something_comes),
		T(test_how_it_breaks_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
