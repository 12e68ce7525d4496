/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's faults: each strikes when and where it was told to. */
#include "rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int setup(void **state)
{
	rig.control.reset();
	return ends_setup(state);
}

static int teardown(void **state)
{
	order("no-faults");
	return ends_teardown(state);
}

#define FAULT(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static void write_well(struct ends *ends, uint32_t bytes)
{
	struct op write = op_write(&ends->b, 0, 0, bytes);

	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
}

static void write_badly(struct ends *ends, uint32_t bytes, enum ibv_wc_status status)
{
	struct op write = op_write(&ends->b, 0, 0, bytes);

	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, status);
	qp_await(&ends->a, IBV_QPS_ERR);
}

static void test_the_kth_fails(void **state)
{
	struct ends *ends = *state;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault status write nth=3 status=4 device=fake0");
	write_well(ends, 64);
	write_well(ends, 64);
	memset(ends->b.memory, 0, 64);
	memset(ends->a.memory, 1, 64);
	write_badly(ends, 64, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(*ends->b.memory, 0);
	pair_drop(&ends->a, &ends->b);
	pair_connect(&ends->a, &ends->b, NULL);
	write_well(ends, 64); /* only the third */
}

static void test_faults_know_sizes_and_devices(void **state)
{
	struct ends *ends = *state;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault lose write max=32 device=fake0; fault status write device=fake1 status=4");
	write_well(ends, 64);
	write_badly(ends, 32, IBV_WC_RETRY_EXC_ERR);
}

static void test_one_is_lost_for_good(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault lose write nth=2");
	memset(ends->b.memory, 0, 256);
	memset(ends->a.memory, 1, 64);
	for (int i = 0; i < 3; i++) {
		write.remote = (uintptr_t)ends->b.memory + (uint64_t)i * 64;
		assert_int_equal(end_post(&ends->a, &write), 0);
	}
	end_wait(&ends->a, IBV_WC_SUCCESS);
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR);
	end_wait(&ends->a, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ends->b.memory[0], 1);
	assert_int_equal(ends->b.memory[64], 0);
	assert_int_equal(ends->b.memory[128], 0); /* nothing overtakes */
}

static void test_one_is_lost_twice(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);
	struct fake_verbs_counts counts;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault drop any status=2");
	fill(ends->a.memory, 64, 1);
	write_well(ends, 64);
	assert_memory_equal(ends->a.memory, ends->b.memory, 64);
	rig.control.counts(&counts);
	assert_int_equal(counts.retransmissions, 2);
	order("no-faults; fault drop any count=5"); /* each of five, once */
	for (int i = 0; i < 5; i++)
		assert_int_equal(end_post(&ends->a, &write), 0);
	for (int i = 0; i < 5; i++)
		end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
}

static void test_the_answer_is_lost(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault mute send");
	fill(ends->a.memory, 64, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(end_recv(&ends->b, 0, 64), 0);
	assert_int_equal(end_post(&ends->a, &send), 0);
	end_wait_opcode(&ends->b, IBV_WC_RECV);   /* it is there … */
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR); /* … and nobody knows */
	assert_memory_equal(ends->a.memory, ends->b.memory, 64);
	assert_true(end_is_quiet(&ends->b, 10)); /* once only */
}

static void test_half_of_it_arrives(void **state)
{
	struct ends *ends = *state;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault cut write");
	memset(ends->a.memory, 1, 8192);
	memset(ends->b.memory, 0, 8192);
	write_badly(ends, 8192, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ends->b.memory[4095], 1);
	assert_int_equal(ends->b.memory[4096], 0);
}

/* Was the end of a WRITE there before its beginning? */
static bool write_torn(struct ends *ends, size_t to_offset, uint32_t bytes)
{
	const char *to = ends->b.memory + to_offset;
	struct op write = op_write(&ends->b, 0, to_offset, bytes);
	bool torn;

	memset(ends->a.memory, 1, bytes);
	memset(ends->b.memory, 0, 64);
	assert_int_equal(end_post(&ends->a, &write), 0);
	while (!__atomic_load_n(&to[bytes - 1], __ATOMIC_ACQUIRE))
		;
	torn = !__atomic_load_n(to, __ATOMIC_ACQUIRE);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_memory_equal(ends->a.memory, to, bytes);
	assert_int_equal(to[bytes], 0);
	return torn;
}

