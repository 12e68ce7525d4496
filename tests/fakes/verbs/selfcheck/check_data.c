/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are moved, and the completions that tell of it. */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#define MIB   (1u << 20)
#define SMALL 4000u
#define LIST  8
#define THERE (2u << 20) /* an offset */

static void test_send_and_receive(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = SMALL };
	struct ibv_wc wc;

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, SMALL, 1);
	assert_int_equal(end_recv(&ends->b, 0, 4096), 0);
	assert_int_equal(end_post(&ends->a, &send), 0);
	wc = end_wait(&ends->a, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.wr_id, IBV_WR_SEND);
	assert_int_equal(wc.qp_num, ends->a.qp->qp_num);
	wc = end_wait(&ends->b, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, RECV_ID);
	assert_int_equal(wc.byte_len, SMALL);
	assert_false(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(wc.qp_num, ends->b.qp->qp_num);
	assert_memory_equal(ends->a.memory, ends->b.memory, SMALL);
	send.opcode = IBV_WR_SEND_WITH_IMM;
	send.imm = 0xabcd1234;
	assert_int_equal(end_recv(&ends->b, 0, 4096), 0);
	assert_int_equal(end_post(&ends->a, &send), 0);
	wc = end_wait(&ends->b, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0xabcd1234);
}

static void test_write(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, MIB);

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, MIB, 2);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	assert_memory_equal(ends->a.memory, ends->b.memory, MIB);
}

static void test_inline_data_is_taken_at_once(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .inline_bytes = 64 };
	struct op write = op_write(&ends->b, 0, 0, 64);
	char wanted[64];

	pair_connect(&ends->a, &ends->b, &terms);
	write.is_inline = true;
	write.lkey = 0xdead00; /* no matter */
	for (unsigned i = 0; i < LIST; i++) {
		fill(ends->a.memory, 64, i);
		write.remote = (uintptr_t)ends->b.memory + i * 64;
		assert_int_equal(end_post(&ends->a, &write), 0);
		memset(ends->a.memory, 0, 64);
	}
	for (unsigned i = 0; i < LIST; i++) {
		end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
		fill(wanted, sizeof(wanted), i);
		assert_memory_equal(ends->b.memory + i * 64, wanted, sizeof(wanted));
	}
	write.bytes = 64 << 10;
	assert_int_not_equal(end_post(&ends->a, &write), 0);
}

static void test_write_with_immediate(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 64, 64, 8192);
	struct ibv_wc wc;

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, 16384, 3);
	write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	write.imm = 77;
	assert_int_equal(end_recv(&ends->b, 0, 0), 0);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	wc = end_wait(&ends->b, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 77);
	assert_int_equal(wc.byte_len, 8192);
	assert_memory_equal(ends->a.memory + 64, ends->b.memory + 64, 8192);
	/* of nothing: no key is needed */
	write = (struct op){ .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm = 78 };
	assert_int_equal(end_recv(&ends->b, 0, 0), 0);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	wc = end_wait(&ends->b, IBV_WC_SUCCESS);
	assert_int_equal(ntohl(wc.imm_data), 78);
	assert_int_equal(wc.byte_len, 0);
}

static void test_read(void **state)
{
	struct ends *ends = *state;
	struct op read = op_write(&ends->b, THERE, 0, 100000);

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->b.memory, 100000, 4);
	read.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(end_post(&ends->a, &read), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_READ);
	assert_memory_equal(ends->a.memory + THERE, ends->b.memory, 100000);
}

/* A queue pair that is connected to itself: how GPU memory is flushed. */
static void test_read_from_oneself(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .timeout = 0 };
	struct op read = op_write(&ends->a, THERE, 0, 1);
	struct address_card card;

	end_make_qp(&ends->a, &terms);
	card = end_card(&ends->a);
	end_connect(&ends->a, &card, &terms);
	*ends->a.memory = 'x';
	read.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(end_post(&ends->a, &read), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_READ);
	assert_int_equal(ends->a.memory[THERE], 'x');
}

static struct ibv_sge piece(const struct end *end, size_t offset, uint32_t bytes)
{
	return (struct ibv_sge){ .addr = (uintptr_t)end->memory + offset,
				 .length = bytes,
				 .lkey = end->mr->lkey };
}

