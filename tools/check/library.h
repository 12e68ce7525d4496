/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of a shared library, read from its file without loading it. */
#ifndef CHECK_LIBRARY_H
#define CHECK_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/shared/net/elf_file.h"

#include "host.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#endif

#define NET_API_OLDEST 4
#define NET_API_NEWEST 12

/* Encoded as in NCCL: 2.10.3 is 21003. */
struct nccl_version {
	int code;      /* 0 = unknown */
	char cuda[16]; /* CUDA version it was built with, "12.3"; "" = unknown */
};

struct library {
	char *error;       /* why it cannot be read, or is for another processor; NULL = none */
	unsigned net_apis; /* bit n = it exports ncclNetPlugin_vn */
	struct nccl_version nccl; /* if it contains NCCL */
	bool anynet;
	char anynet_version[32]; /* "0.1.0 wire 4" */
	char soname[64];         /* "" = none */
	struct text_list needed;
	struct text_list
		versions; /* required versions of other libraries: "libc.so.6 GLIBC_2.34" */
	struct text_list rpath, runpath; /* directories, with $ORIGIN not expanded */
};

/* Reads a file of the host. */
void library_read(const struct host *host, const char *path, struct library *library);

/* True if the library at `path` defines this symbol version, or if that cannot be determined. */
bool library_has_version(const struct host *host, const char *path, const char *version);

/* As library_read, for a file in memory, aligned to 8 bytes. */
void library_take(const void *bytes, size_t size, const char *path, struct library *library);

/* Finds the version in a text of NCCL: "… NCCL version 2.19.3+cuda12.3 …". */
struct nccl_version nccl_version_in(const char *bytes, size_t size);

/* Converts "2.19.3" to a code; 0 = invalid. "2.9.6" is 20906, the encoding since 2.9. */
int nccl_version_parse(const char *text);

/* Writes the code as text into `text` of 16 bytes, and returns it. */
const char *nccl_version_text(int code, char *text);

#endif
