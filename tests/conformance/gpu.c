/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is special about GPU memory, on the fake libcuda.so.1 (tests/fakes/cuda): calls of CUDA that fail, copies
 * that take long, a driver that is missing, what is kept. That messages arrive is the other subjects'
 * business, with TEST_MEMORY=cuda.
 */
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

#define BYTES ((size_t)300000)

/* Queries that a held copy waits for: far more than a few turns make, and soon over for who waits, though he
 * yields after each, and gives the GPU up after 10 s. */
#define HELD "hold 50"

static void need_gpu(void)
{
	if (!memory_is_cuda())
		check_skip("TEST_MEMORY is not cuda");
}

static bool nics_reach_it(const struct test_net *net)
{
	return getenv("ANYNET_IBVERBS_LIB") && memory_is_offered(net);
}

/* Where NICs reach GPU memory nothing is copied. */
static void need_copies(const struct test_net *net)
{
	need_gpu();
	if (nics_reach_it(net))
		check_skip("NICs reach GPU memory");
}

static void need_nics(const struct test_net *net)
{
	need_gpu();
	if (!nics_reach_it(net))
		check_skip("no NIC reaches GPU memory");
}

static void what_is_no_gpu_memory_is_refused(struct test_net *net)
{
	void *host = malloc(4096), *mhandle = host;
	struct link link;
	char line[CAPTURE_LINE_BYTES];

	need_gpu();
	capture_allow_warn();
	link_open(net, &link);
	check(driver_reg_mr(net->driver, link.send, host, 4096, ANYNET_PTR_CUDA, &mhandle) != 0);
	check(!mhandle);
	check(capture_find(CAPTURE_WARN, "CUDA does not know GPU memory", line));
	link_check(net, &link, BYTES);
	link_close(net, &link);
	free(host);
}

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

/* Sizes are hints (net-api.md §3.6), and more than one flush may be asked for. */
static void a_flush_may_be_of_nothing(struct test_net *net)
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

/* NCCL uses GPUDirect on whatever a topology file or another net says has it. */
static void what_nobody_offered_is_copied(struct test_net *net)
{
	bool is_ib = getenv("ANYNET_IBVERBS_LIB");
	struct buffer buffer;
	struct link link;
	void *mhandles[4];

	need_gpu();
	if (memory_is_offered(net))
		check_skip("the device reports GPU support");
	link_open(net, &link);
	buffer_alloc(&buffer, BYTES);
	for (int i = 0; i < 4; i++)
		mhandles[i] = flow_reg(net, i % 2 ? link.recv : link.send, buffer.data, BYTES);
	link_check(net, &link, BYTES);
	check(memory_counts().copies != 0);
	check_int(capture_count(is_ib ? CAPTURE_WARN : CAPTURE_INFO, "NCCL uses GPUDirect on it"),
		  1);
	check_int(capture_count(CAPTURE_WARN, NULL), is_ib);
	for (int i = 0; i < 4; i++)
		check_ok(driver_dereg_mr(net->driver, i % 2 ? link.recv : link.send, mhandles[i]));
	buffer_free(&buffer);
	link_close(net, &link);
}

/* NCCL sends the protocols for small messages from host memory to a GPU's. */
static void host_and_gpu_memory_mix(struct test_net *net)
{
	static unsigned char host[BYTES];
	const size_t sizes[] = { 1, 100, 9000, BYTES };
	struct buffer gpu;
	struct link link;

	need_gpu();
	link_open(net, &link);
	buffer_alloc(&gpu, BYTES);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = sizes[i];

		buffer_blank(&gpu);
		pattern_fill(host, bytes, i);
		check_int(flow_exchange(net, link.send, link.recv, host, bytes, gpu.data, BYTES),
			  bytes);
		pattern_check(gpu.data, bytes, i);
		blank_check(gpu.data + bytes, BYTES - bytes);
		memset(host, 0, sizeof(host));
		check_int(flow_exchange(net, link.send, link.recv, gpu.data, bytes, host, BYTES),
			  bytes);
		pattern_check(host, bytes, i);
	}
	buffer_free(&gpu);
	link_close(net, &link);
}

/* Each comm has memory of its own GPU. */
static void two_gpus_talk(struct test_net *net)
{
	struct buffer buffers[2];
	struct link link;

	need_gpu();
	link_open(net, &link);
	buffer_alloc(&buffers[0], BYTES);
	memory_choose_gpu(1);
	buffer_alloc(&buffers[1], BYTES);
	pattern_fill(buffers[0].data, BYTES, 7);
	check_int(flow_exchange(net, link.send, link.recv, buffers[0].data, BYTES, buffers[1].data,
				BYTES),
		  BYTES);
	pattern_check(buffers[1].data, BYTES, 7);
	link_close(net, &link);
	buffer_free(&buffers[0]);
	buffer_free(&buffers[1]);
}

/* What NCCL has registered is registered with the port that takes over, by dma-bufs of the plugin's own
 * where NCCL has closed its: the memory is not copied for long. */
