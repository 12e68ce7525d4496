/* SPDX-License-Identifier: Apache-2.0 */
/* Links that go down and come up, as reported by the kernel, in a namespace with NICs of the test; and the reaction of
 * a comm. */
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/device/carrier.h"
#include "transports/session/watch.h"
#include "unit/environment.h"
#include "unit/netns.h"
#include "unit/pair.h"

enum {
	A0, /* one end of a cable to a1 */
	B0, /* unrelated */
	DEVICES,
	C0 = DEVICES, /* an unused NIC */
};

static struct anynet_device devices[DEVICES + 1];
static int fd;

static void ip(const char *arguments)
{
	if (!netns_ip(false, arguments))
		fail_msg("ip %s", arguments);
}

static void wait_running(const char *name)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a carrier");
	char command[64];

	snprintf(command, sizeof(command), "link show dev %s | grep -q LOWER_UP", name);
	while (!netns_ip(true, command))
		deadline_turn(&deadline);
}

/* Reads events until the NIC has that state. Returns whether an event changed anything. */
static bool wait_down(int device, bool down)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a link event");
	bool news = false;

	while (carrier_interface_is_down(&devices[device]) != down) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		poll(&ready, 1, deadline_left_ms(&deadline));
		news |= carrier_events_read();
		deadline_turn(&deadline);
	}
	return news;
}

/* All earlier events have been read: a later one has arrived. */
static void read_all(void)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	ip("link set c0 mtu 1300");
	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
	carrier_events_read();
}

static int setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	local_cfg.recovery_timeout_ms = 60000;
	ip("link add a0 type veth peer name a1");
	ip("link add b0 type veth peer name b1");
	ip("link add c0 type veth peer name c1");
	for (int i = 0; i <= C0; i++) {
		devices[i] = local_dev;
		devices[i].index = i;
	}
	strcpy(devices[A0].ifname, "a0");
	strcpy(devices[B0].ifname, "b0");
	strcpy(devices[C0].ifname, "c0");
	for (int i = 0; i <= C0; i++)
		devices[i].ifindex = if_nametoindex(devices[i].ifname);
	ip("link set a0 up");
	ip("link set a1 up");
	ip("link set b0 up");
	ip("link set b1 up");
	wait_running("a0");
	wait_running("b0");
	anynet_net_start(&local_cfg, devices, DEVICES);
	fd = carrier_events_open();
	assert_true(fd >= 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	carrier_events_close();
	netns_ip(true, "link del a0");
	netns_ip(true, "link del b0");
	netns_ip(true, "link del c0");
	capture_check();
	return 0;
}

static void test_a_nic_taken_down_is_noticed_and_its_return(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_false(carrier_interface_is_down(&devices[A0]));
		ip("link set a0 down");
		assert_true(wait_down(A0, true));
		assert_false(carrier_interface_is_down(&devices[B0]));
		ip("link set a0 up");
		assert_true(wait_down(A0, false));
	}
}

static void test_a_lost_carrier_is_noticed_and_its_return(void **state)
{
	(void)state;
	ip("link set a1 down");
	assert_true(wait_down(A0, true));
	ip("link set a1 up");
	assert_true(wait_down(A0, false));
}

static void test_a_nic_that_is_removed_is_down(void **state)
{
	(void)state;
	ip("link del a0");
	assert_true(wait_down(A0, true));
	assert_false(carrier_interface_is_down(&devices[B0]));
}

/* Its driver is loaded again, say: it has its name, and another number. */
static void test_a_nic_that_is_made_anew_is_up_again(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		ip("link del a0");
		assert_true(wait_down(A0, true));
		ip("link add a0 type veth peer name a1");
		assert_int_not_equal(if_nametoindex("a0"), devices[A0].ifindex);
		ip("link set a1 up");
		ip("link set a0 up");
		assert_true(wait_down(A0, false));
		assert_false(carrier_interface_is_down(&devices[B0]));
	}
	ip("link set a0 down");
	assert_true(wait_down(A0, true));
}

/* What has its name now is another one. */
static void test_a_nic_that_is_renamed_is_still_itself(void **state)
{
	(void)state;
	ip("link set a0 down");
	ip("link set a0 name a9");
	ip("link set a9 up");
	wait_running("a9");
	read_all();
	assert_false(carrier_interface_is_down(&devices[A0]));
	ip("link add a0 type veth peer name a8");
	read_all();
	assert_false(carrier_interface_is_down(&devices[A0]));
	ip("link set a9 down");
	assert_true(wait_down(A0, true));
	ip("link del a9");
}

