/* SPDX-License-Identifier: Apache-2.0 */
/* /etc/ld.so.cache: maps library names to the files that the dynamic loader uses. */
#ifndef CHECK_LD_CACHE_H
#define CHECK_LD_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/shared/text.h"

/*
 * Appends the name and the path of each library for this processor, in the loader's order. The texts are parts of
 * `bytes`. Returns false if the bytes are not such a cache or are truncated; entries before the damage have been appended
 * then.
 */
bool ld_cache_read(const char *bytes, size_t size, struct text_list *names,
		   struct text_list *paths);

#endif