static void another_port_reaches_it_too(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message without copies");
	struct transfer send, recv;
	struct buffer from, to;
	struct link link;
	void *mhandles[2];
	uint64_t copies;

	need_nics(net);
	link_open(net, &link);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	mhandles[0] = flow_reg(net, link.send, from.data, BYTES);
	mhandles[1] = flow_reg(net, link.recv, to.data, BYTES);
	fake_order("set fake0:1 state=down");
	do {
		copies = memory_counts().copies;
		send = transfer_of(from.data, BYTES, 0, mhandles[0]);
		recv = transfer_of(to.data, BYTES, 0, mhandles[1]);
		struct flow flows[] = {
			{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
			{ .comm = link.recv, .transfers = &recv, .count = 1 },
		};
		pattern_fill(from.data, BYTES, copies);
		flows_run(net, flows, 2);
		pattern_check(to.data, BYTES, copies);
		deadline_turn(&deadline);
	} while (memory_counts().copies != copies);
	check_ok(driver_dereg_mr(net->driver, link.send, mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[1]));
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &link);
}

/* --- no call of CUDA, which may wait for a kernel that waits for us, while queue pairs carry the data --- */

#define SILENT_PLACE ((size_t)128 << 10)
#define SILENT_GROUP 8

struct silent {
	struct link link;
	struct buffer to;
	unsigned char *from; /* SILENT_GROUP places, as in `to` */
	void *mhandles[2];
	struct transfer sends[SILENT_GROUP], recv;
};

/* One that has queue pairs: on a busy machine they may be proved too late. */
static void open_linked(struct test_net *net, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a queue pair");
	uint64_t before = fake_counts().qps;

	while (link_open(net, link), fake_counts().qps < before + 2) {
		link_close(net, link);
		before = fake_counts().qps;
		deadline_turn(&deadline);
	}
}

static void silent_send(struct test_net *net, struct silent *silent, uint64_t seed, size_t bytes)
{
	for (int i = 0; i < silent->recv.n; i++) {
		unsigned char *from = silent->from + (size_t)i * SILENT_PLACE;

		pattern_fill(from, bytes, seed + (uint64_t)i);
		silent->sends[i] = transfer_of(from, bytes, i, silent->mhandles[0]);
		transfer_post_soon(net, silent->link.send, true, &silent->sends[i]);
	}
}

/* A turn of everything; true when all is done. */
static bool silent_turn(struct test_net *net, struct silent *silent)
{
	bool done = true;

	for (int i = 0; i <= silent->recv.n; i++) {
		struct transfer *each = i < silent->recv.n ? &silent->sends[i] : &silent->recv;

		if (each->req && !each->done)
			check_ok(transfer_test(net, each));
		done = done && each->done;
	}
	return done;
}

/* `recv_first`: the receive is posted, and told, before the messages are sent; or long after. */
static void silent_exchange(struct test_net *net, struct silent *silent, int n, size_t bytes,
			    bool recv_first)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "messages");
	static uint64_t seed;

	seed += SILENT_GROUP;
	buffer_blank(&silent->to);
	silent->recv = (struct transfer){ .n = n };
	memset(silent->sends, 0, sizeof(silent->sends));
	for (int i = 0; i < n; i++) {
		silent->recv.data[i] = silent->to.data + (size_t)i * SILENT_PLACE;
		silent->recv.bytes[i] = bytes;
		silent->recv.tags[i] = i;
		silent->recv.mhandles[i] = silent->mhandles[1];
	}
	if (!recv_first)
		silent_send(net, silent, seed, bytes);
	for (int i = 0; i < 20 && !recv_first; i++)
		silent_turn(net, silent);
	transfer_post_soon(net, silent->link.recv, false, &silent->recv);
	for (int i = 0; i < 20 && recv_first; i++)
		silent_turn(net, silent);
	if (recv_first)
		silent_send(net, silent, seed, bytes);
	while (!silent_turn(net, silent))
		deadline_turn(&deadline);
	for (int i = 0; i < n; i++) {
		check_int(silent->recv.sizes[i], bytes);
		pattern_check(silent->recv.data[i], bytes, seed + (uint64_t)i);
	}
}

static void silent_comm(struct test_net *net, int n, bool from_host)
{
	static const size_t sizes[] = { 0, 8, 480, 481, (size_t)64 << 10 };
	static unsigned char host[SILENT_GROUP * SILENT_PLACE];
	struct silent silent;
	struct buffer gpu;
	uint64_t calls;

	open_linked(net, &silent.link);
	buffer_alloc(&gpu, sizeof(host));
	buffer_alloc(&silent.to, sizeof(host));
	silent.from = from_host ? host : gpu.data;
	silent.mhandles[0] = flow_reg(net, silent.link.send, silent.from, sizeof(host));
	silent.mhandles[1] = flow_reg(net, silent.link.recv, silent.to.data, sizeof(host));
	calls = memory_counts().calls;
	for (size_t i = 0; i < 4 * sizeof(sizes) / sizeof(sizes[0]); i++)
		silent_exchange(net, &silent, n, sizes[i / 2 % (sizeof(sizes) / sizeof(sizes[0]))],
				i % 2);
	check_ok(driver_dereg_mr(net->driver, silent.link.send, silent.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, silent.link.recv, silent.mhandles[1]));
	link_close(net, &silent.link);
	check_int(memory_counts().calls, calls);
	buffer_free(&gpu);
	buffer_free(&silent.to);
}

