/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file the dynamic loader takes for a library: ld.so(8)'s search, done on the files alone.
 * Left out are the variants for newer processors (glibc-hwcaps), which nobody has for NCCL.
 */
#ifndef CHECK_LOADER_H
#define CHECK_LOADER_H

#include "host.h"
#include "library.h"

struct loader {
	const struct host *host;
	struct text_list library_path; /* LD_LIBRARY_PATH */
	char *cache;                   /* /etc/ld.so.cache; NULL = there is none */
	size_t cache_bytes;
};

/* The environment is read now. The host must outlive the loader. */
void loader_open(struct loader *loader, const struct host *host);
void loader_close(struct loader *loader);

/*
 * The file for `name`, which is a path if it has a slash. `from` is the library that asks for it, with
 * the file `from_path`, whose RPATH and RUNPATH count; NULL = they do not. NULL = none is found; else the
 * caller's.
 */
char *loader_find(const struct loader *loader, const char *name, const struct library *from,
		  const char *from_path);

/* The directories where libraries are looked for: LD_LIBRARY_PATH, those of the cache, the usual ones;
 * each once. The caller's. */
struct text_list loader_directories(const struct loader *loader);

/* A file of one of these names where libraries are looked for that this user cannot read; NULL = none.
 * The caller's. */
char *loader_unreadable(const struct loader *loader, const struct text_list *names);

#endif
