/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes logs that are compressed, or text in another encoding than one based on ASCII. */
#ifndef EXPLAIN_ENCODING_H
#define EXPLAIN_ENCODING_H

#include <stddef.h>

/* Returns NULL for text, or what a file that begins with `data` is and how to read it. */
const char *encoding_of(const char *data, size_t bytes);

#endif
