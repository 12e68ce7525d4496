/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run over all pairs of hosts, as a document and as a table. The document is what `anynet cluster
 * --save` writes and --baseline reads:
 *
 *   "anynet", "format", "when"   version of the tool, MATRIX_FORMAT, time
 *   "hosts"      list of "name", "address", "error" (why there is no worker, or ""), "facts" (facts.h
 *                of tools/pair) and "launcher" (variables of the launcher)
 *   "links"      list of pairs: "a" and "b" (names), "state" ("ok", "broken"), "path" ("IB", "TCP", ""),
 *                "us" and "us_least" (median and least round trip), "mb_s" and "lost" (lists of two: a to b, b to a; MB/s and
 *                share of packets), "measured" (what `anynet pair --json` says of the way)
 *   "findings"   finding.h of tools/shared/judge, and "hosts" of each: whom it concerns; "status"
 *
 * A number that was not measured is 0. Everything in it may come from another host or from a file.
 */
#ifndef CLUSTER_MATRIX_H
#define CLUSTER_MATRIX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/shared/judge/compare.h"

#define MATRIX_FORMAT 1
#define HOST_NAME     64 /* bytes of a name, with its end */

struct cell {               /* of one direction */
	const json_t *link; /* NULL = not measured */
	bool backwards;     /* the link's "a" is the column */
	bool is_ok;
	const char *path;
	double us, us_least, mb_s, lost;
};

struct matrix {
	size_t hosts, links;
	const char **names; /* the document's */
	struct cell *cells;
};

/* 0, or -1 with `why` (a constant) when it is no such document, or memory is short. */
int matrix_read(const json_t *doc, struct matrix *m, const char **why);
void matrix_free(struct matrix *m);

static inline const struct cell *matrix_at(const struct matrix *m, size_t from, size_t to)
{
	return &m->cells[from * m->hosts + to];
}

/* The host of this name, or m->hosts. */
size_t matrix_host(const struct matrix *m, const char *name);

/* A name that can be printed anywhere and is given on command lines: letters, digits and ".-_:@". */
bool host_name_is_good(const char *name);

enum figure {
	FIGURE_US,
	FIGURE_US_LEAST,
	FIGURE_MB_S
};
double cell_figure(const struct cell *cell, enum figure figure);

struct spread {
	size_t count;
	double least, median, most;
};
/* Of what was measured. */
struct spread matrix_spread(const struct matrix *m, enum figure figure);

/* Of one pair, more than `anynet pair` tells. */
#define LINK_BYTES 32768
#define LINK_PORTS 32
#define LINK_RUNS  16

/* What a worker has measured becomes a link of the document; `result` is released. */
json_t *link_new(const char *a, const char *b, json_t *result);

/* The same pair, measured again: the best figures of both count, but what broke is broken. `again` is
 * released. */
void link_improve(json_t *link, json_t *again);

#endif
