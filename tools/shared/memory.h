/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that stays until the process exits, so that nobody owns or frees it: a command that reads, prints and exits
 * keeps a few MB. If out of memory, the process prints an error and exits with STATUS_ERROR. Single-threaded.
 */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* For libraries that allocate by themselves, when they fail. */
_Noreturn void memory_failed(void);

void *memory_get(size_t bytes); /* zeroed */
/* As realloc, of what these functions have returned; what is added is not zeroed. */
void *memory_resize(void *memory, size_t bytes);

/* For commands that repeat what they do, and for tests: frees what has been got since the mark; 0 = all. */
uint64_t memory_mark(void);
void memory_release(uint64_t mark);

#endif
