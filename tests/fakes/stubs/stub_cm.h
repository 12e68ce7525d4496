/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA connection manager for stub_verbs.h (the program is linked with --wrap=rdmacm_open): its
 * events come when the script says so. Between two of the product's steps any may come that the kernel
 * could send then.
 */
#ifndef TESTS_FUZZ_STUB_CM_H
#define TESTS_FUZZ_STUB_CM_H

#include <rdma/rdma_cma.h>

#include "stub_verbs.h"

/* Number of the peer's queue pair, as the manager tells it. */
extern uint32_t stub_cm_qpn;

/* The manager's calls fail with this errno; 0 = they do not. */
extern int stub_cm_refuses;

/* What the newest id that waits for something has asked for is done; or, with another event than
 * RDMA_CM_EVENT_ADDR_RESOLVED, that happens to it. False: no id is there. */
bool stub_cm_event(enum rdma_cm_event_type type);

/* Somebody connects to the newest id that listens, with this private data. */
bool stub_cm_request(const void *data, uint8_t bytes);

#endif
