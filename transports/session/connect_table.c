/* SPDX-License-Identifier: Apache-2.0 */
/* Connects in progress; see connect_table.h. */
#include "session/connect_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "session/connect.h"

#define CONNECTS_LIMIT (1 << 20)

/* `lock` guards the table. An op is used by one NCCL thread at a time. */
static struct {
	pthread_mutex_t lock;
	struct connect_op **ops;
	uint32_t count, used;
	uint32_t generation;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int grow(void)
{
	uint32_t count = table.count ? table.count * 2 : 64;
	struct connect_op **grown;

	if (count > CONNECTS_LIMIT)
		return -ENOMEM;
	grown = realloc(table.ops, count * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + table.count, 0, (count - table.count) * sizeof(*grown));
	table.ops = grown;
	table.count = count;
	return 0;
}

int connect_table_add(struct connect_op *op)
{
	uint32_t slot = 0;
	int ret = 0;

	pthread_mutex_lock(&table.lock);
	while (slot < table.count && table.ops[slot])
		slot++;
	if (slot == table.count)
		ret = grow();
	if (!ret) {
		table.ops[slot] = op;
		table.used++;
		op->slot = slot;
		op->generation = ++table.generation;
	}
	pthread_mutex_unlock(&table.lock);
	return ret;
}

struct connect_op *connect_table_find(const struct anynet_wire_handle *handle)
{
	uint32_t slot = (uint32_t)handle->local[0] - 1,
		 generation = (uint32_t)(handle->local[0] >> 32);
	struct connect_op *op = NULL;

	pthread_mutex_lock(&table.lock);
	if (slot < table.count && table.ops[slot] && table.ops[slot]->generation == generation &&
	    constant_time_equal(table.ops[slot]->handle.token, handle->token, ANYNET_TOKEN_BYTES))
		op = table.ops[slot];
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
	table.ops[op->slot] = NULL;
	table.used--;
	pthread_mutex_unlock(&table.lock);
}

/* NCCL may discard a handle and never call again (net-api.md §3.3). A connect is abandoned if its communicator has
 * ended, or if NCCL has not called for ANYNET_CONNECT_TIMEOUT. One that is only past its deadline still has an error to
 * report at NCCL's next call. */
struct connect_op *connect_table_take_abandoned(const void *owner, uint64_t now)
{
	uint64_t patience = (uint64_t)anynet_net.cfg->connect_timeout_ms;
	struct connect_op *op = NULL;

	pthread_mutex_lock(&table.lock);
	for (uint32_t i = 0; table.used && i < table.count; i++) {
		op = table.ops[i];
		if (op && !op->busy &&
		    ((owner && op->owner == owner) || now > op->called_ms + patience)) {
			table.ops[i] = NULL;
			table.used--;
			break;
		}
		op = NULL;
	}
	pthread_mutex_unlock(&table.lock);
	return op;
}

bool connect_knows(uint64_t comm_id, const uint8_t token[ANYNET_TOKEN_BYTES])
{
	bool known = false;

	pthread_mutex_lock(&table.lock);
	for (uint32_t i = 0; table.used && i < table.count && !known; i++)
		known = table.ops[i] && table.ops[i]->paths.comm_id == comm_id &&
			constant_time_equal(table.ops[i]->paths.token, token, ANYNET_TOKEN_BYTES);
	pthread_mutex_unlock(&table.lock);
	return known;
}
