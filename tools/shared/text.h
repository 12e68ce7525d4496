/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of any length, and lists of them, in the memory of memory.h. */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <nccl_net/util.h>

/* As strdup, strndup, and printf into a new string. */
char *text_dup(const char *text);
char *text_copy(const char *text, size_t bytes);
char *text_format(const char *fmt, ...) ANYNET_PRINTF(1, 2);
char *text_vformat(const char *fmt, va_list args) ANYNET_PRINTF(1, 0);

/* Returns the text as valid UTF-8 without control characters: other bytes become \xNN. */
char *text_printable(const char *text);

/* Splits at any of `separators`, as strtok: returns the next part that is not empty, and moves *text behind it; NULL =
 * none. */
char *text_next(const char **text, const char *separators);

/* { 0 } is an empty list. */
struct text_list {
	const char **items;
	size_t count;
};

void text_list_add(struct text_list *list, const char *item); /* keeps the pointer */
bool text_list_has(const struct text_list *list, const char *item);
void text_list_add_new(struct text_list *list, const char *item); /* unless the list has it */
void text_list_sort(struct text_list *list);

/* "a, b, c and 4 more", with at most `most` items listed. */
char *text_list_join(const struct text_list *list, size_t most);

/* "2 x a, 1 x b": how often each item occurs, in the order of the list. */
char *text_list_tally(const struct text_list *list);

#endif
