/* SPDX-License-Identifier: Apache-2.0 */
/* Texts; see text.h. */
#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "memory.h"

char *text_copy(const char *text, size_t bytes)
{
	size_t length = strnlen(text, bytes);
	char *copy = memory_get(length + 1);

	return memcpy(copy, text, length);
}

char *text_dup(const char *text)
{
	return text_copy(text, SIZE_MAX);
}

char *text_vformat(const char *fmt, va_list args)
{
	va_list again;
	int bytes;
	char *text;

	va_copy(again, args);
	bytes = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	text = memory_get((size_t)(bytes < 0 ? 0 : bytes) + 1);
	vsnprintf(text, (size_t)(bytes < 0 ? 0 : bytes) + 1, fmt, args);
	return text;
}

char *text_format(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = text_vformat(fmt, args);
	va_end(args);
	return text;
}

char *text_printable(const char *text)
{
	size_t left = strlen(text), bytes;
	char *printable = memory_get(4 * left + 1), *out = printable;

	for (; left; text += bytes, left -= bytes) {
		bytes = clean_character(text, left);
		if (bytes) {
			out = mempcpy(out, text, bytes);
			continue;
		}
		out += sprintf(out, "\\x%02x", (unsigned char)*text);
		bytes = 1;
	}
	*out = 0;
	return printable;
}

char *text_next(const char **text, const char *separators)
{
	const char *part = *text + strspn(*text, separators);
	size_t bytes = strcspn(part, separators);

	*text = part + bytes;
	return bytes ? text_copy(part, bytes) : NULL;
}

void text_list_add(struct text_list *list, const char *item)
{
	/* There is room for as many as the next power of two. */
	if (!(list->count & (list->count - 1)))
		list->items = memory_resize(list->items, (list->count ? 2 * list->count : 1) *
								 sizeof(*list->items));
	list->items[list->count++] = item;
}

bool text_list_has(const struct text_list *list, const char *item)
{
	for (size_t i = 0; i < list->count; i++) {
		if (!strcmp(list->items[i], item))
			return true;
	}
	return false;
}

void text_list_add_new(struct text_list *list, const char *item)
{
	if (!text_list_has(list, item))
		text_list_add(list, item);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void text_list_sort(struct text_list *list)
{
	if (list->count)
		qsort(list->items, list->count, sizeof(*list->items), by_text);
}

char *text_list_join(const struct text_list *list, size_t most)
{
	char *text = text_copy("", 0);

	for (size_t i = 0; i < list->count && i < most; i++)
		text = text_format("%s%s%s", text, i ? ", " : "", list->items[i]);
	return list->count > most ? text_format("%s and %zu more", text, list->count - most) : text;
}

char *text_list_tally(const struct text_list *list)
{
	struct text_list told = { 0 };

	for (size_t i = 0; i < list->count; i++) {
		size_t alike = 0, before = 0;

		for (size_t k = 0; k < list->count; k++) {
			bool same = !strcmp(list->items[k], list->items[i]);

			alike += same;
			before += same && k < i;
		}
		if (!before)
			text_list_add(&told, text_format("%zu x %s", alike, list->items[i]));
	}
	return text_list_join(&told, told.count);
}
