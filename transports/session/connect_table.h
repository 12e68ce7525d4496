/* SPDX-License-Identifier: Apache-2.0 */
/* The connects in progress: found by the slot and generation that NCCL's handle holds. Any thread; an op is used by one of
 * NCCL's threads at a time. */
#ifndef ANYNET_CONNECT_TABLE_H
#define ANYNET_CONNECT_TABLE_H

#include "base/socket.h"
#include "session/dial.h"

struct connect_op {
	uint32_t slot, generation;
	bool busy; /* a step is in progress; under the table's lock */
	const struct anynet_device *dev;
	const void *owner;
	struct anynet_wire_handle handle;
	struct comm_paths paths;
	uint32_t tries;     /* of stream 0: the epoch in its hello */
	uint64_t called_ms; /* NCCL's last call; under the table's lock */
	uint64_t heard_ms;  /* the peer's host gave a sign, or was dialled */
	uint64_t stood_ms,
		told_ms; /* since when it waits for an answer, and when that was last told; 0 = it does not */
	uint64_t deadline_ms, next_try_ms, pause_ms, extra_deadline_ms;
	int addr; /* of the handle's, being tried */
	int last_err;
	char last_addr[SOCKET_TEXT_BYTES];
	struct dial first;
	struct anynet_wire_hello welcome;
	struct anynet_comm *comm; /* from the first welcome on */
	struct extra_stream {     /* streams 1 … */
		struct dial dial;
		bool failed;
	} * extra;
};

/* Sets its slot and generation. 0 or -ENOMEM. */
int connect_table_add(struct connect_op *op);

/* The one that this handle names, busy from now on; NULL = none. */
struct connect_op *connect_table_find(const struct anynet_wire_handle *handle);

/* A step of it is over. */
void connect_table_put(struct connect_op *op);
void connect_table_remove(struct connect_op *op);

/* One that NCCL has abandoned, out of the table; NULL = none. */
struct connect_op *connect_table_take_abandoned(const void *owner, uint64_t now_ms);

#endif
