/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs, opened at run time: the plugin must load on hosts that have none. Types come from
 * rdma-core's header, functions only from this table. Post, poll and the like need no entry, they
 * go through the context's own table.
 */
#ifndef ANYNET_VERBS_H
#define ANYNET_VERBS_H

#include <infiniband/verbs.h>
#include <stddef.h>

struct verbs {
	void *library; /* NULL = not open */

	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	/* Writes a shorter, older struct: clear *attr before. */
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
};

/*
 * Open `file` and fill the table, asking for the symbol versions that go with the types above.
 * 0, -ENOENT when the file cannot be opened, -ENOSYS when a function is missing, be it one of those
 * that only data transfer needs; `why` then tells, in `why_bytes`.
 */
int verbs_open(const char *file, struct verbs *verbs, char *why, size_t why_bytes);

/* A table that is not open is fine. */
void verbs_close(struct verbs *verbs);

#endif
