/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the output; see terminal.h. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_LEAST 40

static enum colour wanted;

void terminal_set_colour(enum colour colour)
{
	wanted = colour;
}

struct terminal terminal_of(FILE *out)
{
	const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
	struct terminal terminal = { .colour = wanted == COLOUR_ALWAYS };
	struct winsize size;

	if (!isatty(fileno(out)))
		return terminal;
	terminal.cursor = term && strcmp(term, "dumb") != 0;
	if (wanted == COLOUR_AUTO)
		terminal.colour = terminal.cursor && (!no_colour || !*no_colour);
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

/* Returns the bytes of the first `columns` UTF-8 characters. */
static size_t bytes_of(const char *text, size_t columns)
{
	size_t i = 0;

	for (; text[i] && (columns || ((unsigned char)text[i] & 0xc0) == 0x80); i++)
		columns -= ((unsigned char)text[i] & 0xc0) != 0x80;
	return i;
}

void terminal_wrap(FILE *out, int width, int at, int indent, const char *text)
{
	bool first = true;

	do {
		size_t bytes = bytes_of(text, width > at ? (size_t)(width - at) : 1);
		size_t begin = strspn(text, " ");

		if (!width || !text[bytes]) {
			bytes = strlen(text);
		} else {
			while (bytes > begin && text[bytes] != ' ')
				bytes--;
			if (bytes <= begin)
				bytes = begin + strcspn(text + begin, " ");
		}
		fprintf(out, "%*s%.*s\n", first ? 0 : indent, "", (int)bytes, text);
		text += bytes;
		text += strspn(text, " ");
		at = indent;
		first = false;
	} while (*text);
}
