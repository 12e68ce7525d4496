/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a block of text one of many keys of seven bytes is, looking at every fifth byte only where
 * there is nothing like a key (Wu and Manber, 1994).
 */
#ifndef EXPLAIN_FILTER_H
#define EXPLAIN_FILTER_H

#include <stddef.h>
#include <stdint.h>

struct filter;

/* A key and what it leads to, numbers of the caller's. */
struct filter_key {
	uint64_t bytes;
	uint16_t first, count; /* in filter_users */
};

/*
 * `keys[i]` is seven bytes of text, for user i; several users may have the same. At most 65535.
 * NULL = out of memory. Read only afterwards.
 */
struct filter *filter_new(const char *const *keys, size_t count);

void filter_free(struct filter *filter);

/*
 * The first place at or behind `p` where a key is, all of it before `end`; NULL = none. The key is
 * stored in *key.
 */
const char *filter_next(const struct filter *filter, const char *p, const char *end,
			const struct filter_key **key);

const uint16_t *filter_users(const struct filter *filter, const struct filter_key *key);

#endif
