/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the stub: stub_verbs.c has the device with its memory and events, stub_qp.c the queue
 * pairs. */
#ifndef TESTS_FUZZ_STUB_INTERNAL_H
#define TESTS_FUZZ_STUB_INTERNAL_H

#include "stub_verbs.h"

/* Objects that stub_objects counts. */
void *stub_make(size_t bytes);
int stub_unmake(void *object);

/* Does this key allow this access there? */
bool stub_is_registered(uint32_t key, uint64_t addr, uint64_t count, int access);

/* As in the kernel: unread events are discarded with the queue pair. */
void stub_forget_events_of(const struct ibv_qp *qp);

/* The functions of libibverbs that stub_qp.c has. */
void stub_qp_functions(struct verbs *verbs, struct ibv_context *context);

#endif
