/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a queue pair: what leads from one to the next, and what each allows. */
#include "rig.h"

#include <errno.h>

static const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
static const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
static const int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

static struct ibv_qp *new_qp(struct end *end)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC
	};

	end->qp = rig.verbs.create_qp(end->pd, &attr);
	assert_non_null(end->qp);
	assert_int_equal(end->qp->state, IBV_QPS_RESET);
	return end->qp;
}

static struct ibv_qp_attr good(const struct end *end, const struct end *peer,
			       enum ibv_qp_state state)
{
	return (struct ibv_qp_attr){
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = end->port.active_mtu,
		.dest_qp_num = peer->qp ? peer->qp->qp_num : 17,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 3,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid,
				      .sgid_index = (uint8_t)end->gid_index,
				      .hop_limit = 64 } },
	};
}

/* Nothing that the step needs may be missing, and nothing else be there. */
static void needs_all_of(const struct ends *ends, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = good(&ends->a, &ends->b, to);
	enum ibv_qp_state before = qp_state(&ends->a);

	for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (mask & bit)
			assert_int_equal(rig.verbs.modify_qp(ends->a.qp, &attr, mask & ~bit),
					 EINVAL);
	assert_int_equal(rig.verbs.modify_qp(ends->a.qp, &attr, mask | IBV_QP_QKEY), EINVAL);
	assert_int_equal(qp_state(&ends->a), before);
	assert_int_equal(rig.verbs.modify_qp(ends->a.qp, &attr, mask), 0);
	assert_int_equal(qp_state(&ends->a), to);
	assert_int_equal(ends->a.qp->state, to);
}

static void test_each_step_needs_its_attributes(void **state)
{
	struct ends *ends = *state;

	new_qp(&ends->a);
	new_qp(&ends->b);
	needs_all_of(ends, IBV_QPS_INIT, init_mask);
	needs_all_of(ends, IBV_QPS_RTR, rtr_mask);
	needs_all_of(ends, IBV_QPS_RTS, rts_mask);
}

static void test_no_step_is_left_out(void **state)
{
	struct ends *ends = *state;
	struct ibv_qp_attr attr = good(&ends->a, &ends->b, IBV_QPS_RTR);
	struct ibv_qp *qp = new_qp(&ends->a);

	assert_int_equal(rig.verbs.modify_qp(qp, &attr, rtr_mask), EINVAL);
	assert_int_equal(qp_to_init(qp, 0), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rig.verbs.modify_qp(qp, &attr, rts_mask), EINVAL);
	attr.qp_state = IBV_QPS_INIT; /* again is no step */
	assert_int_equal(rig.verbs.modify_qp(qp, &attr, init_mask), 0);
	assert_int_equal(qp_to_err(qp), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rig.verbs.modify_qp(qp, &attr, rtr_mask), EINVAL);
}

static void refused_to_rtr(const struct end *end, struct ibv_qp_attr attr)
{
	assert_int_not_equal(rig.verbs.modify_qp(end->qp, &attr, rtr_mask), 0);
	assert_int_equal(qp_state(end), IBV_QPS_INIT);
}

static void test_values_are_checked(void **state)
{
	struct ends *ends = *state;
	struct ibv_qp_attr attr = good(&ends->a, &ends->b, IBV_QPS_INIT), wrong;

	new_qp(&ends->a);
	attr.port_num = 9;
	assert_int_not_equal(rig.verbs.modify_qp(ends->a.qp, &attr, init_mask), 0);
	attr.port_num = 1;
	attr.pkey_index = 500;
	if (rig.traits->checks_pkey)
		assert_int_not_equal(rig.verbs.modify_qp(ends->a.qp, &attr, init_mask), 0);
	assert_int_equal(qp_to_init(ends->a.qp, 0), 0);
	attr = good(&ends->a, &ends->b, IBV_QPS_RTR);
	wrong = attr;
	wrong.ah_attr.grh.sgid_index = 15; /* empty */
	refused_to_rtr(&ends->a, wrong);
	wrong = attr;
	wrong.ah_attr.is_global = 0; /* on Ethernet */
	refused_to_rtr(&ends->a, wrong);
	wrong = attr;
	wrong.path_mtu = (enum ibv_mtu)(IBV_MTU_4096 + 1);
	refused_to_rtr(&ends->a, wrong);
	assert_int_equal(rig.verbs.modify_qp(ends->a.qp, &attr, rtr_mask), 0);
	attr = good(&ends->a, &ends->b, IBV_QPS_RTS);
	attr.timeout = 77;
	assert_int_not_equal(rig.verbs.modify_qp(ends->a.qp, &attr, rts_mask), 0);
}

