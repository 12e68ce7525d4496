/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers, and their completions. */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>

#define MIB   (1u << 20)
#define SMALL 4000u
#define LIST  8
#define THERE (1u << 20) /* an offset */

static void send_and_receive(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = SMALL };
	struct ibv_wc wc;

	fill(rig.a.memory, SMALL, 1);
	check_ok(end_recv(&rig.b, 0, 4096));
	check_ok(end_post(&rig.a, &send));
	wc = end_wait(&rig.a, IBV_WC_SUCCESS);
	check_int(wc.opcode, IBV_WC_SEND);
	check_int(wc.wr_id, IBV_WR_SEND);
	check_int(wc.qp_num, rig.a.qp->qp_num);
	wc = end_wait(&rig.b, IBV_WC_SUCCESS);
	check_int(wc.opcode, IBV_WC_RECV);
	check_int(wc.wr_id, RECV_ID);
	check_int(wc.byte_len, SMALL);
	check(!(wc.wc_flags & IBV_WC_WITH_IMM));
	check_int(wc.qp_num, rig.b.qp->qp_num);
	check(!memcmp(rig.a.memory, rig.b.memory, SMALL));
	send.opcode = IBV_WR_SEND_WITH_IMM;
	send.imm = 0xabcd1234;
	check_ok(end_recv(&rig.b, 0, 4096));
	check_ok(end_post(&rig.a, &send));
	wc = end_wait(&rig.b, IBV_WC_SUCCESS);
	check(wc.wc_flags & IBV_WC_WITH_IMM);
	check_int(ntohl(wc.imm_data), 0xabcd1234);
}

static void a_write(void)
{
	struct op write = op_write(&rig.b, 0, 0, MIB);

	fill(rig.a.memory, MIB, 2);
	end_do(&rig.a, &write);
	check(!memcmp(rig.a.memory, rig.b.memory, MIB));
}

static void inline_data_is_taken_at_once(void)
{
	struct terms terms = { .inline_bytes = 64 };
	struct op write = op_write(&rig.b, 0, 0, 64);
	char wanted[64];

	ends_connect(&terms);
	write.is_inline = true;
	write.lkey = 0xdead00; /* any value */
	for (unsigned i = 0; i < LIST; i++) {
		fill(rig.a.memory, 64, i);
		write.remote = (uintptr_t)rig.b.memory + i * 64;
		check_ok(end_post(&rig.a, &write));
		memset(rig.a.memory, 0, 64);
	}
	for (unsigned i = 0; i < LIST; i++) {
		end_wait_opcode(&rig.a, IBV_WC_RDMA_WRITE);
		fill(wanted, sizeof(wanted), i);
		check(!memcmp(rig.b.memory + i * 64, wanted, sizeof(wanted)));
	}
	write.bytes = 64 << 10;
	check(end_post(&rig.a, &write));
}

