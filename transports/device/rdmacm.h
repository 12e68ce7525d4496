/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librdmacm, opened at run time: few hosts have it and fewer need it. Types come from rdma-core's
 * header, functions only from this table; all of them set errno.
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
	/* Waits until no event of the id is in anybody's hands. */
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

	/* For attr->qp_state, of a queue pair that the id does not know. */
	int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
};

/* Open `file` and fill the table. 0, -ENOENT when the file cannot be opened, -ENOSYS when a function is
 * missing; `why` then tells, in `why_bytes`. */
int rdmacm_open(const char *file, struct rdmacm *rdmacm, char *why, size_t why_bytes);

/* A table that is not open is fine. */
void rdmacm_close(struct rdmacm *rdmacm);

#endif
