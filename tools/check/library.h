/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of a shared library, read from its file without loading it. */
#ifndef CHECK_LIBRARY_H
#define CHECK_LIBRARY_H

#include <stdbool.h>

#include "tools/shared/net/elf_file.h"
#include "tools/shared/net/nccl_version.h"

#include "host.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#endif

#define NET_API_OLDEST 4
#define NET_API_NEWEST 12

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

/* As library_read, by the name by which this process can open the file. */
void library_open_name(const char *name, struct library *library);

#endif
