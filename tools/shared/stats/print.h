/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a view (view.h) as text or JSON. */
#ifndef STATS_PRINT_H
#define STATS_PRINT_H

#include <stdio.h>

#include "tools/shared/terminal.h"
#include "view.h"

struct print_style {
	int width;    /* columns; longer lines are truncated */
	int lines;    /* maximum; 0 = unlimited */
	bool colour;  /* use ANSI colours */
	bool streams; /* all streams, not only those of connections in trouble */
};

void print_view(const struct view *view, const struct print_style *style, FILE *out);

/* Prints everything in the pages, with events. */
void print_dump(const struct view *view, const struct terminal *terminal, FILE *out);

/* Prints one JSON object, with events if the pages have them. */
void print_view_json(const struct view *view, const char *command, FILE *out);

#endif
