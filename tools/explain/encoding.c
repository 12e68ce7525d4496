/* SPDX-License-Identifier: Apache-2.0 */
/* See encoding.h. */
#include "encoding.h"

#include <stdbool.h>
#include <string.h>

#include <nccl_net/util.h>

#define UTF16_BYTES 16 /* of which every second one is NUL */

#define UTF16 "text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | anynet explain"

static const struct {
	const char *magic, *how;
} kinds[] = {
	{ "\x1f\x8b", "compressed with gzip: zcat FILE | anynet explain" },
	{ "\x28\xb5\x2f\xfd", "compressed with zstd: zstdcat FILE | anynet explain" },
	{ "\xfd\x37\x7a\x58\x5a", "compressed with xz: xzcat FILE | anynet explain" },
	{ "\x42\x5a\x68", "compressed with bzip2: bzcat FILE | anynet explain" },
	{ "\x04\x22\x4d\x18", "compressed with lz4: lz4cat FILE | anynet explain" },
	{ "\xff\xfe", UTF16 },
	{ "\xfe\xff", UTF16 },
};

/* Whether it is ASCII in UTF-16 without a byte order mark. Only NULs are not: a log that was cut begins with them. */
static bool is_utf16(const char *data, size_t bytes)
{
	size_t nuls[2] = { 0 };

	for (size_t i = 0; i < anynet_min(bytes, UTF16_BYTES); i++)
		nuls[i % 2] += !data[i];
	return nuls[0] + nuls[1] == UTF16_BYTES / 2 && (!nuls[0] || !nuls[1]);
}

const char *encoding_of(const char *data, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (bytes >= strlen(kinds[i].magic) &&
		    !memcmp(data, kinds[i].magic, strlen(kinds[i].magic)))
			return kinds[i].how;
	return is_utf16(data, bytes) ? UTF16 : NULL;
}