static void test_the_end_comes_before_the_beginning(void **state)
{
	struct ends *ends = *state;
	double began = seconds();

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault tear write count=1000000");
	for (uint32_t bytes = 9; bytes < 40;
	     bytes += 3) /* again: this thread may not have looked */
		while (!write_torn(ends, bytes % 8, bytes))
			assert_true(seconds() - began < PATIENCE);
	for (uint32_t bytes = 4; bytes <= 8; bytes += 4) /* but words are words */
		assert_false(write_torn(ends, 8, bytes));
}

static void write_twice(struct ends *ends, char *seen)
{
	struct op first = op_write(&ends->b, 0, 0, 8), second = op_write(&ends->b, 8, 0, 8);

	memset(ends->a.memory, 1, 8);
	memset(ends->a.memory + 8, 2, 8);
	assert_int_equal(end_post(&ends->a, &first), 0);
	assert_int_equal(end_post(&ends->a, &second), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	*seen = *ends->b.memory;
}

static void test_a_write_overtakes_another(void **state)
{
	struct ends *ends = *state;
	struct op alone = op_write(&ends->b, 0, 0, 8);
	char seen;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault overtake write");
	write_twice(ends, &seen);
	assert_int_equal(seen, 1);
	write_twice(ends, &seen);
	assert_int_equal(seen, 2);
	order("fault overtake write");
	assert_int_equal(end_post(&ends->a, &alone), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_int_equal(*ends->b.memory, 1);
}

static void test_the_last_byte_does_not_arrive(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault garble write");
	memset(ends->b.memory, 0, 64);
	memset(ends->a.memory, 1, 64);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_int_equal(ends->b.memory[62], 1);
	assert_int_equal(ends->b.memory[63], 0);
}

static void test_a_delay_keeps_the_order(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);
	double began = seconds();

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault delay write ms=60");
	memset(ends->b.memory, 0, 64);
	memset(ends->a.memory, 1, 64);
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_post(&ends->a, &write), 0);
	assert_int_equal(*ends->b.memory, 0);
	for (int i = 0; i < 3; i++)
		end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_true(seconds() - began >= 0.06);
	assert_int_equal(*ends->b.memory, 1);
}

static void test_a_port_goes_down_at_the_kth(void **state)
{
	struct ends *ends = *state;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault port-down write nth=2");
	write_well(ends, 64);
	write_badly(ends, 64, IBV_WC_RETRY_EXC_ERR);
	end_wait_event(&ends->a, IBV_EVENT_PORT_ERR);
	order("set fake0:1 state=active");
	end_wait_event(&ends->a, IBV_EVENT_PORT_ACTIVE);
	assert_false(end_has_event(&ends->b)); /* its port has seen nothing */
}

static void test_a_queue_pair_dies(void **state)
{
	struct ends *ends = *state;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault qp-fatal write");
	assert_int_equal(end_recv(&ends->a, 0, 64), 0);
	write_badly(ends, 64, IBV_WC_WR_FLUSH_ERR);
	end_wait(&ends->a, IBV_WC_WR_FLUSH_ERR);
	end_wait_event(&ends->a, IBV_EVENT_QP_FATAL);
}

static void test_a_device_dies(void **state)
{
	struct ends *ends = *state;
	struct ibv_device_attr attr;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault device-fatal write device=fake1");
	assert_int_equal(end_recv(&ends->b, 0, 64), 0);
	order("fatal fake1");
	end_wait_event(&ends->b, IBV_EVENT_DEVICE_FATAL);
	end_wait(&ends->b, IBV_WC_WR_FLUSH_ERR);
	write_badly(ends, 64, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rig.verbs.query_device(ends->b.context, &attr), EIO);
	assert_int_equal(rig.verbs.query_port(ends->b.context, 1, &ends->b.port), EIO);
}

/* The device that died in the test before has to come back: new devices are described. */
static int teardown_device(void **state)
{
	int ret = teardown(state);
	const char *text = getenv("FAKE_VERBS");
	char *copy = text ? strdup(text) : NULL;

	setenv("FAKE_VERBS", "", 1);
	assert_int_equal(rig.control.script("no-faults"), 0);
	if (copy)
		setenv("FAKE_VERBS", copy, 1);
	else
		unsetenv("FAKE_VERBS");
	free(copy);
	return ret;
}

static void test_a_receive_fails(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault status recv nth=2 status=4 device=fake1");
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_recv(&ends->b, 0, 64), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(end_post(&ends->a, &send), 0);
	end_wait(&ends->b, IBV_WC_SUCCESS);
	end_wait(&ends->b, IBV_WC_LOC_PROT_ERR);
	end_wait(&ends->b, IBV_WC_WR_FLUSH_ERR);
	end_wait(&ends->a, IBV_WC_SUCCESS);
	end_wait(&ends->a, IBV_WC_REM_OP_ERR);
}

