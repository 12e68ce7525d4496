/* SPDX-License-Identifier: Apache-2.0 */
/* What a shared library is, read from its file: nothing is loaded or run. */
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

/* As NCCL counts: 2.10.3 is 21003. */
struct nccl_version {
	int code;      /* 0 = not known */
	char cuda[16]; /* "12.3": what it was built with; "" = not known */
};

struct library {
	char *error;       /* why it cannot be read, or is not for this processor; NULL = it can */
	unsigned net_apis; /* bit n: it has the table ncclNetPlugin_vn */
	struct nccl_version nccl; /* if NCCL is in it */
	bool anynet;
	char anynet_version[32]; /* "0.1.0 wire 4" */
	char soname[64];         /* "" = it has none */
	struct text_list needed;
	struct text_list versions;       /* that it needs: "libc.so.6 GLIBC_2.34" */
	struct text_list rpath, runpath; /* directories, with $ORIGIN as it is written */
};

/* Read a file of the host. The caller frees *library in any case. */
void library_read(const struct host *host, const char *path, struct library *library);
void library_free(struct library *library);

/* Does the library at `path` have this version? If that cannot be told it counts as one that does. */
bool library_has_version(const struct host *host, const char *path, const char *version);

/* From a file in memory, aligned to 8 bytes. */
void library_take(const void *bytes, size_t size, const char *path, struct library *library);

/* The version in a text such as NCCL holds: "… NCCL version 2.19.3+cuda12.3 …". */
struct nccl_version nccl_version_in(const char *bytes, size_t size);

/* "2.19.3" as a code; 0 = it is none. "2.9.6" = 20906, as NCCL counts since 2.9. */
int nccl_version_parse(const char *text);

/* The code as text, in `text` of 16 bytes. Returns it. */
const char *nccl_version_text(int code, char *text);

#endif
