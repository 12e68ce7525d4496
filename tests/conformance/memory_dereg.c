/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is deregistered while comms use it, comms of other threads included. */
#include "memory_cases.h"

#include <support/buffer.h>
#include <support/capture.h>
#include <support/fake.h>
#include <support/flow.h>
#include <support/link.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* More than the kernel's socket buffers hold: a message of this size stays in flight. */
#define STUCK_BYTES (32 * MIB)

/* --- deregMr with requests in flight --- */

struct stuck {
	struct link link;
	struct buffer from, to;
	struct transfer send, recv;
	struct flow flows[2];
};

/* While a thread of the plugin may be writing to it. */
__attribute__((noinline, no_sanitize("thread"))) static bool has_begun(const struct buffer *to)
{
	return *(const volatile unsigned char *)to->view != BUFFER_BLANK;
}

/* One large message in flight; a part of it has arrived. Its buffers are registered on these comms, NULL = its own. */
static void stuck_open_with(struct test_net *net, struct stuck *stuck, void *send_home,
			    void *recv_home)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the first bytes of a message");

	link_open(net, &stuck->link);
	buffer_alloc(&stuck->from, STUCK_BYTES);
	buffer_alloc(&stuck->to, STUCK_BYTES);
	memset(stuck->from.view, 0x11, STUCK_BYTES);
	stuck->send = transfer_of(stuck->from.data, STUCK_BYTES, 0,
				  flow_reg(net, send_home ? send_home : stuck->link.send,
					   stuck->from.data, STUCK_BYTES));
	stuck->recv = transfer_of(stuck->to.data, STUCK_BYTES, 0,
				  flow_reg(net, recv_home ? recv_home : stuck->link.recv,
					   stuck->to.data, STUCK_BYTES));
	stuck->flows[0] = (struct flow){
		.comm = stuck->link.send, .is_send = true, .transfers = &stuck->send, .count = 1
	};
	stuck->flows[1] =
		(struct flow){ .comm = stuck->link.recv, .transfers = &stuck->recv, .count = 1 };
	while (!has_begun(&stuck->to)) {
		flow_step(net, &stuck->flows[0]);
		flow_step(net, &stuck->flows[1]);
		deadline_turn(&deadline);
	}
}

static void stuck_open(struct test_net *net, struct stuck *stuck)
{
	stuck_open_with(net, stuck, NULL, NULL);
}

/* All of it was sent before deregMr was called, because a thread of the plugin ran and this one did not. */
static bool was_too_late(const struct stuck *stuck)
{
	return stuck->recv.done || stuck->send.done;
}

/* deregMr of one end's buffer, once. */
static void stuck_dereg(struct test_net *net, void *comm, struct transfer *transfer)
{
	check_ok(driver_dereg_mr(net->driver, comm, transfer->mhandles[0]));
	transfer->mhandles[0] = NULL;
}

static void stuck_close(struct test_net *net, struct stuck *stuck)
{
	stuck_dereg(net, stuck->link.send, &stuck->send);
	stuck_dereg(net, stuck->link.recv, &stuck->recv);
	link_close(net, &stuck->link);
	buffer_free(&stuck->from);
	buffer_free(&stuck->to);
}

/* Both ends are polled on; errors are expected from now on. */
static void drive_on(struct test_net *net, struct stuck *stuck)
{
	for (int turn = 0; turn < 200; turn++) {
		flow_step(net, &stuck->flows[0]);
		flow_step(net, &stuck->flows[1]);
	}
}

static bool dereg_receive(struct test_net *net)
{
	struct stuck stuck;

	stuck_open(net, &stuck);
	stuck_dereg(net, stuck.link.recv, &stuck.recv);
	buffer_blank(&stuck.to); /* it may belong to another owner now */
	drive_on(net, &stuck);
	blank_check(stuck.to.data, STUCK_BYTES);
	check(was_too_late(&stuck) || stuck.flows[1].error != 0);
	stuck_close(net, &stuck);
	return !was_too_late(&stuck);
}

