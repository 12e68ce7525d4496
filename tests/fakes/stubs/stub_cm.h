/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA connection manager for stub_verbs.h (the program is linked with --wrap=rdmacm_open): its events come when
 * the script says so. Between two steps of the product any event may come that the kernel could send then.
 */
#ifndef TESTS_FUZZ_STUB_CM_H
#define TESTS_FUZZ_STUB_CM_H

#include <rdma/rdma_cma.h>

#include "stub_verbs.h"

/* Number of the peer's queue pair, as reported by the manager. */
extern uint32_t stub_cm_qpn;

/* The manager's calls fail with this errno; 0 = they succeed. */
extern int stub_cm_refuses;

/* Completes the request of the newest waiting id; or, with an event other than RDMA_CM_EVENT_ADDR_RESOLVED, that event
 * happens to it. False: there is no id. */
bool stub_cm_event(enum rdma_cm_event_type type);

/* A request to the newest listening id, with this private data. */
bool stub_cm_request(const void *data, uint8_t bytes);

#endif
