/* SPDX-License-Identifier: Apache-2.0 */
/* Real libnccl files for tests: each that this host has, and those named in LIBNCCL_FILES, by ':'. */
#ifndef TESTS_ABI_REAL_NCCL_H
#define TESTS_ABI_REAL_NCCL_H

#include "tools/check/copies.h"

/* Those of LIBNCCL_FILES have to be ones that can be read. */
void real_nccl_find(struct nccl_copies *copies, const struct loader *loader);

#endif