static void test_a_port_that_leaves_its_bridge_is_not_lost(void **state)
{
	unsigned losses = carrier_losses(&devices[A0]);

	(void)state;
	if (!netns_ip(true, "link add br0 type bridge")) {
		printf("SKIP this kernel makes no bridge\n");
		skip();
	}
	ip("link set a0 master br0");
	ip("link set a0 nomaster");
	read_all();
	assert_int_equal(carrier_losses(&devices[A0]), losses);
	assert_false(carrier_interface_is_down(&devices[A0]));
	ip("link del br0");
}

static void test_other_events_are_no_news(void **state)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	(void)state;
	read_all();
	assert_false(carrier_events_read());
	ip("link set a0 mtu 1400");
	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
	assert_false(carrier_events_read());
	ip("link set c0 up"); /* not one of the devices */
	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
	assert_false(carrier_events_read());
	assert_false(carrier_interface_is_down(&devices[A0]));
	assert_false(carrier_interface_is_down(&devices[B0]));
}

static void test_nothing_is_known_about_a_missing_device(void **state)
{
	struct anynet_device other = { .index = -1 };

	(void)state;
	ip("link set a0 down");
	wait_down(A0, true);
	assert_false(carrier_interface_is_down(&other));
	other.index = ANYNET_DEVICES_MAX;
	assert_false(carrier_interface_is_down(&other));
}

static void test_closing_forgets(void **state)
{
	(void)state;
	ip("link set a0 down");
	wait_down(A0, true);
	carrier_events_close();
	assert_false(carrier_interface_is_down(&devices[A0]));
	assert_int_equal(carrier_events_open(), fd);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ip("link set b0 down");
	assert_true(wait_down(B0, true));
}

/* Its descriptor has been reused. */
static void test_closing_twice_closes_once(void **state)
{
	(void)state;
	carrier_events_close();
	assert_int_equal(dup(STDIN_FILENO), fd);
	carrier_events_close();
	assert_int_equal(close(fd), 0);
}

static void set_room(int bytes)
{
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
}

/* Events come faster than they are read, and some are lost. */
static void overrun(const char *lost)
{
	set_room(1);
	for (int i = 0; i < 8; i++)
		ip(i % 2 ? "link set c0 mtu 1300" : "link set c0 mtu 1400");
	ip(lost);
}

static void test_after_an_overrun_the_next_event_puts_it_right(void **state)
{
	(void)state;
	read_all();
	overrun("link set a0 down");
	assert_false(carrier_events_read());
	assert_false(
		carrier_interface_is_down(&devices[A0])); /* otherwise this test shows nothing */
	set_room(1 << 16); /* the kernel may report more at the same time */
	ip("link set a0 mtu 1400");
	assert_true(wait_down(A0, true));
}

/* A NIC that counts as down may be up again, and no further event may come. */
static void test_an_overrun_makes_it_forget_which_nics_are_down(void **state)
{
	(void)state;
	ip("link set a0 down");
	wait_down(A0, true);
	read_all();
	overrun("link set b0 mtu 1400");
	assert_true(carrier_events_read());
	assert_false(carrier_interface_is_down(&devices[A0]));
}

/* --- the reaction of a comm --- */

static struct pair pair;

static void look(struct anynet_comm *comm)
{
	watch_comm(comm, os_now_ms());
}

static void test_a_receiver_tells_the_sender_over_another_nic(void **state)
{
	struct anynet_wire_frame frame;
	struct anynet_comm *comm;
	char in[8];

	(void)state;
	pair_open_recv(&pair, 2);
	comm = pair.recv;
	comm->streams[0]->path.nic.dev = &devices[A0];
	comm->streams[1]->path.nic.dev = &devices[B0];
	pair_irecv(&pair, in, sizeof(in), 0);
	look(comm);
	assert_int_not_equal(comm->streams[0]->state, STREAM_SUSPECT);
	ip("link set a0 down");
	wait_down(A0, true);
	look(comm);
	assert_int_equal(comm->streams[0]->state, STREAM_SUSPECT);
	assert_int_not_equal(comm->streams[1]->state, STREAM_SUSPECT);
	assert_int_equal(comm_transmit(comm), 0);
	assert_false(frame_get(pair.fds[0], &frame, NULL, 0));
	assert_true(frame_get(pair.fds[1], &frame, NULL, 0));
	assert_int_equal(frame.type, ANYNET_FRAME_SUSPECT);
	assert_int_equal(frame.slot, 0);
	assert_false(frame_get(pair.fds[1], &frame, NULL, 0));
	/* Its connection is not touched: received data may still be read. */
	assert_true(comm->streams[0]->path.fd >= 0);
	ip("link set a0 up");
	wait_down(A0, false);
	look(comm);
	assert_int_not_equal(comm->streams[0]->state, STREAM_SUSPECT);
	pair_close(&pair);
}

