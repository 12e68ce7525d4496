/* SPDX-License-Identifier: Apache-2.0 */
/* listen, connect, accept and closeListen (net-api.md §3.2 - §3.4, §8 rows 6 and 7). */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/peer.h>

#include <nccl_net/abi/nccl_types.h>
#include <nccl_net/wire.h>
#include <stddef.h>
#include <string.h>

#define LINKS 64

/* The byte that identifies the messages of a link arrives. */
static void check_link(struct test_net *net, void *scomm, void *rcomm, uint64_t seed)
{
	unsigned char from[100], to[100];

	pattern_fill(from, sizeof(from), seed);
	check_int(link_exchange(net, &(struct link){ .send = scomm, .recv = rcomm }, from,
				sizeof(from), to, sizeof(to)),
		  sizeof(from));
	pattern_check(to, sizeof(to), seed);
}

static void both_ends_connect_on_one_thread(struct test_net *net)
{
	struct link link;

	link_open(net, &link);
	check_link(net, link.send, link.recv, 1);
	link_close(net, &link);
}

/* Neither call may wait for the other side. */
static void connect_and_accept_never_wait(struct test_net *net)
{
	struct link link;

	link_listen(net, &link);
	for (int i = 0; i < 1000; i++)
		check(!link_accept_step(net, &link));
	for (int i = 0; i < 1000; i++)
		link_connect_step(net, &link);
	link_finish(net, &link);
	check_link(net, link.send, link.recv, 2);
	link_close(net, &link);
}

/* All connects start before any accept is called, and accepts are called in another order. */
static void many_connections_are_made_side_by_side(struct test_net *net)
{
	static struct link links[LINKS];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "many connections");

	for (size_t i = 0; i < LINKS; i++)
		link_listen(net, &links[i]);
	for (size_t i = 0; i < LINKS; i++)
		link_connect_step(net, &links[i]);
	for (size_t left = LINKS; left;) {
		left = 0;
		for (size_t i = LINKS; i-- > 0;)
			left += !link_accept_step(net, &links[i]);
		for (size_t i = 0; i < LINKS; i++)
			left += !link_connect_step(net, &links[i]);
		if (left)
			deadline_turn(&deadline);
	}
	for (size_t i = 0; i < LINKS; i++)
		check_link(net, links[i].send, links[i].recv, i);
	for (size_t i = 0; i < LINKS; i++)
		link_close(net, &links[i]);
}

static void receive_first(int fd, void *arg)
{
	struct test_net *net = arg;
	struct link link;
	unsigned char data[3000];

	net_open(net);
	link_open_recvs(net, &link, 1, fd);
	struct transfer recv = transfer_of(data, sizeof(data), 0, NULL);
	struct flow flow = { .comm = link.recv, .transfers = &recv, .count = 1 };
	flows_run(net, &flow, 1);
	pattern_check(data, sizeof(data), 77);
	peer_signal(fd);
	link_close(net, &link);
	net_close(net);
}

static void send_first(int fd, void *arg)
{
	struct test_net *net = arg;
	struct link link;
	unsigned char data[3000];

	net_open(net);
	link_open_sends(net, &link, 1, fd);
	pattern_fill(data, sizeof(data), 77);
	struct transfer send = transfer_of(data, sizeof(data), 0, NULL);
	struct flow flow = { .comm = link.send, .is_send = true, .transfers = &send, .count = 1 };
	flows_run(net, &flow, 1);
	peer_await(fd);
	link_close(net, &link);
	net_close(net);
}

static void two_processes_connect(struct test_net *net)
{
	peer_duo(send_first, receive_first, net);
}

