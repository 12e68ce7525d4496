/* SPDX-License-Identifier: Apache-2.0 */
/* Slow copies through host memory, and the order in which they write. */
#include "gpu.h"

#include <support/buffer.h>
#include <support/capture.h>
#include <support/fake.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/memory.h>
#include <support/relay.h>

#include <nccl_net/device.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message with copies on the streams, at one end or at both. */
struct held {
	struct link link;
	struct buffer from, to;
	struct transfer send, recv;
	struct flow flows[2];
};

static void held_begin(struct test_net *net, struct held *held)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a copy to be held");

	memory_command(HELD);
	while (!memory_counts().waiting) {
		flow_step(net, &held->flows[0]);
		flow_step(net, &held->flows[1]);
		deadline_turn(&deadline);
	}
}

static void held_open(struct test_net *net, struct held *held)
{
	link_open(net, &held->link);
	link_check(net, &held->link, BYTES);
	buffer_alloc(&held->from, BYTES);
	buffer_alloc(&held->to, BYTES);
	pattern_fill(held->from.data, BYTES, 3);
	held->send = transfer_in(net, held->link.send, &held->from);
	held->recv = transfer_in(net, held->link.recv, &held->to);
	held->flows[0] = (struct flow){
		.comm = held->link.send, .is_send = true, .transfers = &held->send, .count = 1
	};
	held->flows[1] =
		(struct flow){ .comm = held->link.recv, .transfers = &held->recv, .count = 1 };
	held_begin(net, held);
}

/* Until the receiver's copies are the held ones. */
static void held_reach_receiver(struct test_net *net, struct held *held)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the receiver to copy");

	memory_command("hold 0");
	while (memory_counts().waiting)
		deadline_turn(&deadline);
	held_begin(net, held);
}

static void held_close(struct test_net *net, struct held *held)
{
	for (int i = 0; i < 50; i++) { /* an error, if any */
		flow_step(net, &held->flows[0]);
		flow_step(net, &held->flows[1]);
	}
	if (held->send.mhandles[0])
		check_ok(driver_dereg_mr(net->driver, held->link.send, held->send.mhandles[0]));
	if (held->recv.mhandles[0])
		check_ok(driver_dereg_mr(net->driver, held->link.recv, held->recv.mhandles[0]));
	memory_command("hold 0");
	buffer_free(&held->from);
	buffer_free(&held->to);
	link_close(net, &held->link);
}

/* After deregMr no copy reads or writes the memory; otherwise the fake reports it. */
void dereg_waits_for_copies(struct test_net *net)
{
	struct held held;
	struct deadline deadline;

	need_copies(net);
	capture_allow_warn();
	for (int end = 0; end < 2; end++) {
		struct transfer *transfer = end ? &held.recv : &held.send;
		struct buffer *buffer = end ? &held.to : &held.from;

		memset(&held, 0, sizeof(held));
		held_open(net, &held);
		if (end)
			held_reach_receiver(net, &held);
		check_ok(driver_dereg_mr(net->driver, end ? held.link.recv : held.link.send,
					 transfer->mhandles[0]));
		transfer->mhandles[0] = NULL;
		check(!transfer->done);
		buffer_free(buffer);
		check_int(memory_counts().misuses, 0);
		buffer_alloc(buffer, BYTES); /* for held_close */
		held_close(net, &held);
		deadline = deadline_in(TEST_PATIENCE_MS, "copies to be done");
		while (memory_counts().waiting)
			deadline_turn(&deadline);
	}
}

void slow_copies_are_waited_for(struct test_net *net)
{
	const size_t sizes[] = { 1, 5000, 65536, BYTES };
	struct link link;

	need_copies(net);
	link_open(net, &link);
	memory_command("hold 100");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		link_check(net, &link, sizes[i]);
	memory_command("hold 0");
	link_close(net, &link);
}

#define STREAM       24
#define STREAM_WIDTH 8

static struct buffer stream_from[STREAM_WIDTH], stream_to[STREAM_WIDTH];

static void fill_next(struct flow *flow, size_t index)
{
	(void)flow;
	pattern_fill(stream_from[index % STREAM_WIDTH].data, BYTES, index);
}

static void check_next(struct flow *flow, size_t index)
{
	(void)flow;
	pattern_check(stream_to[index % STREAM_WIDTH].data, BYTES, index);
}