static void test_a_sender_uses_its_other_nic(void **state)
{
	struct anynet_wire_frame frame;
	char in[8];

	(void)state;
	pair_open_send(&pair, 2);
	pair.send->streams[0]->path.nic.dev = &devices[A0];
	pair.send->streams[1]->path.nic.dev = &devices[B0];
	pair_isend(&pair, "first", 5, 0);
	assert_true(frame_get(pair.fds[0], &frame, in, sizeof(in)));
	ip("link set a0 down");
	wait_down(A0, true);
	look(pair.send);
	assert_int_equal(pair.send->streams[0]->state, STREAM_SUSPECT);
	pair_isend(&pair, "second", 6, 0);
	assert_int_equal(comm_transmit(pair.send), 0);
	assert_false(frame_get(pair.fds[0], &frame, in, sizeof(in)));
	assert_true(frame_get(pair.fds[1], &frame, in, sizeof(in)));
	ip("link set a0 up");
	wait_down(A0, false);
	look(pair.send);
	assert_int_not_equal(pair.send->streams[0]->state, STREAM_SUSPECT);
	pair_close(&pair);
}

/* The message that comes next must not find out. */
static void test_a_sender_that_waits_for_nothing_moves_too(void **state)
{
	(void)state;
	pair_open_send(&pair, 2);
	pair.send->streams[0]->path.nic.dev = &devices[A0];
	pair.send->streams[1]->path.nic.dev = &devices[B0];
	ip("link set a0 down");
	wait_down(A0, true);
	look(pair.send);
	assert_int_not_equal(pair.send->streams[0]->state, STREAM_SUSPECT);
	atomic_store(&pair.send->session->carrier_event, true);
	look(pair.send);
	assert_int_equal(pair.send->streams[0]->state, STREAM_SUSPECT);
	assert_non_null(pair.send->session->recovery);
	ip("link set a0 up");
	wait_down(A0, false);
	pair_close(&pair);
}

/* For example one between addresses of this host. Otherwise it would be closed and reconnected again and again. */
static void test_a_connection_made_without_the_link_is_left_alone(void **state)
{
	struct anynet_stream *stream;
	char in[8];

	(void)state;
	ip("link set a0 down");
	wait_down(A0, true);
	pair_open_recv(&pair, 1);
	stream = pair.recv->streams[0];
	stream->path.nic.dev = &devices[A0];
	stream->path.nic.losses = carrier_losses(stream->path.nic.dev);
	pair_irecv(&pair, in, sizeof(in), 0);
	look(pair.recv);
	assert_int_not_equal(stream->state, STREAM_SUSPECT);
	ip("link set a0 up");
	wait_down(A0, false);
	look(pair.recv);
	assert_int_not_equal(stream->state, STREAM_SUSPECT);
	ip("link set a0 down");
	wait_down(A0, true);
	look(pair.recv);
	assert_int_equal(stream->state, STREAM_SUSPECT);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_a_nic_taken_down_is_noticed_and_its_return),
		TEST(test_a_lost_carrier_is_noticed_and_its_return),
		TEST(test_a_nic_that_is_removed_is_down),
		TEST(test_a_nic_that_is_made_anew_is_up_again),
		TEST(test_a_nic_that_is_renamed_is_still_itself),
		TEST(test_a_port_that_leaves_its_bridge_is_not_lost),
		TEST(test_other_events_are_no_news),
		TEST(test_nothing_is_known_about_a_missing_device),
		TEST(test_closing_forgets),
		TEST(test_closing_twice_closes_once),
		TEST(test_after_an_overrun_the_next_event_puts_it_right),
		TEST(test_an_overrun_makes_it_forget_which_nics_are_down),
		TEST(test_a_receiver_tells_the_sender_over_another_nic),
		TEST(test_a_sender_uses_its_other_nic),
		TEST(test_a_sender_that_waits_for_nothing_moves_too),
		TEST(test_a_connection_made_without_the_link_is_left_alone),
	};

	netns_enter();
	if (!netns_ip(true, "link add a0 type veth peer name a1") || !netns_ip(true, "link del a0"))
		check_skip("no pairs of virtual NICs here");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
