/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a queue pair: how it is connected, and how many requests may be posted. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "fakes/stubs/stub_cm.h"
#include <nccl_net/util.h>

#include "support/capture.h"
#include "transports/path/ib/ib_cm.h"
#include "unit/ib_ends.h"

#define ROCE_V2 3 /* anynet_wire_qp.kind */
#define LATE_MS 1000

static struct ib_nic *nic;
static const struct verbs *stub;
static struct verbs verbs; /* those of the stub, observed by the test: */
static struct ibv_qp_attr init, rtr, rts;
static int registered; /* access of the last registration */
static struct ib_qp *qp;

static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	if (attr->qp_state == IBV_QPS_INIT)
		init = *attr;
	if (attr->qp_state == IBV_QPS_RTR)
		rtr = *attr;
	if (attr->qp_state == IBV_QPS_RTS)
		rts = *attr;
	return stub->modify_qp(ibv, attr, mask);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	registered = access;
	return stub->reg_mr(pd, addr, bytes, access);
}

static int setup(void **state)
{
	pair_setup(state);
	nic = ib_ends_start();
	if (!stub)
		stub = nic->verbs;
	verbs = *stub;
	verbs.modify_qp = modify_qp;
	verbs.reg_mr = reg_mr;
	nic->verbs = &verbs;
	nic->port = 1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stub_on_post = NULL;
	ib_qp_free(qp);
	qp = NULL;
	capture_check();
	assert_int_equal(stub_objects(), 0);
	return 0;
}

/* --- connecting --- */

static struct ib_qp *offer(int traffic_class, struct anynet_wire_hello *hello)
{
	char why[160] = "";

	*hello = (struct anynet_wire_hello){ .type = ANYNET_HELLO };
	qp = ib_qp_offer(&local_dev, &local_dev.addr, traffic_class, hello, why, sizeof(why));
	assert_non_null(qp);
	return qp;
}

static int join(const struct anynet_wire_hello *welcome)
{
	struct anynet_wire_hello hello;
	int ret;

	ret = ib_qp_join(offer(-1, &hello), welcome);
	if (!ret)
		assert_int_equal(rts.sq_psn, hello.qp.psn);
	ib_qp_free(qp);
	qp = NULL;
	return ret;
}

static void test_each_end_takes_the_others_numbers(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false);

	(void)state;
	welcome.qp.psn |= 0xff000000; /* 24 bits are significant */
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.dest_qp_num, PEER_QPN);
	assert_int_equal(rtr.rq_psn, PEER_PSN);
	assert_int_equal(rtr.ah_attr.dlid, 9);
	assert_int_equal(rtr.ah_attr.port_num, 1);
}

static void test_packets_are_as_large_as_both_ends_can_take(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false);

	(void)state;
	welcome.qp.mtu = IBV_MTU_1024;
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.path_mtu, IBV_MTU_1024);
	welcome.qp.mtu = IBV_MTU_4096;
	nic->state.attr.active_mtu = IBV_MTU_2048;
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.path_mtu, IBV_MTU_2048);
}

static void test_within_a_subnet_packets_need_no_global_route(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false);

	(void)state;
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.ah_attr.is_global, 0);
	welcome.qp.gid[7] = 1; /* another subnet */
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.ah_attr.is_global, 1);
	assert_memory_equal(rtr.ah_attr.grh.dgid.raw, welcome.qp.gid, sizeof(welcome.qp.gid));
	assert_int_equal(rtr.ah_attr.grh.hop_limit, 255);
	welcome.qp.gid[7] = 0;
	nic->state.attr.flags |= IBV_QPF_GRH_REQUIRED;
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.ah_attr.is_global, 1);
}

/* The LID of the peer's port has no meaning in this subnet. */
static void test_to_another_subnet_packets_go_to_its_router(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false);

	(void)state;
	welcome.qp.gid[4] = 0x12; /* FLID */
	welcome.qp.gid[5] = 0x34;
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.ah_attr.dlid, 9);
	for (int byte = 6; byte < 8; byte++) {
		welcome.qp.gid[byte] = 1;
		assert_int_equal(join(&welcome), 0);
		assert_int_equal(rtr.ah_attr.is_global, 1);
		assert_int_equal(rtr.ah_attr.dlid, 0x1234);
		welcome.qp.gid[byte] = 0;
	}
	welcome.qp.gid[7] = 1;
	welcome.qp.gid[4] = welcome.qp.gid[5] = 0; /* there is none */
	assert_int_equal(join(&welcome), 0);
	assert_int_equal(rtr.ah_attr.dlid, 9);
}