static void write_with_immediate(void)
{
	struct op write = op_write(&rig.b, 64, 64, 8192);
	struct ibv_wc wc;

	fill(rig.a.memory, 16384, 3);
	write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	write.imm = 77;
	check_ok(end_recv(&rig.b, 0, 0));
	end_do(&rig.a, &write);
	wc = end_wait(&rig.b, IBV_WC_SUCCESS);
	check_int(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	check_int(ntohl(wc.imm_data), 77);
	check_int(wc.byte_len, 8192);
	check(!memcmp(rig.a.memory + 64, rig.b.memory + 64, 8192));
	/* of nothing: no key is needed */
	write = (struct op){ .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm = 78 };
	check_ok(end_recv(&rig.b, 0, 0));
	end_do(&rig.a, &write);
	wc = end_wait(&rig.b, IBV_WC_SUCCESS);
	check_int(ntohl(wc.imm_data), 78);
	check_int(wc.byte_len, 0);
}

static void a_read(void)
{
	struct op read = op_write(&rig.b, THERE, 0, 100000);

	fill(rig.b.memory, 100000, 4);
	read.opcode = IBV_WR_RDMA_READ;
	end_do(&rig.a, &read);
	check(!memcmp(rig.a.memory + THERE, rig.b.memory, 100000));
}

/* A queue pair that is connected to itself, as for flushing GPU memory. */
static void read_from_oneself(void)
{
	struct op read = op_write(&rig.a, THERE, 0, 1);

	end_make_qp(&rig.a, &usual);
	end_connect(&rig.a, end_card(&rig.a), &usual);
	*rig.a.memory = 'x';
	read.opcode = IBV_WR_RDMA_READ;
	end_do(&rig.a, &read);
	check_int(rig.a.memory[THERE], 'x');
}

static struct ibv_sge piece(const struct end *end, size_t offset, uint32_t bytes)
{
	return (struct ibv_sge){ .addr = (uintptr_t)end->memory + offset,
				 .length = bytes,
				 .lkey = end->mr->lkey };
}

static void pieces_are_gathered_and_scattered(void)
{
	struct ibv_sge from[3] = { piece(&rig.a, 0, 100), piece(&rig.a, 5000, 3001),
				   piece(&rig.a, 200, 7) };
	struct ibv_sge to[2] = { piece(&rig.b, 1000, 1500), piece(&rig.b, 0, 1000) };
	struct ibv_send_wr send = { .sg_list = from, .num_sge = 3, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_sge more[2] = { piece(&rig.b, 8000, 2500), piece(&rig.b, 100000, 800) };
	struct ibv_recv_wr recv = { .sg_list = more, .num_sge = 2 }, *bad_recv;

	fill(rig.a.memory, 16384, 5);
	send.send_flags = IBV_SEND_SIGNALED;
	check_ok(ibv_post_recv(rig.b.qp, &recv, &bad_recv));
	check_ok(ibv_post_send(rig.a.qp, &send, &bad));
	end_wait_opcode(&rig.a, IBV_WC_SEND);
	check_int(end_wait(&rig.b, IBV_WC_SUCCESS).byte_len, 3108);
	check(!memcmp(rig.b.memory + 8000, rig.a.memory, 100));
	check(!memcmp(rig.b.memory + 8100, rig.a.memory + 5000, 2400));
	check(!memcmp(rig.b.memory + 100000, rig.a.memory + 7400, 601));
	check(!memcmp(rig.b.memory + 100601, rig.a.memory + 200, 7));
	/* the same for a READ: here it is split into pieces */
	send.opcode = IBV_WR_RDMA_READ;
	send.sg_list = to;
	send.num_sge = 2;
	send.wr.rdma.remote_addr = (uintptr_t)rig.a.memory;
	send.wr.rdma.rkey = rig.a.mr->rkey;
	check_ok(ibv_post_send(rig.b.qp, &send, &bad));
	end_wait_opcode(&rig.b, IBV_WC_RDMA_READ);
	check(!memcmp(rig.b.memory + 1000, rig.a.memory, 1500));
	check(!memcmp(rig.b.memory, rig.a.memory + 1500, 1000));
}

static void a_list_completes_with_its_last(void)
{
	struct ibv_send_wr list[LIST], *bad;
	struct ibv_sge pieces[LIST];

	fill(rig.a.memory, LIST * 4096, 6);
	memset(list, 0, sizeof(list));
	for (unsigned i = 0; i < LIST; i++) {
		bool last = i == LIST - 1;

		pieces[i] = piece(&rig.a, i * 4096, 4096);
		list[i].wr_id = i;
		list[i].next = last ? NULL : &list[i + 1];
		list[i].sg_list = &pieces[i];
		list[i].num_sge = 1;
		list[i].opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		list[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
		list[i].wr.rdma.remote_addr = (uintptr_t)rig.b.memory + i * 4096;
		list[i].wr.rdma.rkey = rig.b.mr->rkey;
	}
	check_ok(end_recv(&rig.b, 0, 0));
	check_ok(ibv_post_send(rig.a.qp, list, &bad));
	check_int(end_wait(&rig.a, IBV_WC_SUCCESS).wr_id, LIST - 1);
	end_wait_opcode(&rig.b, IBV_WC_RECV_RDMA_WITH_IMM);
	check(!memcmp(rig.a.memory, rig.b.memory, LIST * 4096));
	check(end_is_quiet(&rig.a, 10));
}

/* Requests before the bad one are sent, it and later ones are not. */
static void a_list_is_taken_up_to_the_bad_one(void)
{
	struct ibv_sge one = piece(&rig.a, 0, 64), large = piece(&rig.a, 0, 64 << 10);
	struct ibv_send_wr list[3], *bad = NULL;

	fill(rig.a.memory, 64, 7);
	memset(rig.b.memory, 0, 3 * 64);
	memset(list, 0, sizeof(list));
	for (unsigned i = 0; i < 3; i++) {
		/* the second is too large for inline */
		list[i] = (struct ibv_send_wr){ .wr_id = i,
						.next = i < 2 ? &list[i + 1] : NULL,
						.sg_list = i == 1 ? &large : &one,
						.num_sge = 1,
						.opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED };
		if (i == 1)
			list[i].send_flags |= IBV_SEND_INLINE;
		list[i].wr.rdma.remote_addr = (uintptr_t)rig.b.memory + i * 64;
		list[i].wr.rdma.rkey = rig.b.mr->rkey;
	}
	check(ibv_post_send(rig.a.qp, list, &bad));
	check(bad == &list[1]);
	check_int(end_wait(&rig.a, IBV_WC_SUCCESS).wr_id, 0);
	check(end_is_quiet(&rig.a, 10));
	check(!memcmp(rig.b.memory, rig.a.memory, 64));
	check_int(rig.b.memory[128], 0);
}

static void a_full_queue_refuses(void)
{
	struct terms terms = { .sends = 4 };
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 8 };
	int taken = 0, ret;

	ends_connect(&terms);
	/* there are no receives, so nothing completes */
	while (!(ret = end_post(&rig.a, &send)) && taken < 10000)
		taken++;
	check_int(ret, ENOMEM);
	check(taken >= 4);
	for (taken = 0; taken < WR_MAX && !end_recv(&rig.b, 0, 64); taken++)
		;
	for (; taken < 10000 && !(ret = end_recv(&rig.b, 0, 64)); taken++)
		;
	check_int(ret, ENOMEM);
}

static bool wakes(struct end *end, int ms)
{
	struct ibv_cq *cq;
	void *context;

	if (!is_readable(end->channel->fd, ms))
		return false;
	check_ok(rig.besides.get_cq_event(end->channel, &cq, &context));
	check(cq == end->cq);
	check(context == end);
	rig.besides.ack_cq_events(cq, 1);
	return true;
}

static void a_channel_tells_of_completions(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 8 };
	struct ibv_cq *cq;
	void *context;

	check_ok(fcntl(rig.b.channel->fd, F_SETFL, O_NONBLOCK));
	check_int(rig.besides.get_cq_event(rig.b.channel, &cq, &context), -1);
	check_int(errno, EAGAIN);
	end_recvs(&rig.b, 64, 3);
	check_ok(end_post(&rig.a, &send));
	check(!wakes(&rig.b, 50)); /* not requested */
	end_wait_opcode(&rig.b, IBV_WC_RECV);
	check_ok(ibv_req_notify_cq(rig.b.cq, 1));
	check_ok(end_post(&rig.a, &send));
	check(!wakes(&rig.b, 50)); /* not solicited */
	send.solicited = true;
	check_ok(end_post(&rig.a, &send));
	check(wakes(&rig.b, TEST_PATIENCE_MS));
	check(!wakes(&rig.b, 0)); /* once for each request */
}

/* Many of all kinds, in both directions at once, completions polled as they come. */
static void traffic_both_ways(void)
{
	enum {
		MESSAGES = 200,
		BYTES = 20000
	};
	struct end *both[2] = { &rig.a, &rig.b };
	int posted[2] = { 0, 0 }, done[2] = { 0, 0 }, got[2] = { 0, 0 };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "all messages");
	struct ibv_wc wc;

	fill(rig.a.memory, BYTES, 8);
	fill(rig.b.memory, BYTES, 9);
	for (int i = 0; i < WR_MAX / 2; i++)
		for (int side = 0; side < 2; side++)
			check_ok(end_recv(both[side], 0, 0));
	while (got[0] + got[1] + done[0] + done[1] < 4 * MESSAGES) {
		for (int side = 0; side < 2; side++) {
			struct op op = op_write(both[!side], 0, THERE, BYTES);

			op.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			if (posted[side] < MESSAGES && posted[side] - done[side] < 8) {
				check_ok(end_post(both[side], &op));
				posted[side]++;
			}
			while (ibv_poll_cq(both[side]->cq, 1, &wc) > 0) {
				check_int(wc.status, IBV_WC_SUCCESS);
				done[side] += wc.opcode == IBV_WC_RDMA_WRITE;
				if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
					continue;
				got[side]++;
				check_ok(end_recv(both[side], 0, 0));
			}
		}
		deadline_turn(&deadline);
	}
	check(!memcmp(rig.a.memory + THERE, rig.b.memory, BYTES));
	check(!memcmp(rig.b.memory + THERE, rig.a.memory, BYTES));
}

const struct selfcheck data_checks[] = {
	{ CHECK(send_and_receive) },
	{ CHECK(a_write) },
	{ CHECK(inline_data_is_taken_at_once), .setting = OPEN },
	{ CHECK(write_with_immediate) },
	{ CHECK(a_read) },
	{ CHECK(read_from_oneself), .setting = OPEN },
	{ CHECK(pieces_are_gathered_and_scattered) },
	{ CHECK(a_list_completes_with_its_last) },
	{ CHECK(a_list_is_taken_up_to_the_bad_one) },
	{ CHECK(a_full_queue_refuses), .setting = OPEN },
	{ CHECK(a_channel_tells_of_completions) },
	{ CHECK(traffic_both_ways) },
	{ 0 },
};
