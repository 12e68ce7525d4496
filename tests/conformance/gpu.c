/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory on the fake libcuda.so.1 (tests/fakes/cuda): which device accesses it, a missing driver, what stays
 * allocated; the rest is in gpu_*.c. The other subjects test the transfer, with TEST_MEMORY=cuda.
 */
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

void need_gpu(void)
{
	if (!memory_is_cuda())
		check_skip("TEST_MEMORY is not cuda");
}

static bool nics_reach_it(const struct test_net *net)
{
	return getenv("ANYNET_IBVERBS_LIB") && memory_is_offered(net);
}

void need_copies(const struct test_net *net)
{
	need_gpu();
	if (nics_reach_it(net))
		check_skip("NICs reach GPU memory");
}

void need_nics(const struct test_net *net)
{
	need_gpu();
	if (!nics_reach_it(net))
		check_skip("no NIC reaches GPU memory");
}

static void memory_that_is_not_a_gpus_is_refused(struct test_net *net)
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

/* NCCL uses GPUDirect on every device for which a topology file or another net reports it. */
static void gpu_memory_on_a_device_without_support_is_copied(struct test_net *net)
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

/* NCCL sends the protocols for small messages from host memory to GPU memory. */
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
		check_int(link_exchange(net, &link, host, bytes, gpu.data, BYTES), bytes);
		pattern_check(gpu.data, bytes, i);
		blank_check(gpu.data + bytes, BYTES - bytes);
		memset(host, 0, sizeof(host));
		check_int(link_exchange(net, &link, gpu.data, bytes, host, BYTES), bytes);
		pattern_check(host, bytes, i);
	}
	buffer_free(&gpu);
	link_close(net, &link);
}

/* Each comm uses memory of its own GPU. */
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
	check_int(link_exchange(net, &link, buffers[0].data, BYTES, buffers[1].data, BYTES), BYTES);
	pattern_check(buffers[1].data, BYTES, 7);
	link_close(net, &link);
	buffer_free(&buffers[0]);
	buffer_free(&buffers[1]);
}

/* Memory that NCCL has registered is registered on the port that takes over, by dma-bufs of the plugin where NCCL has
 * closed its own: the memory is copied only for a short time. */
static void another_port_accesses_it_too(struct test_net *net)
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

void open_linked(struct test_net *net, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a queue pair");
	uint64_t before = fake_counts().qps;

	while (link_open(net, link), fake_counts().qps < before + 2) {
		link_close(net, link);
		before = fake_counts().qps;
		deadline_turn(&deadline);
	}
}

/* --- GPU memory that can be registered, but not accessed --- */

#define LOST_PORTS                                                                         \
	"device fake0 dmabuf; port layer=eth gid=0,127.0.0.1,v2,lo; device fake1 dmabuf; " \
	"port layer=eth gid=0,127.0.0.1,v2,lo"

/* One WARN gives the reason, and says that the data goes over TCP, copied through host memory. */
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
	/* one for each port, and no more */
	check(capture_count(CAPTURE_WARN, "GPUDirect RDMA cannot access GPU") <= 2);
	check_int(capture_count(CAPTURE_WARN, NULL),
		  capture_count(CAPTURE_WARN, "GPUDirect RDMA cannot access GPU"));
	check(capture_count(CAPTURE_INFO, "as logged before") > 0);
	for (int i = 0; i < 3; i++)
		link_close(net, &links[i]);
}

static void memory_whose_writes_are_lost_is_not_used(struct test_net *net)
{
	check_not_reached(net, "an RDMA READ of its memory returns other data than an RDMA WRITE stored");
}

static void memory_that_cannot_be_read_is_not_used(struct test_net *net)
{
	check_not_reached(net, "an RDMA READ of its memory fails with status 11");
}

struct transfer transfer_in(struct test_net *net, void *comm, const struct buffer *buffer)
{
	return transfer_of(buffer->data, buffer->bytes, 0,
			   flow_reg(net, comm, buffer->data, buffer->bytes));
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

/* --- what stays allocated --- */

static void only_a_pool_stays_allocated(struct test_net *net)
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
		{ .name = "memory_that_is_not_a_gpus_is_refused", memory_that_is_not_a_gpus_is_refused },
		{ .name = "a_flush_may_be_of_nothing", a_flush_may_be_of_nothing },
		{ .name = "gpu_memory_on_a_device_without_support_is_copied", gpu_memory_on_a_device_without_support_is_copied },
		{ .name = "host_and_gpu_memory_mix", host_and_gpu_memory_mix },
		{ .name = "two_gpus_talk",
		  two_gpus_talk,
		  .settings = { "FAKE_CUDA=device; device" } },
		{ .name = "another_port_accesses_it_too", another_port_accesses_it_too },
		{ .name = "no_call_of_cuda_while_queue_pairs_carry_the_data",
		  no_call_of_cuda_while_queue_pairs_carry_the_data },
		{ .name = "what_tcp_did_not_deliver_holds_up_no_other_tag",
		  what_tcp_did_not_deliver_holds_up_no_other_tag },
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
		{ .name = "disabled_flushes_are_not_made",
		  disabled_flushes_are_not_made,
		  .settings = { "NCCL_GDR_FLUSH_DISABLE=1" } },
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
		{ .name = "only_a_pool_stays_allocated", only_a_pool_stays_allocated },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
