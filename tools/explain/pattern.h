/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pattern describes a log line: text in which {name} matches a word, {name:REGEX} what the Perl regular
 * expression matches, {*} anything, {{ and }} a brace, and a blank one or more blanks. It contains at least seven
 * consecutive bytes of text (the key), so that filter.h can skip most lines without a regular expression.
 */
#ifndef EXPLAIN_PATTERN_H
#define EXPLAIN_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#define PATTERN_KEY    7  /* bytes */
#define PATTERN_FIELDS 12 /* maximum in one pattern */
#define PATTERN_NAME   24 /* bytes of a field's name, including the NUL */

struct pattern;

/* A field of a matched line. `data` points into the line and is not NUL-terminated. */
struct field {
	const char *name;
	const char *data;
	size_t bytes;
};

struct match {
	struct field fields[PATTERN_FIELDS];
	int field_count;
};

/* Parses a pattern; `text` is copied. On error returns NULL and stores the reason in `why`. */
struct pattern *pattern_new(const char *text, char **why);

/* Frees what PCRE2 holds. */
void pattern_free(struct pattern *pattern);

/* The text that pattern_new got. */
const char *pattern_text(const struct pattern *pattern);

/* Returns the i-th run of at least PATTERN_KEY bytes of text, or NULL. */
const char *pattern_run(const struct pattern *pattern, int i);

bool pattern_has_field(const struct pattern *pattern, const char *name);

/*
 * Matches a line and fills `match`, which points into `line`. The first call compiles, so only one thread may
 * use a pattern. The work per line is bounded; a line that exceeds the bound does not match.
 */
bool pattern_match(struct pattern *pattern, const char *line, size_t bytes, struct match *match);

/* Compiles the pattern, if that is not done. Returns NULL, or why it is not valid. */
char *pattern_compile(struct pattern *pattern);

/* Returns the field of that name, or NULL. */
const struct field *match_field(const struct match *match, const char *name);

#endif
