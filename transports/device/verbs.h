/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs, opened at run time, because the plugin must load on hosts without it. Types come from rdma-core's header,
 * functions only from this table. Inline functions such as ibv_post_send and ibv_poll_cq need no entry: they call
 * through the context.
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
	/* Fills an older, shorter struct: clear *attr before the call. */
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

	/* NULL = the library is older. The number is the symbol version. */
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
				uint64_t *speed); /* 1.16; in 100 Mb/s; EOPNOTSUPP = not known */
};

/* A port of an open device. */
struct verbs_port {
	const struct verbs *verbs;
	struct ibv_context *context;
	uint8_t number; /* from 1 */
};

/*
 * Opens `file` and fills the table with the symbol versions that match these types. 0; -ENOENT: the file cannot be
 * opened; -ENOSYS: a required function is missing. On an error `why`, of `why_bytes`, gets the reason.
 */
int verbs_open(const char *file, struct verbs *verbs, char *why, size_t why_bytes);

/* ibv_modify_qp: 0 or a negative error number. Some providers return -1 and set errno. */
int verbs_modify_qp(const struct verbs *verbs, struct ibv_qp *qp, struct ibv_qp_attr *attr,
		    int mask);

#define IB_PSN_MASK  0xffffff /* packet sequence numbers have 24 bits */
#define IB_HOP_LIMIT 255

/* Path of an RC queue pair to its peer, by its own port. Numbers are as in struct ibv_qp_attr. */
struct ib_path {
	struct ibv_ah_attr ah;
	enum ibv_mtu mtu;
	uint32_t qpn;                /* QP number of the peer */
	uint32_t send_psn, recv_psn; /* PSN of the first packet, each way */
	uint16_t pkey_index;
	uint8_t timeout, retries, rnr_retries;
	uint8_t reads; /* max RDMA READs in flight, each way */
};

/* Move a queue pair from RESET to INIT, on to RTR and RTS. `mask`: attributes that are not as in INIT. As verbs_modify_qp. */
int verbs_to_init(const struct verbs *verbs, struct ibv_qp *qp, uint8_t port, int pkey_index,
		  unsigned access);
int verbs_to_rtr(const struct verbs *verbs, struct ibv_qp *qp, const struct ib_path *path,
		 int mask);
int verbs_to_rts(const struct verbs *verbs, struct ibv_qp *qp, const struct ib_path *path);

/* A table that is not open is allowed. */
void verbs_close(struct verbs *verbs);

/*
 * Has the device a Data Direct engine (ConnectX-8 and newer), which reaches GPU memory by a PCI function of its own
 * next to the GPU? If so `path` gets its directory in sysfs. Uses libmlx5 if libibverbs has loaded it
 * (mlx5dv_get_data_direct_sysfs_path, rdma-core 56). Under the core's init lock.
 */
bool verbs_data_direct(const struct verbs *verbs, struct ibv_context *context, char *path,
		       size_t path_bytes);

/* The same library, but its reg_dmabuf_mr registers for Data Direct engines. It may be called only for devices for
 * which verbs_data_direct has returned true. */
struct verbs verbs_by_data_direct(const struct verbs *verbs);

#endif