static void no_call_of_cuda_while_queue_pairs_carry_the_data(struct test_net *net)
{
	need_nics(net);
	for (int from_host = 0; from_host < 2; from_host++) {
		silent_comm(net, 1, from_host);
		if (net->props.max_recvs >= SILENT_GROUP)
			silent_comm(net, SILENT_GROUP, from_host);
	}
}

/* A receive in host memory that is too small to be granted, as such messages may come in frames; and then, before
 * its message, the comm's first one in GPU memory, from which on nothing may. */
static void the_first_gpu_memory_strands_no_small_receive(struct test_net *net)
{
	static unsigned char from[2][100], to[100];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "two messages");
	struct transfer sends[2], recvs[2];
	struct buffer gpu;
	struct link link;

	need_nics(net);
	open_linked(net, &link);
	buffer_alloc(&gpu, sizeof(to));
	recvs[0] = transfer_of(to, sizeof(to), 0, NULL);
	recvs[1] = transfer_of(gpu.data, sizeof(to), 0, NULL);
	for (int i = 0; i < 2; i++) {
		transfer_post_soon(net, link.recv, false, &recvs[i]);
		for (int turn = 0; turn < 10; turn++)
			check_ok(transfer_test(net, &recvs[0]));
	}
	for (int i = 0; i < 2; i++) {
		pattern_fill(from[i], sizeof(to), (uint64_t)i);
		sends[i] = transfer_of(from[i], sizeof(to), 0, NULL);
		transfer_post_soon(net, link.send, true, &sends[i]);
	}
	while (!recvs[1].done) {
		for (int i = 0; i < 2; i++) {
			if (!sends[i].done)
				check_ok(transfer_test(net, &sends[i]));
			if (!recvs[i].done)
				check_ok(transfer_test(net, &recvs[i]));
		}
		deadline_turn(&deadline);
	}
	check(recvs[0].done);
	pattern_check(to, sizeof(to), 0);
	pattern_check(gpu.data, sizeof(to), 1);
	buffer_free(&gpu);
	link_close(net, &link);
}

/* Without two pieces to a request small messages still go by queue pairs. */
static void adapters_that_gather_nothing_are_used(struct test_net *net)
{
	static unsigned char host[100];
	struct buffer gpu;
	struct link link;
	uint64_t sends;

	need_nics(net);
	open_linked(net, &link);
	buffer_alloc(&gpu, sizeof(host));
	sends = fake_counts().sends;
	for (uint64_t i = 0; i < 10; i++) {
		pattern_fill(gpu.data, sizeof(host), i);
		check_int(flow_exchange(net, link.send, link.recv, gpu.data, sizeof(host), host,
					sizeof(host)),
			  sizeof(host));
		pattern_check(host, sizeof(host), i);
	}
	check(fake_counts().sends >= sends + 10);
	buffer_free(&gpu);
	link_close(net, &link);
}

/* What would travel in a frame, and be copied from there by the receiver: with the grant there in time NICs write
 * it where it belongs. */
static void small_messages_are_not_copied_either(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message without copies");
	static unsigned char host[100];
	struct buffer gpu;
	struct link link;
	uint64_t copies;

	need_nics(net);
	link_open(net, &link);
	buffer_alloc(&gpu, BYTES);
	do {
		copies = memory_counts().copies;
		pattern_fill(host, sizeof(host), copies);
		check_int(flow_exchange(net, link.send, link.recv, host, sizeof(host), gpu.data,
					BYTES),
			  sizeof(host));
		pattern_check(gpu.data, sizeof(host), copies);
		deadline_turn(&deadline);
	} while (memory_counts().copies != copies);
	buffer_free(&gpu);
	link_close(net, &link);
}

/* A NIC that would write there by its grant knows nothing of the receive's end, but by what the grant says. */
static void nothing_small_is_written_past_its_receive(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a grant by a queue pair");
	static unsigned char host[100];
	struct transfer send = transfer_of(host, sizeof(host), 0, NULL), recv;
	struct flow flows[] = {
		{ .is_send = true, .transfers = &send, .count = 1 },
		{ .transfers = &recv, .count = 1, .posted = 1 },
	};
	struct link link, other;
	struct buffer gpu;
	uint64_t before;

	need_nics(net);
	capture_allow_warn();
	link_open(net, &other);
	open_linked(net, &link);
	buffer_alloc(&gpu, BYTES);
	buffer_blank(&gpu);
	recv = transfer_of(gpu.data, 60, 0, flow_reg(net, link.recv, gpu.data, BYTES));
	before = fake_counts().sends;
	for (transfer_post_soon(net, link.recv, false, &recv); fake_counts().sends == before;
	     deadline_turn(&deadline))
		check_ok(transfer_test(net, &recv));
	flows[0].comm = link.send;
	flows[1].comm = link.recv;
	check(flows_run_until_error(net, flows, 2, &flows[1]));
	link_check(net, &other, BYTES); /* whatever was written is seen now */
	blank_check(gpu.data, BYTES);
	check_ok(driver_dereg_mr(net->driver, link.recv, recv.mhandles[0]));
	link_close(net, &link);
	link_close(net, &other);
	buffer_free(&gpu);
}

