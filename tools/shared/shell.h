/* SPDX-License-Identifier: Apache-2.0 */
/* Words of shell commands. */
#ifndef TOOLS_SHELL_H
#define TOOLS_SHELL_H

#include <stdlib.h>
#include <string.h>

/* Returns the word in single quotes, or NULL if out of memory. The caller frees it. */
static inline char *shell_quoted(const char *word)
{
	char *text = malloc(4 * strlen(word) + 3), *at = text;

	if (!text)
		return NULL;
	*at++ = '\'';
	for (; *word; word++) {
		if (*word == '\'')
			at = stpcpy(at, "'\\''");
		else
			*at++ = *word;
	}
	strcpy(at, "'");
	return text;
}

#endif
