/* SPDX-License-Identifier: Apache-2.0 */
/* malloc and friends that exit on failure. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *check(void *memory)
{
	if (memory)
		return memory;
	fprintf(stderr, "anynet explain: out of memory\n");
	exit(EXPLAIN_FAILED);
}

void *memory_get(size_t bytes)
{
	return check(calloc(1, bytes ? bytes : 1));
}

void *memory_resize(void *old, size_t bytes)
{
	return check(realloc(old, bytes ? bytes : 1));
}

char *memory_text(const char *text)
{
	return check(strdup(text));
}
