/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of NCCL. */
#include "fake.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INT8       0
#define FLOAT32    7
#define SUM        0
#define LEVEL_WARN 2

static _Thread_local struct fake_batch *group;
static _Thread_local int group_depth;

long fake_setting(const char *name, long fallback)
{
	const char *value = getenv(name);

	return value && *value ? strtol(value, NULL, 10) : fallback;
}

static void log_text(const char *level, const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static FILE *file;
	const char *path = getenv("NCCL_DEBUG_FILE");

	pthread_mutex_lock(&lock);
	if (!file && path) {
		file = fopen(path, "we");
		if (file)
			setvbuf(file, NULL, _IOLBF, 0);
	}
	if (file)
		fprintf(file, "%s:%d:%d [0] NCCL %s %s\n", getenv("NCCL_HOSTID"), (int)getpid(),
			(int)getpid(), level, text);
	pthread_mutex_unlock(&lock);
}

void fake_log(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_text("INFO", text);
}

void fake_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	(void)flags;
	(void)file;
	(void)line;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (level <= LEVEL_WARN + 1)
		log_text(level == LEVEL_WARN ? "WARN" : "INFO", text);
}

int ncclGetVersion(int *version)
{
	*version = (int)fake_setting("FAKE_NCCL_VERSION", 22809);
	return FAKE_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
	return result == FAKE_REMOTE_ERROR ? "remote process exited or there was a network error"
					   : "fake error";
}

int ncclGetUniqueId(struct fake_id *id)
{
	return boot_create(id) ? FAKE_SYSTEM_ERROR : FAKE_SUCCESS;
}

int ncclCommInitRank(void **out, int size, struct fake_id id, int rank)
{
	struct fake_comm *comm;
	int ret;

	if (size < 1 || size > FAKE_RANKS_MAX || rank < 0 || rank >= size)
		return FAKE_INVALID_ARGUMENT;
	comm = calloc(1, sizeof(*comm));
	if (!comm)
		return FAKE_SYSTEM_ERROR;
	comm->size = size;
	comm->rank = rank;
	ret = mesh_open(comm, &id);
	if (ret)
		free(comm);
	else
		*out = comm;
	return ret;
}

int ncclCommDestroy(void *handle)
{
	struct fake_comm *comm = handle;

	while (atomic_load(&comm->pending))
		sched_yield();
	mesh_close(comm);
	free(comm);
	return FAKE_SUCCESS;
}

int ncclCommAbort(void *handle)
{
	struct fake_comm *comm = handle;

	atomic_store(&comm->aborted, true);
	return ncclCommDestroy(comm);
}

int ncclCommGetAsyncError(void *handle, int *result)
{
	struct fake_comm *comm = handle;

	*result = comm->rank == fake_setting("FAKE_NCCL_DEAF", -1) ? FAKE_SUCCESS
								   : atomic_load(&comm->error);
	return FAKE_SUCCESS;
}

static void run(void *arg)
{
	struct fake_batch *batch = arg;

	if (!atomic_load(&batch->comm->aborted))
		ops_run(batch);
	atomic_fetch_sub(&batch->comm->pending, 1);
	free(batch);
}

static void push(struct fake_batch *batch)
{
	atomic_fetch_add(&batch->comm->pending, 1);
	stream_push(batch->stream, run, batch);
}

int ncclGroupStart(void)
{
	group_depth++;
	return FAKE_SUCCESS;
}

int ncclGroupEnd(void)
{
	if (--group_depth == 0 && group) {
		push(group);
		group = NULL;
	}
	return FAKE_SUCCESS;
}

static int add(void *comm, void *stream, int type, struct fake_op op)
{
	bool is_passed_on = op.kind == FAKE_SEND || op.kind == FAKE_RECV;

	if (type != FLOAT32 && !(type == INT8 && is_passed_on))
		return FAKE_INVALID_ARGUMENT;
	if (is_passed_on)
		op.count *= type == FLOAT32 ? sizeof(float) : 1;
	ncclGroupStart();
	if (group &&
	    (group->comm != comm || group->stream != stream || group->count == FAKE_OPS_MAX)) {
		push(group);
		group = NULL;
	}
	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group)
			abort();
		group->comm = comm;
		group->stream = stream;
	}
	group->ops[group->count++] = op;
	return ncclGroupEnd();
}

