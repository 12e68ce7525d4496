/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused devices (makeVDevice) of two ports of the fake libibverbs. TEST_FUSE says which ends of a connection use one.
 * The fake reports what each port carried (ANYNET_IBVERBS_LIB).
 */
#include <stdlib.h>
#include <string.h>
#include <support/buffer.h>
#include <support/capture.h>
#include <support/check.h>
#include <support/fake.h>
#include <support/flow.h>
#include <support/link.h>

#define PORTS 2
#define LARGE ((size_t)4 << 20)
#define SMALL ((size_t)100000) /* less than a chunk, more than what is copied */

static bool is_fused(struct test_net *net, int dev)
{
	struct driver_props props;

	check_ok(driver_properties(net->driver, dev, &props));
	return props.vdev_count > 1;
}

/* How often both ends report more than one stream. */
static size_t spread_count(void)
{
	return capture_count(CAPTURE_INFO, ": 2 paths on dev");
}

/* On a loaded machine a queue pair may be proven too late, and its stream stays with TCP: then repeat. */
static void open_by_both_ports(struct test_net *net, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a link by two queue pairs");

	for (;;) {
		capture_forget();
		link_open(net, link);
		if (!capture_count(CAPTURE_INFO, "data uses TCP"))
			break;
		link_close(net, link);
		deadline_turn(&deadline);
	}
	check_int(spread_count(), 2);
}

static struct buffer from, to;

/* One message of the largest size or smaller, with registered memory. */
static void exchange(struct test_net *net, struct link *link, size_t bytes)
{
	static uint64_t seed;

	pattern_fill(from.data, bytes, ++seed);
	memset(to.data, 0, bytes);
	check_int(link_exchange(net, link, from.data, bytes, to.data, bytes), bytes);
	pattern_check(to.data, bytes, seed);
}

static void alloc_buffers(void)
{
	buffer_alloc(&from, LARGE);
	buffer_alloc(&to, LARGE);
}

static void free_buffers(void)
{
	buffer_free(&from);
	buffer_free(&to);
}

/* Work requests of each port while `count` messages were sent. */
static void measure(struct test_net *net, struct link *link, size_t bytes, int count,
		    uint64_t sent[PORTS])
{
	struct fake_verbs_counts before = fake_counts(), after;

	for (int i = 0; i < count; i++)
		exchange(net, link, bytes);
	after = fake_counts();
	for (int port = 0; port < PORTS; port++)
		sent[port] = after.bytes_sent[port] - before.bytes_sent[port];
}

/* A plain end has one port, which carries everything. */
static void both_ports_carry_a_large_message(struct test_net *net)
{
	uint64_t sent[PORTS];
	struct link link;

	alloc_buffers();
	open_by_both_ports(net, &link);
	measure(net, &link, LARGE, 1, sent);
	check(sent[0] + sent[1] >= LARGE);
	if (is_fused(net, net->dev))
		check_that(sent[0] > LARGE / 3 && sent[1] > LARGE / 3, "%zu of %zu bytes by one",
			   (size_t)sent[0], (size_t)LARGE);
	else
		check_that(sent[1] > 0 && sent[1] < SMALL, "cts only, not %zu bytes",
			   (size_t)sent[1]);
	link_close(net, &link);
	free_buffers();
}

static void a_small_message_uses_one_port(struct test_net *net)
{
	uint64_t sent[PORTS];
	unsigned by[PORTS] = { 0 };
	struct link link;

	alloc_buffers();
	open_by_both_ports(net, &link);
	for (int i = 0; i < 10; i++) {
		measure(net, &link, SMALL, 1, sent);
		check((sent[0] >= SMALL) != (sent[1] >= SMALL));
		check(sent[sent[0] >= SMALL] < SMALL / 2);
		by[sent[1] >= SMALL]++;
	}
	if (is_fused(net, net->dev))
		check(by[0] > 2 && by[1] > 2);
	link_close(net, &link);
	free_buffers();
}

