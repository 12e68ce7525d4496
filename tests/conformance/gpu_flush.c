/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes: data that NICs have written to GPU memory is visible after the flush, and aborting one flush disturbs no
 * other. */
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

static void flush_with(struct test_net *net, void *rcomm, void *data, int bytes, void *mhandle)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a flush");
	void *req = data;
	int done = 0;

	check_ok(driver_iflush(net->driver, rcomm,
			       &(struct driver_flush){ 1, &data, &bytes, &mhandle }, &req));
	while (req && !done) {
		check_ok(driver_test(net->driver, req, &done, NULL));
		deadline_turn(&deadline);
	}
	memory_check_thread();
}

/* Sizes are hints (net-api.md §3.6), and several flushes may be requested at once. */
void a_flush_may_be_of_nothing(struct test_net *net)
{
	struct buffer buffer;
	struct link link;
	void *mhandle;

	need_gpu();
	link_open(net, &link);
	buffer_alloc(&buffer, BYTES);
	mhandle = flow_reg(net, link.recv, buffer.data, BYTES);
	flush_with(net, link.recv, buffer.data, 0, mhandle);
	flush_with(net, link.recv, buffer.data, (int)BYTES, mhandle);
	link_check(net, &link, BYTES);
	flush_with(net, link.recv, buffer.data + 1000, 0, mhandle);
	flush_with(net, link.recv, buffer.data, 1, mhandle);
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandle));
	buffer_free(&buffer);
	link_close(net, &link);
}

/* Only the flush makes the NIC's data visible here: the sender's memory is host memory, and all of it stays
 * registered. */
void a_slow_flush_is_waited_for(struct test_net *net)
{
	static unsigned char host[BYTES];
	struct buffer gpu;
	struct link link;

	need_nics(net);
	link_open(net, &link);
	buffer_alloc(&gpu, BYTES);
	fake_order("fault delay read ms=20 count=1000000");
	for (uint64_t i = 0; i < 5; i++) {
		struct transfer send = transfer_of(host, BYTES, 0, NULL),
				recv = transfer_of(gpu.data, BYTES, 0, NULL);
		struct flow flows[] = {
			{ .comm = link.recv, .transfers = &recv, .count = 1 },
			{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		};

		pattern_fill(host, BYTES, i);
		flows_run(net, flows, 2);
		pattern_check(gpu.data, BYTES, i);
	}
	fake_order("no-faults");
	memory_leave(net, link.recv);
	buffer_free(&gpu);
	link_close(net, &link);
}

/* Two receives complete and are flushed. The first READ covers both, and is still in progress when the second flush is
 * requested, whichever is tested first. */
void a_flush_waits_for_those_before_it(struct test_net *net)
{
	static unsigned char host[BYTES];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a flush");
	struct transfer sends[2], recvs[2];
	struct buffer gpu[2];
	struct link link;
	void *mhandles[2], *flushes[2];

	need_nics(net);
	link_open(net, &link);
	for (int i = 0; i < 2; i++) {
		buffer_alloc(&gpu[i], BYTES);
		mhandles[i] = flow_reg(net, link.recv, gpu[i].data, BYTES);
	}
	pattern_fill(host, BYTES, 9);
	fake_order("fault delay read ms=20 count=1000000");
	for (int i = 0; i < 2; i++) {
		recvs[i] = transfer_of(gpu[i].data, BYTES, 0, mhandles[i]);
		sends[i] = transfer_of(host, BYTES, 0, NULL);
		transfer_post_soon(net, link.recv, false, &recvs[i]);
		recvs[i].flushed = true; /* by the test */
		transfer_post_soon(net, link.send, true, &sends[i]);
	}
	for (int i = 0; i < 2; i++) {
		while (!recvs[i].done || !sends[i].done) {
			if (!sends[i].done)
				check_ok(transfer_test(net, &sends[i]));
			if (!recvs[i].done)
				check_ok(transfer_test(net, &recvs[i]));
			deadline_turn(&deadline);
		}
	}
	for (int i = 0; i < 2; i++) {
		int bytes = (int)BYTES;

		check_ok(driver_iflush(net->driver, link.recv,
				       &(struct driver_flush){ 1, &recvs[i].data[0], &bytes,
							       &mhandles[i] },
				       &flushes[i]));
	}
	for (int i = 1; i >= 0; i--) {
		for (int done = 0; flushes[i] && !done; deadline_turn(&deadline))
			check_ok(driver_test(net->driver, flushes[i], &done, NULL));
		pattern_check(gpu[i].data, BYTES, 9);
	}
	fake_order("no-faults");
	for (int i = 0; i < 2; i++) {
		check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[i]));
		buffer_free(&gpu[i]);
	}
	memory_leave(net, link.send);
	link_close(net, &link);
}