static void test_pieces_are_gathered_and_scattered(void **state)
{
	struct ends *ends = *state;
	struct ibv_sge from[3] = { piece(&ends->a, 0, 100), piece(&ends->a, 5000, 3001),
				   piece(&ends->a, 200, 7) };
	struct ibv_sge to[2] = { piece(&ends->b, 1000, 1500), piece(&ends->b, 0, 1000) };
	struct ibv_send_wr send = { .sg_list = from, .num_sge = 3, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_sge more[2] = { piece(&ends->b, 8000, 2500), piece(&ends->b, 100000, 800) };
	struct ibv_recv_wr recv = { .sg_list = more, .num_sge = 2 }, *bad_recv;

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, 16384, 5);
	send.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_recv(ends->b.qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(ends->a.qp, &send, &bad), 0);
	end_wait_opcode(&ends->a, IBV_WC_SEND);
	assert_int_equal(end_wait(&ends->b, IBV_WC_SUCCESS).byte_len, 3108);
	assert_memory_equal(ends->b.memory + 8000, ends->a.memory, 100);
	assert_memory_equal(ends->b.memory + 8100, ends->a.memory + 5000, 2400);
	assert_memory_equal(ends->b.memory + 100000, ends->a.memory + 7400, 601);
	assert_memory_equal(ends->b.memory + 100601, ends->a.memory + 200, 7);
	/* the same for a READ: here it goes into pieces */
	send.opcode = IBV_WR_RDMA_READ;
	send.sg_list = to;
	send.num_sge = 2;
	send.wr.rdma.remote_addr = (uintptr_t)ends->a.memory;
	send.wr.rdma.rkey = ends->a.mr->rkey;
	assert_int_equal(ibv_post_send(ends->b.qp, &send, &bad), 0);
	end_wait_opcode(&ends->b, IBV_WC_RDMA_READ);
	assert_memory_equal(ends->b.memory + 1000, ends->a.memory, 1500);
	assert_memory_equal(ends->b.memory, ends->a.memory + 1500, 1000);
}

static void test_a_list_completes_with_its_last(void **state)
{
	struct ends *ends = *state;
	struct ibv_send_wr list[LIST], *bad;
	struct ibv_sge pieces[LIST];

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, LIST * 4096, 6);
	memset(list, 0, sizeof(list));
	for (unsigned i = 0; i < LIST; i++) {
		bool last = i == LIST - 1;

		pieces[i] = piece(&ends->a, i * 4096, 4096);
		list[i].wr_id = i;
		list[i].next = last ? NULL : &list[i + 1];
		list[i].sg_list = &pieces[i];
		list[i].num_sge = 1;
		list[i].opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		list[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
		list[i].wr.rdma.remote_addr = (uintptr_t)ends->b.memory + i * 4096;
		list[i].wr.rdma.rkey = ends->b.mr->rkey;
	}
	assert_int_equal(end_recv(&ends->b, 0, 0), 0);
	assert_int_equal(ibv_post_send(ends->a.qp, list, &bad), 0);
	assert_int_equal(end_wait(&ends->a, IBV_WC_SUCCESS).wr_id, LIST - 1);
	end_wait_opcode(&ends->b, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_memory_equal(ends->a.memory, ends->b.memory, LIST * 4096);
	assert_true(end_is_quiet(&ends->a, 10));
}

/* What is before the bad one is sent, it and what follows is not. */
static void test_a_list_is_taken_up_to_the_bad_one(void **state)
{
	struct ends *ends = *state;
	struct ibv_sge one = piece(&ends->a, 0, 64), large = piece(&ends->a, 0, 64 << 10);
	struct ibv_send_wr list[3], *bad = NULL;

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, 64, 7);
	memset(ends->b.memory, 0, 3 * 64);
	memset(list, 0, sizeof(list));
	for (unsigned i = 0; i < 3; i++) {
		/* the second has too much for inline */
		list[i] = (struct ibv_send_wr){ .wr_id = i,
						.next = i < 2 ? &list[i + 1] : NULL,
						.sg_list = i == 1 ? &large : &one,
						.num_sge = 1,
						.opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED };
		if (i == 1)
			list[i].send_flags |= IBV_SEND_INLINE;
		list[i].wr.rdma.remote_addr = (uintptr_t)ends->b.memory + i * 64;
		list[i].wr.rdma.rkey = ends->b.mr->rkey;
	}
	assert_int_not_equal(ibv_post_send(ends->a.qp, list, &bad), 0);
	assert_ptr_equal(bad, &list[1]);
	assert_int_equal(end_wait(&ends->a, IBV_WC_SUCCESS).wr_id, 0);
	assert_true(end_is_quiet(&ends->a, 10));
	assert_memory_equal(ends->b.memory, ends->a.memory, 64);
	assert_int_equal(ends->b.memory[128], 0);
}

