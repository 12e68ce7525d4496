/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives: the calls, their correct results, measurement and checks. */
#include "real.h"

#include <string.h>

#define POISON        0xff /* byte that fills the result before a checked run: NaN */
#define FULL_BYTES    (1u << 20)
#define ITERATIONS_2  3 /* minimum iterations of sizes above FULL_BYTES */
#define VALUES        256
#define VALUE_OF_RANK 37

float collective_value(int rank, size_t i, uint32_t seed)
{
	uint32_t mixed = (uint32_t)i * 2654435761u + seed * 40503u;

	return (float)(((mixed >> 8) + (uint32_t)rank * VALUE_OF_RANK) % VALUES);
}

static int start_all_reduce(struct session *s, const struct team *t, const float *send, float *recv,
			    size_t count)
{
	return nccl_check(s, "ncclAllReduce",
			  s->libs.nccl.all_reduce(send, recv, count, NCCL_FLOAT32, NCCL_SUM,
						  t->comm, t->stream));
}

static float sum_at(const struct team *t, size_t i, uint32_t seed)
{
	float sum = 0;

	for (int peer = 0; peer < t->size; peer++)
		sum += collective_value(t->members[peer], i, seed);
	return sum;
}

static float expect_all_reduce(const struct team *t, size_t count, size_t i, uint32_t seed)
{
	(void)count;
	return sum_at(t, i, seed);
}

static int start_all_gather(struct session *s, const struct team *t, const float *send, float *recv,
			    size_t count)
{
	return nccl_check(s, "ncclAllGather",
			  s->libs.nccl.all_gather(send, recv, count, NCCL_FLOAT32, t->comm,
						  t->stream));
}

static float expect_all_gather(const struct team *t, size_t count, size_t i, uint32_t seed)
{
	return collective_value(t->members[i / count], i % count, seed);
}

static int start_reduce_scatter(struct session *s, const struct team *t, const float *send,
				float *recv, size_t count)
{
	return nccl_check(s, "ncclReduceScatter",
			  s->libs.nccl.reduce_scatter(send, recv, count, NCCL_FLOAT32, NCCL_SUM,
						      t->comm, t->stream));
}

static float expect_reduce_scatter(const struct team *t, size_t count, size_t i, uint32_t seed)
{
	return sum_at(t, (size_t)t->rank * count + i, seed);
}

static int start_broadcast(struct session *s, const struct team *t, const float *send, float *recv,
			   size_t count)
{
	return nccl_check(s, "ncclBroadcast",
			  s->libs.nccl.broadcast(send, recv, count, NCCL_FLOAT32, t->size - 1,
						 t->comm, t->stream));
}

static float expect_broadcast(const struct team *t, size_t count, size_t i, uint32_t seed)
{
	(void)count;
	return collective_value(t->members[t->size - 1], i, seed);
}

/* One send and one receive for each peer, since NCCL 2.27 and older have no all-to-all call. */
static int start_alltoall(struct session *s, const struct team *t, const float *send, float *recv,
			  size_t count)
{
	const struct nccl_calls *nccl = &s->libs.nccl;
	int ret = nccl_check(s, "ncclGroupStart", nccl->group_start());

	for (int peer = 0; !ret && peer < t->size; peer++) {
		size_t at = (size_t)peer * count;

		ret = nccl_check(s, "ncclSend",
				 nccl->send(send + at, count, NCCL_FLOAT32, peer, t->comm,
					    t->stream));
		if (!ret)
			ret = nccl_check(s, "ncclRecv",
					 nccl->recv(recv + at, count, NCCL_FLOAT32, peer, t->comm,
						    t->stream));
	}
	return ret ? ret : nccl_check(s, "ncclGroupEnd", nccl->group_end());
}

static float expect_alltoall(const struct team *t, size_t count, size_t i, uint32_t seed)
{
	return collective_value(t->members[i / count], (size_t)t->rank * count + i % count, seed);
}

/* Sends to the next rank, receives from the previous one. */
static int start_sendrecv(struct session *s, const struct team *t, const float *send, float *recv,
			  size_t count)
{
	const struct nccl_calls *nccl = &s->libs.nccl;
	int next = (t->rank + 1) % t->size, last = (t->rank + t->size - 1) % t->size;
	int ret = nccl_check(s, "ncclGroupStart", nccl->group_start());

	if (!ret)
		ret = nccl_check(s, "ncclSend",
				 nccl->send(send, count, NCCL_FLOAT32, next, t->comm, t->stream));
	if (!ret)
		ret = nccl_check(s, "ncclRecv",
				 nccl->recv(recv, count, NCCL_FLOAT32, last, t->comm, t->stream));
	return ret ? ret : nccl_check(s, "ncclGroupEnd", nccl->group_end());
}

static float expect_sendrecv(const struct team *t, size_t count, size_t i, uint32_t seed)
{
	(void)count;
	return collective_value(t->members[(t->rank + t->size - 1) % t->size], i, seed);
}

/* Bytes on each rank's link per byte of the size, as in nccl-tests. */
static double bus_all_reduce(int ranks)
{
	return 2.0 * (ranks - 1) / ranks;
}

static double bus_parts(int ranks)
{
	return (double)(ranks - 1) / ranks;
}

static double bus_whole(int ranks)
{
	(void)ranks;
	return 1;
}

static size_t one_part(int ranks)
{
	(void)ranks;
	return 1;
}

static size_t part_each(int ranks)
{
	return (size_t)ranks;
}