/* Not if the first message finds no registration there. */
static void memory_is_registered_at_all_ports_at_once(struct test_net *net)
{
	uint64_t before;
	struct link link;
	void *mhandle;

	alloc_buffers();
	open_by_both_ports(net, &link);
	before = fake_counts().registrations;
	mhandle = flow_reg(net, link.send, from.data, LARGE);
	check_int(fake_counts().registrations - before, is_fused(net, net->dev) ? PORTS : 1);
	check_ok(driver_dereg_mr(net->driver, link.send, mhandle));
	before = fake_counts().registrations;
	mhandle = flow_reg(net, link.recv, to.data, LARGE);
	check_int(fake_counts().registrations - before, is_fused(net, net->listen_dev) ? PORTS : 1);
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandle));
	link_close(net, &link);
	free_buffers();
}

/* --- ports that fail --- */

/* Until large messages go as `wanted` says: a queue pair of that port sends some of them, or none does. Which port of
 * the other end receives them is not known; they only have to arrive. */
static void wait_for_port(struct test_net *net, struct link *link, int port, bool wanted)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a port to carry, or not");
	uint64_t sent[PORTS];

	do {
		measure(net, link, LARGE, 1, sent);
		deadline_turn(&deadline);
	} while (is_fused(net, net->dev) && (wanted ? sent[port] < LARGE / 4 : sent[port] > 0));
}

static void the_other_port_takes_over(struct test_net *net)
{
	static const char *const downs[PORTS] = { "set fake0:1 state=down",
						  "set fake1:1 state=down" };
	static const char *const ups[PORTS] = { "set fake0:1 state=active",
						"set fake1:1 state=active" };
	uint64_t sent[PORTS];
	struct link link;

	alloc_buffers();
	open_by_both_ports(net, &link);
	for (int round = 0; round < 2 * PORTS; round++) {
		int port = round % PORTS;

		fake_order(downs[port]);
		exchange(net, &link, LARGE);
		wait_for_port(net, &link, port, false);
		wait_for_port(net, &link, !port, true);
		measure(net, &link, LARGE, 2, sent);
		check_that(sent[!port] >= LARGE || !is_fused(net, net->dev),
			   "%zu bytes by the other port", (size_t)sent[!port]);
		fake_order(ups[port]);
		wait_for_port(net, &link, port, true); /* it comes back */
	}
	link_close(net, &link);
	free_buffers();
}

static void without_any_port_the_stream_uses_tcp_and_returns(struct test_net *net)
{
	struct link link;

	alloc_buffers();
	open_by_both_ports(net, &link);
	fake_order("set fake0:1 state=down; set fake1:1 state=down");
	exchange(net, &link, LARGE);
	wait_for_port(net, &link, 0, false);
	wait_for_port(net, &link, 1, false);
	exchange(net, &link, LARGE);
	fake_order("set fake0:1 state=active; set fake1:1 state=active");
	wait_for_port(net, &link, 0, true);
	wait_for_port(net, &link, 1, true);
	link_close(net, &link);
	free_buffers();
}

/* The connection works, whichever path carries which stream. */
static void a_port_may_be_down_at_set_up(struct test_net *net)
{
	static const char *const downs[] = { "set fake0:1 state=down",
					     "set fake0:1 state=active; set fake1:1 state=down",
					     "set fake0:1 state=down" };
	struct link link;

	alloc_buffers();
	open_by_both_ports(net, &link); /* loads the library */
	link_close(net, &link);
	for (size_t i = 0; i < sizeof(downs) / sizeof(downs[0]); i++) {
		fake_order(downs[i]);
		link_open(net, &link);
		exchange(net, &link, 8);
		exchange(net, &link, SMALL);
		exchange(net, &link, LARGE);
		link_close(net, &link);
	}
	free_buffers();
}

/* The first port is down. */
static void open_by_other_port(struct test_net *net, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a link by the other port");
	uint64_t sent[PORTS];

	for (;;) {
		link_open(net, link);
		measure(net, link, LARGE, 1, sent);
		if (sent[1] >= LARGE)
			return;
		link_close(net, link);
		deadline_turn(&deadline);
	}
}

