/* SPDX-License-Identifier: Apache-2.0 */
/* The table of connects in progress. NCCL's handle holds the token of an entry. Any thread; NCCL uses a handle, and so
 * its op, in one thread at a time. */
#ifndef ANYNET_CONNECT_TABLE_H
#define ANYNET_CONNECT_TABLE_H

#include "base/socket.h"
#include "session/dial.h"

struct connect_op {
	uint32_t slot;
	uint64_t token; /* names the op in NCCL's handle; not 0 */
	bool busy; /* a step is in progress; guarded by the table's lock */
	const struct anynet_device *dev;
	const void *owner;
	struct anynet_wire_handle handle;
	struct comm_paths paths;
	uint32_t tries;     /* dials of stream 0 so far: the epoch of its next hello */
	uint64_t called_ms; /* NCCL's last call; guarded by the table's lock */
	uint64_t heard_ms;  /* last sign of life from the peer's host, or last dial */
	uint64_t stood_ms,
		told_ms; /* connected without an answer since; last warning of that. stood_ms 0 = not waiting */
	uint64_t deadline_ms, next_try_ms, pause_ms, extra_deadline_ms;
	struct anynet_wire_pair pair; /* that is being dialled */
	int last_err;
	char last_addr[SOCKET_TEXT_BYTES];
	struct dial first;
	struct anynet_wire_hello welcome;
	struct anynet_comm *comm; /* NULL until the first WELCOME */
	/* By stream, [0] is not used. DIAL_DONE: the stream is there, or left out. */
	struct dial *extra;
};

/* Add an op and set its slot and token. 0 or -ENOMEM. */
int connect_table_add(struct connect_op *op);

/* The op that this handle names, now busy; NULL = none. */
struct connect_op *connect_table_find(const struct anynet_wire_handle *handle);

/* The step is over: the op is not busy any more. connect_table_remove takes it out of the table instead. */
void connect_table_put(struct connect_op *op);
void connect_table_remove(struct connect_op *op);

/* Take an abandoned op (see connect_trim) out of the table. The caller owns it. NULL = none. */
struct connect_op *connect_table_take_abandoned(const void *owner, uint64_t now_ms);

#endif