/* Nothing else makes the NIC's bytes seen here: the sender's memory is the host's, and all stays registered. */
static void a_slow_flush_is_waited_for(struct test_net *net)
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
	fake_order("recovery");
	memory_leave(net, link.recv);
	buffer_free(&gpu);
	link_close(net, &link);
}

/* Two receives are done, and then flushed: the first READ is of both, and still under way when the second flush is
 * asked for, whichever of them is tested first. */
static void a_flush_waits_for_those_before_it(struct test_net *net)
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
		recvs[i].flushed = true; /* by us */
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
	fake_order("recovery");
	for (int i = 0; i < 2; i++) {
		check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[i]));
		buffer_free(&gpu[i]);
	}
	memory_leave(net, link.send);
	link_close(net, &link);
}

/* A message out of host memory has come, and a flush of it is asked for. NULL: it is done already. */
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
	recv.flushed = true; /* by us */
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

/* … and what it brought is seen then. */
static void flush_one(struct test_net *net, const struct link *link, struct buffer *gpu,
		      void *mhandle, uint64_t seed)
{
	end_flush(net, begin_flush(net, link, gpu, mhandle, seed));
	pattern_check(gpu->data, BYTES, seed);
}

/* Its READ is on the queue pair of all comms: what it reads stays registered until it is over. */
static void an_aborted_flush_breaks_no_others(struct test_net *net)
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

/* A READ of memory that much is being written to takes its time, and those of other comms do not wait for it. In real
 * time, as it is the adapter's timeout that must not end it. */
static void late_flushes_are_waited_for(struct test_net *net)
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
	fake_order("hurry 64; recovery");
	for (int i = 0; i < COMMS; i++) {
		check_ok(driver_dereg_mr(net->driver, links[i].recv, mhandles[i]));
		buffer_free(&gpu[i]);
		link_close(net, &links[i]);
	}
}

/* CUDA flushes while the queue pair for that is broken; it is made again. */
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
	fake_order("recovery");
	memory_command("recovery");
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandle));
	buffer_free(&gpu);
	link_close(net, &link);
}

static void a_broken_queue_pair_for_flushes_is_made_again(struct test_net *net)
{
	a_broken_flush_is_mended(net, true);
}

/* Older GPUs and drivers have no such call. */
static void where_cuda_cannot_flush_it_is_waited_for(struct test_net *net)
{
	a_broken_flush_is_mended(net, false);
}

/* More than goes in one piece: a WRITE, and its frame behind it. The frame is lost, and the message comes again over TCP;
 * what the WRITE has brought may not be seen when the buffer has the next one. */
static void a_write_without_its_frame_is_flushed(struct test_net *net)
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
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[1])); /* all is seen now */
	pattern_check(gpu.data, LARGE, 2);
	fake_order("recovery");
	check_ok(driver_dereg_mr(net->driver, link.recv, mhandles[0]));
	buffer_free(&gpu);
	buffer_free(&other);
	link_close(net, &link);
	free(host);
}

/* --- GPU memory that can be registered, and is not reached --- */

#define LOST_PORTS                                                                         \
	"device fake0 dmabuf; port layer=eth gid=0,127.0.0.1,v2,lo; device fake1 dmabuf; " \
	"port layer=eth gid=0,127.0.0.1,v2,lo"

/* One WARN says why, and that it goes over TCP, where it is copied through host memory. */
static void check_not_reached(struct test_net *net, const char *says)
{
	char line[CAPTURE_LINE_BYTES];
	struct link links[3];

	need_nics(net);
	capture_allow_warn();
	for (int i = 0; i < 3; i++) {
		link_open(net, &links[i]);
		link_check(net, &links[i], BYTES);
		link_check(net, &links[i], 100);
	}
	check(capture_find(CAPTURE_WARN, "continuing over TCP", line));
	check_that(strstr(line, says), "no word of '%s' in: %s", says, line);
	/* one for each port, and that is all */
	check(capture_count(CAPTURE_WARN, "GPUDirect RDMA cannot access GPU") <= 2);
	check_int(capture_count(CAPTURE_WARN, NULL),
		  capture_count(CAPTURE_WARN, "GPUDirect RDMA cannot access GPU"));
	check(capture_count(CAPTURE_INFO, "as logged before") > 0);
	for (int i = 0; i < 3; i++)
		link_close(net, &links[i]);
}

static void memory_whose_writes_are_lost_is_not_used(struct test_net *net)
{
	check_not_reached(net, "other data than an RDMA WRITE stored");
}

static void memory_that_cannot_be_read_is_not_used(struct test_net *net)
{
	check_not_reached(net, "an RDMA READ of its memory fails with status 11");
}

/* --- copies that take long --- */

/* A message with copies on the streams, at one end or both. */
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