static void test_attributes_can_be_read_back(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .timeout = 15, .retries = 5, .inline_bytes = 32 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	pair_connect(&ends->a, &ends->b, &terms);
	assert_int_equal(rig.verbs.query_qp(ends->a.qp, &attr,
					    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_AV | IBV_QP_CAP,
					    &init),
			 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.timeout, 15);
	assert_int_equal(attr.retry_cnt, 5);
	assert_int_equal(attr.dest_qp_num, ends->b.qp->qp_num);
	assert_int_equal(attr.ah_attr.grh.sgid_index, ends->a.gid_index);
	assert_true(attr.cap.max_send_wr >= WR_MAX && attr.cap.max_inline_data >= 32);
	assert_ptr_equal(init.send_cq, ends->a.cq);
}

static void test_what_may_be_posted_when(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .timeout = 0 };
	struct op write = op_write(&ends->b, 0, 0, 64);
	struct address_card card;

	new_qp(&ends->a);
	assert_int_not_equal(end_recv(&ends->a, 0, 64), 0); /* in RESET */
	end_make_qp(&ends->b, &terms);
	card = end_card(&ends->b);
	assert_int_equal(qp_to_init(ends->a.qp, 0), 0);
	assert_int_equal(end_recv(&ends->a, 0, 64), 0);
	if (rig.traits->refuses_early_sends)
		assert_int_not_equal(end_post(&ends->a, &write), 0);
	assert_int_equal(qp_to_rtr(&ends->a, &card, &terms), 0);
	assert_int_equal(end_recv(&ends->a, 0, 64), 0);
	if (rig.traits->refuses_early_sends)
		assert_int_not_equal(end_post(&ends->a, &write), 0);
}

static void test_more_than_the_device_has_is_refused(void **state)
{
	struct ends *ends = *state;
	struct ibv_qp_init_attr attr = { .send_cq = ends->a.cq,
					 .recv_cq = ends->a.cq,
					 .cap = { .max_send_wr = 8,
						  .max_recv_wr = 8,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = 1 << 20 },
					 .qp_type = IBV_QPT_RC };

	assert_null(rig.verbs.create_qp(ends->a.pd, &attr));
	attr.cap.max_inline_data = 0;
	attr.cap.max_send_sge = 10000;
	assert_null(rig.verbs.create_qp(ends->a.pd, &attr));
	assert_null(rig.verbs.create_cq(ends->a.context, 1 << 30, NULL, NULL, 0));
	assert_null(rig.verbs.create_cq(ends->a.context, 16, NULL, NULL, 1000));
}

/* By way of RESET an old queue pair is as good as new. */
static void test_a_queue_pair_can_be_used_again(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .timeout = 0 };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct op write = op_write(&ends->b, 0, 0, 64);
	struct end *both[2] = { &ends->a, &ends->b };
	struct address_card card;
	struct ibv_wc wc;

	pair_connect(&ends->a, &ends->b, NULL);
	write.rkey ^= 0x5500;
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, IBV_WC_REM_ACCESS_ERR);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig.verbs.modify_qp(both[i]->qp, &reset, IBV_QP_STATE), 0);
		while (ibv_poll_cq(both[i]->cq, 1, &wc) > 0)
			;
		assert_int_equal(qp_to_init(both[i]->qp, IBV_ACCESS_REMOTE_WRITE), 0);
	}
	for (int i = 0; i < 2; i++) {
		card = end_card(both[!i]);
		end_connect(both[i], &card, &terms);
	}
	write = op_write(&ends->b, 0, 0, 64);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
}

static void test_what_a_destroyed_queue_pair_leaves(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);
	struct ibv_wc wc;

	pair_connect(&ends->a, &ends->b, NULL);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_int_equal(end_recv(&ends->a, 0, 8), 0);
	assert_int_equal(qp_to_err(ends->a.qp), 0);
	assert_int_equal(rig.verbs.destroy_qp(ends->a.qp), 0);
	ends->a.qp = NULL;
	if (rig.traits->purges)
		assert_int_equal(ibv_poll_cq(ends->a.cq, 1, &wc), 0);
}

int check_states(void)
{
	const struct CMUnitTest states[] = {
		CHECK(test_each_step_needs_its_attributes),
		CHECK(test_no_step_is_left_out),
		CHECK(test_values_are_checked),
		CHECK(test_attributes_can_be_read_back),
		CHECK(test_what_may_be_posted_when),
		CHECK(test_more_than_the_device_has_is_refused),
		CHECK(test_a_queue_pair_can_be_used_again),
		CHECK(test_what_a_destroyed_queue_pair_leaves),
	};

	return cmocka_run_group_tests(states, NULL, NULL);
}
