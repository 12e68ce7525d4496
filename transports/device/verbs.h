/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs, opened at run time: the plugin must load on hosts that have none. Types come from
 * rdma-core's header, functions only from this table. Post, poll and the like need no entry, they
 * go through the context's own table.
 */
#ifndef ANYNET_VERBS_H
#define ANYNET_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
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

	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t bytes, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *user,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);

	/* NULL where the library is older. */
	int (*fork_init)(void);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				       unsigned access);          /* 1.8 */
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece); /* 1.10 */
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);   /* 1.10 */
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t count, uint32_t flags, size_t entry_bytes); /* 1.11 */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					uint64_t iova, int fd, int access); /* 1.12 */
	int (*query_port_speed)(struct ibv_context *context, uint32_t port,
				uint64_t *speed); /* 1.16; in 100 Mb/s; EOPNOTSUPP: ask otherwise */
};

/* A port of a device that is open. */
struct verbs_port {
	const struct verbs *verbs;
	struct ibv_context *context;
	uint8_t number; /* from 1 */
};

/*
 * Open `file` and fill the table, asking for the symbol versions that go with the types above.
 * 0, -ENOENT when the file cannot be opened, -ENOSYS when a function is missing that data transfer
 * needs; `why` then tells, in `why_bytes`.
 */
int verbs_open(const char *file, struct verbs *verbs, char *why, size_t why_bytes);

/* A table that is not open is fine. */
void verbs_close(struct verbs *verbs);

/*
 * ConnectX-8 and newer: has the device a Data Direct engine, which reaches GPU memory by a PCI function of its own,
 * next to the GPU? If so its directory in sysfs goes to `path`. Asks libmlx5 if libibverbs has loaded that
 * (mlx5dv_get_data_direct_sysfs_path, rdma-core 56).
 */
bool verbs_data_direct(const struct verbs *verbs, struct ibv_context *context, char *path,
		       size_t path_bytes);

/* The same library, whose reg_dmabuf_mr registers for Data Direct engines. After verbs_data_direct has said yes. */
struct verbs verbs_by_data_direct(const struct verbs *verbs);

#endif
