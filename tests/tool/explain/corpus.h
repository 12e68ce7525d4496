/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus: excerpts of logs with the expected findings (format: corpus/README.md). */
#ifndef TESTS_EXPLAIN_CORPUS_H
#define TESTS_EXPLAIN_CORPUS_H

#include <stdbool.h>
#include <stddef.h>

#define CORPUS_LINES 64

struct corpus_case {
	char *name, *from;
	char *says; /* NULL, or a regular expression that the first finding's text must match */
	char *says_not; /* NULL, or one that it must not match */
	bool healthy;
	char *text;
	size_t bytes;
	bool causes[CORPUS_LINES +
		    1]; /* by line, from 1: the first finding must quote one of these */
	int line_count;
};

struct corpus {
	struct corpus_case *cases;
	size_t count;
};

/* Exits with a message if a file is invalid. The caller frees the result. */
struct corpus *corpus_read(char *const *files, int file_count);

void corpus_free(struct corpus *corpus);

/* Half of the cases, selected by their names: rules are written for these; the others only give a score. */
bool corpus_is_working(const struct corpus_case *c);

/* Not an excerpt: it is not counted in the score, and must be right. */
bool corpus_is_constructed(const struct corpus_case *c);

#endif