static void test_over_ethernet_all_routes_are_global(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false), hello;

	(void)state;
	offer(-1, &hello);
	qp->port.attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	qp->port.gid.type = IBV_GID_TYPE_ROCE_V2;
	welcome.qp.kind = ROCE_V2;
	welcome.service.tc = 106;
	assert_int_equal(ib_qp_join(qp, &welcome), 0);
	assert_int_equal(rtr.ah_attr.is_global, 1);
	assert_int_equal(rtr.ah_attr.grh.traffic_class, 106);
}

static struct gid gid_at(int index, const char *addr)
{
	struct gid gid = { .index = index, .type = IBV_GID_TYPE_ROCE_V2 };

	assert_int_equal(inet_pton(AF_INET6, addr, gid.raw.raw), 1);
	return gid;
}

/* Of two networks at the port, that of the address which the hello goes to. */
static void test_a_gid_is_offered_that_reaches_the_peer(void **state)
{
	struct anynet_wire_hello hello = { .type = ANYNET_HELLO };
	struct sockaddr_storage to = local_dev.addr;
	char why[160] = "";

	(void)state;
	nic->state.attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	nic->state.gids.count = 2;
	nic->state.gids.gids[0] = gid_at(4, "::ffff:127.9.0.1");
	nic->state.gids.gids[1] = gid_at(6, "::ffff:127.0.0.1"); /* where it is dialled from */
	qp = ib_qp_offer(&local_dev, &to, -1, &hello, why, sizeof(why));
	assert_non_null(qp);
	assert_memory_equal(hello.qp.gid, nic->state.gids.gids[1].raw.raw, sizeof(hello.qp.gid));
}

/* The proof reads the acceptor's slots. Nothing else is read, so the peer of a sender reads nothing. */
static void test_only_the_acceptor_can_be_read(void **state)
{
	const int writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	(void)state;
	qp = ib_connector(false);
	assert_int_equal(init.qp_access_flags, writes);
	assert_int_equal(registered, writes);
	ib_qp_free(qp);
	qp = ib_acceptor();
	assert_int_equal(init.qp_access_flags, writes | IBV_ACCESS_REMOTE_READ);
	assert_int_equal(registered, writes | IBV_ACCESS_REMOTE_READ);
}

static void test_ends_of_different_kinds_do_not_go_together(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false), hello = ib_peer(true),
				 answer = { .type = ANYNET_WELCOME };

	(void)state;
	welcome.qp.kind = ROCE_V2;
	assert_int_equal(join(&welcome), -EPROTONOSUPPORT);
	hello.qp.kind = ROCE_V2;
	assert_null(ib_qp_accept(&local_dev, &hello, &answer));
	assert_string_not_equal(answer.reason, "");
}

static void test_an_end_that_cannot_be_is_refused(void **state)
{
	struct anynet_wire_hello good = ib_peer(false), bad = good;

	(void)state;
	bad.qp.mtu = 0;
	assert_int_equal(join(&bad), -EPROTO);
	bad = good;
	bad.qp.mtu = IBV_MTU_4096 + 1;
	assert_int_equal(join(&bad), -EPROTO);
	bad = good;
	bad.qp.slots = IB_CONTROL_SLOTS - 1;
	assert_int_equal(join(&bad), -EPROTO);
	bad = good;
	bad.qp.slot_bytes = IB_SLOT_BYTES - 1;
	assert_int_equal(join(&bad), -EPROTO);
	assert_int_equal(join(&good), 0);
}

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
static bool answers; /* once: the RDMA CM's peer answers, and LATE_MS pass */
uint64_t __real_os_now_ms(void);
uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
	static uint64_t now = 1000;

	if (answers) {
		answers = false;
		assert_true(
			stub_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED)); /* the next one: an answer */
		ib_cm_read(true);
		return __real_os_now_ms() + LATE_MS;
	}
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

/* --- service --- */