const struct real_test real_tests[] = {
	{ .name = "all_reduce",
	  .redop = "sum",
	  .start = start_all_reduce,
	  .expected = expect_all_reduce,
	  .bus = bus_all_reduce,
	  .parts = one_part },
	{ .name = "all_gather",
	  .redop = "none",
	  .start = start_all_gather,
	  .expected = expect_all_gather,
	  .bus = bus_parts,
	  .parts = part_each,
	  .recv_parts = true },
	{ .name = "reduce_scatter",
	  .redop = "sum",
	  .start = start_reduce_scatter,
	  .expected = expect_reduce_scatter,
	  .bus = bus_parts,
	  .parts = part_each,
	  .send_parts = true },
	{ .name = "broadcast",
	  .redop = "none",
	  .start = start_broadcast,
	  .expected = expect_broadcast,
	  .bus = bus_whole,
	  .parts = one_part },
	{ .name = "alltoall",
	  .redop = "none",
	  .start = start_alltoall,
	  .expected = expect_alltoall,
	  .bus = bus_parts,
	  .parts = part_each,
	  .send_parts = true,
	  .recv_parts = true },
	{ .name = "sendrecv",
	  .redop = "none",
	  .start = start_sendrecv,
	  .expected = expect_sendrecv,
	  .bus = bus_whole,
	  .parts = one_part },
	{ .name = "groups", .scene = scene_groups },
	{ .name = "splits", .scene = scene_splits },
	{ .name = "comms", .scene = scene_comms },
	{ .name = "registered", .scene = scene_registered },
	{ .name = "reinit", .scene = scene_reinit },
	{ .name = "abort", .scene = scene_abort },
	{ .name = "killed", .scene = scene_killed, .alone = true },
};
const int real_test_count = sizeof(real_tests) / sizeof(real_tests[0]);

_Static_assert(sizeof(real_tests) / sizeof(real_tests[0]) <= REAL_TESTS_MAX, "notes of each");

const struct real_test *collective_all_reduce(void)
{
	return &real_tests[0];
}

/* Fills the input and poisons the result. */
static int prepare(struct session *s, const struct real_test *test, const struct team *t,
		   size_t count)
{
	size_t parts = test->parts(t->size);
	size_t elements = count * (test->recv_parts ? parts : 1);
	int ret = cuda_check(s, "cudaMemset",
			     s->libs.cuda.memset(s->recv, POISON, elements * sizeof(float)));

	elements = count * (test->send_parts ? parts : 1);
	for (size_t i = 0; i < elements; i++)
		s->host[i] = collective_value(t->members[t->rank], i, s->seed);
	return ret ? ret : session_upload(s, s->send, s->host, elements * sizeof(float));
}

static int compare(struct session *s, const struct real_test *test, const struct team *t,
		   size_t count, uint64_t *wrong)
{
	size_t elements = count * (test->recv_parts ? test->parts(t->size) : 1);
	int ret = cuda_check(s, "cudaMemcpy",
			     s->libs.cuda.memcpy(s->host, s->recv, elements * sizeof(float),
						 CUDA_TO_HOST));

	/* This form counts NaN as wrong. */
	for (size_t i = 0; !ret && i < elements; i++)
		*wrong += !(s->host[i] == test->expected(t, count, i, s->seed));
	return ret;
}

int collective_check(struct session *s, const struct real_test *test, const struct team *t,
		     size_t count, uint64_t *wrong)
{
	int ret;

	s->seed++;
	ret = prepare(s, test, t, count);
	if (!ret)
		ret = test->start(s, t, (float *)s->send, (float *)s->recv, count);
	if (!ret)
		ret = team_wait(s, t);
	return ret ? ret : compare(s, test, t, count, wrong);
}

/* Large sizes take longer and need fewer iterations. */
static int iterations(const struct real_options *opts, size_t bytes)
{
	size_t fewer = bytes <= FULL_BYTES ? (size_t)opts->iterations
					   : (size_t)opts->iterations * FULL_BYTES / bytes;
	int least = opts->iterations < ITERATIONS_2 ? opts->iterations : ITERATIONS_2;

	return (int)fewer > least ? (int)fewer : least;
}

static int repeat(struct session *s, const struct real_test *test, size_t count, int times)
{
	int ret = 0;

	for (int i = 0; !ret && i < times; i++)
		ret = test->start(s, &s->world, (float *)s->send, (float *)s->recv, count);
	return ret ? ret : team_wait(s, &s->world);
}

/* Adds a row with the results of all ranks. */
static void add_row(struct session *s, int test, size_t bytes, size_t count)
{
	struct real_area *area = s->area;
	struct real_row *row = &area->rows[area->row_count];

	*row = (struct real_row){ .test = test, .bytes = bytes, .count = count };
	for (int i = 0; i < s->world.size; i++) {
		row->wrong += area->wrong[i];
		if (area->seconds[i] > row->seconds)
			row->seconds = area->seconds[i];
	}
	area->row_count++;
}

int collective_measure(struct session *s, int test, size_t bytes)
{
	const struct real_test *what = &real_tests[test];
	size_t parts = what->parts(s->world.size);
	size_t count = bytes / sizeof(float) / parts;
	int times = iterations(s->opts, bytes), ret;
	uint64_t begin_ns, wrong = 0;

	count = count ? count : 1;
	ret = repeat(s, what, count, s->opts->warmups);
	if (ret || group_barrier(s->group))
		return -GROUP_ERROR;
	begin_ns = now_ns();
	ret = repeat(s, what, count, times);
	s->area->seconds[s->group->rank] = (double)(now_ns() - begin_ns) / 1e9 / times;
	if (!ret)
		ret = collective_check(s, what, &s->world, count, &wrong);
	s->area->wrong[s->group->rank] = wrong;
	if (ret || group_barrier(s->group))
		return -GROUP_ERROR;
	if (s->group->rank == 0)
		add_row(s, test, count * parts * sizeof(float),
			count * (what->send_parts ? parts : 1));
	return group_barrier(s->group) ? -GROUP_ERROR : 0;
}
