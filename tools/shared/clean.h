/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of unknown origin as text that a terminal and a JSON parser can be given. */
#ifndef EXPLAIN_CLEAN_H
#define EXPLAIN_CLEAN_H

#include <stddef.h>

/*
 * Valid UTF-8 on one line, without control characters and without those that turn the direction of
 * writing: each is a '?', a tab a space. What does not fit into `out` (of at least 4 bytes) ends in
 * "…". Returns strlen(out).
 */
size_t clean(char *out, size_t out_bytes, const char *in, size_t in_bytes);

/*
 * Takes the escape sequences of terminals (colours, cursor movements, titles) out of text, in place.
 * Returns the bytes that are left.
 */
size_t clean_escapes(char *text, size_t bytes);

#endif
