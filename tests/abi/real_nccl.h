/* SPDX-License-Identifier: Apache-2.0 */
/* Real libnccl files for tests: all on this host, and those in LIBNCCL_FILES, separated by ':'. */
#ifndef TESTS_ABI_REAL_NCCL_H
#define TESTS_ABI_REAL_NCCL_H

#include "tools/check/copies.h"

/* Files of LIBNCCL_FILES that cannot be read are an error. */
void real_nccl_find(struct nccl_copies *copies, const struct loader *loader);

struct file_bytes {
	unsigned char *bytes;
	size_t size;
};

/* The whole file; the caller frees the bytes. */
struct file_bytes file_bytes_read(const char *path);

#endif
