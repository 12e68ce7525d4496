/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's descriptions, orders for other processes, and counts. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static char *saved;

/* A check with devices of its own. */
static int setup(void **state)
{
	(void)state;
	saved = getenv("FAKE_VERBS");
	saved = saved ? strdup(saved) : NULL;
	rig.control.reset();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (saved)
		setenv("FAKE_VERBS", saved, 1);
	else
		unsetenv("FAKE_VERBS");
	free(saved);
	expect_nothing_open();
	return 0;
}

#define SCRIPT(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#define TWO(more)                                                                       \
	"device x; port layer=eth gid=0,10.0.0.1,v2,lo gid=1,10.0.0.1,v1,lo; " more ";" \
	"device y; port layer=eth gid=0,10.0.0.2,v2,lo gid=1,10.0.0.2,v1,lo; "

static void open_xy(struct ends *ends, const char *description)
{
	setenv("FAKE_VERBS", description, 1);
	end_open(&ends->a, "x");
	end_open(&ends->b, "y");
}

static void close_xy(struct ends *ends)
{
	end_close(&ends->a);
	end_close(&ends->b);
}

static void write_gives(struct ends *ends, enum ibv_wc_status status)
{
	struct op write = op_write(&ends->b, 0, 0, 64);

	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, status);
}