static struct transfer transfer_in(struct test_net *net, void *comm, const struct buffer *buffer)
{
	return transfer_of(buffer->data, buffer->bytes, 0,
			   flow_reg(net, comm, buffer->data, buffer->bytes));
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

/* Until the copies that are held are the receiver's. */
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
	for (int i = 0; i < 50; i++) { /* an error, if anything */
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

/* Once deregMr is back nothing copies from or to the memory: the fake tells of it otherwise. */
static void dereg_waits_for_copies(struct test_net *net)
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

static void slow_copies_are_waited_for(struct test_net *net)
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

/* With copies under way at both ends: what the new connection has to bring is copied anew. */
static void copies_go_on_when_the_connection_breaks(struct test_net *net)
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
	const uint64_t *lines; /* as the GPU sees them */
	uint64_t round;
	bool torn;
};

/* As NCCL's: a line whose flag is there is taken. */
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

static void flags_of_lines_come_last(struct test_net *net)
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

/* Of the first and the last line there may be a part only. */
static void lines_may_begin_and_end_anywhere(struct test_net *net)
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

/* --- what the application does with the GPU meanwhile --- */

static void free_memory(const struct cuda_calls *cuda, void *memory)
{
	check_ok(cuda->cuMemFree_v2((CUdeviceptr)memory));
}

static void *free_in_thread(void *memory)
{
	memory_as_application(free_memory, memory);
	return NULL;
}

static void alloc_memory(const struct cuda_calls *cuda, void *memory)
{
	check_ok(cuda->cuMemAlloc_v2(memory, BYTES));
}

/* The kernel that the application's call waits for is NCCL's, and waits for this message. */
static void a_call_of_the_application_holds_nothing_up(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "cuMemFree");
	struct transfer send, recv;
	struct buffer from, to;
	CUdeviceptr unused;
	pthread_t thread;
	struct link link;

	need_gpu();
	link_open(net, &link);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	send = transfer_of(from.data, BYTES, 0, flow_reg(net, link.send, from.data, BYTES));
	recv = transfer_of(to.data, BYTES, 0, flow_reg(net, link.recv, to.data, BYTES));
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	memory_as_application(alloc_memory, &unused);
	pattern_fill(from.data, BYTES, 4);
	memory_command("busy on; locks on");
	check(!pthread_create(&thread, NULL, free_in_thread, (void *)unused));
	while (!memory_counts().frees_waiting)
		deadline_turn(&deadline);
	flows_run(net, flows, 2);
	pattern_check(to.data, BYTES, 4);
	memory_command("recovery");
	pthread_join(thread, NULL);
	check_ok(driver_dereg_mr(net->driver, link.send, send.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, link.recv, recv.mhandles[0]));
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &link);
}

struct stuck {
	CUdeviceptr memory;
	void *host;
	CUstream stream;
};

static void begin_stuck(const struct cuda_calls *cuda, void *arg)
{
	struct stuck *stuck = arg;

	check_ok(cuda->cuMemAlloc_v2(&stuck->memory, BYTES));
	check_ok(cuda->cuMemHostAlloc(&stuck->host, BYTES, 0));
	check_ok(cuda->cuStreamCreate(&stuck->stream, 0));
	check_ok(cuda->cuMemcpyDtoHAsync_v2(stuck->host, stuck->memory, BYTES, stuck->stream));
}

static void end_stuck(const struct cuda_calls *cuda, void *arg)
{
	struct stuck *stuck = arg;

	check_ok(cuda->cuStreamSynchronize(stuck->stream));
	check_ok(cuda->cuStreamDestroy_v2(stuck->stream));
	check_ok(cuda->cuMemFree_v2(stuck->memory));
	check_ok(cuda->cuMemFreeHost(stuck->host));
}

/* It waits for a kernel, in the device's only queue for streams of its priority. */
static void a_copy_of_the_application_holds_nothing_up(struct test_net *net)
{
	struct stuck stuck;
	struct link link;

	need_gpu();
	link_open(net, &link);
	memory_command("busy on; queues one");
	memory_as_application(begin_stuck, &stuck);
	link_check(net, &link, BYTES);
	memory_command("recovery");
	memory_as_application(end_stuck, &stuck);
	link_close(net, &link);
}

/* The driver gives no context of our own, or one that does not reach the application's memory. */
static void without_a_context_of_its_own(struct test_net *net, const char *script, const char *says)
{
	char line[CAPTURE_LINE_BYTES];

	need_copies(net);
	memory_command(script);
	a_copy_of_the_application_holds_nothing_up(net);
	check(capture_find(CAPTURE_INFO, says, line));
}

static void without_a_context_of_its_own_streams_have_priority(struct test_net *net)
{
	without_a_context_of_its_own(net, "fail cuCtxCreate code=2", "CUDA_ERROR_OUT_OF_MEMORY");
}

static void a_context_that_does_not_reach_memory_is_not_used(struct test_net *net)
{
	without_a_context_of_its_own(net, "fail copy code=700", "CUDA_ERROR_ILLEGAL_ADDRESS");
}

static void reset_device(const struct cuda_calls *cuda, void *unused)
{
	(void)unused;
	check_ok(cuda->cuDevicePrimaryCtxReset_v2(0));
}

/* What was in the primary context is gone, this memory with it. The comm fails, or it may be used with other
 * memory; new ones work. */
