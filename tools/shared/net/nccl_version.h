/* SPDX-License-Identifier: Apache-2.0 */
/* Releases of NCCL, as numbers and as text. */
#ifndef ANYNET_NCCL_VERSION_H
#define ANYNET_NCCL_VERSION_H

#include <stddef.h>

/* Encoded as in NCCL: 2.10.3 is 21003. */
struct nccl_version {
	int code;      /* 0 = unknown */
	char cuda[16]; /* CUDA version it was built with, "12.3"; "" = unknown */
};

/* Finds the version in a text of NCCL: "… NCCL version 2.19.3+cuda12.3 …". */
struct nccl_version nccl_version_in(const char *bytes, size_t size);

/* Converts "2.19.3" to a code; 0 = invalid. "2.9.6" is 20906, the encoding since 2.9. */
int nccl_version_parse(const char *text);

/* Writes the code as text into `text` of 16 bytes, and returns it. */
const char *nccl_version_text(int code, char *text);

/* Copies the alphanumeric characters from `at` up to `end`, and those in `also`, with a final zero. */
void nccl_version_word(const char *at, const char *end, const char *also, char *word, size_t bytes);

#endif
