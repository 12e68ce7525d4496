/* SPDX-License-Identifier: Apache-2.0 */
/* regMr and deregMr (net-api.md §3.7, §3.10, §8 rows 12 and 13). */
#include "memory_cases.h"

#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/memory.h>

#include <nccl_net/abi/nccl_types.h>
#include <nccl_net/device.h>
#include <pthread.h>
#include <stdatomic.h>

static void memory_registers(struct test_net *net)
{
	void *first = NULL, *second = NULL, *part = NULL;
	struct buffer buffer;
	struct link link;

	link_open(net, &link);
	buffer_alloc(&buffer, MIB);
	first = flow_reg(net, link.send, buffer.data, MIB);
	second = flow_reg(net, link.send, buffer.data, MIB);
	part = flow_reg(net, link.send, buffer.data + 100, 12345);
	check_ok(driver_dereg_mr(net->driver, link.send, first));
	check_ok(driver_dereg_mr(net->driver, link.send, part));
	check_ok(driver_dereg_mr(net->driver, link.send, second));
	first = flow_reg(net, link.recv, buffer.data, 1);
	check_ok(driver_dereg_mr(net->driver, link.recv, first));
	buffer_free(&buffer);
	link_close(net, &link);
}

static void no_handle_is_fine_for_dereg(struct test_net *net)
{
	struct link link;

	link_open(net, &link);
	check_ok(driver_dereg_mr(net->driver, link.send, NULL));
	check_ok(driver_dereg_mr(net->driver, link.recv, NULL));
	if (!net_is_builtin(net))
		check_ok(driver_dereg_mr(net->driver, NULL, NULL));
	link_close(net, &link);
}

static void invalid_memory_types_are_refused(struct test_net *net)
{
	const int kinds[] = { ANYNET_PTR_DMABUF, 0x40, 0 };
	static char host[4096];
	struct buffer buffer;
	struct link link;
	void *mhandle;

	capture_allow_warn();
	link_open(net, &link);
	buffer_alloc(&buffer, 4096);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		mhandle = NULL;
		check_int(driver_reg_mr(net->driver, link.send, buffer.data, 4096, kinds[i],
					&mhandle),
			  ANYNET_NCCL_INTERNAL_ERROR);
		check(!mhandle);
	}
	/* Declared as GPU memory. */
	mhandle = host;
	check(driver_reg_mr(net->driver, link.send, host, 4096, ANYNET_PTR_CUDA, &mhandle) != 0);
	check(!mhandle || net_is_builtin(net));
	if (!net_is_builtin(net) && net->abi > 5) {
		mhandle = host;
		check(driver_reg_mr_dmabuf(net->driver, link.send,
					   &(struct driver_region){ host, 4096, ANYNET_PTR_CUDA, 0,
								    -1 },
					   &mhandle) != 0);
		check(!mhandle);
	}
	/* None of this disturbs the connection. */
	check_int(link_exchange(net, &link, buffer.data, 100, buffer.data + 2000, 100), 100);
	buffer_free(&buffer);
	link_close(net, &link);
}

static void null_with_no_bytes_is_valid(struct test_net *net)
{
	struct link link;
	void *mhandle = NULL;

	capture_allow_warn();
	link_open(net, &link);
	int ret = driver_reg_mr(net->driver, link.send, NULL, 0, ANYNET_PTR_HOST, &mhandle);
	check(ret >= 0 && ret <= 6);
	check_ok(driver_dereg_mr(net->driver, link.send, mhandle));
	link_close(net, &link);
}