/* A message from host memory has arrived, and its flush is requested. NULL: it is already done. */
static void *begin_flush(struct test_net *net, const struct link *link, struct buffer *gpu,
			 void *mhandle, uint64_t seed)
{
	static unsigned char host[BYTES];
	struct transfer send = transfer_of(host, BYTES, 0, NULL),
			recv = transfer_of(gpu->data, BYTES, 0, mhandle);
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message");
	int bytes = (int)BYTES;
	void *flush;

	pattern_fill(host, BYTES, seed);
	transfer_post_soon(net, link->recv, false, &recv);
	recv.flushed = true; /* by the test */
	transfer_post_soon(net, link->send, true, &send);
	while (!send.done || !recv.done) {
		if (!send.done)
			check_ok(transfer_test(net, &send));
		if (!recv.done)
			check_ok(transfer_test(net, &recv));
		deadline_turn(&deadline);
	}
	check_ok(driver_iflush(net->driver, link->recv,
			       &(struct driver_flush){ 1, &recv.data[0], &bytes, &mhandle },
			       &flush));
	return flush;
}

static void end_flush(struct test_net *net, void *flush)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a flush");

	for (int done = 0; flush && !done; deadline_turn(&deadline))
		check_ok(driver_test(net->driver, flush, &done, NULL));
}

/* … and its data is visible then. */
static void flush_one(struct test_net *net, const struct link *link, struct buffer *gpu,
		      void *mhandle, uint64_t seed)
{
	end_flush(net, begin_flush(net, link, gpu, mhandle, seed));
	pattern_check(gpu->data, BYTES, seed);
}

/* NCCL_GDR_FLUSH_DISABLE=1: neither a READ nor a call of CUDA. A READ would take longer than the call. */
void disabled_flushes_are_not_made(struct test_net *net)
{
	struct buffer gpu;
	struct link link;
	void *mhandle;
	uint64_t calls;

	need_nics(net);
	open_linked(net, &link);
	buffer_alloc(&gpu, BYTES);
	mhandle = flow_reg(net, link.recv, gpu.data, BYTES);
	calls = memory_counts().calls;
	fake_order("fault delay read ms=1000 count=1000000");
	for (uint64_t i = 0; i < 3; i++)
		check(!begin_flush(net, &link, &gpu, mhandle, i));
	check_int(memory_counts().calls, calls);
	fake_order("no-faults");
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandle));
	buffer_free(&gpu);
	link_close(net, &link);
}

/* Its READ is on the queue pair of all comms: the memory that it reads stays registered until it ends. */
void an_aborted_flush_breaks_no_others(struct test_net *net)
{
	struct link links[2];
	struct buffer gpu[2];
	void *mhandles[2];
	uint64_t by_cuda;

	need_nics(net);
	for (int i = 0; i < 2; i++) {
		open_linked(net, &links[i]);
		buffer_alloc(&gpu[i], BYTES);
		mhandles[i] = flow_reg(net, links[i].recv, gpu[i].data, BYTES);
		flush_one(net, &links[i], &gpu[i], mhandles[i], 5);
	}
	by_cuda = memory_counts().flushes;
	fake_order("fault delay read ms=50");
	check(begin_flush(net, &links[0], &gpu[0], mhandles[0], 6));
	check_ok(driver_dereg_mr(net->driver, links[0].recv, mhandles[0]));
	link_close(net, &links[0]);
	buffer_free(&gpu[0]);
	for (uint64_t i = 0; i < 5; i++)
		flush_one(net, &links[1], &gpu[1], mhandles[1], i);
	check_int(memory_counts().flushes, by_cuda);
	check_ok(driver_dereg_mr(net->driver, links[1].recv, mhandles[1]));
	buffer_free(&gpu[1]);
	link_close(net, &links[1]);
}

/* A READ of memory under heavy writes is slow, and READs of other comms do not wait for it. In real time, because the
 * adapter's time-out must not end it. */