static bool dereg_send(struct test_net *net)
{
	struct stuck stuck;

	stuck_open(net, &stuck);
	stuck_dereg(net, stuck.link.send, &stuck.send);
	memset(stuck.from.view, 0x22, STUCK_BYTES); /* it may belong to another owner now */
	drive_on(net, &stuck);
	stuck_dereg(net, stuck.link.recv, &stuck.recv); /* nobody writes there from now on */
	for (size_t i = 0; i < STUCK_BYTES; i++)
		check_that(stuck.to.view[i] != 0x22, "byte %zu was read after deregMr", i);
	check(was_too_late(&stuck) || stuck.flows[0].error != 0);
	stuck_close(net, &stuck);
	return !was_too_late(&stuck);
}

/* Repeats until it was in time. */
static void dereg_in_flight(struct test_net *net, bool (*dereg)(struct test_net *net))
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message to be in flight");

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket keeps the buffer until close");
	capture_allow_warn();
	while (!dereg(net))
		deadline_turn(&deadline);
}

void dereg_of_a_receive_in_flight_lets_go_of_it(struct test_net *net)
{
	dereg_in_flight(net, dereg_receive);
}

void dereg_of_a_send_in_flight_lets_go_of_it(struct test_net *net)
{
	dereg_in_flight(net, dereg_send);
}

/* Another handle keeps the memory registered with its NICs: data in flight must not reach it through that handle.
 * Waiting for the queue pair's destruction is not enough, as this can take long. */
void what_another_handle_keeps_registered_is_not_written_either(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message and its end"), left;
	struct fake_verbs_counts before;
	struct transfer send, recv;
	struct link link, other;
	struct buffer from, to;
	void *kept;

	if (!getenv("ANYNET_IBVERBS_LIB"))
		check_skip("no NIC writes to memory");
	capture_allow_warn();
	link_open(net, &link);
	link_open(net, &other);
	buffer_alloc(&from, MIB);
	buffer_alloc(&to, MIB);
	pattern_fill(from.data, MIB, 6);
	send = transfer_of(from.data, MIB, 0, flow_reg(net, link.send, from.data, MIB));
	recv = transfer_of(to.data, MIB, 0, flow_reg(net, link.recv, to.data, MIB));
	kept = flow_reg(net, other.recv, to.data, MIB);
	fake_order("fault call destroy_qp errno=16 count=1000000; fault delay write-imm ms=50");
	before = fake_counts();
	transfer_post_soon(net, link.recv, false, &recv);
	transfer_post_soon(net, link.send, true, &send);
	while (fake_counts().bytes_sent[0] < before.bytes_sent[0] + MIB) {
		check_ok(transfer_test(net, &recv));
		check_ok(transfer_test(net, &send));
		deadline_turn(&deadline);
	}
	before = fake_counts();
	left = deadline_in(1000, "the message to leave");
	check_ok(driver_dereg_mr(net->driver, link.recv, recv.mhandles[0]));
	buffer_blank(&to); /* it may belong to another owner now */
	/* It leaves soon, if it has not left before. */
	while (fake_counts().transmissions == before.transmissions && !deadline_passed(&left))
		deadline_turn(&deadline);
	blank_check(to.data, MIB);
	while (!send.done && !transfer_test(net, &send))
		deadline_turn(&deadline);
	blank_check(to.data, MIB);
	fake_order("no-faults");
	check_ok(driver_dereg_mr(net->driver, link.send, send.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, other.recv, kept));
	link_close(net, &link);
	link_close(net, &other);
	buffer_free(&from);
	buffer_free(&to);
}

/* --- a handle that is not used on the comm that made it --- */

enum place {
	MADE, /* the comm that made it */
	USED, /* the comm whose requests use it */
	OTHER,
	PLACES
};

/* A message in flight whose receive (send) has a handle of another comm; deregMr is called on `where`. False: all of it
 * had arrived before. */
static bool dereg_elsewhere(struct test_net *net, bool of_send, enum place where)
{
	struct link links[PLACES];
	struct stuck stuck;
	struct transfer *transfer;
	struct buffer *buffer;
	bool too_late;

	for (int i = 0; i < PLACES; i++)
		if (i != USED)
			link_open(net, &links[i]);
	stuck_open_with(net, &stuck, of_send ? links[MADE].send : NULL,
			of_send ? NULL : links[MADE].recv);
	links[USED] = stuck.link;
	transfer = of_send ? &stuck.send : &stuck.recv;
	buffer = of_send ? &stuck.from : &stuck.to;
	stuck_dereg(net, of_send ? links[where].send : links[where].recv, transfer);
	memset(buffer->view, BUFFER_BLANK, STUCK_BYTES); /* it may belong to another owner now */
	drive_on(net, &stuck);
	too_late = was_too_late(&stuck);
	check(too_late || stuck.flows[of_send ? 0 : 1].error != 0);
	if (!of_send)
		blank_check(stuck.to.data, STUCK_BYTES);
	link_check(net, &links[MADE], 1000); /* which had nothing in flight */
	stuck_close(net, &stuck);
	for (int i = 0; i < PLACES; i++)
		if (i != USED)
			link_close(net, &links[i]);
	return !too_late;
}

