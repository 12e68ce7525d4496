/* SPDX-License-Identifier: Apache-2.0 */
/* A view (view.h) on paper: for people, and for programs. */
#ifndef STATS_PRINT_H
#define STATS_PRINT_H

#include <stdio.h>

#include "tools/shared/terminal.h"
#include "view.h"

struct print_style {
	int width;   /* columns; longer lines are cut */
	int lines;   /* at most; 0 = all there are */
	bool colour; /* the terminal knows ANSI's */
	bool streams; /* every stream, and not only those of connections in trouble */
};

/* ANSI's colour for it, "" = none. */
const char *print_colour(enum trouble trouble);

void print_view(const struct view *view, const struct print_style *style, FILE *out);

/* All that the pages tell, with their events. */
void print_dump(const struct view *view, const struct terminal *terminal, FILE *out);

/* One JSON object, with events if the pages have them. 0, -ENOMEM or -EIO. */
int print_view_json(const struct view *view, const char *command, FILE *out);

#endif
