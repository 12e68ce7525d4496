/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that fail: with what, and what becomes of the queue pairs. */
#include "rig.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define FOR_WRITING (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define FOR_READING (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

/* The peer was asked for what it does not allow: both are of no use, and what follows is flushed. */
static void denied(struct ends *ends, const struct op *op)
{
	struct op next = op_write(&ends->b, 0, 0, 64);

	assert_int_equal(end_post(&ends->a, op), 0);
	end_wait(&ends->a, IBV_WC_REM_ACCESS_ERR);
	qp_await(&ends->a, IBV_QPS_ERR);
	qp_await(&ends->b, IBV_QPS_ERR);
	assert_int_equal(end_post(&ends->a, &next), 0);
	end_wait(&ends->a, IBV_WC_WR_FLUSH_ERR);
	if (rig.traits->told_of_peer)
		end_wait_event(&ends->b, IBV_EVENT_QP_ACCESS_ERR);
}

static void test_a_wrong_key(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	write.rkey ^= 0x5500;
	denied(ends, &write);
}

static void test_beyond_the_region(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, END_BYTES - 63, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	memset(ends->b.memory + END_BYTES - 63, 0, 63);
	memset(ends->a.memory, 1, 64);
	denied(ends, &write);
	assert_int_equal(ends->b.memory[END_BYTES - 1], 0);
}

/* Connects the ends; *write goes to the second one's memory as a region with this access. */
static struct ibv_mr *connect_to_region(struct ends *ends, struct ibv_pd *pd, int access,
					struct op *write)
{
	struct ibv_mr *mr = rig.verbs.reg_mr(pd, ends->b.memory, 4096, access);

	assert_non_null(mr);
	pair_connect(&ends->a, &ends->b, NULL);
	*write = op_write(&ends->b, 0, 0, 64);
	write->rkey = mr->rkey;
	return mr;
}

static void denied_in_region(struct ends *ends, struct ibv_pd *pd, int access,
			     enum ibv_wr_opcode opcode)
{
	struct op op;
	struct ibv_mr *mr = connect_to_region(ends, pd, access, &op);

	op.opcode = opcode;
	denied(ends, &op);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
}

static void test_a_region_that_is_not_for_writing(void **state)
{
	struct ends *ends = *state;

	denied_in_region(ends, ends->b.pd, FOR_READING, IBV_WR_RDMA_WRITE);
}

static void test_a_region_that_is_not_for_reading(void **state)
{
	struct ends *ends = *state;

	denied_in_region(ends, ends->b.pd, FOR_WRITING, IBV_WR_RDMA_READ);
}

static void test_a_region_of_another_domain(void **state)
{
	struct ends *ends = *state;
	struct ibv_pd *pd = rig.verbs.alloc_pd(ends->b.context);

	assert_non_null(pd);
	denied_in_region(ends, pd, FOR_WRITING, IBV_WR_RDMA_WRITE);
	assert_int_equal(rig.verbs.dealloc_pd(pd), 0);
}

static void test_a_region_that_is_gone(void **state)
{
	struct ends *ends = *state;
	struct op write;
	struct ibv_mr *mr = connect_to_region(ends, ends->b.pd, FOR_WRITING, &write);

	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
	denied(ends, &write);
}

static void test_a_queue_pair_that_is_not_for_writing(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .access = IBV_ACCESS_REMOTE_READ };
	struct op write = op_write(&ends->b, 0, 0, 64);
	double until = seconds() + PATIENCE;
	struct ibv_wc wc;

	pair_connect(&ends->a, &ends->b, &terms);
	assert_int_equal(end_post(&ends->a, &write), 0);
	while (!ibv_poll_cq(ends->a.cq, 1, &wc))
		assert_true(seconds() < until);
	assert_true(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR);
	qp_await(&ends->a, IBV_QPS_ERR);
}

static void with_a_wrong_local_key(struct ends *ends, bool quiet)
{
	struct op write = op_write(&ends->b, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	write.lkey = ends->a.mr->lkey ^ 0x5500;
	write.quiet = quiet;
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, rig.traits->protection);
	qp_await(&ends->a, IBV_QPS_ERR);
	assert_int_equal(qp_state(&ends->b), IBV_QPS_RTS); /* it was not asked */
}

static void test_a_wrong_local_key(void **state)
{
	with_a_wrong_local_key(*state, false);
}

static void test_errors_complete_what_wants_no_completion(void **state)
{
	with_a_wrong_local_key(*state, true);
}

static void test_a_receive_that_is_too_small(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 128 };

	pair_connect(&ends->a, &ends->b, NULL);
	assert_int_equal(end_recv(&ends->b, 0, 64), 0);
	assert_int_equal(end_post(&ends->a, &send), 0);
	end_wait(&ends->a, rig.traits->short_there);
	end_wait(&ends->b, rig.traits->short_here);
	qp_await(&ends->b, IBV_QPS_ERR);
}

