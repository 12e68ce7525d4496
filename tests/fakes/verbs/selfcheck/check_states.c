/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a queue pair: the transitions, and what each state allows. */
#include "rig.h"

#include <errno.h>

/* Attributes of the first end to become the second one's peer, whether that has a queue pair or not. */
static struct ibv_qp_attr good(enum ibv_qp_state state)
{
	const struct address_card peer = { .gid = rig.b.gid,
					   .qpn = rig.b.qp ? rig.b.qp->qp_num : 17 };
	struct ibv_qp_attr attr = qp_attr(&rig.a, &peer, &usual);

	attr.qp_state = state;
	return attr;
}

/* No required attribute may be missing, and no other be present. */
static void needs_all_of(enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = good(to);
	enum ibv_qp_state before = qp_state(&rig.a);

	for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (mask & bit)
			check_int(rig.verbs.modify_qp(rig.a.qp, &attr, mask & ~bit), EINVAL);
	check_int(rig.verbs.modify_qp(rig.a.qp, &attr, mask | IBV_QP_QKEY), EINVAL);
	check_int(qp_state(&rig.a), before);
	check_ok(rig.verbs.modify_qp(rig.a.qp, &attr, mask));
	check_int(qp_state(&rig.a), to);
	check_int(rig.a.qp->state, to);
}

static void each_step_needs_its_attributes(void)
{
	end_new_qp(&rig.a, &usual);
	end_new_qp(&rig.b, &usual);
	needs_all_of(IBV_QPS_INIT, init_mask);
	needs_all_of(IBV_QPS_RTR, rtr_mask);
	needs_all_of(IBV_QPS_RTS, rts_mask);
}

static void no_step_is_left_out(void)
{
	struct ibv_qp_attr attr = good(IBV_QPS_RTR);

	end_new_qp(&rig.a, &usual);
	check_int(rig.verbs.modify_qp(rig.a.qp, &attr, rtr_mask), EINVAL);
	check_ok(qp_to_init(rig.a.qp, 0));
	attr.qp_state = IBV_QPS_RTS;
	check_int(rig.verbs.modify_qp(rig.a.qp, &attr, rts_mask), EINVAL);
	attr.qp_state = IBV_QPS_INIT; /* repeating is no transition */
	check_ok(rig.verbs.modify_qp(rig.a.qp, &attr, init_mask));
	check_ok(qp_to_err(rig.a.qp));
	attr.qp_state = IBV_QPS_RTR;
	check_int(rig.verbs.modify_qp(rig.a.qp, &attr, rtr_mask), EINVAL);
}

static void refused_to_rtr(const struct end *end, struct ibv_qp_attr attr)
{
	check(rig.verbs.modify_qp(end->qp, &attr, rtr_mask));
	check_int(qp_state(end), IBV_QPS_INIT);
}

static void values_are_checked(void)
{
	struct ibv_qp_attr attr = good(IBV_QPS_INIT), wrong;

	end_new_qp(&rig.a, &usual);
	attr.port_num = 9;
	check(rig.verbs.modify_qp(rig.a.qp, &attr, init_mask));
	attr.port_num = 1;
	attr.pkey_index = 500;
	if (rig.traits->checks_pkey)
		check(rig.verbs.modify_qp(rig.a.qp, &attr, init_mask));
	check_ok(qp_to_init(rig.a.qp, 0));
	attr = good(IBV_QPS_RTR);
	wrong = attr;
	wrong.ah_attr.grh.sgid_index = 15; /* empty */
	refused_to_rtr(&rig.a, wrong);
	wrong = attr;
	wrong.ah_attr.is_global = 0; /* on Ethernet */
	refused_to_rtr(&rig.a, wrong);
	wrong = attr;
	wrong.path_mtu = (enum ibv_mtu)(IBV_MTU_4096 + 1);
	refused_to_rtr(&rig.a, wrong);
	check_ok(rig.verbs.modify_qp(rig.a.qp, &attr, rtr_mask));
	attr = good(IBV_QPS_RTS);
	attr.timeout = 77;
	check(rig.verbs.modify_qp(rig.a.qp, &attr, rts_mask));
}

