/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of our own that NICs read or write: whole pages with nothing else in them. Before Linux 5.12 a
 * forked child lacks registered pages (ibv_fork_init), and would lack what shared one of them. A registration
 * ends before its memory is freed (docs/ib.md). Also tables of which a comm uses a few entries: a page takes no
 * memory before its first use.
 */
#ifndef ANYNET_PINNED_H
#define ANYNET_PINNED_H

#include <stddef.h>

/* The whole pages that so many bytes take. */
size_t pinned_round(size_t bytes);

/* Zeroed; NULL = no memory. Both round `bytes` up; freeing NULL is fine. */
void *pinned_alloc(size_t bytes);
void pinned_free(void *memory, size_t bytes);

#endif
