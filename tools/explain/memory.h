/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that cannot fail: if out of memory, the process prints an error and exits with EXPLAIN_FAILED. */
#ifndef EXPLAIN_MEMORY_H
#define EXPLAIN_MEMORY_H

#include <stddef.h>

#define EXPLAIN_FAILED 3 /* exit status: a log or rules could not be read, or out of memory */

/* The caller frees what these return. */
void *memory_get(size_t bytes); /* zeroed */
void *memory_resize(void *old, size_t bytes);
char *memory_text(const char *text); /* a copy */

#endif
