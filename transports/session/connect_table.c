/* SPDX-License-Identifier: Apache-2.0 */
/* Connects in progress; see connect_table.h. */
#include "session/connect_table.h"

#include <pthread.h>

#include "base/slots.h"
#include "session/connect.h"

#define ABANDONED_MIN_MS 10000 /* NCCL's thread may be busy elsewhere between two calls */

/* `lock` guards the table. An op is used by one NCCL thread at a time. */
static struct {
	pthread_mutex_t lock;
	struct slots ops;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

int connect_table_add(struct connect_op *op)
{
	int ret;

	pthread_mutex_lock(&table.lock);
	ret = slots_add(&table.ops, op, &op->slot);
	if (!ret)
		op->token = slots_token(&table.ops, op->slot);
	pthread_mutex_unlock(&table.lock);
	return ret;
}

struct connect_op *connect_table_find(const struct anynet_wire_handle *handle)
{
	struct connect_op *op;

	pthread_mutex_lock(&table.lock);
	op = slots_find(&table.ops, handle->local[0]);
	if (op && !constant_time_equal(op->handle.token, handle->token, ANYNET_TOKEN_BYTES))
		op = NULL;
	if (op) {
		op->busy = true;
		op->called_ms = os_now_ms();
	}
	pthread_mutex_unlock(&table.lock);
	return op;
}

void connect_table_put(struct connect_op *op)
{
	pthread_mutex_lock(&table.lock);
	op->busy = false;
	pthread_mutex_unlock(&table.lock);
}

void connect_table_remove(struct connect_op *op)
{
	pthread_mutex_lock(&table.lock);
	slots_remove(&table.ops, op->slot);
	pthread_mutex_unlock(&table.lock);
}

/* NCCL may discard a handle and never call again (net-api.md §3.3). A connect is abandoned if its communicator has
 * ended, or if NCCL has not called for ANYNET_CONNECT_TIMEOUT, and not just between two of its calls. One that is only past
 * its deadline still has an error to report at NCCL's next call. */
struct connect_op *connect_table_take_abandoned(const void *owner, uint64_t now)
{
	uint64_t patience =
		anynet_max((uint64_t)anynet_net.cfg->connect_timeout_ms, ABANDONED_MIN_MS);
	struct connect_op *op = NULL;

	pthread_mutex_lock(&table.lock);
	for (uint32_t i = 0; !op && i < table.ops.count; i++) {
		op = slots_at(&table.ops, i);
		if (op && !op->busy &&
		    ((owner && op->owner == owner) || now > op->called_ms + patience))
			slots_remove(&table.ops, i);
		else
			op = NULL;
	}
	pthread_mutex_unlock(&table.lock);
	return op;
}

bool connect_knows(uint64_t comm_id, const uint8_t token[ANYNET_TOKEN_BYTES])
{
	bool known = false;

	pthread_mutex_lock(&table.lock);
	for (uint32_t i = 0; !known && i < table.ops.count; i++) {
		const struct connect_op *op = slots_at(&table.ops, i);

		known = op && op->paths.comm_id == comm_id && constant_time_equal(op->paths.token, token, ANYNET_TOKEN_BYTES);
	}
	pthread_mutex_unlock(&table.lock);
	return known;
}