static void test_a_completion_comes_late(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault late recv nth=2 device=fake1");
	fill(ends->a.memory, 64, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_recv(&ends->b, (size_t)i * 64, 64), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_post(&ends->a, &send), 0);
	end_wait_opcode(&ends->a, IBV_WC_SEND);
	end_wait_opcode(&ends->a, IBV_WC_SEND); /* it has arrived … */
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR);
	end_wait_opcode(&ends->b, IBV_WC_RECV);
	assert_true(end_is_quiet(&ends->b, 10)); /* … which is not told */
	assert_memory_equal(ends->a.memory, ends->b.memory + 64, 64);
	assert_int_equal(qp_to_err(ends->b.qp), 0);
	end_wait_opcode(&ends->b, IBV_WC_RECV);
	end_wait(&ends->b, IBV_WC_WR_FLUSH_ERR);
	assert_true(end_is_quiet(&ends->b, 10));
}

/* The sender is told at once; who is told late is the receiver, in order, or when the fault is recovered. */
static void test_a_receive_is_told_late(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };
	double began = seconds();

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault slow recv ms=60 device=fake1");
	for (int i = 0; i < 4; i++)
		assert_int_equal(end_recv(&ends->b, 0, 64), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(end_post(&ends->a, &send), 0);
	for (int i = 0; i < 2; i++)
		end_wait_opcode(&ends->a, IBV_WC_SEND);
	for (int i = 0; i < 2; i++)
		end_wait_opcode(&ends->b, IBV_WC_RECV);
	assert_true(seconds() - began >= 0.06);
	order("fault slow recv ms=100000 device=fake1");
	assert_int_equal(end_post(&ends->a, &send), 0);
	end_wait_opcode(&ends->a, IBV_WC_SEND);
	assert_true(end_is_quiet(&ends->b, 10));
	order("no-faults");
	end_wait_opcode(&ends->b, IBV_WC_RECV);
	order("fault slow recv ms=100000 device=fake1");
	assert_int_equal(end_post(&ends->a, &send), 0);
	end_wait_opcode(&ends->a, IBV_WC_SEND);
	assert_int_equal(qp_to_err(ends->b.qp), 0); /* what has arrived is told first */
	end_wait_opcode(&ends->b, IBV_WC_RECV);
}

static struct op op_read(const struct end *from)
{
	struct op read = op_write(from, 0, 0, 64);

	read.opcode = IBV_WR_RDMA_READ;
	return read;
}

/* With a timeout of 8 and 1 retry an answer may take some 2 ms, times that nobody hurries; with 18 and 7, minutes. */
static void test_an_answer_comes_late(void **state)
{
	const struct terms hasty = { .timeout = 8, .retries = 1 },
			   patient = { .timeout = 18, .retries = 7 };
	struct ends *ends = *state;
	struct op read = op_read(&ends->b), write = op_write(&ends->b, 64, 64, 64);
	double began;

	order("hurry 1; fault slow read ms=60");
	pair_connect(&ends->a, &ends->b, &hasty);
	assert_int_equal(end_post(&ends->a, &read), 0);
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR);
	pair_drop(&ends->a, &ends->b);
	order("fault slow read ms=60");
	pair_connect(&ends->a, &ends->b, &patient);
	fill(ends->b.memory, 64, 4);
	began = seconds();
	assert_int_equal(end_post(&ends->a, &read), 0);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_READ);
	assert_true(seconds() - began >= 0.06);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_memory_equal(ends->a.memory, ends->b.memory, 64);
	order("hurry 64");
}

/* So many READs leave at a time as the queue pair has been made for. */
static void test_reads_wait_for_one_another(void **state)
{
	const struct terms terms = { .timeout = 18, .retries = 7, .reads = 4 };
	struct ends *ends = *state;
	struct op read = op_read(&ends->b);
	struct fake_verbs_counts before, now;

	pair_connect(&ends->a, &ends->b, &terms);
	order("hurry 1; fault slow read ms=100 count=1000000");
	rig.control.counts(&before);
	for (uint32_t i = 0; i <= terms.reads; i++)
		assert_int_equal(end_post(&ends->a, &read), 0);
	rig.control.counts(&now);
	assert_true(now.transmissions - before.transmissions <= terms.reads);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_READ);
	rig.control.counts(&now);
	assert_true(now.transmissions - before.transmissions >= terms.reads);
	for (uint32_t i = 0; i < terms.reads; i++)
		end_wait_opcode(&ends->a, IBV_WC_RDMA_READ);
	order("hurry 64");
}

