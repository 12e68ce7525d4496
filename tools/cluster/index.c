/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of texts; see index.h. */
#include "index.h"

#include <stdarg.h>
#include <stdio.h>

static size_t find(const json_t *index, const char *text)
{
	const json_t *number = json_object_get(index, text);

	return number ? (size_t)json_integer_value(number) : INDEX_NONE;
}

size_t index_put(json_t *index, size_t number, const char *fmt, ...)
{
	char text[INDEX_TEXT];
	va_list args;
	size_t found;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	found = find(index, text);
	if (found != INDEX_NONE)
		return found;
	json_object_set_new_nocheck(index, text, json_integer((json_int_t)number));
	return number;
}

size_t index_get(const json_t *index, const char *fmt, ...)
{
	char text[INDEX_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return find(index, text);
}
