/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's descriptions, orders for other processes, and counts. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <support/peer.h>

#define TWO(more)                                                                       \
	"device x; port layer=eth gid=0,10.0.0.1,v2,lo gid=1,10.0.0.1,v1,lo; " more ";" \
	"device y; port layer=eth gid=0,10.0.0.2,v2,lo gid=1,10.0.0.2,v1,lo; "

static void write_gives(enum ibv_wc_status status)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	end_fails(&rig.a, &write, status);
}

static void devices_are_as_described(void)
{
	struct ibv_port_attr port = { .lid = 0 };
	struct ibv_device_attr attr;
	struct ibv_context *context;

	check(!device_open("p"));
	check_int(errno, EACCES);
	context = device_open("q");
	check(context);
	check_ok(rig.verbs.query_device(context, &attr));
	check_int(attr.phys_port_cnt, 2);
	check_int(attr.max_qp, 2);
	check_ok(rig.verbs.query_port(context, 1, &port));
	check_int(port.state, IBV_PORT_ARMED);
	check_int(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	check_int(port.lid, 9);
	check_int(port.active_mtu, IBV_MTU_1024);
	check_int(rig.verbs.query_port(context, 2, &port), EINVAL);
	check_ok(rig.verbs.close_device(context));
}

static void nonsense_is_not_obeyed(void)
{
	static const char *const wrong[] = {
		"fault frobnicate write", "set nowhere:1 state=down", "hello",
		"device x hello",         "device x hello=1",         "device x; port hello"
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		check_that(rig.control.script(wrong[i]) == -EINVAL, "'%s' is obeyed", wrong[i]);
}

static void a_list_that_cannot_be_had(void)
{
	int count;

	check(!rig.verbs.get_device_list(&count));
	check_int(errno, ENOSYS);
}

/* InfiniBand: by LID, without a global header. */
static void connect_by_lid(struct end *end, const struct end *peer)
{
	struct address_card card = end_card(peer);

	memset(&card.gid, 0, sizeof(card.gid));
	end_connect(end, card, &usual);
}

static void infiniband_goes_by_lids(void)
{
	end_make_qp(&rig.a, &usual);
	end_make_qp(&rig.b, &usual);
	connect_by_lid(&rig.a, &rig.b);
	connect_by_lid(&rig.b, &rig.a);
	write_gives(IBV_WC_SUCCESS);
	order("set y:1 lid=6");
	end_wait_event(&rig.b, IBV_EVENT_LID_CHANGE);
	write_gives(IBV_WC_RETRY_EXC_ERR);
}

/* … and across subnets by the LID of a router, which is part of the other side's GID. */
static void connect_by_flid(struct end *end, const struct end *peer, uint16_t dlid)
{
	struct address_card card = end_card(peer);

	card.lid = dlid;
	card.other_subnet = true;
	end_connect(end, card, &usual);
}

static void write_across(uint16_t dlid, enum ibv_wc_status status)
{
	ends_open();
	rig.a.gid_index = rig.b.gid_index = 1;
	check_ok(rig.verbs.query_gid(rig.a.context, 1, 1, &rig.a.gid));
	check_ok(rig.verbs.query_gid(rig.b.context, 1, 1, &rig.b.gid));
	end_make_qp(&rig.a, &usual);
	end_make_qp(&rig.b, &usual);
	connect_by_flid(&rig.a, &rig.b, dlid);
	connect_by_flid(&rig.b, &rig.a, 0x11);
	write_gives(status);
	ends_close();
}

static void routers_have_lids_of_their_own(void)
{
	write_across(0x22, IBV_WC_SUCCESS);
	write_across(4, IBV_WC_RETRY_EXC_ERR);    /* the port's own subnet */
	write_across(0x11, IBV_WC_RETRY_EXC_ERR); /* another subnet's router */
}

static void versions_of_roce_do_not_mix(void)
{
	rig.a.gid_index = 1;
	ends_connect(&usual);
	write_gives(IBV_WC_RETRY_EXC_ERR);
}

static void a_gid_that_changes(void)
{
	write_gives(IBV_WC_SUCCESS);
	order("set y:1 gid=0,10.0.0.3,v2,lo");
	end_wait_event(&rig.b, IBV_EVENT_GID_CHANGE);
	write_gives(IBV_WC_RETRY_EXC_ERR);
}

static void a_limit_on_memory(void)
{
	struct ibv_mr *mr;

	check(!rig.verbs.reg_mr(rig.a.pd, rig.a.memory, END_BYTES, 0));
	check_int(errno, ENOMEM);
	mr = rig.verbs.reg_mr(rig.a.pd, rig.a.memory, 4096, 0);
	check(mr);
	check_ok(rig.verbs.dereg_mr(mr));
}

static void leaks_are_seen(void)
{
	struct fake_verbs_counts counts;
	struct ibv_mr *mr = rig.verbs.reg_mr(rig.a.pd, rig.a.memory, 4096, 0);

	check_int(rig.verbs.dealloc_pd(rig.a.pd), EBUSY);
	counts = counts_now();
	check_int(counts.contexts, 2);
	check_int(counts.mrs, 3);
	check_int(counts.bytes_pinned, 2 * END_BYTES + 4096);
	check_int(rig.verbs.close_device(rig.a.context), -1);
	check_ok(rig.verbs.dereg_mr(mr));
}

static void work_is_counted(void)
{
	struct fake_verbs_counts counts;
	struct op op = { .opcode = IBV_WR_SEND, .bytes = 64 };

	rig.control.reset();
	for (int i = 0; i < 3; i++) {
		check_ok(end_recv(&rig.b, 0, 64));
		end_do(&rig.a, &op);
	}
	counts = counts_now();
	check_int(counts.sends, 3);
	check_int(counts.send_calls, 3);
	check_int(counts.bytes_sent[0], 3 * 64);
	check_int(counts.bytes_sent[1], 0);
	check_int(counts.recvs, 3);
	check_int(counts.completions, 6);
	check_int(counts.failed_completions, 0);
	check_int(counts.transmissions, 3);
	check_int(counts.retransmissions, 0);
}

static void *open_and_close(void *arg)
{
	int *count = arg;

	for (; *count < 50; ++*count) {
		struct ibv_context *context = device_open("x");

		if (!context || rig.verbs.close_device(context))
			break;
	}
	return NULL;
}

static void threads_open_and_close_at_once(void)
{
	pthread_t threads[3];
	int counts[3] = { 0 };

	for (int i = 0; i < 3; i++)
		check_ok(pthread_create(&threads[i], NULL, open_and_close, &counts[i]));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++)
		check_int(counts[i], 50);
}

static void wait_for_orders(int fd, void *unused)
{
	(void)unused;
	ends_open();
	ends_connect(&usual);
	peer_signal(fd);
	end_wait_event(&rig.a, IBV_EVENT_PORT_ERR);
	write_gives(IBV_WC_RETRY_EXC_ERR);
	ends_close();
}

static void orders_reach_another_process(void)
{
	const char *directory = getenv("FAKE_VERBS_WIRE");
	struct fake_verbs_counts counts;
	struct peer peer;

	peer_start(&peer, wait_for_orders, NULL);
	peer_await(peer.fd);
	check_ok(rig.control.ask(directory, peer.pid, &counts));
	check_int(counts.qps, 2);
	check_int(rig.control.tell(directory, peer.pid, "set x:1 state=down"), 1);
	peer_wait_ok(&peer);
	check_int(rig.control.ask(directory, peer.pid, &counts), -ESRCH);
	check_ok(rig.control.tell(directory, 0, "no-faults")); /* none is left */
}

#define DESCRIBED                                                                                   \
	"# comment\n device p open=13\n device q max_qp=2 ; port layer=ib state=armed lid=9 mtu=3 " \
	"speed=64 width=2 gid=0,fe80::9,ib\n port query=22"
/* The GIDs of RoCE v2 are for end_open. */
#define SUBNET                                              \
	"device x; port layer=ib lid=4 gid=0,10.0.0.1,v2; " \
	"device y; port layer=ib lid=5 gid=0,10.0.0.2,v2"
#define SUBNETS                                                                         \
	"device x; port layer=ib lid=4 gid=0,fe80:0:0:1::4,ib gid=1,fec0:0:11:1::4,ib " \
	"gid=2,10.0.0.1,v2; "                                                           \
	"device y; port layer=ib lid=4 gid=0,fe80:0:0:2::5,ib gid=1,fec0:0:22:2::5,ib " \
	"gid=2,10.0.0.2,v2"

const struct selfcheck scripts_checks[] = {
	{ CHECK(devices_are_as_described), .description = DESCRIBED, .setting = CLOSED },
	{ CHECK(nonsense_is_not_obeyed), .setting = CLOSED },
	{ CHECK(a_list_that_cannot_be_had), .description = "list errno=38", .setting = CLOSED },
	{ CHECK(infiniband_goes_by_lids), .description = SUBNET, .setting = OPEN },
	{ CHECK(routers_have_lids_of_their_own), .description = SUBNETS, .setting = CLOSED },
	{ CHECK(versions_of_roce_do_not_mix), .description = TWO(""), .setting = OPEN },
	{ CHECK(a_gid_that_changes), .description = TWO("") },
	{ CHECK(a_limit_on_memory), .description = TWO("memlock 5000000"), .setting = OPEN },
	{ CHECK(leaks_are_seen), .description = TWO(""), .setting = OPEN },
	{ CHECK(work_is_counted), .description = TWO("") },
	{ CHECK(threads_open_and_close_at_once), .description = TWO(""), .setting = CLOSED },
	{ CHECK(orders_reach_another_process), .description = TWO(""), .setting = CLOSED },
	{ 0 },
};
