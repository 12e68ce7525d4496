/* SPDX-License-Identifier: Apache-2.0 */
/* Cleaning of untrusted text; see clean.h. */
#include "clean.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ESC 0x1b

/* Returns the length of the UTF-8 sequence at `p` and its code point; 0 = invalid. */
static size_t decode(const unsigned char *p, size_t left, uint32_t *point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t bytes = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

	if (!bytes || bytes > left || *p > 0xf4)
		return 0;
	*point = bytes == 1 ? *p : *p & (0x7fu >> bytes);
	for (size_t i = 1; i < bytes; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (p[i] & 0x3f);
	}
	if (*point < least[bytes] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
		return 0;
	return bytes;
}

static bool is_harmful(uint32_t point)
{
	return point < ' ' || (point >= 0x7f && point < 0xa0) || point == 0x61c ||
	       point == 0x200e || point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
	       (point >= 0x2066 && point <= 0x2069) || point == 0xfeff || point >= 0xe0000;
}

size_t clean_character(const char *text, size_t bytes)
{
	uint32_t point;
	size_t taken = bytes ? decode((const unsigned char *)text, bytes, &point) : 0;

	return taken && !is_harmful(point) ? taken : 0;
}

size_t clean(char *out, size_t out_bytes, const char *in, size_t in_bytes)
{
	static const char more[] = "…";
	const unsigned char *p = (const unsigned char *)in;
	size_t n = 0, i = 0, room = out_bytes - sizeof(more);

	while (i < in_bytes) {
		uint32_t point;
		size_t bytes = decode(p + i, in_bytes - i, &point);
		bool bad = !bytes || is_harmful(point);
		size_t put = bad ? 1 : bytes;

		if (n + put > room) {
			memcpy(out + n, more, sizeof(more) - 1);
			n += sizeof(more) - 1;
			break;
		}
		if (bad)
			out[n] = bytes && point == '\t' ? ' ' : '?';
		else
			memcpy(out + n, p + i, bytes);
		n += put;
		i += bytes ? bytes : 1;
	}
	out[n] = '\0';
	return n;
}

/* Returns the end of the escape sequence that begins at `p` (ECMA-48). A sequence that is
 * truncated, or contains a control character, ends there. */
static const char *escape_end(const char *p, const char *end)
{
	if (++p == end)
		return p;
	if (*p == '[') {
		for (p++; p < end && *p >= 0x20 && *p < 0x40; p++)
			;
		return p < end && *p >= 0x40 && *p < 0x7f ? p + 1 : p;
	}
	if (*p == ']' || *p == 'P' || *p == '_' || *p == '^' || *p == 'X') {
		for (p++; p < end; p++) {
			if (*p == '\a')
				return p + 1;
			if (*p == ESC)
				return p + 1 < end && p[1] == '\\' ? p + 2 : p;
			if (*p == '\n' || *p == '\r')
				return p;
		}
		return p;
	}
	for (; p < end && *p >= 0x20 && *p < 0x30; p++)
		;
	return p < end && *p >= 0x30 && *p < 0x7f ? p + 1 : p;
}

size_t clean_escapes(char *text, size_t bytes)
{
	char *end = text + bytes, *out = memchr(text, ESC, bytes);
	const char *p = out;

	if (!out)
		return bytes;
	while (p < end) {
		const char *next;

		p = escape_end(p, end);
		next = p < end ? memchr(p, ESC, (size_t)(end - p)) : NULL;
		if (!next)
			next = end;
		memmove(out, p, (size_t)(next - p));
		out += next - p;
		p = next;
	}
	return (size_t)(out - text);
}

void clean_ascii(char *out, const char *in, size_t in_bytes)
{
	for (size_t i = 0; i < in_bytes; i++)
		*out++ = (char)(in[i] >= ' ' && in[i] <= '~' ? in[i] : '.');
	*out = '\0';
}
