/* SPDX-License-Identifier: Apache-2.0 */
/* /etc/ld.so.cache: maps library names to the files that the dynamic loader uses. */
#ifndef CHECK_LD_CACHE_H
#define CHECK_LD_CACHE_H

#include <stddef.h>

/* Called for each library for this processor, in the loader's order. A nonzero result ends the
 * walk. The texts are valid during the call. */
typedef int ld_cache_visitor(const char *name, const char *path, void *context);

/* Walks a cache that has been read into memory. Returns the visitor's last result, or -1 if the
 * bytes are not such a cache or are truncated; entries before the damage have been visited then. */
int ld_cache_walk(const char *bytes, size_t size, ld_cache_visitor *visit, void *context);

#endif