static void a_reset_of_the_device_is_noticed(struct test_net *net)
{
	bool own = !getenv("ANYNET_CUDA_OWN_CONTEXT");
	struct transfer send, recv;
	struct buffer from, to;
	struct link link;
	char line[CAPTURE_LINE_BYTES];

	need_copies(net);
	capture_allow_warn();
	link_open(net, &link);
	link_check(net, &link, BYTES);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	send = transfer_in(net, link.send, &from);
	recv = transfer_in(net, link.recv, &to);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	memory_as_application(reset_device, NULL);
	if (own)
		memory_allow_misuse(); /* copies of memory that is not there */
	check(flows_run_until_error(net, flows, 2, &flows[0]));
	check(capture_find(CAPTURE_WARN, own ? "CUDA_ERROR_INVALID_VALUE" : "has reset GPU 0",
			   line));
	check_ok(driver_dereg_mr(net->driver, link.send, send.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, link.recv, recv.mhandles[0]));
	memory_forsake(from.area);
	memory_forsake(to.area);
	link_close(net, &link);
	link_open(net, &link);
	link_check(net, &link, BYTES);
	link_close(net, &link);
}

/* --- CUDA fails --- */

/* The comm fails with CUDA's word for it, and nothing else does. */
static void check_failure(struct test_net *net, const char *script, const char *says)
{
	struct transfer send, recv;
	struct buffer from, to;
	struct link link;
	char line[CAPTURE_LINE_BYTES];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an error");

	capture_forget();
	link_open(net, &link);
	link_check(net, &link, BYTES); /* the pool is there */
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	send = transfer_of(from.data, BYTES, 1, NULL);
	recv = transfer_of(to.data, BYTES, 1, NULL);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	memory_command(script);
	while (!flows[0].error && !flows[1].error) {
		flow_step(net, &flows[0]);
		flow_step(net, &flows[1]);
		check_that(!flows[1].done, "the message arrives, where '%s' was to fail", script);
		deadline_turn(&deadline);
	}
	check_that(capture_find(CAPTURE_WARN, says, line), "no word of %s", says);
	check(strstr(line, "127.0.0.1"));
	link_close(net, &link);
	memory_command("recovery");
	buffer_free(&from);
	buffer_free(&to);
	link_open(net, &link);
	link_check(net, &link, BYTES);
	link_close(net, &link);
}

static void a_call_that_fails_is_the_end_of_the_comm_only(struct test_net *net)
{
	need_copies(net);
	capture_allow_warn();
	check_failure(net, "fail cuMemcpyDtoHAsync code=1", "CUDA_ERROR_INVALID_VALUE");
	check_failure(net, "fail cuMemcpyDtoHAsync nth=3 code=2", "CUDA_ERROR_OUT_OF_MEMORY");
	check_failure(net, "fail cuMemcpyHtoDAsync code=1", "CUDA_ERROR_INVALID_VALUE");
	check_failure(net, "fail cuMemcpyHtoDAsync nth=4 code=999", "CUDA_ERROR_UNKNOWN");
	check_failure(net, "fail cuEventRecord nth=2 code=999", "CUDA_ERROR_UNKNOWN");
	check_failure(net, "fail cuEventQuery nth=2 code=999", "CUDA_ERROR_UNKNOWN");
	check_failure(net, "fail cuCtxPushCurrent nth=9 count=2 code=201",
		      "CUDA_ERROR_INVALID_CONTEXT");
}

/* A copy whose end nobody can be told of: the host memory it writes into serves nobody else until it is done. */
static void what_a_failed_call_leaves_under_way_harms_nobody(struct test_net *net)
{
	static unsigned char host[BYTES], unused[BYTES];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a copy");
	struct transfer send, recv, other_send, other_recv;
	struct link link, other;
	struct buffer from, to;
	uint64_t waiting;

	need_copies(net);
	capture_allow_warn();
	link_open(net, &link);
	link_open(net, &other);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	pattern_fill(from.data, BYTES, 1);
	pattern_fill(host, BYTES, 2);
	send = transfer_of(from.data, BYTES, 0, NULL);
	other_send = transfer_of(host, BYTES, 0, NULL);
	other_recv = transfer_of(to.data, BYTES, 0, NULL);
	recv = transfer_of(unused, BYTES, 0, NULL);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	struct flow others[] = {
		{ .comm = other.send, .is_send = true, .transfers = &other_send, .count = 1 },
		{ .comm = other.recv, .transfers = &other_recv, .count = 1 },
	};
	memory_command(HELD "; fail cuEventRecord nth=2 code=999");
	while (!flows[0].error) {
		flow_step(net, &flows[0]);
		flow_step(net, &flows[1]);
		deadline_turn(&deadline);
	}
	memory_leave(net, link.send);
	check_ok(driver_close_send(net->driver, link.send));
	link.send = NULL;
	waiting = memory_counts().waiting;
	while (memory_counts().waiting < waiting + 2) {
		flow_step(net, &others[0]);
		flow_step(net, &others[1]);
		deadline_turn(&deadline);
	}
	memory_command("hold 0");
	flows_run(net, others, 2);
	pattern_check(to.data, BYTES, 2);
	memory_command("recovery");
	link_close(net, &link);
	link_close(net, &other);
	buffer_free(&from);
	buffer_free(&to);
}