/* Copies are in progress at both ends: the new connection transfers newly copied data. */
void copies_go_on_when_the_connection_breaks(struct test_net *net)
{
	struct transfer sends[STREAM], recvs[STREAM];
	struct flow flows[2];
	struct relay *relay;
	struct link link;

	need_copies(net);
	link_listen(net, &link);
	relay = relay_start(&link);
	link_finish(net, &link);
	for (int i = 0; i < STREAM_WIDTH; i++) {
		buffer_alloc(&stream_from[i], BYTES);
		buffer_alloc(&stream_to[i], BYTES);
	}
	for (int i = 0; i < STREAM; i++) {
		sends[i] = transfer_of(stream_from[i % STREAM_WIDTH].data, BYTES, 0, NULL);
		recvs[i] = transfer_of(stream_to[i % STREAM_WIDTH].data, BYTES, 0, NULL);
	}
	flows[0] = (struct flow){ .comm = link.send,
				  .is_send = true,
				  .transfers = sends,
				  .count = STREAM,
				  .window = STREAM_WIDTH,
				  .prepare = fill_next };
	flows[1] = (struct flow){ .comm = link.recv,
				  .transfers = recvs,
				  .count = STREAM,
				  .window = STREAM_WIDTH,
				  .finish = check_next };
	memory_command(HELD);
	while (flows[1].done < STREAM / 3)
		flows_run_until_posted(net, flows, 2, &flows[1], flows[1].posted + 1);
	relay_stop(relay);
	memory_command("hold 0");
	flows_run(net, flows, 2);
	for (int i = 0; i < STREAM_WIDTH; i++) {
		buffer_free(&stream_from[i]);
		buffer_free(&stream_to[i]);
	}
	link_close(net, &link);
}

/* --- LL128: the GPU polls the receive for flags, the last 8 of each 128 bytes --- */

#define LINES       200
#define LINE_BYTES  128
#define LINE_WORDS  (LINE_BYTES / 8)
#define LINE_ROUNDS 10

struct kernel {
	const uint64_t *lines; /* as seen by the GPU */
	uint64_t round;
	bool torn;
};

/* As in NCCL: a line whose flag is set is consumed. */
static void *run_kernel(void *arg)
{
	struct kernel *kernel = arg;

	for (int i = 0; i < LINES; i++) {
		const uint64_t *line = kernel->lines + (size_t)i * LINE_WORDS;

		while (__atomic_load_n(&line[LINE_WORDS - 1], __ATOMIC_ACQUIRE) != kernel->round)
			sched_yield();
		for (int k = 0; k < LINE_WORDS - 1; k++)
			kernel->torn |=
				__atomic_load_n(&line[k], __ATOMIC_RELAXED) != kernel->round;
	}
	return NULL;
}

static void need_hint(const struct test_net *net)
{
	if (driver_abi(net->driver) < 9)
		check_skip("NCCL does not say that a receive is LL or LL128 before v9");
}

void flags_of_lines_come_last(struct test_net *net)
{
	static uint64_t host[LINES * LINE_WORDS];
	struct kernel kernel = { .round = 0 };
	void *gpu;
	struct link link;

	need_copies(net);
	need_hint(net);
	link_open(net, &link);
	gpu = memory_alloc(sizeof(host));
	kernel.lines = memory_view(gpu, sizeof(host));
	memset(memory_view(gpu, sizeof(host)), 0, sizeof(host));
	memory_command("sectors on");
	while (kernel.round++ < LINE_ROUNDS) {
		struct transfer send = transfer_of(host, sizeof(host), 0, NULL),
				recv = transfer_of(gpu, sizeof(host), 0, NULL);
		struct flow flows[] = {
			{ .comm = link.recv, .transfers = &recv, .count = 1 },
			{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		};
		pthread_t thread;

		for (size_t i = 0; i < LINES * LINE_WORDS; i++)
			host[i] = kernel.round;
		recv.optional = true;
		check(!pthread_create(&thread, NULL, run_kernel, &kernel));
		flows_run(net, flows, 2);
		pthread_join(thread, NULL);
		check(!kernel.torn);
	}
	memory_command("sectors off");
	memory_leave(net, link.recv);
	memory_free(gpu);
	link_close(net, &link);
}

/* The first and the last line may be partial. */
void lines_may_begin_and_end_anywhere(struct test_net *net)
{
	static const size_t sizes[] = { 1, 7, 8, 119, 120, 121, 127, 128, 129, 248, 300, 70001 };
	static const size_t offsets[] = { 0, 1, 100, 119, 120, 125, 127 };
	unsigned char *host = malloc(BYTES);
	struct link link;
	char *gpu, *view;

	need_copies(net);
	need_hint(net);
	link_open(net, &link);
	gpu = memory_alloc(BYTES);
	view = memory_view(gpu, BYTES);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
			struct transfer send = transfer_of(host, sizes[i], 0, NULL),
					recv = transfer_of(gpu + offsets[k], sizes[i], 0, NULL);
			struct flow flows[] = {
				{ .comm = link.recv, .transfers = &recv, .count = 1 },
				{ .comm = link.send,
				  .is_send = true,
				  .transfers = &send,
				  .count = 1 },
			};

			pattern_fill(host, sizes[i], i + k);
			memset(view, 0x5a, BYTES);
			recv.optional = true;
			flows_run(net, flows, 2);
			check(!memcmp(view + offsets[k], host, sizes[i]));
			for (size_t at = 0; at < BYTES; at++)
				check(view[at] == 0x5a ||
				      (at >= offsets[k] && at < offsets[k] + sizes[i]));
		}
	}
	memory_leave(net, link.recv);
	memory_free(gpu);
	free(host);
	link_close(net, &link);
}
