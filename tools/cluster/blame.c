/* SPDX-License-Identifier: Apache-2.0 */
/* Attribution of faults to hosts; see blame.h. */
#include "blame.h"

#include <stdarg.h>
#include <string.h>

#include "tools/shared/judge/finding.h"
#include "tools/shared/memory.h"
#include "tools/shared/text.h"

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
	struct blame *b = memory_get(sizeof(*b));

	*b = (struct blame){ m, kind, label, memory_get(m->hosts * m->hosts * sizeof(*b->pairs)) };
	return b;
}

void blame_pair(struct blame *b, size_t one, size_t other, const struct advice *advice,
		const char *fmt, ...)
{
	struct bad *bad = at(b, one, other);
	va_list args;

	if (bad->what)
		return;
	va_start(args, fmt);
	*bad = (struct bad){ text_vformat(fmt, args), *advice };
	va_end(args);
}

bool blame_has(const struct blame *b, size_t one, size_t other)
{
	return at(b, one, other)->what;
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
		add(b, findings, t.first,
		    text_format("%s: %s with %zu of %zu hosts, such as", b->m->names[host],
				b->label, t.bad, t.all),
		    json_pack("[s]", b->m->names[host]));
		blamed[host] = true;
	}
}

static void blame_links(const struct blame *b, json_t *findings, const bool *blamed)
{
	for (size_t i = 0; i < b->m->hosts; i++) {
		for (size_t j = i + 1; j < b->m->hosts; j++) {
			if (blamed[i] || blamed[j] || !blame_has(b, i, j))
				continue;
			add(b, findings, at(b, i, j),
			    text_format("%s and %s: %s", b->m->names[i], b->m->names[j], b->label),
			    json_pack("[s, s]", b->m->names[i], b->m->names[j]));
		}
	}
}

/* If all pairs are bad, reports that without blaming a host. Returns whether they are. */
static bool blame_all(const struct blame *b, json_t *findings)
{
	const struct bad *first = NULL;
	size_t bad = 0;

	for (size_t i = 0; i < b->m->hosts * b->m->hosts; i++) {
		if (b->pairs[i].what && !bad++)
			first = &b->pairs[i];
	}
	if (b->m->hosts < 3 || bad < 3 || bad < b->m->links)
		return false;
	add(b, findings, first,
	    text_format("all hosts: %s between all %zu pairs, such as", b->label, bad),
	    json_array());
	return true;
}

void blame_tell(const struct blame *b, json_t *findings)
{
	bool blamed[HOSTS_MAX] = { false };

	if (blame_all(b, findings))
		return;
	blame_hosts(b, findings, blamed);
	blame_links(b, findings, blamed);
}
