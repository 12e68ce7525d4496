/* SPDX-License-Identifier: Apache-2.0 */
/* Strings; see text.h. */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/clean.h"

static void *must(void *memory)
{
	if (!memory) {
		fputs("anynet: out of memory\n", stderr);
		exit(3);
	}
	return memory;
}

void *text_grow(void *memory, size_t bytes)
{
	return must(realloc(memory, bytes));
}

char *text_copy(const char *text, size_t bytes)
{
	return must(strndup(text, bytes));
}

char *text_vformat(const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	return must(text);
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
	static const char digits[] = "0123456789abcdef";
	size_t left = strlen(text), bytes;
	char *printable = text_grow(NULL, 4 * left + 1), *out = printable;

	for (; left; text += bytes, left -= bytes) {
		bytes = clean_character(text, left);
		if (bytes) {
			out = mempcpy(out, text, bytes);
			continue;
		}
		*out++ = '\\';
		*out++ = 'x';
		*out++ = digits[(unsigned char)*text >> 4];
		*out++ = digits[*text & 15];
		bytes = 1;
	}
	*out = 0;
	return printable;
}

void text_list_add(struct text_list *list, char *item)
{
	list->items = text_grow(list->items, (list->count + 1) * sizeof(*list->items));
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

void text_list_free(struct text_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct text_list){ 0 };
}

char *text_list_join(const struct text_list *list, size_t most)
{
	char *text = text_copy("", 0);

	for (size_t i = 0; i < list->count && i < most; i++) {
		char *longer = text_format("%s%s%s", text, i ? ", " : "", list->items[i]);

		free(text);
		text = longer;
	}
	if (list->count > most) {
		char *longer = text_format("%s and %zu more", text, list->count - most);

		free(text);
		text = longer;
	}
	return text;
}