/* The stream without a queue pair could carry it at once. */
static void a_message_waits_for_a_queue_pair(struct test_net *net)
{
	struct fake_verbs_counts before;
	struct link link;

	if (!is_fused(net, net->dev) || !is_fused(net, net->listen_dev))
		return; /* one end has one port only */
	alloc_buffers();
	open_by_both_ports(net, &link); /* loads the library */
	link_close(net, &link);
	fake_order("set fake0:1 state=down");
	open_by_other_port(net, &link);
	before = fake_counts();
	pattern_fill(from.data, LARGE, 7);
	struct transfer send =
		transfer_of(from.data, LARGE, 1, flow_reg(net, link.send, from.data, LARGE));
	struct transfer recv =
		transfer_of(to.data, LARGE, 1, flow_reg(net, link.recv, to.data, LARGE));
	struct flow flows[] = {
		{ .comm = link.send,
		  .is_send = true,
		  .transfers = &send,
		  .count = 1,
		  .posted = 1,
		  .prepared = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	transfer_post_soon(net, link.send, true, &send);
	for (int i = 0; i < 100; i++)
		check(!flow_step(net, &flows[0]));
	flows_run(net, flows, 2);
	pattern_check(to.data, LARGE, 7);
	check(fake_counts().bytes_sent[1] - before.bytes_sent[1] >= LARGE);
	check_ok(driver_dereg_mr(net->driver, link.send, send.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, link.recv, recv.mhandles[0]));
	link_close(net, &link);
	free_buffers();
}

/* --- devices --- */

static void members_are_told_by_name_and_sum(struct test_net *net)
{
	struct driver_props one[PORTS], both;
	struct link link;
	int dev;

	check_ok(driver_make_vdevice(net->driver, &dev, PORTS, (const int[]){ 0, 1 }));
	check_ok(driver_properties(net->driver, dev, &both));
	for (int port = 0; port < PORTS; port++) {
		check_ok(driver_properties(net->driver, port, &one[port]));
		check_int(one[port].vdev_count, 1);
		check_int(one[port].vdevs[0], port);
		check_int(both.vdevs[port], port);
	}
	check_int(both.vdev_count, PORTS);
	check(!strcmp(both.name, "fake0+fake1"));
	check_int(both.speed_mbps, one[0].speed_mbps + one[1].speed_mbps);
	net->dev = net->listen_dev = dev;
	open_by_both_ports(net, &link);
	check(capture_count(CAPTURE_INFO, "2 paths on dev fake0+fake1") == 2);
	check(capture_count(CAPTURE_INFO, "dev fake0+fake1: 2 paths") == 2);
	link_close(net, &link);
}

/* NCCL has unloaded the plugin meanwhile, and starts again; or it keeps the devices. */
static void a_device_is_found_again(struct test_net *net)
{
	int first, again, count;
	struct link link;

	check_ok(driver_finalize(net->driver, net->ctx));
	check_ok(driver_init(net->driver, &net->ctx, 5, -1, capture_logger, NULL));
	check_ok(driver_devices(net->driver, &count));
	check_int(count, PORTS);
	check_ok(driver_make_vdevice(net->driver, &first, PORTS, (const int[]){ 0, 1 }));
	check_int(first, PORTS);
	net->dev = net->listen_dev = first;
	open_by_both_ports(net, &link);
	check_ok(driver_make_vdevice(net->driver, &again, PORTS, (const int[]){ 1, 0 }));
	check_int(again, PORTS + 1);
	link_check(net, &link, LARGE);
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "both_ports_carry_a_large_message", both_ports_carry_a_large_message },
		{ .name = "a_small_message_uses_one_port", a_small_message_uses_one_port },
		{ .name = "memory_is_registered_at_all_ports_at_once",
		  memory_is_registered_at_all_ports_at_once },
		{ .name = "the_other_port_takes_over", the_other_port_takes_over },
		{ .name = "without_any_port_the_stream_uses_tcp_and_returns",
		  without_any_port_the_stream_uses_tcp_and_returns },
		{ .name = "a_port_may_be_down_at_set_up", a_port_may_be_down_at_set_up },
		{ .name = "a_message_waits_for_a_queue_pair", a_message_waits_for_a_queue_pair },
		{ .name = "members_are_told_by_name_and_sum", members_are_told_by_name_and_sum },
		{ .name = "a_device_is_found_again", a_device_is_found_again },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
