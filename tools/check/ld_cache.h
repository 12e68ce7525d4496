/* SPDX-License-Identifier: Apache-2.0 */
/* /etc/ld.so.cache: which file the dynamic loader takes for a library's name. */
#ifndef CHECK_LD_CACHE_H
#define CHECK_LD_CACHE_H

#include <stddef.h>

/* Called for each library of this processor in the cache, best first. A result other than zero ends
 * the walk. Texts are good until the call returns. */
typedef int ld_cache_visitor(const char *name, const char *path, void *context);

/* Walk through a cache that has been read into memory. Returns the visitor's last result, or -1 if the
 * bytes are no such cache, or cut off; what could be read has been visited then. */
int ld_cache_walk(const char *bytes, size_t size, ld_cache_visitor *visit, void *context);

#endif
