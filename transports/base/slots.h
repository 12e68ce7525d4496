/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of pointers, which grows. An entry has a number, the lowest that was free, and a token, which also holds a
 * generation: the token of an entry that has been removed names no later entry with its number. No locks: that is up to
 * the caller.
 */
#ifndef ANYNET_SLOTS_H
#define ANYNET_SLOTS_H

#include <stdint.h>

struct slots {
	struct slot {
		void *entry; /* NULL = free */
		uint32_t generation;
	} *slots;
	uint32_t count, used;
	uint32_t taken; /* no slot below this one is free */
};

/* 0: *number is set; or -ENOMEM. `entry` is not NULL. */
int slots_add(struct slots *slots, void *entry, uint32_t *number);
void slots_remove(struct slots *slots, uint32_t number);

/* The entry with this number or token; NULL = none. */
void *slots_at(const struct slots *slots, uint32_t number);
void *slots_find(const struct slots *slots, uint64_t token);

/* Never 0. `number` is that of an entry. */
uint64_t slots_token(const struct slots *slots, uint32_t number);

/* Free the memory of a table without entries. It may be used again; tokens are then not unique any more. */
void slots_free(struct slots *slots);

#endif
