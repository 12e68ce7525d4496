/* SPDX-License-Identifier: Apache-2.0 */
/* Words of shell commands. */
#ifndef TOOLS_SHELL_H
#define TOOLS_SHELL_H

#include <string.h>

#include "text.h"

/* Returns the word in single quotes. */
static inline char *shell_quoted(const char *word)
{
	const char *done = "";
	size_t bytes;

	for (; word[bytes = strcspn(word, "'")]; word += bytes + 1)
		done = text_format("%s%.*s'\\''", done, (int)bytes, word);
	return text_format("'%s%s'", done, word);
}

#endif
