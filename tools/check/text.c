/* SPDX-License-Identifier: Apache-2.0 */
/* Strings; see text.h. */
#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the bytes of the UTF-8 character at `text`; 0 = invalid, or a control character. */
static size_t character_bytes(const unsigned char *text)
{
	uint32_t code = text[0];
	size_t bytes;

	if (code < 0x80)
		return code >= ' ' && code != 0x7f;
	if (code >= 0xc2 && code <= 0xdf)
		bytes = 2;
	else if (code >= 0xe0 && code <= 0xef)
		bytes = 3;
	else if (code >= 0xf0 && code <= 0xf4)
		bytes = 4;
	else
		return 0;
	code &= 0xffu >> (bytes + 1);
	for (size_t i = 1; i < bytes; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3fu);
	}
	/* C1 controls, overlong forms, surrogates, and bidirectional formatting characters. */
	if (code < 0xa0 || (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000) ||
	    code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ||
	    (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
		return 0;
	return bytes;
}

char *text_printable(const char *text)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *in = (const void *)text;
	char *clean = text_grow(NULL, 4 * strlen(text) + 1), *out = clean;

	while (*in) {
		size_t bytes = character_bytes(in);

		if (bytes) {
			memcpy(out, in, bytes);
			out += bytes;
			in += bytes;
		} else {
			*out++ = '\\';
			*out++ = 'x';
			*out++ = digits[*in >> 4];
			*out++ = digits[*in++ & 15];
		}
	}
	*out = 0;
	return clean;
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