static void test_nobody_receives(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .rnr_retries = 2 + 1 };
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	pair_connect(&ends->a, &ends->b, &terms);
	assert_int_equal(end_post(&ends->a, &send), 0);
	end_wait(&ends->a, IBV_WC_RNR_RETRY_EXC_ERR);
	qp_await(&ends->a, IBV_QPS_ERR);
	assert_int_equal(qp_state(&ends->b), IBV_QPS_RTS);
}

static void test_somebody_receives_late(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };
	struct op write = op_write(&ends->b, 0, 4096, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, 64, 1);
	memset(ends->b.memory, 0, 8192);
	assert_int_equal(end_post(&ends->a, &send), 0);
	assert_int_equal(end_post(&ends->a, &write), 0);
	assert_true(end_is_quiet(&ends->a, 30));
	assert_int_equal(ends->b.memory[4096], 0); /* nothing overtakes */
	assert_int_equal(end_recv(&ends->b, 0, 64), 0);
	end_wait_opcode(&ends->a, IBV_WC_SEND);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_memory_equal(ends->b.memory, ends->a.memory, 64);
	assert_memory_equal(ends->b.memory + 4096, ends->a.memory, 64);
}

static void test_the_peer_is_gone(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	end_drop_qp(&ends->b);
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR);
	end_wait(&ends->a, IBV_WC_WR_FLUSH_ERR);
	end_wait(&ends->a, IBV_WC_WR_FLUSH_ERR);
	qp_await(&ends->a, IBV_QPS_ERR);
}

static void test_the_peer_is_in_error(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, NULL);
	memset(ends->b.memory, 0, 64);
	memset(ends->a.memory, 1, 64);
	assert_int_equal(qp_to_err(ends->b.qp), 0);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(*ends->b.memory, 0); /* fenced */
}

static void test_packet_numbers_that_nobody_expects(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .psn_there = 5000, .psn_expected = 4990 };
	struct op write = op_write(&ends->b, 0, 0, 64);

	pair_connect(&ends->a, &ends->b, &terms);
	memset(ends->b.memory, 0, 64);
	memset(ends->a.memory, 1, 64);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(*ends->b.memory, 0);
}

static void test_packet_numbers_wrap(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .psn_there = 0xfffffd, .psn_expected = 0xfffffd };
	struct op write = op_write(&ends->b, 0, 0, 1 << 20);

	pair_connect(&ends->a, &ends->b, &terms);
	fill(ends->a.memory, 1 << 20, 3);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(end_post(&ends->a, &write), 0);
		end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	}
	assert_memory_equal(ends->a.memory, ends->b.memory, 1 << 20);
}

static void test_error_flushes_in_order(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 8 };

	pair_connect(&ends->a, &ends->b, NULL);
	send.quiet = true; /* nobody receives: they stay */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(end_post(&ends->a, &send), 0);
		assert_int_equal(end_recv(&ends->a, 0, 8), 0);
	}
	assert_int_equal(qp_to_err(ends->a.qp), 0);
	for (int i = 0; i < 6; i++)
		end_wait(&ends->a, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_recv(&ends->a, 0, 8), 0);
	if (rig.traits->late_flush)
		assert_int_equal(end_wait(&ends->a, IBV_WC_WR_FLUSH_ERR).wr_id, RECV_ID);
	assert_true(end_is_quiet(&ends->a, 10));
}

/* The descriptor that a GPU's memory would have comes from memfd here. */
static void test_dmabuf_memory_is_written_to(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 4096);
	struct ibv_mr *mr;
	char *memory;
	int fd;

	if (!rig.traits->dmabuf)
		return; /* check_queries.c has seen that it says so */
	fd = memfd_create("dmabuf", MFD_CLOEXEC);
	assert_true(fd >= 0 && !ftruncate(fd, 1 << 16));
	memory = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	mr = rig.verbs.reg_dmabuf_mr(ends->b.pd, 4096, 8192, 0x10000, fd, FOR_WRITING);
	assert_non_null(mr);
	close(fd);
	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, 4096, 4);
	write.rkey = mr->rkey;
	write.remote = 0x10000 + 4096;
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_memory_equal(memory + 8192, ends->a.memory, 4096);
	munmap(memory, 1 << 16);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
}

int check_errors(void)
{
	const struct CMUnitTest errors[] = {
		CHECK(test_a_wrong_key),
		CHECK(test_beyond_the_region),
		CHECK(test_a_region_that_is_not_for_writing),
		CHECK(test_a_region_that_is_not_for_reading),
		CHECK(test_a_region_of_another_domain),
		CHECK(test_a_region_that_is_gone),
		CHECK(test_a_queue_pair_that_is_not_for_writing),
		CHECK(test_a_wrong_local_key),
		CHECK(test_errors_complete_what_wants_no_completion),
		CHECK(test_a_receive_that_is_too_small),
		CHECK(test_nobody_receives),
		CHECK(test_somebody_receives_late),
		CHECK(test_the_peer_is_gone),
		CHECK(test_the_peer_is_in_error),
		CHECK(test_packet_numbers_that_nobody_expects),
		CHECK(test_packet_numbers_wrap),
		CHECK(test_error_flushes_in_order),
		CHECK(test_dmabuf_memory_is_written_to),
	};

	return cmocka_run_group_tests(errors, NULL, NULL);
}
