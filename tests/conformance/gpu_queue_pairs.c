/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs carry GPU memory without a CUDA call in between, which might wait for a kernel that waits for the
 * plugin. */
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

#define SILENT_PLACE ((size_t)128 << 10)
#define SILENT_GROUP 8

struct silent {
	struct link link;
	struct buffer to;
	unsigned char *from; /* SILENT_GROUP places, as in `to` */
	void *mhandles[2];
	struct transfer sends[SILENT_GROUP], recv;
};

static void silent_send(struct test_net *net, struct silent *silent, uint64_t seed, size_t bytes)
{
	for (int i = 0; i < silent->recv.n; i++) {
		unsigned char *from = silent->from + (size_t)i * SILENT_PLACE;

		pattern_fill(from, bytes, seed + (uint64_t)i);
		silent->sends[i] = transfer_of(from, bytes, i, silent->mhandles[0]);
		transfer_post_soon(net, silent->link.send, true, &silent->sends[i]);
	}
}

/* One poll of everything; true when all is done. */
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

/* `recv_first`: the receive is posted, and its CTS sent, before the messages; otherwise long after. */
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

void no_call_of_cuda_while_queue_pairs_carry_the_data(struct test_net *net)
{
	need_nics(net);
	for (int from_host = 0; from_host < 2; from_host++) {
		silent_comm(net, 1, from_host);
		if (net->props.max_recvs >= SILENT_GROUP)
			silent_comm(net, SILENT_GROUP, from_host);
	}
}

/* No queue pair can be made, and messages go over TCP. Returns the number of work requests until then. */
static uint64_t go_over_to_tcp(struct test_net *net, struct silent *silent, int tags)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "messages over TCP");
	uint64_t sends;

	fake_order("set fake0:1 state=down; set fake1:1 state=down");
	do {
		sends = fake_counts().sends;
		silent_exchange(net, silent, tags, 64, true);
		deadline_turn(&deadline);
	} while (fake_counts().sends != sends);
	return sends;
}

static void receive_tag(struct test_net *net, struct silent *silent, int tag, size_t bytes,
			uint64_t seed)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message of its tag");
	unsigned char *to = silent->to.data + (size_t)tag * SILENT_PLACE;
	struct transfer recv = transfer_of(to, bytes, tag, silent->mhandles[1]);

	transfer_post_soon(net, silent->link.recv, false, &recv);
	while (!recv.done) {
		for (int i = 0; i < 2; i++)
			if (!silent->sends[i].done)
				check_ok(transfer_test(net, &silent->sends[i]));
		check_ok(transfer_test(net, &recv));
		deadline_turn(&deadline);
	}
	pattern_check(to, bytes, seed);
}

/* Messages of two tags are sent over TCP, and unread when a queue pair takes over, by which they need a CTS. The receive of
 * the first one is posted last. */
static void unread_by_tcp(struct test_net *net, int tags, size_t bytes)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a queue pair again");
	static unsigned char host[2 * SILENT_PLACE];
	struct silent silent = { .from = host };
	uint64_t sends;

	open_linked(net, &silent.link);
	buffer_alloc(&silent.to, sizeof(host));
	silent.mhandles[0] = flow_reg(net, silent.link.send, host, sizeof(host));
	silent.mhandles[1] = flow_reg(net, silent.link.recv, silent.to.data, sizeof(host));
	silent_exchange(net, &silent, tags, 64, true);
	sends = go_over_to_tcp(net, &silent, tags);
	silent.recv.n = 2;
	silent_send(net, &silent, 77, bytes);
	for (int i = 0; i < 100; i++)
		for (int k = 0; k < 2; k++)
			if (!silent.sends[k].done)
				check_ok(transfer_test(net, &silent.sends[k]));
	fake_order("set fake0:1 state=active; set fake1:1 state=active");
	while (fake_counts().sends < sends + 4) /* three of the proof, and one by what has taken over */
		deadline_turn(&deadline);
	for (int tag = 1; tag >= 0; tag--)
		receive_tag(net, &silent, tag, bytes, 77 + (uint64_t)tag);
	for (int i = 0; i < 2; i++)
		while (!silent.sends[i].done) {
			check_ok(transfer_test(net, &silent.sends[i]));
			deadline_turn(&deadline);
		}
	check_ok(driver_dereg_mr(net->driver, silent.link.send, silent.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, silent.link.recv, silent.mhandles[1]));
	link_close(net, &silent.link);
	buffer_free(&silent.to);
}

void what_tcp_did_not_deliver_holds_up_no_other_tag(struct test_net *net)
{
	need_nics(net);
	if (net->props.max_recvs < 2)
		check_skip("one tag only");
	unread_by_tcp(net, 2, 64);
	unread_by_tcp(net, 1, (size_t)100 << 10); /* the second tag is new */
}

/* A receive in host memory that is too small for a CTS, because such messages may come in frames. Then, before its
 * message, the comm's first receive in GPU memory: from then on no message may come in a frame. */
void the_first_gpu_memory_strands_no_small_receive(struct test_net *net)
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

/* With one scatter/gather entry per request small messages still use queue pairs. */
void adapters_that_gather_nothing_are_used(struct test_net *net)
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
		check_int(link_exchange(net, &link, gpu.data, sizeof(host), host, sizeof(host)),
			  sizeof(host));
		pattern_check(host, sizeof(host), i);
	}
	check(fake_counts().sends >= sends + 10);
	buffer_free(&gpu);
	link_close(net, &link);
}

/* Messages that would travel in a frame, and be copied out of it by the receiver: with the CTS in time the NIC writes
 * them to their place. */
void small_messages_are_not_copied_either(struct test_net *net)
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
		check_int(link_exchange(net, &link, host, sizeof(host), gpu.data, BYTES),
			  sizeof(host));
		pattern_check(gpu.data, sizeof(host), copies);
		deadline_turn(&deadline);
	} while (memory_counts().copies != copies);
	buffer_free(&gpu);
	link_close(net, &link);
}

/* A NIC that would write there by CTS knows the end of the receive only from the CTS. */
void nothing_small_is_written_past_its_receive(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a cts by a queue pair");
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
	link_check(net, &other, BYTES); /* everything written is visible now */
	blank_check(gpu.data, BYTES);
	check_ok(driver_dereg_mr(net->driver, link.recv, recv.mhandles[0]));
	link_close(net, &link);
	link_close(net, &other);
	buffer_free(&gpu);
}