static void test_devices_are_as_described(void **state)
{
	struct ibv_port_attr port = { .lid = 0 };
	struct ibv_device_attr attr;
	struct ibv_context *context;

	(void)state;
	setenv("FAKE_VERBS",
	       "# comment\n device p open=13\n device q max_qp=2 ; port layer=ib state=armed lid=9 "
	       "mtu=3 speed=64 width=2 gid=0,fe80::9,ib\n port query=22",
	       1);
	assert_null(device_open("p"));
	assert_int_equal(errno, EACCES);
	context = device_open("q");
	assert_non_null(context);
	assert_int_equal(rig.verbs.query_device(context, &attr), 0);
	assert_int_equal(attr.phys_port_cnt, 2);
	assert_int_equal(attr.max_qp, 2);
	assert_int_equal(rig.verbs.query_port(context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ARMED);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(port.lid, 9);
	assert_int_equal(port.active_mtu, IBV_MTU_1024);
	assert_int_equal(rig.verbs.query_port(context, 2, &port), EINVAL);
	assert_int_equal(rig.verbs.close_device(context), 0);
}

static void test_nonsense_is_not_obeyed(void **state)
{
	(void)state;
	assert_int_equal(rig.control.script("fault frobnicate write"), -EINVAL);
	assert_int_equal(rig.control.script("set nowhere:1 state=down"), -EINVAL);
	assert_int_equal(rig.control.script("hello"), -EINVAL);
	assert_int_equal(rig.control.script("device x hello"), -EINVAL);
	assert_int_equal(rig.control.script("device x hello=1"), -EINVAL);
	assert_int_equal(rig.control.script("device x; port hello"), -EINVAL);
}

static void test_a_list_that_cannot_be_had(void **state)
{
	int count;

	(void)state;
	setenv("FAKE_VERBS", "list errno=38", 1);
	assert_null(rig.verbs.get_device_list(&count));
	assert_int_equal(errno, ENOSYS);
}

/* InfiniBand: by LID, without a global header. */
static void connect_by_lid(struct end *end, const struct end *peer)
{
	struct terms terms = { .timeout = 0 };
	struct address_card card = end_card(peer);

	memset(&card.gid, 0, sizeof(card.gid));
	end_connect(end, &card, &terms);
}

static void test_infiniband_goes_by_lids(void **state)
{
	struct terms terms = { .timeout = 0 };
	struct ends ends;

	(void)state;
	/* the GIDs are for end_open, which looks for one of RoCE v2 */
	open_xy(&ends, "device x; port layer=ib lid=4 gid=0,10.0.0.1,v2; "
		       "device y; port layer=ib lid=5 gid=0,10.0.0.2,v2");
	end_make_qp(&ends.a, &terms);
	end_make_qp(&ends.b, &terms);
	connect_by_lid(&ends.a, &ends.b);
	connect_by_lid(&ends.b, &ends.a);
	write_gives(&ends, IBV_WC_SUCCESS);
	order("set y:1 lid=6");
	end_wait_event(&ends.b, IBV_EVENT_LID_CHANGE);
	write_gives(&ends, IBV_WC_RETRY_EXC_ERR);
	close_xy(&ends);
}

/* … and across subnets by the LID of a router, which the GID of the other side has in it. */
static void connect_by_flid(struct end *end, const struct end *peer, uint16_t dlid)
{
	struct terms terms = { .timeout = 0 };
	struct address_card card = end_card(peer);

	card.lid = dlid;
	card.other_subnet = true;
	end_connect(end, &card, &terms);
}

static void write_across(uint16_t dlid, enum ibv_wc_status status)
{
	struct terms terms = { .timeout = 0 };
	struct ends ends;

	open_xy(&ends,
		"device x; port layer=ib lid=4 gid=0,fe80:0:0:1::4,ib gid=1,fec0:0:11:1::4,ib "
		"gid=2,10.0.0.1,v2; "
		"device y; port layer=ib lid=4 gid=0,fe80:0:0:2::5,ib gid=1,fec0:0:22:2::5,ib "
		"gid=2,10.0.0.2,v2");
	ends.a.gid_index = ends.b.gid_index = 1;
	assert_int_equal(rig.verbs.query_gid(ends.a.context, 1, 1, &ends.a.gid), 0);
	assert_int_equal(rig.verbs.query_gid(ends.b.context, 1, 1, &ends.b.gid), 0);
	end_make_qp(&ends.a, &terms);
	end_make_qp(&ends.b, &terms);
	connect_by_flid(&ends.a, &ends.b, dlid);
	connect_by_flid(&ends.b, &ends.a, 0x11);
	write_gives(&ends, status);
	close_xy(&ends);
}

static void test_routers_have_lids_of_their_own(void **state)
{
	(void)state;
	write_across(0x22, IBV_WC_SUCCESS);
	write_across(4, IBV_WC_RETRY_EXC_ERR);    /* the port's, in its own subnet */
	write_across(0x11, IBV_WC_RETRY_EXC_ERR); /* another subnet's router */
}

static void test_versions_of_roce_do_not_mix(void **state)
{
	struct ends ends;

	(void)state;
	open_xy(&ends, TWO(""));
	ends.a.gid_index = 1;
	pair_connect(&ends.a, &ends.b, NULL);
	write_gives(&ends, IBV_WC_RETRY_EXC_ERR);
	close_xy(&ends);
}

static void test_a_gid_that_changes(void **state)
{
	struct ends ends;

	(void)state;
	open_xy(&ends, TWO(""));
	pair_connect(&ends.a, &ends.b, NULL);
	write_gives(&ends, IBV_WC_SUCCESS);
	order("set y:1 gid=0,10.0.0.3,v2,lo");
	end_wait_event(&ends.b, IBV_EVENT_GID_CHANGE);
	write_gives(&ends, IBV_WC_RETRY_EXC_ERR);
	close_xy(&ends);
}

static void test_a_limit_on_memory(void **state)
{
	struct ends ends;
	struct ibv_mr *mr;

	(void)state;
	open_xy(&ends, TWO("memlock 9000000"));
	assert_null(rig.verbs.reg_mr(ends.a.pd, ends.a.memory, 4 << 20, 0));
	assert_int_equal(errno, ENOMEM);
	mr = rig.verbs.reg_mr(ends.a.pd, ends.a.memory, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
	close_xy(&ends);
}

static void test_leaks_are_seen(void **state)
{
	struct fake_verbs_counts counts;
	struct ends ends;
	struct ibv_mr *mr;

	(void)state;
	open_xy(&ends, TWO(""));
	mr = rig.verbs.reg_mr(ends.a.pd, ends.a.memory, 4096, 0);
	assert_int_equal(rig.verbs.dealloc_pd(ends.a.pd), EBUSY);
	rig.control.counts(&counts);
	assert_int_equal(counts.contexts, 2);
	assert_int_equal(counts.mrs, 3);
	assert_int_equal(counts.bytes_pinned, 2 * END_BYTES + 4096);
	assert_int_equal(rig.verbs.close_device(ends.a.context), -1);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
	close_xy(&ends);
}

static void test_work_is_counted(void **state)
{
	struct fake_verbs_counts counts;
	struct op op = { .opcode = IBV_WR_SEND, .bytes = 64 };
	struct ends ends;

	(void)state;
	open_xy(&ends, TWO(""));
	pair_connect(&ends.a, &ends.b, NULL);
	rig.control.reset();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(end_recv(&ends.b, 0, 64), 0);
		assert_int_equal(end_post(&ends.a, &op), 0);
		end_wait_opcode(&ends.a, IBV_WC_SEND);
	}
	rig.control.counts(&counts);
	assert_int_equal(counts.sends, 3);
	assert_int_equal(counts.send_calls, 3);
	assert_int_equal(counts.bytes_sent[0], 3 * 64);
	assert_int_equal(counts.bytes_sent[1], 0);
	assert_int_equal(counts.recvs, 3);
	assert_int_equal(counts.completions, 6);
	assert_int_equal(counts.failed_completions, 0);
	assert_int_equal(counts.transmissions, 3);
	assert_int_equal(counts.retransmissions, 0);
	close_xy(&ends);
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

static void test_threads_open_and_close_at_once(void **state)
{
	pthread_t threads[3];
	int counts[3] = { 0 };

	(void)state;
	setenv("FAKE_VERBS", TWO(""), 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &counts[i]), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(counts[i], 50);
}

static _Noreturn void wait_for_orders(int ready)
{
	struct ends ends;

	open_xy(&ends, TWO(""));
	pair_connect(&ends.a, &ends.b, NULL);
	if (write(ready, "", 1) != 1)
		_exit(2);
	end_wait_event(&ends.a, IBV_EVENT_PORT_ERR);
	write_gives(&ends, IBV_WC_RETRY_EXC_ERR);
	close_xy(&ends);
	_exit(0);
}

static void test_orders_reach_another_process(void **state)
{
	const char *directory = getenv("FAKE_VERBS_WIRE");
	struct fake_verbs_counts counts;
	int ready[2], status;
	pid_t child;
	char byte;

	(void)state;
	fflush(stdout);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child)
		wait_for_orders(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(rig.control.ask(directory, child, &counts), 0);
	assert_int_equal(counts.qps, 2);
	assert_int_equal(rig.control.tell(directory, child, "set x:1 state=down"), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rig.control.ask(directory, child, &counts), -ESRCH);
	assert_int_equal(rig.control.tell(directory, 0, "no-faults"), 0); /* nobody is left */
	close(ready[0]);
	close(ready[1]);
}

int check_scripts(void)
{
	const struct CMUnitTest scripts[] = {
		SCRIPT(test_devices_are_as_described),
		SCRIPT(test_nonsense_is_not_obeyed),
		SCRIPT(test_a_list_that_cannot_be_had),
		SCRIPT(test_infiniband_goes_by_lids),
		SCRIPT(test_routers_have_lids_of_their_own),
		SCRIPT(test_versions_of_roce_do_not_mix),
		SCRIPT(test_a_gid_that_changes),
		SCRIPT(test_a_limit_on_memory),
		SCRIPT(test_leaks_are_seen),
		SCRIPT(test_work_is_counted),
		SCRIPT(test_threads_open_and_close_at_once),
		SCRIPT(test_orders_reach_another_process),
	};

	return cmocka_run_group_tests(scripts, NULL, NULL);
}
