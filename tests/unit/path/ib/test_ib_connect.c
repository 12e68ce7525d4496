/* SPDX-License-Identifier: Apache-2.0 */
/* How the two ends of a queue pair are connected. */
#include "qp_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/stubs/stub_cm.h"
#include "transports/device/ib_events.h"
#include "transports/path/ib/ib_cm.h"

#define ROCE_V2 3 /* anynet_wire_qp.kind */
#define LATE_MS 1000

static struct ibv_qp_attr init, rtr, rts;
static int registered; /* access of the last registration */
static bool unanswered;  /* nobody answers the kernel, which waits a second */
static unsigned asked;   /* calls in which it asks */
static uint64_t late_ms; /* the clock is that much ahead */

static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	if (attr->qp_state == IBV_QPS_INIT)
		init = *attr;
	if (attr->qp_state == IBV_QPS_RTR) {
		rtr = *attr;
		asked++;
		if (unanswered) {
			late_ms += 1000;
			return ETIMEDOUT;
		}
	}
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
	qp_end_setup(state);
	unanswered = false;
	verbs.modify_qp = modify_qp;
	verbs.reg_mr = reg_mr;
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

/* --- a peer whose Ethernet address is not found --- */

/* The acceptor's end, for the connector on this host. */
static int accept_roce(uint8_t host)
{
	struct anynet_wire_hello hello = ib_peer(true), answer = { .type = ANYNET_WELCOME };
	struct gid theirs = gid_at(0, "::ffff:127.0.0.9");

	hello.qp.kind = ROCE_V2;
	theirs.raw.raw[15] = host;
	memcpy(hello.qp.gid, theirs.raw.raw, sizeof(hello.qp.gid));
	qp = ib_qp_accept(&local_dev, &hello, &answer);
	if (!qp) {
		assert_non_null(strstr(answer.reason, "Connection timed out"));
		return -ETIMEDOUT;
	}
	ib_qp_free(qp);
	qp = NULL;
	return 0;
}

static void is_roce(void)
{
	nic->state.attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	nic->state.gids.count = 1;
	nic->state.gids.gids[0] = gid_at(4, "::ffff:127.0.0.1");
	memset(nic->silent, 0, sizeof(nic->silent));
	asked = 0;
}

/* Each time it takes a second, in which nothing else is accepted. */
static void test_a_peer_that_is_not_found_is_looked_for_ever_more_rarely(void **state)
{
	static const unsigned pauses[] = { 1, 2, 4, 8, 16, 32, 64, 64 };

	(void)state;
	is_roce();
	unanswered = true;
	for (size_t i = 0; i < sizeof(pauses) / sizeof(*pauses); i++) {
		asked = 0;
		assert_int_equal(accept_roce(9), -ETIMEDOUT);
		assert_int_equal(asked, 1);
		late_ms += pauses[i] * 1000 - 500;
		for (int again = 0; again < 3; again++)
			assert_int_equal(accept_roce(9), -ETIMEDOUT);
		assert_int_equal(asked, 1);
		late_ms += 500;
	}
	unanswered = false;
	assert_int_equal(accept_roce(9), 0);
	unanswered = true; /* the first pause again */
	assert_int_equal(accept_roce(9), -ETIMEDOUT);
	late_ms += 1000;
	unanswered = false;
	assert_int_equal(accept_roce(9), 0);
}

static void test_the_others_are_looked_for(void **state)
{
	(void)state;
	is_roce();
	unanswered = true;
	for (uint8_t host = 9; host < 9 + 40; host++)
		assert_int_equal(accept_roce(host), -ETIMEDOUT);
	assert_int_equal(asked, 40);
	assert_int_equal(accept_roce(9 + 39), -ETIMEDOUT); /* it has its pause */
	assert_int_equal(asked, 40);
	unanswered = false;
	assert_int_equal(accept_roce(100), 0);
}

static void test_a_port_that_changes_looks_at_once(void **state)
{
	(void)state;
	is_roce();
	unanswered = true;
	assert_int_equal(accept_roce(9), -ETIMEDOUT);
	unanswered = false;
	assert_int_equal(accept_roce(9), -ETIMEDOUT);
	stub_port_event(1, IBV_EVENT_GID_CHANGE);
	ib_events_read();
	assert_int_equal(accept_roce(9), 0);
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

/* --- the RDMA connection manager --- */

static bool answers; /* once: the RDMA CM's peer answers, and LATE_MS pass */
uint64_t __real_os_now_ms(void);
uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
	if (answers) {
		answers = false;
		assert_true(
			stub_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED)); /* the next one: an answer */
		ib_cm_read(true);
		return __real_os_now_ms() + LATE_MS;
	}
	return __real_os_now_ms() + late_ms;
}

/* The connector has asked the RDMA CM for the way to the peer. */
static void connect_by_manager(void)
{
	struct anynet_wire_hello welcome = ib_peer(false), hello = { .type = ANYNET_HELLO };
	char why[160];

	local_cfg.ib_cm = true;
	hello.cm.wanted = 1;
	welcome.cm.addr = (struct anynet_wire_addr){ .family = 4, .port = 9000 };
	qp = ib_qp_offer(&local_dev, &local_dev.addr, -1, &hello, why, sizeof(why));
	assert_non_null(qp);
	assert_int_equal(ib_qp_join(qp, &welcome), -EINPROGRESS);
}

static void test_a_path_of_another_port_is_not_taken(void **state)
{
	char why[160] = "";

	(void)state;
	connect_by_manager();
	nic->port = 2; /* the manager finds port 1 of this card */
	assert_true(stub_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(ib_qp_joined(qp, why, sizeof(why)), -ECONNABORTED);
	assert_non_null(strstr(why, "the route to the peer uses another port"));
}

/* The manager knows the path, the peer its own port. */
static void test_packets_of_the_managers_path_fit_this_port(void **state)
{
	char why[160] = "";

	(void)state;
	stub_cm_qpn = PEER_QPN;
	nic->state.attr.active_mtu = IBV_MTU_2048;
	connect_by_manager();
	for (int i = 0; i < 3; i++) { /* address, route, answer */
		assert_true(stub_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED));
		assert_int_equal(ib_qp_joined(qp, why, sizeof(why)), i < 2 ? -EAGAIN : 0);
	}
	assert_int_equal(rtr.path_mtu, IBV_MTU_2048);
}

/* Its request is about to be repeated when another thread reads the answer. */
static void test_an_answer_that_comes_with_the_repetition_counts(void **state)
{
	char why[160] = "";

	(void)state;
	stub_cm_qpn = PEER_QPN;
	connect_by_manager();
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
#define T(name) cmocka_unit_test_setup_teardown(name, setup, qp_end_teardown)
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
		T(test_a_peer_that_is_not_found_is_looked_for_ever_more_rarely),
		T(test_the_others_are_looked_for),
		T(test_a_port_that_changes_looks_at_once),
		T(test_nccls_traffic_class_is_the_wish_where_nothing_is_set),
		T(test_where_packets_overtake_each_other_only_small_messages_are_one_request),
		T(test_a_path_of_another_port_is_not_taken),
		T(test_packets_of_the_managers_path_fit_this_port),
		T(test_an_answer_that_comes_with_the_repetition_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
