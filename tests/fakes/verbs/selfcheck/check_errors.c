/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that fail: their status, and the state of the queue pairs. */
#include "rig.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define FOR_WRITING (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define FOR_READING (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

/* A request that the peer does not allow: both fail, and later requests are flushed. */
static void denied(const struct op *op)
{
	struct op next = op_write(&rig.b, 0, 0, 64);

	check_ok(end_post(&rig.a, op));
	end_wait(&rig.a, IBV_WC_REM_ACCESS_ERR);
	qp_await(&rig.a, IBV_QPS_ERR);
	qp_await(&rig.b, IBV_QPS_ERR);
	end_fails(&rig.a, &next, IBV_WC_WR_FLUSH_ERR);
	if (rig.traits->told_of_peer)
		end_wait_event(&rig.b, IBV_EVENT_QP_ACCESS_ERR);
}

static void a_wrong_key(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	write.rkey ^= 0x5500;
	denied(&write);
}

static void beyond_the_region(void)
{
	struct op write = op_write(&rig.b, 0, END_BYTES - 63, 64);

	memset(rig.b.memory + END_BYTES - 63, 0, 63);
	memset(rig.a.memory, 1, 64);
	denied(&write);
	check_int(rig.b.memory[END_BYTES - 1], 0);
}

/* Connects the ends; *write goes to the second one's memory as a region with this access. */
static struct ibv_mr *connect_to_region(struct ibv_pd *pd, int access, struct op *write)
{
	struct ibv_mr *mr = rig.verbs.reg_mr(pd, rig.b.memory, 4096, access);

	check(mr);
	*write = op_write(&rig.b, 0, 0, 64);
	write->rkey = mr->rkey;
	return mr;
}

static void denied_in_region(struct ibv_pd *pd, int access, enum ibv_wr_opcode opcode)
{
	struct op op;
	struct ibv_mr *mr = connect_to_region(pd, access, &op);

	op.opcode = opcode;
	denied(&op);
	check_ok(rig.verbs.dereg_mr(mr));
}

static void a_region_that_is_not_for_writing(void)
{
	denied_in_region(rig.b.pd, FOR_READING, IBV_WR_RDMA_WRITE);
}

static void a_region_that_is_not_for_reading(void)
{
	denied_in_region(rig.b.pd, FOR_WRITING, IBV_WR_RDMA_READ);
}

static void a_region_of_another_domain(void)
{
	struct ibv_pd *pd = rig.verbs.alloc_pd(rig.b.context);

	check(pd);
	denied_in_region(pd, FOR_WRITING, IBV_WR_RDMA_WRITE);
	check_ok(rig.verbs.dealloc_pd(pd));
}

static void a_region_that_is_gone(void)
{
	struct op write;
	struct ibv_mr *mr = connect_to_region(rig.b.pd, FOR_WRITING, &write);

	end_do(&rig.a, &write);
	check_ok(rig.verbs.dereg_mr(mr));
	denied(&write);
}

static void a_queue_pair_that_is_not_for_writing(void)
{
	struct terms terms = { .access = IBV_ACCESS_REMOTE_READ };
	struct op write = op_write(&rig.b, 0, 0, 64);
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a completion");
	struct ibv_wc wc;

	ends_connect(&terms);
	check_ok(end_post(&rig.a, &write));
	while (!ibv_poll_cq(rig.a.cq, 1, &wc))
		deadline_turn(&deadline);
	check(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR);
	qp_await(&rig.a, IBV_QPS_ERR);
}

static void with_a_wrong_local_key(bool quiet)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	write.lkey = rig.a.mr->lkey ^ 0x5500;
	write.quiet = quiet;
	end_fails(&rig.a, &write, rig.traits->protection);
	qp_await(&rig.a, IBV_QPS_ERR);
	check_int(qp_state(&rig.b), IBV_QPS_RTS); /* not requested */
}

static void a_wrong_local_key(void)
{
	with_a_wrong_local_key(false);
}

static void errors_complete_what_wants_no_completion(void)
{
	with_a_wrong_local_key(true);
}

static void a_receive_that_is_too_small(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 128 };

	check_ok(end_recv(&rig.b, 0, 64));
	end_fails(&rig.a, &send, rig.traits->short_there);
	end_wait(&rig.b, rig.traits->short_here);
	qp_await(&rig.b, IBV_QPS_ERR);
}

static void nobody_receives(void)
{
	struct terms terms = { .rnr_retries = 2 + 1 };
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	ends_connect(&terms);
	end_fails(&rig.a, &send, IBV_WC_RNR_RETRY_EXC_ERR);
	qp_await(&rig.a, IBV_QPS_ERR);
	check_int(qp_state(&rig.b), IBV_QPS_RTS);
}