/* The context is lost then, and all that is in it: nothing works any more, but nothing crashes. */
static void a_copy_that_fails_is_the_end_of_the_gpu(struct test_net *net)
{
	struct transfer send, recv;
	struct buffer from, to;
	struct link link;
	char line[CAPTURE_LINE_BYTES];

	need_copies(net);
	capture_allow_warn();
	link_open(net, &link);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	send = transfer_of(from.data, BYTES, 0, NULL);
	recv = transfer_of(to.data, BYTES, 0, NULL);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	memory_command("fail copy nth=2 code=700");
	check(flows_run_until_error(net, flows, 2, &flows[0]) != 0);
	check(capture_find(CAPTURE_WARN, "CUDA_ERROR_ILLEGAL_ADDRESS", line));
	check(!recv.done);
	memory_leave(net, link.send);
	memory_leave(net, link.recv);
	link_close(net, &link);
	memory_command("recovery");
	memory_forsake(from.area); /* CUDA does not free it any more */
	memory_forsake(to.area);
}

/* Whatever call fails when a GPU's pool is made, the next registration makes the rest of it. */
static void a_pool_may_be_made_in_several_goes(struct test_net *net)
{
	static const char *const failures[] = {
		"fail cuPointerGetAttribute code=1",
		"fail cuDeviceGet code=101",
		"fail cuDevicePrimaryCtxRetain code=2",
		"fail cuCtxPushCurrent code=201",
		"fail cuMemHostRegister code=2",
		"fail cuPointerGetAttribute nth=2 code=1",
		"fail cuCtxGetStreamPriorityRange code=1",
		"fail cuStreamCreateWithPriority code=2",
		"fail cuStreamCreateWithPriority nth=2 code=999",
		"fail cuEventCreate code=2",
		"fail cuEventCreate nth=20 code=999",
	};
	struct fake_cuda_counts counts;
	struct link link;
	void *memory, *mhandle;

	need_gpu();
	capture_allow_warn();
	memory = memory_alloc(BYTES);
	link_open(net, &link);
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		capture_forget();
		memory_command(failures[i]);
		check_that(driver_reg_mr(net->driver, link.send, memory, BYTES, ANYNET_PTR_CUDA,
					 &mhandle),
			   "regMr does not mind '%s'", failures[i]);
		check(!mhandle);
		check_int(capture_count(CAPTURE_WARN, "cannot register GPU memory"), 1);
		memory_check_thread();
		memory_command("recovery");
	}
	link_check(net, &link, BYTES);
	counts = memory_counts();
	check_int(counts.pinned, 1);
	check_int(counts.streams, 2);
	memory_free(memory);
	link_close(net, &link);
}

/* --- the driver library --- */

static void check_no_driver(struct test_net *net, const char *says)
{
	void *host = malloc(4096), *mhandle = host;
	struct link link;
	char line[CAPTURE_LINE_BYTES];

	capture_allow_warn();
	link_open(net, &link);
	check(driver_reg_mr(net->driver, link.recv, host, 4096, ANYNET_PTR_CUDA, &mhandle) != 0);
	check(!mhandle);
	check(capture_find(CAPTURE_WARN, "cannot register GPU memory", line));
	check_that(strstr(line, says), "no word of '%s' in: %s", says, line);
	link_check(net, &link, BYTES); /* host memory */
	link_close(net, &link);
	free(host);
}

static void without_a_driver_library_it_says_so(struct test_net *net)
{
	check_no_driver(net, "/nowhere/libcuda.so.1");
}

static void a_library_that_is_no_driver_is_named(struct test_net *net)
{
	check_no_driver(net, "libc.so.6 lacks cuInit");
}

static void a_driver_that_does_not_start_says_why(struct test_net *net)
{
	check_no_driver(net, "CUDA_ERROR_NO_DEVICE");
}

/* --- what is kept --- */