/* Hosts with different releases of NCCL may use different table versions. */
static void ends_of_different_abi_understand_each_other(struct test_net *net)
{
	struct test_net other = { .spec = net->spec, .abi = net->abi == 12 ? 5 : 12 };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");
	struct link link;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have one ABI only");
	net_open(&other);
	link_listen(net, &link);
	for (bool up = false; !up;) {
		up = link_accept_step(net, &link);
		up = link_connect_step(&other, &link) && up;
		deadline_turn(&deadline);
	}
	struct transfer send = transfer_of((char[]){ "across" }, 7, 0, NULL);
	struct transfer recv = transfer_of((char[8]){ "" }, 8, 0, NULL);
	struct flow sends = { .comm = link.send, .is_send = true, .transfers = &send, .count = 1 };
	struct flow recvs = { .comm = link.recv, .transfers = &recv, .count = 1 };
	for (bool over = false; !over;) {
		over = flow_step(&other, &sends);
		over = flow_step(net, &recvs) && over;
		deadline_turn(&deadline);
	}
	check_int(sends.error, 0);
	check_int(recvs.error, 0);
	check(!strcmp(recv.data[0], "across"));
	check_ok(driver_close_send(other.driver, link.send));
	link.send = NULL;
	link_close(net, &link);
	net_close(&other);
}

/* --- handles --- */

static void check_refused(struct test_net *net, unsigned char *handle, const char *what)
{
	void *comm = NULL;
	int ret = driver_connect(net->driver, net->ctx, net->dev, handle, &comm);

	check_that(ret >= 1 && ret <= 6, "connect to %s returned %d", what, ret);
	check(!comm);
}

static void garbage_for_a_handle_is_refused(struct test_net *net)
{
	unsigned char handle[DRIVER_HANDLE_BYTES];

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket trusts the handle");
	capture_allow_warn();
	memset(handle, 0, sizeof(handle));
	check_refused(net, handle, "zeros");
	memset(handle, 0xff, sizeof(handle));
	check_refused(net, handle, "ones");
	pattern_fill(handle, sizeof(handle), 4711);
	check_refused(net, handle, "noise");
	check(capture_count(CAPTURE_WARN, NULL) > 0);
}

/* A few polls of both sides: nothing crashes or blocks, whatever the result. */
static void try_damaged(struct test_net *net, size_t byte, unsigned char flip)
{
	struct link link;
	int ret = 0;

	link_listen(net, &link);
	link_copy(&link)[byte] ^= flip;
	for (int i = 0; i < 20 && !ret && !link.send; i++) {
		ret = driver_connect(net->driver, net->ctx, net->dev, link_copy(&link), &link.send);
		check_that(ret >= 0 && ret <= 6, "byte %zu: connect returned %d", byte, ret);
		check(!ret || !link.send);
		if (link.listener)
			link_accept_step(net, &link);
	}
	link_close(net, &link);
}

static void a_damaged_handle_does_no_harm(struct test_net *net)
{
	struct link link;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket trusts the handle");
	capture_allow_warn();
	for (size_t byte = 0; byte < DRIVER_HANDLE_BYTES; byte++) {
		try_damaged(net, byte, 0x01);
		try_damaged(net, byte, 0x80);
	}
	link_open(net, &link);
	check_link(net, link.send, link.recv, 3);
	link_close(net, &link);
}

/* The token authenticates peers of the job. */
static void a_wrong_token_is_refused(struct test_net *net)
{
	struct link link, wrong;
	size_t token = offsetof(struct anynet_wire_handle, token);
	int ret = 0;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no token");
	capture_allow_warn();
	link_listen(net, &link);
	memcpy(&wrong, &link, sizeof(wrong));
	wrong.send = NULL;
	link_copy(&wrong)[token + 5] ^= 0x10;
	for (int i = 0; i < 500 && !ret; i++) {
		ret = driver_connect(net->driver, net->ctx, net->dev, link_copy(&wrong),
				     &wrong.send);
		check(!wrong.send);
		check(!link_accept_step(net, &link));
	}
	link_finish(net, &link);
	check_link(net, link.send, link.recv, 4);
	link_close(net, &link);
}

/* --- connections that are never established --- */

static void a_listener_may_close_unused(struct test_net *net)
{
	struct link link;

	for (int i = 0; i < 50; i++) {
		link_listen(net, &link);
		link_close(net, &link);
		link_listen(net, &link);
		check(!link_accept_step(net, &link));
		link_close(net, &link);
	}
	link_open(net, &link);
	check_link(net, link.send, link.recv, 5);
	link_close(net, &link);
}

