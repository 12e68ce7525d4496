/* SPDX-License-Identifier: Apache-2.0 */
/* As a transport uses it: a thread at each end, several queue pairs between them on one completion queue, and memory
 * that is polled without completions. */
#include "rig.h"

#include <pthread.h>
#include <sched.h>

#define STREAMS  4
#define MESSAGES 60 /* on each stream, in each direction */
#define BYTES    9000u
#define ROUNDS   50u
#define FLAG     64u /* offset of the number that is polled */

struct side {
	struct end *end, *peer;
	struct ibv_qp *qps[STREAMS];
	const char *failed;
};

static uint64_t *number_at(const struct end *end)
{
	return (uint64_t *)(void *)(end->memory + FLAG);
}

/* Answers each number with the same number. The data written before the number has arrived with it. */
static void *echo(void *arg)
{
	struct side *side = arg;
	struct op write = op_write(side->peer, 0, 0, FLAG + sizeof(uint64_t));
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a number");

	for (uint64_t i = 1; i <= ROUNDS && !side->failed; i++) {
		while (__atomic_load_n(number_at(side->end), __ATOMIC_ACQUIRE) != i) {
			if (deadline_passed(&deadline)) {
				side->failed = "a number does not arrive";
				return NULL;
			}
			sched_yield();
		}
		if (side->end->memory[FLAG - 1] != (char)i)
			side->failed = "a number arrives before what is in front of it";
		write.quiet = i % 16 != 0;
		if (end_post(side->end, &write))
			side->failed = "a number cannot be sent back";
	}
	return NULL;
}

static void memory_can_be_polled(void)
{
	struct side there = { .end = &rig.b, .peer = &rig.a };
	struct op write = op_write(&rig.b, 4096, 0, FLAG + sizeof(uint64_t));
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a number");
	pthread_t thread;

	check_ok(pthread_create(&thread, NULL, echo, &there));
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		memset(rig.a.memory + 4096, (char)i, FLAG);
		memcpy(rig.a.memory + 4096 + FLAG, &i, sizeof(i));
		end_do(&rig.a, &write);
		while (__atomic_load_n(number_at(&rig.a), __ATOMIC_ACQUIRE) != i) {
			deadline_turn(&deadline);
			sched_yield();
		}
	}
	pthread_join(thread, NULL);
	check_that(!there.failed, "%s", there.failed);
}

static void streams_connect(struct side *a, struct side *b)
{
	for (int i = 0; i < STREAMS; i++) {
		ends_connect(&usual);
		a->qps[i] = a->end->qp;
		b->qps[i] = b->end->qp;
		a->end->qp = b->end->qp = NULL;
	}
}

static int post_on(const struct side *side, int stream)
{
	struct end end = *side->end;
	struct op write = op_write(side->peer, 0, (1u << 20) + (size_t)stream * BYTES, BYTES);

	end.qp = side->qps[stream];
	write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	return end_post(&end, &write);
}

static int receive_on(const struct side *side, int stream)
{
	struct end end = *side->end;

	end.qp = side->qps[stream];
	return end_recv(&end, 0, 0);
}

static int stream_of(const struct side *side, uint32_t qpn)
{
	for (int i = 0; i < STREAMS; i++)
		if (side->qps[i]->qp_num == qpn)
			return i;
	return -1;
}

/* Sends its messages and receives the other's, a few at a time on every stream. */
static void *traffic(void *arg)
{
	struct side *side = arg;
	int posted[STREAMS] = { 0 }, done = 0, got = 0;
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "all messages");
	struct ibv_wc wc;

	while (done + got < 2 * STREAMS * MESSAGES && !deadline_passed(&deadline)) {
		for (int i = 0; i < STREAMS; i++)
			if (posted[i] < MESSAGES && posted[i] * STREAMS < done + 16 &&
			    ++posted[i] && post_on(side, i))
				side->failed = "a message cannot be posted";
		if (ibv_poll_cq(side->end->cq, 1, &wc) != 1) {
			sched_yield();
			continue;
		}
		if (wc.status) {
			side->failed = "a message fails";
			return NULL;
		}
		if (wc.opcode == IBV_WC_RDMA_WRITE) {
			done++;
			continue;
		}
		got++;
		if (receive_on(side, stream_of(side, wc.qp_num)))
			side->failed = "a receive cannot be posted";
	}
	if (done + got < 2 * STREAMS * MESSAGES)
		side->failed = "messages are missing";
	return NULL;
}

static void streams_drop(struct side *side)
{
	for (int i = 0; i < STREAMS; i++)
		check_ok(rig.verbs.destroy_qp(side->qps[i]));
}

static void several_streams_and_threads(void)
{
	struct side a = { .end = &rig.a, .peer = &rig.b };
	struct side b = { .end = &rig.b, .peer = &rig.a };
	pthread_t thread;

	streams_connect(&a, &b);
	for (int i = 0; i < STREAMS * 8; i++)
		check_ok(receive_on(&a, i % STREAMS) + receive_on(&b, i % STREAMS));
	fill(rig.a.memory, BYTES, 1);
	fill(rig.b.memory, BYTES, 2);
	check_ok(pthread_create(&thread, NULL, traffic, &b));
	traffic(&a);
	pthread_join(thread, NULL);
	check_that(!a.failed, "%s", a.failed);
	check_that(!b.failed, "%s", b.failed);
	for (size_t i = 0; i < STREAMS; i++) {
		check(!memcmp(rig.a.memory + (1 << 20) + i * BYTES, rig.b.memory, BYTES));
		check(!memcmp(rig.b.memory + (1 << 20) + i * BYTES, rig.a.memory, BYTES));
	}
	streams_drop(&a);
	streams_drop(&b);
}

/* One stream fails: the others are not affected, and its unsent data is never written. */
static void a_stream_is_fenced(void)
{
	struct side a = { .end = &rig.a, .peer = &rig.b };
	struct side b = { .end = &rig.b, .peer = &rig.a };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "all completions");
	struct ibv_wc wc;

	streams_connect(&a, &b);
	for (int i = 0; i < STREAMS; i++)
		check_ok(receive_on(&b, i));
	check_ok(qp_to_err(b.qps[1]));
	wc = end_wait(&rig.b, IBV_WC_WR_FLUSH_ERR);
	check_int(wc.qp_num, b.qps[1]->qp_num);
	memset(rig.b.memory, 0, END_BYTES);
	memset(rig.a.memory, 1, BYTES);
	for (int i = 0; i < STREAMS; i++)
		check_ok(post_on(&a, i));
	for (int i = 0; i < STREAMS - 1; i++)
		check_int(end_wait(&rig.b, IBV_WC_SUCCESS).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	for (int i = 0; i < STREAMS;) {
		deadline_turn(&deadline);
		if (ibv_poll_cq(rig.a.cq, 1, &wc) != 1)
			continue;
		check_int(wc.status,
			  wc.qp_num == a.qps[1]->qp_num ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		i++;
	}
	for (size_t i = 0; i < STREAMS; i++)
		check_int(rig.b.memory[(1 << 20) + i * BYTES], i != 1);
	streams_drop(&a);
	streams_drop(&b);
}

const struct selfcheck streams_checks[] = {
	{ CHECK(memory_can_be_polled) },
	{ CHECK(several_streams_and_threads), .setting = OPEN },
	{ CHECK(a_stream_is_fenced), .setting = OPEN },
	{ 0 },
};
