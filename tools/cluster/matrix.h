/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of a run over all pairs of hosts, as a JSON document and as a table. `anynet cluster --save` writes the
 * document and --baseline reads it:
 *
 *   "anynet", "format", "when"   version of the tool, MATRIX_FORMAT, time
 *   "hosts"      list of "name", "address", "error" (why there is no worker, or ""), "facts" (facts.h
 *                of tools/pair) and "launcher" (variables of the launcher)
 *   "links"      list of pairs: "a" and "b" (names), "state" ("ok", "broken"), "path" ("IB", "TCP", ""),
 *                "us" and "us_least" (median and minimum round trip, microseconds), "mb_s" and "lost" (lists of two,
 *                a to b and b to a: MB/s, share of packets), "measured" (the measurements of `anynet pair --json`)
 *   "findings"   finding.h of tools/shared/judge, each with "hosts" (the names concerned); "status"
 *
 * A number that was not measured is 0. The contents come from other hosts and from files, and are not trusted.
 */
#ifndef CLUSTER_MATRIX_H
#define CLUSTER_MATRIX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/hosts/join.h"
#include "tools/shared/judge/compare.h"

#define MATRIX_FORMAT 1

struct cell {               /* one direction of a pair */
	const json_t *link; /* NULL = not measured */
	bool backwards;     /* this is the direction from the link's "b" to its "a" */
	bool is_ok;
	const char *path;
	double us, us_least, mb_s, lost;
};

struct matrix {
	size_t hosts, links;
	const char **names; /* strings of the document */
	struct cell *cells; /* hosts * hosts; see matrix_at */
};

/*
 * Builds the table, which points into `doc`. Returns 0, or -1 with `why` (a constant) if the document is not valid.
 */
int matrix_read(const json_t *doc, struct matrix *m, const char **why);

static inline const struct cell *matrix_at(const struct matrix *m, size_t from, size_t to)
{
	return &m->cells[from * m->hosts + to];
}

/* Returns the index of the host, or m->hosts if there is none of this name. */
size_t matrix_host(const struct matrix *m, const char *name);

enum figure {
	FIGURE_PATH, /* no number */
	FIGURE_US,
	FIGURE_US_LEAST,
	FIGURE_MB_S
};
double cell_figure(const struct cell *cell, enum figure figure);

struct spread {
	size_t count;
	double least, median, most;
};
/* Computes the spread of the cells that were measured. */
struct spread matrix_spread(const struct matrix *m, enum figure figure);

/* Limits for the result of one pair; larger than what `anynet pair` produces. */
#define LINK_BYTES 32768
#define LINK_PORTS 32
#define LINK_RUNS  16

/* Returns a link of the document, made of what a worker has measured. Releases `result`. */
json_t *link_new(const char *a, const char *b, json_t *result);

/*
 * Merges a repeated measurement into `link`: the better figures count, but a pair that broke is broken. Releases
 * `again`.
 */
void link_improve(json_t *link, json_t *again);

#endif
