/* SPDX-License-Identifier: Apache-2.0 */
/* The stub from the inside: stub_verbs.c is the device with its memory and its events, stub_qp.c has queue
 * pairs. */
#ifndef TESTS_FUZZ_STUB_INTERNAL_H
#define TESTS_FUZZ_STUB_INTERNAL_H

#include "stub_verbs.h"

/* Objects that stub_objects counts. */
void *stub_make(size_t bytes);
int stub_unmake(void *object);

/* Does this key allow these accesses there? */
bool stub_is_registered(uint32_t key, uint64_t addr, uint64_t count, int access);

/* As the kernel does: those that nobody has read go with the queue pair. */
void stub_forget_events_of(const struct ibv_qp *qp);

/* The functions of libibverbs that stub_qp.c has. */
void stub_qp_functions(struct verbs *verbs, struct ibv_context *context);

#endif
