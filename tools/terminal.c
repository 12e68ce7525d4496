/* SPDX-License-Identifier: Apache-2.0 */
/* See terminal.h. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_LEAST 40

struct terminal terminal_of(FILE *out)
{
	const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
	struct terminal terminal = { 0 };
	struct winsize size;

	if (!isatty(fileno(out)))
		return terminal;
	terminal.colour = (!no_colour || !*no_colour) && term && strcmp(term, "dumb") != 0;
	if (ioctl(fileno(out), TIOCGWINSZ, &size))
		return terminal;
	terminal.width = size.ws_col;
	terminal.lines = size.ws_row;
	return terminal;
}

int terminal_width(const struct terminal *terminal, int missing)
{
	int width = terminal->width ? terminal->width : missing;

	return width && width < WIDTH_LEAST ? WIDTH_LEAST : width;
}
