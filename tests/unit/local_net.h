/* SPDX-License-Identifier: Apache-2.0 */
/* The message layer on one artificial device "lo", with settings so small that their limits are reached. */
#ifndef TESTS_UNIT_LOCAL_NET_H
#define TESTS_UNIT_LOCAL_NET_H

#include "transports/session/comm.h"

#define LOCAL_RING_BYTES  8192
#define LOCAL_EAGER_BYTES 1024
#define LOCAL_CHUNK_BYTES 4096

extern struct anynet_config local_cfg;
extern struct anynet_device local_dev;

/* Resets settings and device; then anynet_net_start. */
void local_net_start(void);

/* Gives `comm` its stream `index` over one end of a socket pair, with a queue pair or NULL. Returns the other end,
 * non-blocking. */
int local_stream(struct anynet_comm *comm, unsigned index);
int local_stream_by(struct anynet_comm *comm, unsigned index, struct ib_qp *link);

#endif