/* Packets vanish one way only: a to b everything is well, but for the answers that b would send. */
static void test_one_direction_vanishes(void **state)
{
	struct ends *ends = *state;
	struct op back = op_write(&ends->a, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	order("vanish fake0:1 10.77.0.9; vanish fake0:1 10.77.0.2");
	memset(ends->b.memory, 1, 64);
	memset(ends->a.memory, 0, 64);
	assert_int_equal(end_post(&ends->b, &back), 0);
	end_wait(&ends->b, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(*ends->a.memory, 1); /* it did arrive */
	write_badly(ends, 64, IBV_WC_RETRY_EXC_ERR);
	order("no-faults");
	pair_drop(&ends->a, &ends->b);
	pair_connect(&ends->a, &ends->b, NULL);
	write_well(ends, 64);
}

static void test_calls_fail(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);
	struct ibv_mr *mr;

	pair_connect(&ends->a, &ends->b, NULL);
	order("fault call reg_mr nth=2 errno=12; fault call post_send errno=5 device=fake0");
	mr = rig.verbs.reg_mr(ends->a.pd, ends->a.memory, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
	assert_null(rig.verbs.reg_mr(ends->a.pd, ends->a.memory, 4096, 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(end_post(&ends->a, &write), EIO);
	write_well(ends, 64);
	order("fault call create_cq errno=12; fault call modify_qp errno=110");
	assert_null(rig.verbs.create_cq(ends->a.context, 16, NULL, NULL, 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(qp_to_err(ends->a.qp), ETIMEDOUT);
	order("fault call reg_mr errno=0 ms=30");
	double began = seconds();
	mr = rig.verbs.reg_mr(ends->a.pd, ends->a.memory, 4096, 0);
	assert_true(seconds() - began >= 0.03);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
}

static void test_a_process_dies_at_the_kth(void **state)
{
	struct ends ends;
	pid_t child;
	int status;

	(void)state;
	fflush(stdout);
	child = fork();
	if (!child) {
		end_open(&ends.a, rig.devices[0]);
		end_open(&ends.b, rig.devices[1]);
		pair_connect(&ends.a, &ends.b, NULL);
		order("fault kill write nth=2");
		write_well(&ends, 64);
		write_well(&ends, 64);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_a_completion_queue_overruns(void **state)
{
	struct ends *ends = *state;
	struct ibv_cq *big = ends->a.cq;
	struct op write = op_write(&ends->b, 0, 0, 64);
	int good = 0;
	struct ibv_wc wc;

	ends->a.cq = rig.verbs.create_cq(ends->a.context, 4, NULL, NULL, 0);
	assert_non_null(ends->a.cq);
	pair_connect(&ends->a, &ends->b, NULL);
	for (int i = 0; i < 6; i++)
		end_post(&ends->a, &write);
	end_wait_event(&ends->a, IBV_EVENT_CQ_ERR);
	end_wait_event(&ends->a, IBV_EVENT_QP_FATAL);
	qp_await(&ends->a, IBV_QPS_ERR);
	while (ibv_poll_cq(ends->a.cq, 1, &wc) > 0)
		good++;
	assert_int_equal(good, 4);
	end_drop_qp(&ends->a);
	assert_int_equal(rig.verbs.destroy_cq(ends->a.cq), 0);
	ends->a.cq = big;
}

int check_faults(void)
{
	const struct CMUnitTest faults[] = {
		FAULT(test_the_kth_fails),
		FAULT(test_faults_know_sizes_and_devices),
		FAULT(test_one_is_lost_for_good),
		FAULT(test_one_is_lost_twice),
		FAULT(test_the_answer_is_lost),
		FAULT(test_half_of_it_arrives),
		FAULT(test_the_end_comes_before_the_beginning),
		FAULT(test_a_write_overtakes_another),
		FAULT(test_the_last_byte_does_not_arrive),
		FAULT(test_a_delay_keeps_the_order),
		FAULT(test_a_port_goes_down_at_the_kth),
		FAULT(test_a_queue_pair_dies),
		cmocka_unit_test_setup_teardown(test_a_device_dies, setup, teardown_device),
		FAULT(test_a_receive_fails),
		FAULT(test_a_completion_comes_late),
		FAULT(test_a_receive_is_told_late),
		FAULT(test_an_answer_comes_late),
		FAULT(test_reads_wait_for_one_another),
		FAULT(test_one_direction_vanishes),
		FAULT(test_calls_fail),
		cmocka_unit_test(test_a_process_dies_at_the_kth),
		FAULT(test_a_completion_queue_overruns),
	};

	return cmocka_run_group_tests(faults, NULL, NULL);
}