static void dereg_elsewhere_in_time(struct test_net *net, bool of_send)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message to be in flight");

	if (!net->props.reg_is_global)
		check_skip("the device does not say regIsGlobal");
	capture_allow_warn();
	for (int where = 0; where < PLACES; where++)
		while (!dereg_elsewhere(net, of_send, (enum place)where))
			deadline_turn(&deadline);
}

void dereg_reaches_receives_of_other_comms(struct test_net *net)
{
	dereg_elsewhere_in_time(net, false);
}

void dereg_reaches_sends_of_other_comms(struct test_net *net)
{
	dereg_elsewhere_in_time(net, true);
}

/* Messages of one thread on one comm, with a handle that another thread deregisters. */
struct rival {
	struct test_net *net;
	struct stuck *stuck;
	atomic_bool over;
};

static void *drive_until_over(void *arg)
{
	struct rival *rival = arg;

	while (!atomic_load(&rival->over)) {
		flow_step(rival->net, &rival->stuck->flows[0]);
		flow_step(rival->net, &rival->stuck->flows[1]);
	}
	return NULL;
}

static bool dereg_beside(struct test_net *net)
{
	struct rival rival = { .net = net };
	struct stuck stuck;
	struct link made;
	pthread_t thread;
	void *mhandle;

	link_open(net, &made);
	stuck_open_with(net, &stuck, NULL, made.recv);
	rival.stuck = &stuck;
	check_ok(pthread_create(&thread, NULL, drive_until_over, &rival));
	mhandle = stuck.recv.mhandles[0];
	check_ok(driver_dereg_mr(net->driver, made.recv, mhandle));
	memset(stuck.to.view, BUFFER_BLANK, STUCK_BYTES);
	blank_check(stuck.to.data, STUCK_BYTES);
	atomic_store(&rival.over, true);
	check_ok(pthread_join(thread, NULL));
	stuck.recv.mhandles[0] = NULL;
	blank_check(stuck.to.data, STUCK_BYTES);
	check(was_too_late(&stuck) || stuck.flows[1].error != 0);
	rival.stuck = NULL;
	stuck_close(net, &stuck);
	link_close(net, &made);
	return !was_too_late(&stuck);
}

void dereg_reaches_comms_of_other_threads(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message to be in flight");

	if (!net->props.reg_is_global)
		check_skip("the device does not say regIsGlobal");
	capture_allow_warn();
	while (!dereg_beside(net))
		deadline_turn(&deadline);
}

/* The comm that made it is closed, and another one may have its address. */
void a_handle_outlives_its_comm(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message to be in flight");
	struct link made, next;
	struct stuck stuck;
	bool too_late = true;

	if (!net->props.reg_is_global)
		check_skip("the device does not say regIsGlobal");
	capture_allow_warn();
	while (too_late) {
		link_open(net, &made);
		stuck_open_with(net, &stuck, NULL, made.recv);
		link_close(net, &made);
		link_open(net, &next);
		stuck_dereg(net, next.recv, &stuck.recv);
		buffer_blank(&stuck.to);
		drive_on(net, &stuck);
		blank_check(stuck.to.data, STUCK_BYTES);
		too_late = was_too_late(&stuck);
		link_check(net, &next, 1000);
		stuck_close(net, &stuck);
		link_close(net, &next);
		deadline_turn(&deadline);
	}
}

/* NCCL's order at an abort: deregMr of both buffers, free, close. */
void close_after_dereg_touches_nothing(struct test_net *net)
{
	struct stuck stuck;

	capture_allow_warn();
	stuck_open(net, &stuck);
	stuck_dereg(net, stuck.link.recv, &stuck.recv);
	stuck_dereg(net, stuck.link.send, &stuck.send);
	buffer_free(&stuck.from);
	buffer_free(&stuck.to);
	link_close(net, &stuck.link);
}
