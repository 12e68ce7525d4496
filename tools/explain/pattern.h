/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a line of a log looks like: text, in which {name} stands for a word, {name:REGEX} for what the
 * Perl regular expression matches, {*} for anything, {{ for a brace; a blank stands for any number of
 * them. Somewhere there are seven bytes of text in a row (`key`), so that most lines need no regular expression (filter.h).
 */
#ifndef EXPLAIN_PATTERN_H
#define EXPLAIN_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#define PATTERN_KEY    7  /* bytes */
#define PATTERN_FIELDS 12 /* most that one pattern may have */
#define PATTERN_NAME   24 /* bytes of a field's name, with its end */

struct pattern;

/* A field of a line that matched: bytes of the line, not a string. */
struct field {
	const char *name;
	const char *data;
	size_t bytes;
};

struct match {
	size_t begin, end; /* of what matched, in the line */
	struct field fields[PATTERN_FIELDS];
	int field_count;
};

/* NULL, and why not: a sentence. `text` is copied. */
struct pattern *pattern_new(const char *text, char *why, size_t why_bytes);

void pattern_free(struct pattern *pattern);

/* As it was written. */
const char *pattern_text(const struct pattern *pattern);

/* All runs of at least PATTERN_KEY bytes of text; the i-th, or NULL. */
const char *pattern_run(const struct pattern *pattern, int i);

bool pattern_has_field(const struct pattern *pattern, const char *name);

/*
 * Compiles at the first call, so it is for one thread. The work on one line is bounded, whatever it
 * holds; a line that takes more does not match. `match` points into `line`.
 */
bool pattern_match(struct pattern *pattern, const char *line, size_t bytes, struct match *match);

/* Compile now: 0, or -1 and why not. */
int pattern_compile(struct pattern *pattern, char *why, size_t why_bytes);

/* The field of that name, or NULL. */
const struct field *match_field(const struct match *match, const char *name);

#endif