void late_flushes_are_waited_for(struct test_net *net)
{
	enum {
		COMMS = 3
	};
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "flushes at the same time");
	struct link links[COMMS];
	struct buffer gpu[COMMS];
	void *mhandles[COMMS], *flushes[COMMS];
	uint64_t by_cuda;

	need_nics(net);
	for (int i = 0; i < COMMS; i++) {
		open_linked(net, &links[i]);
		buffer_alloc(&gpu[i], BYTES);
		mhandles[i] = flow_reg(net, links[i].recv, gpu[i].data, BYTES);
		flush_one(net, &links[i], &gpu[i], mhandles[i], 5);
	}
	by_cuda = memory_counts().flushes;
	fake_order("hurry 1; fault slow read ms=400 count=1000000");
	do {
		for (int i = 0; i < COMMS; i++)
			flushes[i] = begin_flush(net, &links[i], &gpu[i], mhandles[i], 6);
		for (int i = 0; i < COMMS; i++) {
			end_flush(net, flushes[i]);
			pattern_check(gpu[i].data, BYTES, 6);
		}
		check_int(memory_counts().flushes, by_cuda);
		deadline_turn(&deadline);
	} while (fake_counts().reads_at_once < COMMS);
	fake_order("hurry 64; no-faults");
	for (int i = 0; i < COMMS; i++) {
		check_ok(driver_dereg_mr(net->driver, links[i].recv, mhandles[i]));
		buffer_free(&gpu[i]);
		link_close(net, &links[i]);
	}
}

/* CUDA flushes while the flush queue pair is broken; the queue pair is created again. */
static void a_broken_flush_is_mended(struct test_net *net, bool by_cuda)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "flushes by READ");
	uint64_t seed = 0, before, now;
	struct buffer gpu;
	struct link link;
	void *mhandle;

	need_nics(net);
	open_linked(net, &link);
	buffer_alloc(&gpu, BYTES);
	mhandle = flow_reg(net, link.recv, gpu.data, BYTES);
	fake_order("fault status read status=12");
	if (!by_cuda)
		memory_command("fail cuFlushGPUDirectRDMAWrites count=1000000 code=801");
	before = memory_counts().flushes;
	flush_one(net, &link, &gpu, mhandle, seed);
	if (by_cuda)
		check(memory_counts().flushes > before);
	do {
		now = memory_counts().flushes;
		flush_one(net, &link, &gpu, mhandle, ++seed);
		deadline_turn(&deadline);
	} while (memory_counts().flushes != now);
	fake_order("no-faults");
	memory_command("no-faults");
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandle));
	buffer_free(&gpu);
	link_close(net, &link);
}

void a_broken_queue_pair_for_flushes_is_made_again(struct test_net *net)
{
	a_broken_flush_is_mended(net, true);
}

/* Older GPUs and drivers lack this call. */
void where_cuda_cannot_flush_it_is_waited_for(struct test_net *net)
{
	a_broken_flush_is_mended(net, false);
}

/* More than one piece: a WRITE, and its frame behind it. The frame is lost, and the message is retransmitted over TCP.
 * The data of the WRITE must not become visible when the buffer holds the next message. */
void a_write_without_its_frame_is_flushed(struct test_net *net)
{
	enum {
		LARGE = 5 << 20
	};
	unsigned char *host = malloc(LARGE);
	struct buffer gpu, other;
	struct link link;
	void *mhandles[2];

	need_nics(net);
	check(host);
	open_linked(net, &link);
	buffer_alloc(&gpu, LARGE);
	buffer_alloc(&other, BYTES);
	mhandles[0] = flow_reg(net, link.recv, gpu.data, LARGE);
	mhandles[1] = flow_reg(net, link.recv, other.data, BYTES);
	for (uint64_t i = 0; i < 3; i++) {
		struct transfer send = transfer_of(host, LARGE, 0, NULL),
				recv = transfer_of(gpu.data, LARGE, 0, mhandles[0]);
		struct flow flows[] = {
			{ .comm = link.recv, .transfers = &recv, .count = 1 },
			{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		};

		pattern_fill(host, LARGE, i);
		flows_run(net, flows, 2);
		pattern_check(gpu.data, LARGE, i);
		if (!i)
			fake_order("fault lose send count=1000000");
	}
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[1])); /* everything is visible now */
	pattern_check(gpu.data, LARGE, 2);
	fake_order("no-faults");
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[0]));
	buffer_free(&gpu);
	buffer_free(&other);
	link_close(net, &link);
	free(host);
}
