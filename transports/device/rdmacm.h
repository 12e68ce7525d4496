/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librdmacm, opened at run time, because few hosts have it or need it. Types come from rdma-core's header, functions
 * only from this table. All functions set errno.
 */
#ifndef ANYNET_RDMACM_H
#define ANYNET_RDMACM_H

#include <rdma/rdma_cma.h>
#include <stddef.h>

struct rdmacm {
	void *library; /* NULL = not open */

	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	const char *(*event_str)(enum rdma_cm_event_type type);

	int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			 enum rdma_port_space space);
	/* Waits until all events of the id have been acknowledged. */
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*set_option)(struct rdma_cm_id *id, int level, int option, void *value, size_t bytes);

	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	__be16 (*get_src_port)(struct rdma_cm_id *id);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t bytes);

	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
			    int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*establish)(struct rdma_cm_id *id);

	/* For a queue pair that librdmacm has not created: fills *attr and *mask for the state attr->qp_state. */
	int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
};

/* Opens `file` and fills the table. 0; -ENOENT: the file cannot be opened; -ENOSYS: a function is missing. On an error
 * `why`, of `why_bytes`, gets the reason. */
int rdmacm_open(const char *file, struct rdmacm *rdmacm, char *why, size_t why_bytes);

/* A table that is not open is allowed. */
void rdmacm_close(struct rdmacm *rdmacm);

#endif