int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm,
		  void *stream)
{
	if (op != SUM)
		return FAKE_INVALID_ARGUMENT;
	return add(comm, stream, type, (struct fake_op){ FAKE_ALL_REDUCE, send, recv, count, 0 });
}

int ncclAllGather(const void *send, void *recv, size_t count, int type, void *comm, void *stream)
{
	return add(comm, stream, type, (struct fake_op){ FAKE_ALL_GATHER, send, recv, count, 0 });
}

int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, void *comm,
		      void *stream)
{
	if (op != SUM)
		return FAKE_INVALID_ARGUMENT;
	return add(comm, stream, type,
		   (struct fake_op){ FAKE_REDUCE_SCATTER, send, recv, count, 0 });
}

int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, void *comm,
		  void *stream)
{
	return add(comm, stream, type, (struct fake_op){ FAKE_BROADCAST, send, recv, count, root });
}

int ncclSend(const void *data, size_t count, int type, int peer, void *comm, void *stream)
{
	return add(comm, stream, type, (struct fake_op){ FAKE_SEND, data, NULL, count, peer });
}

int ncclRecv(void *data, size_t count, int type, int peer, void *comm, void *stream)
{
	return add(comm, stream, type, (struct fake_op){ FAKE_RECV, NULL, data, count, peer });
}

int ncclCommRegister(void *handle, void *data, size_t bytes, void **registered)
{
	struct fake_comm *comm = handle;
	const char *via = getenv("FAKE_NCCL_VIA");

	for (int i = 0; data && bytes && i < FAKE_REGS_MAX; i++) {
		if (comm->registered[i])
			continue;
		comm->registered[i] = data;
		*registered = &comm->registered[i];
		if (via && strstr(via, "GDRDMA"))
			fake_log("rank %d - NET register userbuff %p (handle %p), buffSize %zu",
				 comm->rank, data, *registered, bytes);
		return FAKE_SUCCESS;
	}
	return FAKE_INVALID_ARGUMENT;
}

int ncclCommDeregister(void *handle, void *registered)
{
	struct fake_comm *comm = handle;

	for (int i = 0; i < FAKE_REGS_MAX; i++) {
		if (registered != &comm->registered[i] || !comm->registered[i])
			continue;
		comm->registered[i] = NULL;
		return FAKE_SUCCESS;
	}
	return FAKE_INVALID_ARGUMENT;
}

/* Input of a rank to a split. */
struct offer {
	int color, key;
	struct fake_id id; /* for a communicator, if this is the first rank of its color */
};

static int gather_offers(struct fake_comm *comm, struct offer *offers)
{
	struct fake_transfer transfers[2 * FAKE_RANKS_MAX];
	int count = 0;

	for (int i = 0; i < comm->size; i++) {
		if (i == comm->rank)
			continue;
		transfers[count++] = (struct fake_transfer){ i, true, (char *)&offers[comm->rank],
							     sizeof(*offers) };
		transfers[count++] =
			(struct fake_transfer){ i, false, (char *)&offers[i], sizeof(*offers) };
	}
	return mesh_exchange(comm, transfers, count) ? FAKE_SUCCESS : FAKE_SYSTEM_ERROR;
}

int ncclCommSplit(void *handle, int color, int key, void **part, void *config)
{
	struct offer offers[FAKE_RANKS_MAX] = { 0 };
	struct fake_comm *comm = handle;
	int rank = 0, size = 0, first = -1, ret;

	(void)config;
	offers[comm->rank].color = color;
	offers[comm->rank].key = key;
	ret = ncclGetUniqueId(&offers[comm->rank].id);
	if (!ret)
		ret = gather_offers(comm, offers);
	for (int i = 0; i < comm->size; i++) {
		if (offers[i].color != color)
			continue;
		if (first < 0)
			first = i;
		rank += offers[i].key < key || (offers[i].key == key && i < comm->rank);
		size++;
	}
	return ret ? ret : ncclCommInitRank(part, size, offers[first].id, rank);
}
