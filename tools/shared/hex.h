/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as lower-case hexadecimal digits. */
#ifndef TOOLS_HEX_H
#define TOOLS_HEX_H

#include <stdbool.h>
#include <stddef.h>

#define HEX_TEXT(bytes) (2 * (bytes) + 1) /* room for the text, with the NUL */

void hex_print(const void *data, size_t bytes, char *text);
/* Returns false if the text does not stand for exactly so many bytes; it may come from another host. */
bool hex_parse(const char *text, void *data, size_t bytes);

#endif
