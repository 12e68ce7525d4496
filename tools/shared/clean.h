/* SPDX-License-Identifier: Apache-2.0 */
/* Makes text from untrusted bytes safe for terminals and JSON. */
#ifndef TOOLS_CLEAN_H
#define TOOLS_CLEAN_H

#include <stddef.h>

/*
 * Copies `in` as one line of valid UTF-8. Replaces tabs by spaces, and control,
 * bidirectional-formatting and invalid characters by '?'. If the text does not fit into `out` (at
 * least 4 bytes), it ends in "…". Returns strlen(out).
 */
size_t clean(char *out, size_t out_bytes, const char *in, size_t in_bytes);

/* Returns the bytes of the character at `text` if clean would copy it, else 0. */
size_t clean_character(const char *text, size_t bytes);

/*
 * Removes terminal escape sequences (colours, cursor movements, titles) in place. Returns the
 * number of bytes left.
 */
size_t clean_escapes(char *text, size_t bytes);

/* Copies `in`, with '.' for all but printable ASCII, and ends it with a zero byte. `out` may be `in`. */
void clean_ascii(char *out, const char *in, size_t in_bytes);

#endif
