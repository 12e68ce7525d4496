/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL and the CUDA runtime without a GPU, as far as real_bench calls them: one library that stands in
 * for both. Device memory is the process's own, a stream is a thread, a communicator a mesh of the net's
 * own connections, through which collectives truly go. NCCL_NET_PLUGIN, NCCL_DEBUG_FILE and
 * NCCL_HOSTID are obeyed, lines of the log are in NCCL's form. The ranks are of one host.
 *
 * Environment, for tests that must fail:
 *   FAKE_NCCL_VERSION=N      what ncclGetVersion says (22809)
 *   FAKE_NCCL_ABI=N          the table that is taken (the newest that this NCCL knows: 11)
 *   FAKE_NCCL_QUIET=1        the log has no channels
 *   FAKE_NCCL_VIA=TEXT       a channel that the log has over something else; with GDRDMA in it registered
 *                            buffers are the net's, too
 *   FAKE_NCCL_WRONG=N        the Nth operation of rank 0 has a wrong element
 *   FAKE_NCCL_DEAF=RANK      this rank never has an asynchronous error
 *   FAKE_CUDA_DEVICES=N      number of GPUs (1)
 *   FAKE_CUDA_FREE=N         free bytes (1 GiB)
 */
#ifndef TESTS_REAL_FAKE_H
#define TESTS_REAL_FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <driver.h>

#define FAKE_RANKS_MAX 16
#define FAKE_OPS_MAX   64 /* of a group */
#define FAKE_ID_BYTES  128
#define FAKE_REGS_MAX  4

/* ncclResult_t */
enum {
	FAKE_SUCCESS = 0,
	FAKE_SYSTEM_ERROR = 2,
	FAKE_INVALID_ARGUMENT = 4,
	FAKE_REMOTE_ERROR = 6,
};

struct fake_id {
	char name[FAKE_ID_BYTES]; /* of the socket on which its ranks meet */
};

struct fake_peer {
	void *listener, *send, *recv;
};

struct fake_comm {
	int size, rank;
	struct driver_net *net;
	void *ctx;
	struct fake_peer peers[FAKE_RANKS_MAX];
	_Atomic bool aborted;
	_Atomic int error;   /* of the net */
	_Atomic int pending; /* batches in streams */
	const void *registered[FAKE_REGS_MAX];
};

enum fake_kind {
	FAKE_ALL_REDUCE,
	FAKE_ALL_GATHER,
	FAKE_REDUCE_SCATTER,
	FAKE_BROADCAST,
	FAKE_SEND,
	FAKE_RECV,
};

struct fake_op {
	enum fake_kind kind;
	const char *send;
	char *recv;
	size_t count; /* floats; of sends and receives bytes */
	int peer;     /* or root */
};

/* Work of one call, or a group of them, on a stream. */
struct fake_batch {
	struct fake_comm *comm;
	void *stream;
	struct fake_op ops[FAKE_OPS_MAX];
	int count;
};

/* One direction, one peer. */
struct fake_transfer {
	int peer;
	bool is_send;
	char *data;
	size_t bytes;
};

/* A number of the environment. */
long fake_setting(const char *name, long fallback);
/* A line of NCCL's log. */
void fake_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same as the plugin's logger. */
void fake_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* An all-gather of the ranks: each contributes `bytes`; `all` is size × bytes. 0 or -1. */
int boot_create(struct fake_id *id);
int boot_gather(const struct fake_id *id, int size, int rank, const void *mine, void *all,
		size_t bytes);

/* The connections of a communicator. FAKE_SUCCESS or an error. */
int mesh_open(struct fake_comm *comm, const struct fake_id *id);
void mesh_close(struct fake_comm *comm);
/* All transfers, concurrently. False: aborted. */
bool mesh_exchange(struct fake_comm *comm, const struct fake_transfer *transfers, int count);

void ops_run(struct fake_batch *batch);

/* `run` is called when all earlier work is done. */
void stream_push(void *stream, void (*run)(void *arg), void *arg);

#endif
