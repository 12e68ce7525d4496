/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to write on: how wide, how high, with colours or not. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

struct terminal {
	int width;   /* columns; 0 = it is no terminal, or does not say */
	int lines;   /* likewise */
	bool colour; /* it knows ANSI's, and NO_COLOR is not set */
};

struct terminal terminal_of(FILE *out);

/* Whatever it is. Before the first terminal_of. */
enum colour {
	COLOUR_AUTO,
	COLOUR_ALWAYS,
	COLOUR_NEVER
};
void terminal_set_colour(enum colour colour);

/* Its width, within reason: `missing` where there is none. */
int terminal_width(const struct terminal *terminal, int missing);

/*
 * A line of text in UTF-8, broken at blanks into lines of at most `width` columns (0 = one line), of which
 * all but the first are indented. A word that is longer stays whole.
 */
void terminal_wrap(FILE *out, int width, int indent, const char *text);

#endif
