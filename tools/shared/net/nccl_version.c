/* SPDX-License-Identifier: Apache-2.0 */
/* Releases of NCCL; see nccl_version.h. */
#include "nccl_version.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char version_mark[] = "NCCL version ";

int nccl_version_parse(const char *text)
{
	int major = 0, minor = 0, patch = 0;

	if (sscanf(text, "%4d.%4d.%4d", &major, &minor, &patch) < 2 || major < 1 || major > 99 ||
	    minor < 0 || minor > 99 || patch < 0 || patch > 99)
		return 0;
	return major * 10000 + minor * 100 + patch;
}

const char *nccl_version_text(int code, char *text)
{
	snprintf(text, 16, "%d.%d.%d", code / 10000 % 100, code / 100 % 100, code % 100);
	return text;
}

void nccl_version_word(const char *at, const char *end, const char *also, char *word, size_t bytes)
{
	size_t used = 0;

	while (at < end && used + 1 < bytes && (isalnum((unsigned char)*at) || strchr(also, *at)) &&
	       *at)
		word[used++] = *at++;
	word[used] = 0;
}

struct nccl_version nccl_version_in(const char *bytes, size_t size)
{
	const char *end = bytes + size, *at = bytes;
	struct nccl_version best = { 0 };

	while ((at = memmem(at, (size_t)(end - at), version_mark, strlen(version_mark)))) {
		char word[48];
		const char *cuda;
		int code;

		at += strlen(version_mark);
		nccl_version_word(at, end, ".+", word, sizeof(word));
		code = nccl_version_parse(word);
		cuda = strstr(word, "+cuda");
		if (code && !best.code)
			best.code = code;
		if (code && cuda) {
			best.code = code;
			nccl_version_word(cuda + strlen("+cuda"), word + strlen(word), ".",
					  best.cuda, sizeof(best.cuda));
			break;
		}
	}
	return best;
}
