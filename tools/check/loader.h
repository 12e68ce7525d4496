/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dynamic loader's search for a library, as in ld.so(8), on files only. Variants for newer
 * processors (glibc-hwcaps) are not searched, since NCCL has none.
 */
#ifndef CHECK_LOADER_H
#define CHECK_LOADER_H

#include "host.h"
#include "library.h"

struct loader {
	const struct host *host;
	struct text_list library_path; /* LD_LIBRARY_PATH */
	struct text_list names, paths; /* of the libraries in /etc/ld.so.cache */
};

/* Reads the environment and the cache. The host must outlive the loader. */
void loader_open(struct loader *loader, const struct host *host);

/*
 * Returns the file for `name`, which is a path if it contains a slash. `from`, with the file
 * `from_path`, is the library that needs it: its RPATH and RUNPATH are searched; NULL = neither is.
 * Returns NULL if no file is found.
 */
char *loader_find(const struct loader *loader, const char *name, const struct library *from,
		  const char *from_path);

/* Returns the directories that are searched: LD_LIBRARY_PATH, those in the cache, the default ones;
 * each once. */
struct text_list loader_directories(const struct loader *loader);

/* Returns a file on the search path that has one of these names but is not readable for this user;
 * NULL = none. */
char *loader_unreadable(const struct loader *loader, const struct text_list *names);

#endif
