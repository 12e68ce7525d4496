/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's memory, and two ports of the stub's device to register it on. */
#ifndef TESTS_UNIT_MEMORY_TWO_NICS_H
#define TESTS_UNIT_MEMORY_TWO_NICS_H

#include <nccl_net/device.h>

#include "transports/memory/gpu_internal.h"
#include "unit/ib_ends.h"

#define BYTES 8192

extern struct anynet_device other; /* the second port; local_dev is the first one */
extern struct ib_nic *nics[2];
extern struct pair pair;
extern uint8_t data[BYTES];
extern char why[ANYNET_REASON_BYTES];

/* Of the memory. What CUDA says of it is no matter here. */
extern struct gpu gpu;

/* In place of gpu_proof.c: what it returns for each nic. */
extern int proofs[2];

/* The functions of nics[0], which a test replaces, and the stub's own. */
extern struct verbs verbs;
extern const struct verbs *stub;

/* For each test; what it has opened in `pair` is closed. */
int two_nics_setup(void **state);
int two_nics_teardown(void **state);

#endif
