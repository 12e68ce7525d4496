/* SPDX-License-Identifier: Apache-2.0 */
/* As a transport uses it: a thread at each end, several queue pairs between them on one completion
 * queue, and memory that is polled without any completion. */
#include "rig.h"

#include <pthread.h>
#include <sched.h>

#define STREAMS  4
#define MESSAGES 60 /* on each stream, each way */
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

/* Answers each number with the same. What a WRITE has put before the number is there with it. */
static void *echo(void *arg)
{
	struct side *side = arg;
	struct op write = op_write(side->peer, 0, 0, FLAG + sizeof(uint64_t));
	double until = seconds() + PATIENCE;

	for (uint64_t i = 1; i <= ROUNDS && !side->failed; i++) {
		while (__atomic_load_n(number_at(side->end), __ATOMIC_ACQUIRE) != i) {
			if (seconds() > until) {
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

static void test_memory_can_be_polled(void **state)
{
	struct ends *ends = *state;
	struct side there = { .end = &ends->b, .peer = &ends->a };
	struct op write = op_write(&ends->b, 4096, 0, FLAG + sizeof(uint64_t));
	double until = seconds() + PATIENCE;
	pthread_t thread;

	pair_connect(&ends->a, &ends->b, NULL);
	assert_int_equal(pthread_create(&thread, NULL, echo, &there), 0);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		memset(ends->a.memory + 4096, (char)i, FLAG);
		memcpy(ends->a.memory + 4096 + FLAG, &i, sizeof(i));
		assert_int_equal(end_post(&ends->a, &write), 0);
		end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
		while (__atomic_load_n(number_at(&ends->a), __ATOMIC_ACQUIRE) != i) {
			assert_true(seconds() < until);
			sched_yield();
		}
	}
	pthread_join(thread, NULL);
	if (there.failed)
		fail_msg("%s", there.failed);
}

static void streams_connect(struct side *a, struct side *b)
{
	for (int i = 0; i < STREAMS; i++) {
		pair_connect(a->end, b->end, NULL);
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
	double until = seconds() + PATIENCE;
	struct ibv_wc wc;

	while (done + got < 2 * STREAMS * MESSAGES && seconds() < until) {
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
		assert_int_equal(rig.verbs.destroy_qp(side->qps[i]), 0);
}

static void test_several_streams_and_threads(void **state)
{
	struct ends *ends = *state;
	struct side a = { .end = &ends->a, .peer = &ends->b };
	struct side b = { .end = &ends->b, .peer = &ends->a };
	pthread_t thread;

	streams_connect(&a, &b);
	for (int i = 0; i < STREAMS * 8; i++)
		assert_int_equal(receive_on(&a, i % STREAMS) + receive_on(&b, i % STREAMS), 0);
	fill(ends->a.memory, BYTES, 1);
	fill(ends->b.memory, BYTES, 2);
	assert_int_equal(pthread_create(&thread, NULL, traffic, &b), 0);
	traffic(&a);
	pthread_join(thread, NULL);
	if (a.failed || b.failed)
		fail_msg("%s", a.failed ? a.failed : b.failed);
	for (size_t i = 0; i < STREAMS; i++) {
		assert_memory_equal(ends->a.memory + (1 << 20) + i * BYTES, ends->b.memory, BYTES);
		assert_memory_equal(ends->b.memory + (1 << 20) + i * BYTES, ends->a.memory, BYTES);
	}
	streams_drop(&a);
	streams_drop(&b);
}

/* One stream falls: the others do not notice, and what it was about to write is never written. */
static void test_a_stream_is_fenced(void **state)
{
	struct ends *ends = *state;
	struct side a = { .end = &ends->a, .peer = &ends->b };
	struct side b = { .end = &ends->b, .peer = &ends->a };
	double until = seconds() + PATIENCE;
	struct ibv_wc wc;

	streams_connect(&a, &b);
	for (int i = 0; i < STREAMS; i++)
		assert_int_equal(receive_on(&b, i), 0);
	assert_int_equal(qp_to_err(b.qps[1]), 0);
	wc = end_wait(&ends->b, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.qp_num, b.qps[1]->qp_num);
	memset(ends->b.memory, 0, END_BYTES);
	memset(ends->a.memory, 1, BYTES);
	for (int i = 0; i < STREAMS; i++)
		assert_int_equal(post_on(&a, i), 0);
	for (int i = 0; i < STREAMS - 1; i++)
		assert_int_equal(end_wait(&ends->b, IBV_WC_SUCCESS).opcode,
				 IBV_WC_RECV_RDMA_WITH_IMM);
	for (int i = 0; i < STREAMS;) {
		assert_true(seconds() < until);
		if (ibv_poll_cq(ends->a.cq, 1, &wc) != 1)
			continue;
		assert_int_equal(wc.status, wc.qp_num == a.qps[1]->qp_num ? IBV_WC_RETRY_EXC_ERR
									  : IBV_WC_SUCCESS);
		i++;
	}
	for (size_t i = 0; i < STREAMS; i++)
		assert_int_equal(ends->b.memory[(1 << 20) + i * BYTES], i != 1);
	streams_drop(&a);
	streams_drop(&b);
}

int check_streams(void)
{
	const struct CMUnitTest streams[] = {
		CHECK(test_memory_can_be_polled),
		CHECK(test_several_streams_and_threads),
		CHECK(test_a_stream_is_fenced),
	};

	return cmocka_run_group_tests(streams, NULL, NULL);
}