static void somebody_receives_late(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };
	struct op write = op_write(&rig.b, 0, 4096, 64);

	fill(rig.a.memory, 64, 1);
	memset(rig.b.memory, 0, 8192);
	check_ok(end_post(&rig.a, &send));
	check_ok(end_post(&rig.a, &write));
	check(end_is_quiet(&rig.a, 30));
	check_int(rig.b.memory[4096], 0); /* no reordering */
	check_ok(end_recv(&rig.b, 0, 64));
	end_wait_opcode(&rig.a, IBV_WC_SEND);
	end_wait_opcode(&rig.a, IBV_WC_RDMA_WRITE);
	check(!memcmp(rig.b.memory, rig.a.memory, 64));
	check(!memcmp(rig.b.memory + 4096, rig.a.memory, 64));
}

static void the_peer_is_gone(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	end_drop_qp(&rig.b);
	end_posts(&rig.a, &write, 3);
	end_wait(&rig.a, IBV_WC_RETRY_EXC_ERR);
	end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR);
	end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR);
	qp_await(&rig.a, IBV_QPS_ERR);
}

static void the_peer_is_in_error(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	memset(rig.b.memory, 0, 64);
	memset(rig.a.memory, 1, 64);
	check_ok(qp_to_err(rig.b.qp));
	end_fails(&rig.a, &write, IBV_WC_RETRY_EXC_ERR);
	check_int(*rig.b.memory, 0); /* fenced */
}

static void packet_numbers_that_nobody_expects(void)
{
	struct terms terms = { .psn_there = 5000, .psn_expected = 4990 };
	struct op write = op_write(&rig.b, 0, 0, 64);

	ends_connect(&terms);
	memset(rig.b.memory, 0, 64);
	memset(rig.a.memory, 1, 64);
	end_fails(&rig.a, &write, IBV_WC_RETRY_EXC_ERR);
	check_int(*rig.b.memory, 0);
}

static void packet_numbers_wrap(void)
{
	struct terms terms = { .psn_there = 0xfffffd, .psn_expected = 0xfffffd };
	struct op write = op_write(&rig.b, 0, 0, 1 << 20);

	ends_connect(&terms);
	fill(rig.a.memory, 1 << 20, 3);
	for (int i = 0; i < 2; i++) {
		end_do(&rig.a, &write);
	}
	check(!memcmp(rig.a.memory, rig.b.memory, 1 << 20));
}

static void error_flushes_in_order(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 8 };

	send.quiet = true; /* no receives are consumed: they stay */
	for (int i = 0; i < 3; i++) {
		check_ok(end_post(&rig.a, &send));
		check_ok(end_recv(&rig.a, 0, 8));
	}
	check_ok(qp_to_err(rig.a.qp));
	for (int i = 0; i < 6; i++)
		end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR);
	check_ok(end_recv(&rig.a, 0, 8));
	if (rig.traits->late_flush)
		check_int(end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR).wr_id, RECV_ID);
	check(end_is_quiet(&rig.a, 10));
}

/* The descriptor for GPU memory comes from memfd here. */
static void dmabuf_memory_is_written_to(void)
{
	struct op write = op_write(&rig.b, 0, 0, 4096);
	struct ibv_mr *mr;
	char *memory;
	int fd;

	if (!rig.traits->dmabuf)
		return; /* check_queries.c has checked that it says so */
	fd = memfd_create("dmabuf", MFD_CLOEXEC);
	check(fd >= 0 && !ftruncate(fd, 1 << 16));
	memory = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(memory != MAP_FAILED);
	mr = rig.verbs.reg_dmabuf_mr(rig.b.pd, 4096, 8192, 0x10000, fd, FOR_WRITING);
	check(mr);
	close(fd);
	fill(rig.a.memory, 4096, 4);
	write.rkey = mr->rkey;
	write.remote = 0x10000 + 4096;
	end_do(&rig.a, &write);
	check(!memcmp(memory + 8192, rig.a.memory, 4096));
	munmap(memory, 1 << 16);
	check_ok(rig.verbs.dereg_mr(mr));
}

const struct selfcheck errors_checks[] = {
	{ CHECK(a_wrong_key) },
	{ CHECK(beyond_the_region) },
	{ CHECK(a_region_that_is_not_for_writing) },
	{ CHECK(a_region_that_is_not_for_reading) },
	{ CHECK(a_region_of_another_domain) },
	{ CHECK(a_region_that_is_gone) },
	{ CHECK(a_queue_pair_that_is_not_for_writing), .setting = OPEN },
	{ CHECK(a_wrong_local_key) },
	{ CHECK(errors_complete_what_wants_no_completion) },
	{ CHECK(a_receive_that_is_too_small) },
	{ CHECK(nobody_receives), .setting = OPEN },
	{ CHECK(somebody_receives_late) },
	{ CHECK(the_peer_is_gone) },
	{ CHECK(the_peer_is_in_error) },
	{ CHECK(packet_numbers_that_nobody_expects), .setting = OPEN },
	{ CHECK(packet_numbers_wrap), .setting = OPEN },
	{ CHECK(error_flushes_in_order) },
	{ CHECK(dmabuf_memory_is_written_to) },
	{ 0 },
};
