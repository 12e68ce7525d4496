/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breadth-first search: all states at distance n, then those at n + 1. Of visited states it keeps a hash of 128 bits
 * (two of 10^8 states collide with a probability of 10^-23), and the predecessor, so that a path can be printed. Only
 * the states of two levels are kept completely.
 */
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#define WORDS     ((sizeof(struct model_state) + 7) / 8)
#define NO_PARENT UINT32_MAX

struct digest {
	uint64_t low, high;
};

struct node {
	struct digest digest;
	uint32_t parent;
};

struct level {
	struct model_state *states;
	uint32_t *nodes;
	size_t count, room;
};

struct table {
	struct node *nodes;
	uint32_t *places; /* open addressing: 1 + index of a node, 0 = empty */
	size_t count, room, mask;
};

static void *grow(void *memory, size_t bytes)
{
	memory = realloc(memory, bytes);
	if (!memory) {
		fprintf(stderr, "no memory for %zu bytes of states\n", bytes);
		exit(1);
	}
	return memory;
}

static uint64_t mix(uint64_t hash, uint64_t word, uint64_t factor)
{
	hash = (hash ^ word) * factor;
	return hash ^ hash >> 29;
}

static struct digest digest_of(const struct model_state *state)
{
	struct digest digest = { 0x9e3779b97f4a7c15ull, 0xc2b2ae3d27d4eb4full };
	uint64_t words[WORDS] = { 0 };

	memcpy(words, state, sizeof(*state));
	for (size_t i = 0; i < WORDS; i++) {
		digest.low = mix(digest.low, words[i], 0xff51afd7ed558ccdull);
		digest.high = mix(digest.high, words[i], 0x9fb21c651e98df25ull);
	}
	digest.low = mix(digest.low, digest.low >> 32, 0xc4ceb9fe1a85ec53ull);
	digest.high = mix(digest.high, digest.high >> 32, 0xd6e8feb86659fd93ull);
	return digest;
}

static void table_widen(struct table *table)
{
	size_t places = table->mask ? 2 * (table->mask + 1) : 1u << 16;

	table->places = grow(table->places, places * sizeof(*table->places));
	memset(table->places, 0, places * sizeof(*table->places));
	table->mask = places - 1;
	for (size_t i = 0; i < table->count; i++) {
		size_t at = table->nodes[i].digest.low & table->mask;

		while (table->places[at])
			at = (at + 1) & table->mask;
		table->places[at] = (uint32_t)i + 1;
	}
}

/* The position of a digest, or the empty one where it would be. */
static size_t table_find(const struct table *table, struct digest digest)
{
	size_t at;

	for (at = digest.low & table->mask; table->places[at]; at = (at + 1) & table->mask) {
		const struct digest *have = &table->nodes[table->places[at] - 1].digest;

		if (have->low == digest.low && have->high == digest.high)
			break;
	}
	return at;
}

/* True: it is new. */
static bool table_add(struct table *table, struct digest digest, uint32_t parent)
{
	size_t at;

	if (4 * table->count >= 3 * table->mask)
		table_widen(table);
	at = table_find(table, digest);
	if (table->places[at])
		return false;
	if (table->count == table->room) {
		table->room = table->room ? table->room + table->room / 2 : 1u << 16;
		table->nodes = grow(table->nodes, table->room * sizeof(*table->nodes));
	}
	table->nodes[table->count] = (struct node){ digest, parent };
	table->places[at] = (uint32_t)++table->count;
	return true;
}

static void level_add(struct level *level, const struct model_state *state, uint32_t node)
{
	if (level->count == level->room) {
		level->room = level->room ? level->room + level->room / 2 : 1u << 12;
		level->states = grow(level->states, level->room * sizeof(*level->states));
		level->nodes = grow(level->nodes, level->room * sizeof(*level->nodes));
	}
	level->states[level->count] = *state;
	level->nodes[level->count++] = node;
}

/* States that differ only in the order of their streams are explored once. */
static struct digest name_of(const struct model_state *state)
{
	struct model_state sorted = *state;

	model_sort_streams(&sorted);
	return digest_of(&sorted);
}

/* One step of a path: from `state` to the one with the digest `to`. */
static void follow(const struct model_config *cfg, struct model_state *state, struct digest to)
{
	struct model_state next[STEP_MAX];
	struct step steps[STEP_MAX];
	const char *fault;
	unsigned count = model_steps(cfg, state, steps, next, &fault);

	for (unsigned i = 0; i < count; i++) {
		struct digest digest = name_of(&next[i]);

		if (digest.low != to.low || digest.high != to.high)
			continue;
		step_print(cfg, steps[i], &next[i]);
		*state = next[i];
		return;
	}
}

/* Prints the path to a node, and the step from there that violates an invariant. */
static void print_way(const struct model_config *cfg, const struct table *table, uint32_t node)
{
	struct model_state state = model_start(cfg), next[STEP_MAX];
	struct step steps[STEP_MAX];
	uint32_t *way = grow(NULL, table->count * sizeof(*way));
	const char *fault;
	unsigned length = 0, count;

	for (uint32_t at = node; table->nodes[at].parent != NO_PARENT; at = table->nodes[at].parent)
		way[length++] = at;
	while (length--)
		follow(cfg, &state, table->nodes[way[length]].digest);
	count = model_steps(cfg, &state, steps, next, &fault);
	if (count)
		step_print(cfg, steps[count - 1], &next[count - 1]);
	free(way);
}

/* All steps from one state; new states are stored for the next level. */
static void expand(const struct model_config *cfg, struct table *table, struct level *to,
		   const struct model_state *state, uint32_t node, struct search_result *result)
{
	struct model_state next[STEP_MAX];
	struct digest digests[STEP_MAX];
	struct step steps[STEP_MAX];
	unsigned count = model_steps(cfg, state, steps, next, &result->fault);

	result->steps += count;
	result->ends += !count;
	for (unsigned i = 0; i < count; i++) {
		result->taken |= 1u << steps[i].kind;
		model_sort_streams(&next[i]);
		digests[i] = digest_of(&next[i]);
		__builtin_prefetch(&table->places[digests[i].low & table->mask]);
	}
	for (unsigned i = 0; i < count; i++)
		if (table_add(table, digests[i], node))
			level_add(to, &next[i], (uint32_t)table->count - 1);
}

struct search_result search(const struct model_config *cfg, uint64_t limit, bool trace)
{
	struct search_result result = { 0 };
	struct table table = { 0 };
	struct level levels[2] = { { 0 }, { 0 } };
	struct model_state start = model_start(cfg);

	table_add(&table, name_of(&start), NO_PARENT);
	level_add(&levels[0], &start, 0);
	for (; levels[result.depth & 1].count && !result.fault; result.depth++) {
		struct level *from = &levels[result.depth & 1], *to = &levels[~result.depth & 1];

		to->count = 0;
		for (size_t i = 0; i < from->count && !result.fault; i++) {
			expand(cfg, &table, to, &from->states[i], from->nodes[i], &result);
			if (result.fault && trace)
				print_way(cfg, &table, from->nodes[i]);
			if (!result.fault && table.count >= anynet_min(limit, UINT32_MAX - 1))
				result.fault = "more states than may be looked at";
		}
	}
	result.states = table.count;
	for (int i = 0; i < 2; i++) {
		free(levels[i].states);
		free(levels[i].nodes);
	}
	free(table.nodes);
	free(table.places);
	return result;
}
