/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits; see hex.h. */
#include "hex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hex_print(const void *data, size_t bytes, char *text)
{
	const unsigned char *in = data;

	*text = '\0';
	for (size_t i = 0; i < bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", in[i]);
}

bool hex_parse(const char *text, void *data, size_t bytes)
{
	unsigned char *out = data;

	if (strlen(text) != 2 * bytes || strspn(text, "0123456789abcdef") != 2 * bytes)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		char byte[3] = { text[2 * i], text[2 * i + 1], '\0' };

		out[i] = (unsigned char)strtoul(byte, NULL, 16);
	}
	return true;
}