static void test_nccls_traffic_class_is_the_wish_where_nothing_is_set(void **state)
{
	struct anynet_wire_hello hello;

	(void)state;
	ib_qp_free(offer(0x65, &hello));
	assert_int_equal(hello.service.sl, 5); /* of 16 levels */
	assert_int_equal(hello.service.tc, 0x65);
	local_cfg.ib_sl = 3;
	local_cfg.ib_tc = 0x28;
	offer(0x65, &hello);
	assert_int_equal(hello.service.sl, 3);
	assert_int_equal(hello.service.tc, 0x28);
}

static void test_where_packets_overtake_each_other_only_small_messages_are_one_request(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false), hello;

	(void)state;
	assert_int_equal(ib_qp_join(offer(-1, &hello), &welcome), 0);
	assert_int_equal(qp->limits.whole_max, IB_IMM_SIZE_MAX);
	ib_qp_free(qp);
	welcome.service.adaptive = 1;
	assert_int_equal(ib_qp_join(offer(-1, &hello), &welcome), 0);
	assert_int_equal(qp->limits.whole_max, local_cfg.ib_ar_threshold);
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

/* --- the RDMA connection manager --- */

static void test_a_path_of_another_port_is_not_taken(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false), hello = { .type = ANYNET_HELLO };
	char why[160] = "";

	(void)state;
	local_cfg.ib_cm = true;
	hello.cm.wanted = 1;
	welcome.cm.addr = (struct anynet_wire_addr){ .family = 4, .port = 9000 };
	qp = ib_qp_offer(&local_dev, &local_dev.addr, -1, &hello, why, sizeof(why));
	assert_non_null(qp);
	assert_int_equal(ib_qp_join(qp, &welcome), -EINPROGRESS);
	nic->port = 2; /* the manager finds port 1 of this card */
	assert_true(stub_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(ib_qp_joined(qp, why, sizeof(why)), -ECONNABORTED);
	assert_non_null(strstr(why, "the route to the peer uses another port"));
}

/* Its request is about to be repeated when another thread reads the answer. */
static void test_an_answer_that_comes_with_the_repetition_counts(void **state)
{
	struct anynet_wire_hello welcome = ib_peer(false), hello = { .type = ANYNET_HELLO };
	char why[160] = "";

	(void)state;
	local_cfg.ib_cm = true;
	hello.cm.wanted = 1;
	welcome.cm.addr = (struct anynet_wire_addr){ .family = 4, .port = 9000 };
	stub_cm_qpn = PEER_QPN;
	qp = ib_qp_offer(&local_dev, &local_dev.addr, -1, &hello, why, sizeof(why));
	assert_non_null(qp);
	assert_int_equal(ib_qp_join(qp, &welcome), -EINPROGRESS);
	for (int i = 0; i < 2; i++) { /* address, route */
		assert_true(stub_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED));
		assert_int_equal(ib_qp_joined(qp, why, sizeof(why)), -EAGAIN);
	}
	answers = true;
	assert_int_equal(ib_qp_joined(qp, why, sizeof(why)), -EAGAIN);
	assert_false(answers);
	assert_false(stub_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED)); /* nothing was requested again */
	assert_int_equal(ib_qp_joined(qp, why, sizeof(why)), 0);
	assert_int_equal(qp->state, IB_QP_JOINED);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_each_end_takes_the_others_numbers),
		T(test_packets_are_as_large_as_both_ends_can_take),
		T(test_within_a_subnet_packets_need_no_global_route),
		T(test_to_another_subnet_packets_go_to_its_router),
		T(test_over_ethernet_all_routes_are_global),
		T(test_a_gid_is_offered_that_reaches_the_peer),
		T(test_only_the_acceptor_can_be_read),
		T(test_ends_of_different_kinds_do_not_go_together),
		T(test_an_end_that_cannot_be_is_refused),
		T(test_a_queue_pair_that_begins_anew_has_its_receives_once),
		T(test_a_queue_pair_that_cannot_begin_anew_is_destroyed),
		T(test_data_that_came_before_a_queue_pair_was_left_is_kept),
		T(test_a_queue_pair_is_left_when_its_receives_are_flushed),
		T(test_nccls_traffic_class_is_the_wish_where_nothing_is_set),
		T(test_where_packets_overtake_each_other_only_small_messages_are_one_request),
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
		T(test_a_path_of_another_port_is_not_taken),
		T(test_an_answer_that_comes_with_the_repetition_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