/* When a communicator is aborted, NCCL does not call connects in progress again. */
static void a_connect_may_be_abandoned(struct test_net *net)
{
	static struct link links[8];

	for (size_t i = 0; i < 8; i++) {
		link_listen(net, &links[i]);
		for (size_t turn = 0; turn < i * 3; turn++)
			link_connect_step(net, &links[i]);
	}
	for (size_t i = 0; i < 8; i++) {
		if (links[i].send)
			check_ok(driver_close_send(net->driver, links[i].send));
		if (i % 2)
			check_ok(driver_close_listen(net->driver, links[i].listener));
	}
	struct link link;
	link_open(net, &link);
	check_link(net, link.send, link.recv, 6);
	link_close(net, &link);
}

/* A late rank has listened, but calls accept long after its peer's connect. */
static void a_connect_does_not_wait_for_accept(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a comm without accept");
	struct link link;

	link_listen(net, &link);
	while (!link_connect_step(net, &link))
		deadline_turn(&deadline);
	link_finish(net, &link);
	check_link(net, link.send, link.recv, 7);
	link_close(net, &link);
}

/* With PXN several connects are in progress for one NCCL connection, each to its own listener. The connect that returns
 * a comm determines which accept returns one. */
static void one_connect_of(struct test_net *net, size_t count)
{
	static struct link links[8];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "both ends of one comm");
	size_t winner = count;

	for (size_t i = 0; i < count; i++)
		link_listen(net, &links[i]);
	while (winner == count) {
		for (size_t i = count; i-- > 0 && winner == count;)
			if (link_connect_step(net, &links[i]))
				winner = i;
		deadline_turn(&deadline);
	}
	for (int turn = 0; turn < 100 || !links[winner].recv; turn++) {
		for (size_t i = 0; i < count; i++)
			check(!link_accept_step(net, &links[i]) || i == winner);
		deadline_turn(&deadline);
	}
	check_link(net, links[winner].send, links[winner].recv, 8);
	link_close(net, &links[winner]);
	for (size_t i = 0; i < count; i++)
		if (i != winner)
			check_ok(driver_close_listen(net->driver, links[i].listener));
}

static void the_connect_that_returns_decides(struct test_net *net)
{
	one_connect_of(net, 2);
	one_connect_of(net, 8);
}

/* Without a listener connect fails within its time-out. */
static void connecting_to_a_closed_listener_fails(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an error from connect");
	struct link link;
	int ret = 0;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket sleeps a minute in connect");
	capture_allow_warn();
	link_listen(net, &link);
	check_ok(driver_close_listen(net->driver, link.listener));
	while (!ret) {
		ret = driver_connect(net->driver, net->ctx, net->dev, link_copy(&link), &link.send);
		check(!link.send);
		deadline_turn(&deadline);
	}
	check_int(ret, ANYNET_NCCL_REMOTE_ERROR);
	check(capture_count(CAPTURE_WARN, "127.0.0.1") > 0);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "both_ends_connect_on_one_thread", both_ends_connect_on_one_thread },
		{ .name = "connect_and_accept_never_wait", connect_and_accept_never_wait },
		{ .name = "many_connections_are_made_side_by_side",
		  many_connections_are_made_side_by_side },
		{ .name = "two_processes_connect", two_processes_connect, .unopened = true },
		{ .name = "ends_of_different_abi_understand_each_other",
		  ends_of_different_abi_understand_each_other },
		{ .name = "garbage_for_a_handle_is_refused", garbage_for_a_handle_is_refused },
		{ .name = "a_damaged_handle_does_no_harm", a_damaged_handle_does_no_harm },
		{ .name = "a_wrong_token_is_refused", a_wrong_token_is_refused },
		{ .name = "a_listener_may_close_unused", a_listener_may_close_unused },
		{ .name = "a_connect_may_be_abandoned", a_connect_may_be_abandoned },
		{ .name = "a_connect_does_not_wait_for_accept",
		  a_connect_does_not_wait_for_accept },
		{ .name = "the_connect_that_returns_decides", the_connect_that_returns_decides },
		{ .name = "connecting_to_a_closed_listener_fails",
		  connecting_to_a_closed_listener_fails,
		  .settings = { "ANYNET_CONNECT_TIMEOUT=300ms" } },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
