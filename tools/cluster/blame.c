/* SPDX-License-Identifier: Apache-2.0 */
/* Attribution of faults to hosts; see blame.h. */
#include "blame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/judge/finding.h"

#define LEAST_PAIRS 2 /* a host is blamed for at least this many bad pairs */

struct bad {
	char *what;           /* NULL = this pair is not bad */
	struct advice advice; /* without the id */
};

struct blame {
	const struct matrix *m;
	const char *kind, *label;
	struct bad *pairs; /* hosts * hosts entries; the row is the smaller index */
};

static struct bad *at(const struct blame *b, size_t one, size_t other)
{
	return one < other ? &b->pairs[one * b->m->hosts + other]
			   : &b->pairs[other * b->m->hosts + one];
}

struct blame *blame_new(const struct matrix *m, const char *kind, const char *label)
{
	struct blame *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct blame){ .m = m, .kind = kind, .label = label };
	b->pairs = calloc(m->hosts * m->hosts, sizeof(*b->pairs));
	if (b->pairs)
		return b;
	free(b);
	return NULL;
}

void blame_pair(struct blame *b, size_t one, size_t other, const struct advice *advice,
		const char *what)
{
	struct bad *bad = b ? at(b, one, other) : NULL;

	if (bad && !bad->what)
		*bad = (struct bad){ strdup(what), *advice };
}

bool blame_has(const struct blame *b, size_t one, size_t other)
{
	return b && at(b, one, other)->what;
}

struct tally {
	size_t bad, all;
	const struct bad *first;
};

/* Counts the pairs of a host with hosts that are not blamed. */
static struct tally count_host(const struct blame *b, size_t host, const bool *blamed)
{
	struct tally t = { 0 };

	for (size_t i = 0; i < b->m->hosts; i++) {
		if (i == host || blamed[i] || !matrix_at(b->m, host, i)->link)
			continue;
		t.all++;
		if (!blame_has(b, host, i))
			continue;
		if (!t.bad++)
			t.first = at(b, host, i);
	}
	return t;
}

/* Returns the host with the largest share of bad pairs, at least two thirds; the number of hosts if there is none. */
static size_t worst_host(const struct blame *b, const bool *blamed, struct tally *worst)
{
	size_t found = b->m->hosts;

	*worst = (struct tally){ 0 };
	for (size_t i = 0; i < b->m->hosts; i++) {
		struct tally t = blamed[i] ? (struct tally){ 0 } : count_host(b, i, blamed);

		if (t.bad < LEAST_PAIRS || 3 * t.bad < 2 * t.all)
			continue;
		if (found == b->m->hosts || t.bad * worst->all > worst->bad * t.all ||
		    (t.bad * worst->all == worst->bad * t.all && t.bad > worst->bad)) {
			found = i;
			*worst = t;
		}
	}
	return found;
}

static void add(const struct blame *b, json_t *findings, const struct bad *bad, const char *who,
		json_t *hosts)
{
	struct advice advice = bad->advice;

	advice.id = b->kind;
	judge_add(findings, &advice, "%s: %.700s", who, bad->what);
	finding_concerns(findings, hosts);
}

static void blame_hosts(const struct blame *b, json_t *findings, bool *blamed)
{
	struct tally t;
	size_t host;

	while ((host = worst_host(b, blamed, &t)) < b->m->hosts) {
		char who[200];

		snprintf(who, sizeof(who), "%s: %s with %zu of %zu hosts, such as",
			 b->m->names[host], b->label, t.bad, t.all);
		add(b, findings, t.first, who, json_pack("[s]", b->m->names[host]));
		blamed[host] = true;
	}
}

static void blame_links(const struct blame *b, json_t *findings, const bool *blamed)
{
	for (size_t i = 0; i < b->m->hosts; i++) {
		for (size_t j = i + 1; j < b->m->hosts; j++) {
			char who[300];

			if (blamed[i] || blamed[j] || !blame_has(b, i, j))
				continue;
			snprintf(who, sizeof(who), "%s and %s: %s", b->m->names[i], b->m->names[j],
				 b->label);
			add(b, findings, at(b, i, j), who,
			    json_pack("[s, s]", b->m->names[i], b->m->names[j]));
		}
	}
}

/* If all pairs are bad, reports that without blaming a host. Returns whether they are. */
static bool blame_all(const struct blame *b, json_t *findings)
{
	const struct bad *first = NULL;
	size_t bad = 0;
	char who[100];

	for (size_t i = 0; i < b->m->hosts * b->m->hosts; i++) {
		if (b->pairs[i].what && !bad++)
			first = &b->pairs[i];
	}
	if (b->m->hosts < 3 || bad < 3 || bad < b->m->links)
		return false;
	snprintf(who, sizeof(who), "all hosts: %s between all %zu pairs, such as", b->label, bad);
	add(b, findings, first, who, json_array());
	return true;
}

void blame_settle(struct blame *b, json_t *findings)
{
	bool blamed[HOSTS_MAX] = { false };

	if (!b)
		return;
	if (findings && !blame_all(b, findings)) {
		blame_hosts(b, findings, blamed);
		blame_links(b, findings, blamed);
	}
	for (size_t i = 0; i < b->m->hosts * b->m->hosts; i++)
		free(b->pairs[i].what);
	free(b->pairs);
	free(b);
}
