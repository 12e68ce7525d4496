/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the output: size and colour. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

struct terminal {
	int width;   /* columns; 0 = not a terminal, or unknown */
	int lines;   /* 0 = not a terminal, or unknown */
	bool colour; /* use ANSI colours */
	bool cursor; /* understands ANSI cursor movements */
};

struct terminal terminal_of(FILE *out);

/* Sets the value of --color. Call it before the first terminal_of. */
enum colour {
	COLOUR_AUTO,
	COLOUR_ALWAYS,
	COLOUR_NEVER
};
void terminal_set_colour(enum colour colour);

/* Returns the width, but not less than a minimum; `missing` if the width is unknown. */
int terminal_width(const struct terminal *terminal, int missing);

/*
 * Prints one line of UTF-8 text behind `at` columns of this line, broken at blanks into lines of at
 * most `width` columns (0 = no limit). All lines but the first are indented. Longer words are not
 * broken.
 */
void terminal_wrap(FILE *out, int width, int at, int indent, const char *text);

#endif