static void test_a_full_queue_refuses(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .sends = 4 };
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 8 };
	int taken = 0, ret;

	pair_connect(&ends->a, &ends->b, &terms);
	/* nobody receives, so nothing is done */
	while (!(ret = end_post(&ends->a, &send)) && taken < 10000)
		taken++;
	assert_int_equal(ret, ENOMEM);
	assert_true(taken >= 4);
	for (taken = 0; taken < WR_MAX && !end_recv(&ends->b, 0, 64); taken++)
		;
	for (; taken < 10000 && !(ret = end_recv(&ends->b, 0, 64)); taken++)
		;
	assert_int_equal(ret, ENOMEM);
}

static bool wakes(struct end *end, int ms)
{
	struct pollfd fd = { .fd = end->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, ms) != 1)
		return false;
	assert_int_equal(rig.verbs.get_cq_event(end->channel, &cq, &context), 0);
	assert_ptr_equal(cq, end->cq);
	assert_ptr_equal(context, end);
	rig.verbs.ack_cq_events(cq, 1);
	return true;
}

static void test_a_channel_tells_of_completions(void **state)
{
	struct ends *ends = *state;
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 8 };
	struct ibv_cq *cq;
	void *context;

	pair_connect(&ends->a, &ends->b, NULL);
	assert_int_equal(fcntl(ends->b.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rig.verbs.get_cq_event(ends->b.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	for (int i = 0; i < 3; i++)
		assert_int_equal(end_recv(&ends->b, 0, 64), 0);
	assert_int_equal(end_post(&ends->a, &send), 0);
	assert_false(wakes(&ends->b, 50)); /* not asked to */
	end_wait_opcode(&ends->b, IBV_WC_RECV);
	assert_int_equal(ibv_req_notify_cq(ends->b.cq, 1), 0);
	assert_int_equal(end_post(&ends->a, &send), 0);
	assert_false(wakes(&ends->b, 50)); /* not solicited */
	send.solicited = true;
	assert_int_equal(end_post(&ends->a, &send), 0);
	assert_true(wakes(&ends->b, PATIENCE * 1000));
	assert_false(wakes(&ends->b, 0)); /* once for each request */
}

/* Many of all kinds, both ways at once, completions taken as they come. */
static void test_traffic_both_ways(void **state)
{
	enum {
		MESSAGES = 200,
		BYTES = 20000
	};
	struct ends *ends = *state;
	struct end *both[2] = { &ends->a, &ends->b };
	int posted[2] = { 0, 0 }, done[2] = { 0, 0 }, got[2] = { 0, 0 };
	double until = seconds() + PATIENCE;
	struct ibv_wc wc;

	pair_connect(&ends->a, &ends->b, NULL);
	fill(ends->a.memory, BYTES, 8);
	fill(ends->b.memory, BYTES, 9);
	for (int i = 0; i < WR_MAX / 2; i++)
		for (int side = 0; side < 2; side++)
			assert_int_equal(end_recv(both[side], 0, 0), 0);
	while (got[0] + got[1] + done[0] + done[1] < 4 * MESSAGES) {
		for (int side = 0; side < 2; side++) {
			struct op op = op_write(both[!side], 0, THERE, BYTES);

			op.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			if (posted[side] < MESSAGES && posted[side] - done[side] < 8) {
				assert_int_equal(end_post(both[side], &op), 0);
				posted[side]++;
			}
			while (ibv_poll_cq(both[side]->cq, 1, &wc) > 0) {
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				done[side] += wc.opcode == IBV_WC_RDMA_WRITE;
				if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
					continue;
				got[side]++;
				assert_int_equal(end_recv(both[side], 0, 0), 0);
			}
		}
		assert_true(seconds() < until);
	}
	assert_memory_equal(ends->a.memory + THERE, ends->b.memory, BYTES);
	assert_memory_equal(ends->b.memory + THERE, ends->a.memory, BYTES);
}

int check_data(void)
{
	const struct CMUnitTest data[] = {
		CHECK(test_send_and_receive),
		CHECK(test_write),
		CHECK(test_inline_data_is_taken_at_once),
		CHECK(test_write_with_immediate),
		CHECK(test_read),
		CHECK(test_read_from_oneself),
		CHECK(test_pieces_are_gathered_and_scattered),
		CHECK(test_a_list_completes_with_its_last),
		CHECK(test_a_list_is_taken_up_to_the_bad_one),
		CHECK(test_a_full_queue_refuses),
		CHECK(test_a_channel_tells_of_completions),
		CHECK(test_traffic_both_ways),
	};

	return cmocka_run_group_tests(data, NULL, NULL);
}
