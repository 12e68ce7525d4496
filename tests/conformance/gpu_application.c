/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the application makes on the GPU meanwhile do not block the plugin. */
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

/* The application's call waits for a kernel of NCCL, which waits for this message. */
void a_call_of_the_application_holds_nothing_up(struct test_net *net)
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
	memory_command("no-faults");
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

/* It waits for a kernel, in the only hardware queue for streams of its priority. */
void a_copy_of_the_application_holds_nothing_up(struct test_net *net)
{
	struct stuck stuck;
	struct link link;

	need_gpu();
	link_open(net, &link);
	memory_command("busy on; queues one");
	memory_as_application(begin_stuck, &stuck);
	link_check(net, &link, BYTES);
	memory_command("no-faults");
	memory_as_application(end_stuck, &stuck);
	link_close(net, &link);
}

/* The driver creates no context for the plugin, or one that cannot access the application's memory. */
static void without_a_context_of_its_own(struct test_net *net, const char *script, const char *says)
{
	char line[CAPTURE_LINE_BYTES];

	need_copies(net);
	memory_command(script);
	a_copy_of_the_application_holds_nothing_up(net);
	check(capture_find(CAPTURE_INFO, says, line));
}

void without_a_context_of_its_own_streams_have_priority(struct test_net *net)
{
	without_a_context_of_its_own(net, "fail cuCtxCreate code=2", "CUDA_ERROR_OUT_OF_MEMORY");
}

void a_context_that_does_not_reach_memory_is_not_used(struct test_net *net)
{
	without_a_context_of_its_own(net, "fail copy code=700", "CUDA_ERROR_ILLEGAL_ADDRESS");
}

static void reset_device(const struct cuda_calls *cuda, void *unused)
{
	(void)unused;
	check_ok(cuda->cuDevicePrimaryCtxReset_v2(0));
}

/* Everything in the primary context is gone, this memory included. The comm fails, or works with other memory; new
 * comms work. */
void a_reset_of_the_device_is_noticed(struct test_net *net)
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
		memory_allow_misuse(); /* copies of memory that is gone */
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