static void a_pool_is_all_that_is_kept(struct test_net *net)
{
	struct fake_cuda_counts first, now;
	struct link links[4];

	need_gpu();
	link_open(net, &links[0]);
	link_check(net, &links[0], BYTES);
	link_close(net, &links[0]);
	first = memory_counts();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++) {
			link_open(net, &links[i]);
			link_check(net, &links[i], BYTES);
		}
		for (int i = 0; i < 4; i++)
			link_close(net, &links[i]);
	}
	now = memory_counts();
	check_int(now.contexts, first.contexts);
	check_int(now.pinned_bytes, first.pinned_bytes);
	check_int(now.streams, first.streams);
	check_int(now.events, first.events);
	check_int(now.allocations, first.allocations);
	check_int(now.waiting, 0);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "what_is_no_gpu_memory_is_refused", what_is_no_gpu_memory_is_refused },
		{ .name = "a_flush_may_be_of_nothing", a_flush_may_be_of_nothing },
		{ .name = "what_nobody_offered_is_copied", what_nobody_offered_is_copied },
		{ .name = "host_and_gpu_memory_mix", host_and_gpu_memory_mix },
		{ .name = "two_gpus_talk",
		  two_gpus_talk,
		  .settings = { "FAKE_CUDA=device; device" } },
		{ .name = "another_port_reaches_it_too", another_port_reaches_it_too },
		{ .name = "no_call_of_cuda_while_queue_pairs_carry_the_data",
		  no_call_of_cuda_while_queue_pairs_carry_the_data },
		{ .name = "the_first_gpu_memory_strands_no_small_receive",
		  the_first_gpu_memory_strands_no_small_receive },
		{ .name = "adapters_that_gather_nothing_are_used",
		  adapters_that_gather_nothing_are_used,
		  .settings = { "FAKE_VERBS=gpu peer-memory unflushed; device fake0 max_sge=1 dmabuf; "
				"port layer=eth gid=0,127.0.0.1,v2,lo; device fake1 max_sge=1 dmabuf; "
				"port layer=eth gid=0,127.0.0.1,v2,lo" } },
		{ .name = "small_messages_are_not_copied_either",
		  small_messages_are_not_copied_either },
		{ .name = "nothing_small_is_written_past_its_receive",
		  nothing_small_is_written_past_its_receive },
		{ .name = "a_slow_flush_is_waited_for", a_slow_flush_is_waited_for },
		{ .name = "a_flush_waits_for_those_before_it", a_flush_waits_for_those_before_it },
		{ .name = "an_aborted_flush_breaks_no_others", an_aborted_flush_breaks_no_others },
		{ .name = "late_flushes_are_waited_for", late_flushes_are_waited_for },
		{ .name = "a_broken_queue_pair_for_flushes_is_made_again",
		  a_broken_queue_pair_for_flushes_is_made_again },
		{ .name = "where_cuda_cannot_flush_it_is_waited_for",
		  where_cuda_cannot_flush_it_is_waited_for },
		{ .name = "a_write_without_its_frame_is_flushed",
		  a_write_without_its_frame_is_flushed },
		{ .name = "memory_whose_writes_are_lost_is_not_used",
		  memory_whose_writes_are_lost_is_not_used,
		  .settings = { "FAKE_VERBS=gpu peer-memory lossy; " LOST_PORTS } },
		{ .name = "memory_that_cannot_be_read_is_not_used",
		  memory_that_cannot_be_read_is_not_used,
		  .settings = { "FAKE_VERBS=gpu peer-memory unflushed unreadable; " LOST_PORTS } },
		{ .name = "dereg_waits_for_copies", dereg_waits_for_copies },
		{ .name = "slow_copies_are_waited_for", slow_copies_are_waited_for },
		{ .name = "copies_go_on_when_the_connection_breaks",
		  copies_go_on_when_the_connection_breaks },
		{ .name = "flags_of_lines_come_last", flags_of_lines_come_last },
		{ .name = "lines_may_begin_and_end_anywhere", lines_may_begin_and_end_anywhere },
		{ .name = "a_call_of_the_application_holds_nothing_up",
		  a_call_of_the_application_holds_nothing_up },
		{ .name = "a_copy_of_the_application_holds_nothing_up",
		  a_copy_of_the_application_holds_nothing_up },
		{ .name = "without_a_context_of_its_own_streams_have_priority",
		  without_a_context_of_its_own_streams_have_priority },
		{ .name = "a_context_that_does_not_reach_memory_is_not_used",
		  a_context_that_does_not_reach_memory_is_not_used },
		{ .name = "a_reset_of_the_device_is_noticed", a_reset_of_the_device_is_noticed },
		{ .name = "a_reset_of_the_primary_context_is_noticed",
		  a_reset_of_the_device_is_noticed,
		  .settings = { "ANYNET_CUDA_OWN_CONTEXT=off" } },
		{ .name = "a_call_that_fails_is_the_end_of_the_comm_only",
		  a_call_that_fails_is_the_end_of_the_comm_only },
		{ .name = "what_a_failed_call_leaves_under_way_harms_nobody",
		  what_a_failed_call_leaves_under_way_harms_nobody },
		{ .name = "a_copy_that_fails_is_the_end_of_the_gpu",
		  a_copy_that_fails_is_the_end_of_the_gpu },
		{ .name = "a_pool_may_be_made_in_several_goes",
		  a_pool_may_be_made_in_several_goes },
		{ .name = "without_a_driver_library_it_says_so",
		  without_a_driver_library_it_says_so,
		  .settings = { "TEST_MEMORY=", "ANYNET_CUDA_LIB=/nowhere/libcuda.so.1" } },
		{ .name = "a_library_that_is_no_driver_is_named",
		  a_library_that_is_no_driver_is_named,
		  .settings = { "TEST_MEMORY=", "ANYNET_CUDA_LIB=libc.so.6" } },
		{ .name = "a_driver_that_does_not_start_says_why",
		  a_driver_that_does_not_start_says_why,
		  .settings = { "TEST_MEMORY=", "FAKE_CUDA=fail cuInit code=100" } },
		{ .name = "a_pool_is_all_that_is_kept", a_pool_is_all_that_is_kept },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
