/* SPDX-License-Identifier: Apache-2.0 */
/* Strings for `anynet check`. What they return is the caller's; without memory the program ends. */
#ifndef CHECK_TEXT_H
#define CHECK_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <nccl_net/util.h>

/* realloc, strndup, printf into a new string. */
void *text_grow(void *memory, size_t bytes);
char *text_copy(const char *text, size_t bytes);
char *text_format(const char *fmt, ...) ANYNET_PRINTF(1, 2);
char *text_vformat(const char *fmt, va_list args) ANYNET_PRINTF(1, 0);

/* The same text as valid UTF-8 without control characters: other bytes become \xNN. */
char *text_printable(const char *text);

/* A list of strings of its own. {0} is an empty one. */
struct text_list {
	char **items;
	size_t count;
};

void text_list_add(struct text_list *list, char *item); /* takes it over */
bool text_list_has(const struct text_list *list, const char *item);
void text_list_free(struct text_list *list);

/* "a, b, c and 4 more", with at most `most` of them named. */
char *text_list_join(const struct text_list *list, size_t most);

#endif
