/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's own memory that NICs read or write. It consists of whole pages, which contain nothing else: before Linux
 * 5.12 a forked child does not get registered pages (ibv_fork_init), nor anything else in them. Deregister memory
 * before freeing it (docs/ib.md). Also for tables of which a comm uses few entries: a page takes no memory before its
 * first use.
 */
#ifndef ANYNET_PINNED_H
#define ANYNET_PINNED_H

#include <stddef.h>

/* Round up to whole pages, in bytes. */
size_t pinned_round(size_t bytes);

/* Allocate zeroed memory (NULL = no memory), and free it. Both round `bytes` up. Freeing NULL is allowed. */
void *pinned_alloc(size_t bytes);
void pinned_free(void *memory, size_t bytes);

#endif
