/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a communicator: one in each direction between any two ranks, over the net that NCCL_NET_PLUGIN
 * names, driven as by NCCL's proxy. */
#include "fake.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEPS      8
#define STEP_BYTES ((size_t)512 << 10)
#define NET_API    11 /* of the NCCL that is emulated */
#define PTR_HOST   1

struct handles {
	_Alignas(8) char of_peer[FAKE_RANKS_MAX][DRIVER_HANDLE_BYTES];
};

/* A transfer in flight. */
struct flight {
	const struct fake_transfer *t;
	size_t posted, done, sizes[STEPS];
	unsigned first, count; /* requests */
	void *requests[STEPS], *mr;
};

static void silence(int level, unsigned long flags, const char *file, int line, const char *fmt,
		    ...) __attribute__((format(printf, 5, 6)));

static void silence(int level, unsigned long flags, const char *file, int line, const char *fmt,
		    ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
}

static void *comm_of(const struct fake_comm *comm, const struct fake_transfer *t)
{
	const struct fake_peer *peer = &comm->peers[t->peer];

	return t->is_send ? peer->send : peer->recv;
}

/* "none": NCCL's own net; the log does not say that the plugin is used here, too. */
static int open_net(struct fake_comm *comm)
{
	const char *plugin = getenv("NCCL_NET_PLUGIN"), *via = getenv("FAKE_NCCL_VIA");
	bool builtin = !plugin || !strcmp(plugin, "none");
	const char *spec = builtin ? getenv("FAKE_NCCL_BUILTIN") : plugin, *name;
	char err[600];

	comm->net = driver_open(spec ? spec : "libnccl-net.so",
				(int)fake_setting("FAKE_NCCL_ABI", NET_API), err, sizeof(err));
	if (!comm->net) {
		fake_log("%s", err);
		return FAKE_SYSTEM_ERROR;
	}
	if (driver_init(comm->net, &comm->ctx, 1, -1, builtin ? silence : fake_logger, NULL))
		return FAKE_SYSTEM_ERROR;
	name = builtin ? "Socket" : driver_name(comm->net);
	for (int i = 0; i < comm->size; i++) {
		if (i == comm->rank || fake_setting("FAKE_NCCL_QUIET", 0))
			continue;
		fake_log("Channel 00/0 : %d[0] -> %d[0] [send] via NET/%s/0", comm->rank, i, name);
		fake_log("Channel 00/0 : %d[0] -> %d[0] [receive] via NET/%s/0", i, comm->rank,
			 name);
	}
	if (via)
		fake_log("Channel 00 : 0[0] -> 1[0] via %s", via);
	return FAKE_SUCCESS;
}

static int connect_all(struct fake_comm *comm, struct handles *all)
{
	int missing = 2 * (comm->size - 1);

	while (missing) {
		for (int i = 0; i < comm->size; i++) {
			struct fake_peer *peer = &comm->peers[i];

			if (i == comm->rank)
				continue;
			if (!peer->send) {
				if (driver_connect(comm->net, comm->ctx, 0,
						   all[i].of_peer[comm->rank], &peer->send))
					return FAKE_SYSTEM_ERROR;
				missing -= peer->send != NULL;
			}
			if (!peer->recv) {
				if (driver_accept(comm->net, peer->listener, &peer->recv))
					return FAKE_SYSTEM_ERROR;
				missing -= peer->recv != NULL;
			}
		}
		sched_yield();
	}
	return FAKE_SUCCESS;
}

int mesh_open(struct fake_comm *comm, const struct fake_id *id)
{
	struct handles mine = { 0 }, *all = calloc((size_t)comm->size, sizeof(*all));
	int ret = all ? open_net(comm) : FAKE_SYSTEM_ERROR;

	for (int i = 0; !ret && i < comm->size; i++) {
		if (i != comm->rank)
			ret = driver_listen(comm->net, comm->ctx, 0, mine.of_peer[i],
					    &comm->peers[i].listener);
	}
	if (!ret && boot_gather(id, comm->size, comm->rank, &mine, all, sizeof(mine)))
		ret = FAKE_SYSTEM_ERROR;
	if (!ret)
		ret = connect_all(comm, all);
	for (int i = 0; i < comm->size; i++) {
		if (comm->peers[i].listener)
			driver_close_listen(comm->net, comm->peers[i].listener);
	}
	free(all);
	return ret;
}

