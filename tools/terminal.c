/* SPDX-License-Identifier: Apache-2.0 */
/* See terminal.h. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_has_colour(void)
{
	const char *term = getenv("TERM"), *unwanted = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && (!unwanted || !*unwanted) && term &&
	       strcmp(term, "dumb") != 0;
}
