/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA calls that fail. */
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

/* The comm fails with the text of CUDA, and nothing else fails. */
static void check_failure(struct test_net *net, const char *script, const char *says)
{
	struct transfer send, recv;
	struct buffer from, to;
	struct link link;
	char line[CAPTURE_LINE_BYTES];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an error");

	capture_forget();
	link_open(net, &link);
	link_check(net, &link, BYTES); /* the pool exists */
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
	memory_command("no-faults");
	buffer_free(&from);
	buffer_free(&to);
	link_open(net, &link);
	link_check(net, &link, BYTES);
	link_close(net, &link);
}

void a_call_that_fails_is_the_end_of_the_comm_only(struct test_net *net)
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

/* A copy whose completion cannot be queried: its host buffer is not reused before it is done. */
void what_a_failed_call_leaves_under_way_harms_nobody(struct test_net *net)
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
	memory_command("no-faults");
	link_close(net, &link);
	link_close(net, &other);
	buffer_free(&from);
	buffer_free(&to);
}

/* The context and all that is in it are lost: nothing works any more, but nothing crashes. */
void a_copy_that_fails_is_the_end_of_the_gpu(struct test_net *net)
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
	memory_command("no-faults");
	memory_forsake(from.area); /* CUDA cannot free it any more */
	memory_forsake(to.area);
}

/* Whichever call fails while a GPU's pool is created, the next registration creates the missing part. */
void a_pool_may_be_made_in_several_goes(struct test_net *net)
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
		memory_command("no-faults");
	}
	link_check(net, &link, BYTES);
	counts = memory_counts();
	check_int(counts.pinned, 1);
	check_int(counts.streams, 2);
	memory_free(memory);
	link_close(net, &link);
}