void mesh_close(struct fake_comm *comm)
{
	for (int i = 0; i < comm->size; i++) {
		driver_close_send(comm->net, comm->peers[i].send);
		driver_close_recv(comm->net, comm->peers[i].recv);
	}
	driver_finalize(comm->net, comm->ctx);
	driver_close(comm->net);
}

/* Messages of one connection keep the order of the transfers. */
static bool is_first(const struct flight *flights, const struct flight *f)
{
	for (; flights < f; flights++) {
		if (flights->t->peer == f->t->peer && flights->t->is_send == f->t->is_send &&
		    flights->posted < flights->t->bytes)
			return false;
	}
	return true;
}

static int post(struct fake_comm *comm, struct flight *f)
{
	void *data = f->t->data + f->posted, *request = NULL;
	size_t left = f->t->bytes - f->posted, bytes = left < STEP_BYTES ? left : STEP_BYTES;
	int tag = 0, ret;

	if (f->t->is_send)
		ret = driver_isend(comm->net, comm_of(comm, f->t),
				   &(struct driver_send){ data, bytes, tag, f->mr, NULL },
				   &request);
	else
		ret = driver_irecv(comm->net, comm_of(comm, f->t),
				   &(struct driver_recv){ 1, &data, &bytes, &tag, &f->mr, NULL },
				   &request);
	if (ret || !request)
		return ret;
	f->sizes[(f->first + f->count) % STEPS] = bytes;
	f->requests[(f->first + f->count++) % STEPS] = request;
	f->posted += bytes;
	return 0;
}

static int step(struct fake_comm *comm, const struct flight *flights, struct flight *f)
{
	int ret = 0, done = 0, size = 0;

	if (f->count < STEPS && f->posted < f->t->bytes && is_first(flights, f))
		ret = post(comm, f);
	if (ret || !f->count)
		return ret;
	ret = driver_test(comm->net, f->requests[f->first], &done, &size);
	if (ret || !done)
		return ret;
	f->done += f->sizes[f->first];
	f->first = (f->first + 1) % STEPS;
	f->count--;
	return 0;
}

/* Until the communicator is aborted or the net fails; after a failure it hangs until the abort. */
static bool fly(struct fake_comm *comm, struct flight *flights, int count)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int left = count, ret = 0;

	while (left && !ret && !atomic_load(&comm->aborted)) {
		left = 0;
		for (int i = 0; !ret && i < count; i++) {
			ret = step(comm, flights, &flights[i]);
			left += flights[i].done < flights[i].t->bytes;
		}
		sched_yield();
	}
	if (ret)
		atomic_store(&comm->error, ret);
	while (ret && !atomic_load(&comm->aborted))
		nanosleep(&pause, NULL);
	return !left && !ret;
}

bool mesh_exchange(struct fake_comm *comm, const struct fake_transfer *transfers, int count)
{
	struct flight *flights = calloc((size_t)count + 1, sizeof(*flights));
	bool done = flights != NULL;

	for (int i = 0; done && i < count; i++) {
		flights[i].t = &transfers[i];
		if (transfers[i].bytes &&
		    driver_reg_mr(comm->net, comm_of(comm, &transfers[i]), transfers[i].data,
				  transfers[i].bytes, PTR_HOST, &flights[i].mr)) {
			atomic_store(&comm->error, FAKE_SYSTEM_ERROR);
			flights[i].mr = NULL;
		}
	}
	done = done && fly(comm, flights, count);
	for (int i = 0; flights && i < count; i++) {
		if (flights[i].mr)
			driver_dereg_mr(comm->net, comm_of(comm, &transfers[i]), flights[i].mr);
	}
	free(flights);
	return done;
}