/* regIsGlobal: a handle made on one comm serves every comm of the device. */
static void a_global_handle_serves_other_comms(struct test_net *net)
{
	struct link one, other;
	struct buffer buffer;

	if (!net->props.reg_is_global)
		check_skip("the device does not say regIsGlobal");
	link_open(net, &one);
	link_open(net, &other);
	buffer_alloc(&buffer, 2 * MIB);
	pattern_fill(buffer.data, MIB, 8);
	void *mhandle = flow_reg(net, one.send, buffer.data, 2 * MIB);
	struct transfer send = transfer_of(buffer.data, MIB, 0, mhandle);
	struct transfer recv = transfer_of(buffer.data + MIB, MIB, 0, mhandle);
	struct flow flows[] = {
		{ .comm = other.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = other.recv, .transfers = &recv, .count = 1 },
	};
	flows_run(net, flows, 2);
	pattern_check(buffer.data + MIB, MIB, 8);
	check_ok(driver_dereg_mr(net->driver, one.send, mhandle));
	buffer_free(&buffer);
	link_close(net, &one);
	link_close(net, &other);
}

/* --- while messages are in flight --- */

struct churn {
	struct test_net *net;
	void *comms[2];
	atomic_bool over;
};

static void *register_and_deregister(void *arg)
{
	enum {
		BYTES = 64 * 1024
	};
	unsigned char *memory = memory_alloc(BYTES);
	struct churn *churn = arg;

	for (size_t i = 0; !atomic_load(&churn->over); i++) {
		void *comm = churn->comms[i % 2], *a, *b;
		a = flow_reg(churn->net, comm, memory, BYTES);
		b = flow_reg(churn->net, comm, memory + i % 1000, 1000);
		check_ok(driver_dereg_mr(churn->net->driver, comm, a));
		check_ok(driver_dereg_mr(churn->net->driver, comm, b));
	}
	memory_free(memory);
	return NULL;
}

static void other_buffers_come_and_go_beside_messages(struct test_net *net)
{
	struct churn churn = { .net = net };
	struct buffer from, to;
	struct link link;
	pthread_t thread;

	link_open(net, &link);
	churn.comms[0] = link.send;
	churn.comms[1] = link.recv;
	check_ok(pthread_create(&thread, NULL, register_and_deregister, &churn));
	buffer_alloc(&from, 300000);
	buffer_alloc(&to, 300000);
	for (size_t i = 0; i < 200; i++) {
		size_t bytes = i * 1499;
		pattern_fill(from.data, bytes, i);
		check_int(link_exchange(net, &link, from.data, bytes, to.data, bytes), bytes);
		pattern_check(to.data, bytes, i);
	}
	atomic_store(&churn.over, true);
	check_ok(pthread_join(thread, NULL));
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "memory_registers", memory_registers },
		{ .name = "no_handle_is_fine_for_dereg", no_handle_is_fine_for_dereg },
		{ .name = "invalid_memory_types_are_refused", invalid_memory_types_are_refused },
		{ .name = "null_with_no_bytes_is_valid", null_with_no_bytes_is_valid },
		{ .name = "a_global_handle_serves_other_comms",
		  a_global_handle_serves_other_comms },
		{ .name = "dereg_of_a_receive_in_flight_lets_go_of_it",
		  dereg_of_a_receive_in_flight_lets_go_of_it },
		{ .name = "dereg_of_a_send_in_flight_lets_go_of_it",
		  dereg_of_a_send_in_flight_lets_go_of_it },
		{ .name = "what_another_handle_keeps_registered_is_not_written_either",
		  what_another_handle_keeps_registered_is_not_written_either },
		{ .name = "dereg_reaches_receives_of_other_comms",
		  dereg_reaches_receives_of_other_comms },
		{ .name = "dereg_reaches_sends_of_other_comms",
		  dereg_reaches_sends_of_other_comms },
		{ .name = "dereg_reaches_comms_of_other_threads",
		  dereg_reaches_comms_of_other_threads },
		{ .name = "a_handle_outlives_its_comm", a_handle_outlives_its_comm },
		{ .name = "close_after_dereg_touches_nothing", close_after_dereg_touches_nothing },
		{ .name = "other_buffers_come_and_go_beside_messages",
		  other_buffers_come_and_go_beside_messages },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