static void attributes_can_be_read_back(void)
{
	struct terms terms = { .timeout = 15, .retries = 5, .inline_bytes = 32 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ends_connect(&terms);
	check_ok(rig.verbs.query_qp(rig.a.qp, &attr,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_AV | IBV_QP_CAP, &init));
	check_int(attr.qp_state, IBV_QPS_RTS);
	check_int(attr.timeout, 15);
	check_int(attr.retry_cnt, 5);
	check_int(attr.dest_qp_num, rig.b.qp->qp_num);
	check_int(attr.ah_attr.grh.sgid_index, rig.a.gid_index);
	check(attr.cap.max_send_wr >= WR_MAX && attr.cap.max_inline_data >= 32);
	check(init.send_cq == rig.a.cq);
}

static void what_may_be_posted_when(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);
	struct address_card card;

	end_new_qp(&rig.a, &usual);
	check(end_recv(&rig.a, 0, 64)); /* in RESET */
	end_make_qp(&rig.b, &usual);
	card = end_card(&rig.b);
	check_ok(qp_to_init(rig.a.qp, 0));
	check_ok(end_recv(&rig.a, 0, 64));
	if (rig.traits->refuses_early_sends)
		check(end_post(&rig.a, &write));
	check_ok(qp_to_rtr(&rig.a, &card, &usual));
	check_ok(end_recv(&rig.a, 0, 64));
	if (rig.traits->refuses_early_sends)
		check(end_post(&rig.a, &write));
}

static void more_than_the_device_has_is_refused(void)
{
	struct ibv_qp_init_attr attr = { .send_cq = rig.a.cq,
					 .recv_cq = rig.a.cq,
					 .cap = { .max_send_wr = 8,
						  .max_recv_wr = 8,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = 1 << 20 },
					 .qp_type = IBV_QPT_RC };

	check(!rig.verbs.create_qp(rig.a.pd, &attr));
	attr.cap.max_inline_data = 0;
	attr.cap.max_send_sge = 10000;
	check(!rig.verbs.create_qp(rig.a.pd, &attr));
	check(!rig.verbs.create_cq(rig.a.context, 1 << 30, NULL, NULL, 0));
	check(!rig.verbs.create_cq(rig.a.context, 16, NULL, NULL, 1000));
}

/* Through RESET an old queue pair becomes like new. */
static void a_queue_pair_can_be_used_again(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct op write = op_write(&rig.b, 0, 0, 64);
	struct end *both[2] = { &rig.a, &rig.b };
	struct ibv_wc wc;

	write.rkey ^= 0x5500;
	end_fails(&rig.a, &write, IBV_WC_REM_ACCESS_ERR);
	for (int i = 0; i < 2; i++) {
		check_ok(rig.verbs.modify_qp(both[i]->qp, &reset, IBV_QP_STATE));
		while (ibv_poll_cq(both[i]->cq, 1, &wc) > 0)
			;
		check_ok(qp_to_init(both[i]->qp, IBV_ACCESS_REMOTE_WRITE));
	}
	for (int i = 0; i < 2; i++) {
		end_connect(both[i], end_card(both[!i]), &usual);
	}
	write = op_write(&rig.b, 0, 0, 64);
	end_do(&rig.a, &write);
}

static void what_a_destroyed_queue_pair_leaves(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);
	struct ibv_wc wc;

	end_do(&rig.a, &write);
	check_ok(end_recv(&rig.a, 0, 8));
	check_ok(qp_to_err(rig.a.qp));
	check_ok(rig.verbs.destroy_qp(rig.a.qp));
	rig.a.qp = NULL;
	if (rig.traits->purges)
		check_ok(ibv_poll_cq(rig.a.cq, 1, &wc));
}

const struct selfcheck states_checks[] = {
	{ CHECK(each_step_needs_its_attributes), .setting = OPEN },
	{ CHECK(no_step_is_left_out), .setting = OPEN },
	{ CHECK(values_are_checked), .setting = OPEN },
	{ CHECK(attributes_can_be_read_back), .setting = OPEN },
	{ CHECK(what_may_be_posted_when), .setting = OPEN },
	{ CHECK(more_than_the_device_has_is_refused), .setting = OPEN },
	{ CHECK(a_queue_pair_can_be_used_again) },
	{ CHECK(what_a_destroyed_queue_pair_leaves) },
	{ 0 },
};
