/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches text for many seven-byte keys at once. Where the text resembles no key, it examines only every
 * fifth byte (Wu and Manber, 1994).
 */
#ifndef EXPLAIN_FILTER_H
#define EXPLAIN_FILTER_H

#include <stddef.h>
#include <stdint.h>

struct filter;

/* A key and its users. */
struct filter_key {
	uint64_t bytes;
	uint16_t first, count; /* range in the array of users; see filter_users */
};

/*
 * Builds a filter. `keys[i]` points to the seven bytes of user i; users may share a key. `count` is at most
 * 65535. The keys are copied. The filter does not change afterwards.
 */
struct filter *filter_new(const char *const *keys, size_t count);

/*
 * Returns the first key in [p, end) and stores it in *key, or returns NULL. *key is valid as long as the
 * filter.
 */
const char *filter_next(const struct filter *filter, const char *p, const char *end,
			const struct filter_key **key);

/* Returns the numbers of the key's users, `key->count` of them. */
const uint16_t *filter_users(const struct filter *filter, const struct filter_key *key);

#endif
