/* SPDX-License-Identifier: Apache-2.0 */
/* The last three bytes of a seven-byte window decide how far the window can move. */
#include "filter.h"

#include <stdlib.h>
#include <string.h>

#include "tools/shared/memory.h"

#define KEY       7
#define GRAM      3
#define SHIFT_MAX (KEY - GRAM + 1)
#define HASH_BITS 15
#define HASHES    (1u << HASH_BITS)

struct filter {
	uint8_t shift[HASHES];
	uint16_t bucket[HASHES + 1]; /* hash of a key's last three bytes -> first index in `keys` */
	struct filter_key *keys;     /* sorted by bucket */
	size_t key_count;
	uint16_t *users;
};

/* A key and one user, before equal keys are merged. */
struct entry {
	uint64_t bytes;
	uint16_t user;
};

/* Hashes four[1] to four[3]. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the shift drops four[0]");
static inline uint32_t hash(const char *four)
{
	uint32_t v;

	memcpy(&v, four, sizeof(v));
	return (v >> 8) * 2654435761u >> (32 - HASH_BITS);
}

static uint32_t key_hash(const uint64_t *bytes)
{
	return hash((const char *)bytes + KEY - 4);
}

/* Loads the key at `p`. Reads no more than KEY bytes. */
static inline uint64_t key_at(const char *p)
{
	uint64_t bytes = 0;

	memcpy(&bytes, p, KEY);
	return bytes;
}

static int by_bucket(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	uint32_t x = key_hash(&a->bytes), y = key_hash(&b->bytes);

	if (x != y)
		return x < y ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return (a->user > b->user) - (a->user < b->user);
}

static void fill(struct filter *f, const struct entry *entries, size_t count)
{
	size_t n = 0;

	memset(f->shift, SHIFT_MAX, sizeof(f->shift));
	for (size_t i = 0; i < count; i++) {
		char around[KEY + 1] = { 0 };
		struct filter_key *last = n ? &f->keys[n - 1] : NULL;

		memcpy(around + 1, &entries[i].bytes, KEY);
		for (int at = 0; at <= KEY - GRAM; at++) {
			uint8_t *shift = &f->shift[hash(around + at)];

			if (*shift > KEY - GRAM - at)
				*shift = (uint8_t)(KEY - GRAM - at);
		}
		f->users[i] = entries[i].user;
		if (last && last->bytes == entries[i].bytes) {
			last->count++;
			continue;
		}
		f->keys[n++] = (struct filter_key){ entries[i].bytes, (uint16_t)i, 1 };
	}
	f->key_count = n;
	for (size_t h = 0, k = 0; h <= HASHES; h++) {
		while (k < n && key_hash(&f->keys[k].bytes) < h)
			k++;
		f->bucket[h] = (uint16_t)k;
	}
}

struct filter *filter_new(const char *const *keys, size_t count)
{
	struct filter *f = memory_get(sizeof(*f));
	struct entry *entries = memory_get(count * sizeof(*entries));

	f->keys = memory_get(count * sizeof(*f->keys));
	f->users = memory_get(count * sizeof(*f->users));
	for (size_t i = 0; i < count; i++) {
		entries[i].bytes = key_at(keys[i]);
		entries[i].user = (uint16_t)i;
	}
	qsort(entries, count, sizeof(*entries), by_bucket);
	fill(f, entries, count);
	return f;
}

const char *filter_next(const struct filter *f, const char *p, const char *end,
			const struct filter_key **key)
{
	while (end - p >= KEY) {
		uint32_t h = hash(p + KEY - 4);
		uint64_t here;

		if (f->shift[h]) {
			p += f->shift[h];
			continue;
		}
		here = key_at(p);
		for (size_t k = f->bucket[h]; k < f->bucket[h + 1]; k++) {
			if (f->keys[k].bytes == here) {
				*key = &f->keys[k];
				return p;
			}
		}
		p++;
	}
	return NULL;
}

const uint16_t *filter_users(const struct filter *f, const struct filter_key *key)
{
	return f->users + key->first;
}
