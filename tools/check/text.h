/* SPDX-License-Identifier: Apache-2.0 */
/* Strings for `anynet check`. The caller frees results. If out of memory, the program exits. */
#ifndef CHECK_TEXT_H
#define CHECK_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <nccl_net/util.h>

/* As realloc, strndup, and printf into a new string. */
void *text_grow(void *memory, size_t bytes);
char *text_copy(const char *text, size_t bytes);
char *text_format(const char *fmt, ...) ANYNET_PRINTF(1, 2);
char *text_vformat(const char *fmt, va_list args) ANYNET_PRINTF(1, 0);

/* Returns the text as valid UTF-8 without control characters: other bytes become \xNN. */
char *text_printable(const char *text);

/* A list that owns its strings. { 0 } is an empty list. */
struct text_list {
	char **items;
	size_t count;
};

void text_list_add(struct text_list *list, char *item); /* takes over `item` */
bool text_list_has(const struct text_list *list, const char *item);
void text_list_free(struct text_list *list);

/* "a, b, c and 4 more", with at most `most` items listed. */
char *text_list_join(const struct text_list *list, size_t most);

#endif
