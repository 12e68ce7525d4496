/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: the transfers and the sums. Every rank sends to every rank, which is simple. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

/* A part for each peer and one from each; a stride of 0 means the same part for all. */
static bool trade(struct fake_comm *comm, const char *out, size_t out_stride, char *in,
		  size_t in_stride, size_t bytes)
{
	struct fake_transfer transfers[2 * FAKE_RANKS_MAX];
	int count = 0;

	for (int i = 0; i < comm->size; i++) {
		size_t index = (size_t)i;
		union {
			const char *from;
			char *data;
		} send = { out + index * out_stride };

		if (i == comm->rank) {
			memmove(in + index * in_stride, send.from, bytes);
			continue;
		}
		transfers[count++] = (struct fake_transfer){ i, true, send.data, bytes };
		transfers[count++] =
			(struct fake_transfer){ i, false, in + index * in_stride, bytes };
	}
	return mesh_exchange(comm, transfers, count);
}

/* Of the parts that each rank has for this one. */
static void reduce(struct fake_comm *comm, const struct fake_op *op, size_t out_stride)
{
	size_t bytes = op->count * sizeof(float);
	float *parts = malloc((size_t)comm->size * bytes + 1), *sum = (float *)(void *)op->recv;

	if (!parts)
		abort();
	if (trade(comm, op->send, out_stride, (char *)parts, bytes, bytes)) {
		for (size_t i = 0; i < op->count; i++) {
			float total = 0;

			for (size_t rank = 0; rank < (size_t)comm->size; rank++)
				total += parts[rank * op->count + i];
			sum[i] = total;
		}
	}
	free(parts);
}

static void broadcast(struct fake_comm *comm, const struct fake_op *op)
{
	struct fake_transfer transfers[FAKE_RANKS_MAX];
	size_t bytes = op->count * sizeof(float);
	int count = 0;

	if (comm->rank != op->peer) {
		transfers[count++] = (struct fake_transfer){ op->peer, false, op->recv, bytes };
	} else {
		memmove(op->recv, op->send, bytes);
		for (int i = 0; i < comm->size; i++) {
			if (i != op->peer)
				transfers[count++] =
					(struct fake_transfer){ i, true, op->recv, bytes };
		}
	}
	mesh_exchange(comm, transfers, count);
}

/* The nth send of a rank to itself fills its nth receive. */
static void copy_own(struct fake_batch *batch)
{
	int rank = batch->comm->rank, receive = 0;

	for (int i = 0; i < batch->count; i++) {
		const struct fake_op *op = &batch->ops[i];

		if (op->kind != FAKE_SEND || op->peer != rank)
			continue;
		while (receive < batch->count &&
		       (batch->ops[receive].kind != FAKE_RECV || batch->ops[receive].peer != rank))
			receive++;
		if (receive < batch->count)
			memmove(batch->ops[receive++].recv, op->send, op->count);
	}
}

static void run_sends(struct fake_batch *batch)
{
	struct fake_transfer transfers[FAKE_OPS_MAX];
	int count = 0;

	copy_own(batch);
	for (int i = 0; i < batch->count; i++) {
		const struct fake_op *op = &batch->ops[i];
		union {
			const char *from;
			char *data;
		} send = { op->send };

		if ((op->kind != FAKE_SEND && op->kind != FAKE_RECV) ||
		    op->peer == batch->comm->rank)
			continue;
		transfers[count++] =
			(struct fake_transfer){ op->peer, op->kind == FAKE_SEND,
						op->kind == FAKE_SEND ? send.data : op->recv,
						op->count };
	}
	if (count)
		mesh_exchange(batch->comm, transfers, count);
}

static void run_collective(struct fake_comm *comm, const struct fake_op *op)
{
	size_t bytes = op->count * sizeof(float);

	if (op->kind == FAKE_ALL_REDUCE)
		reduce(comm, op, 0);
	else if (op->kind == FAKE_REDUCE_SCATTER)
		reduce(comm, op, bytes);
	else if (op->kind == FAKE_ALL_GATHER)
		trade(comm, op->send, 0, op->recv, bytes, bytes);
	else if (op->kind == FAKE_BROADCAST)
		broadcast(comm, op);
}

/* A planted error, which the check must find. */
static void spoil(const struct fake_batch *batch)
{
	static _Atomic long batches;
	long wanted = fake_setting("FAKE_NCCL_WRONG", 0);
	char *recv = NULL;

	for (int i = 0; i < batch->count; i++)
		recv = batch->ops[i].recv ? batch->ops[i].recv : recv;
	if (wanted && batch->comm->rank == 0 && recv && atomic_fetch_add(&batches, 1) + 1 == wanted)
		recv[2] ^= 1;
}

void ops_run(struct fake_batch *batch)
{
	for (int i = 0; i < batch->count; i++)
		run_collective(batch->comm, &batch->ops[i]);
	run_sends(batch);
	spoil(batch);
}
