/* SPDX-License-Identifier: Apache-2.0 */
/* Memory until exit; see memory.h. */
#include "memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct block {
	struct block *older, *newer;
	_Alignas(max_align_t) char data[];
};

static struct block *newest;

/* Links a new block, or one that realloc has moved. */
static void link_block(struct block *block)
{
	if (block->older)
		block->older->newer = block;
	if (block->newer)
		block->newer->older = block;
	else
		newest = block;
}

_Noreturn void memory_failed(void)
{
	fputs("anynet: out of memory\n", stderr);
	exit(MEMORY_FAILED);
}

void *memory_resize(void *memory, size_t bytes)
{
	struct block *block =
		memory ? (struct block *)((char *)memory - offsetof(struct block, data)) : NULL;
	bool is_new = !block;

	block = bytes < PTRDIFF_MAX - sizeof(*block) ? realloc(block, sizeof(*block) + bytes)
						     : NULL;
	if (!block)
		memory_failed();
	if (is_new)
		*block = (struct block){ .older = newest };
	link_block(block);
	return block->data;
}

void *memory_get(size_t bytes)
{
	return memset(memory_resize(NULL, bytes), 0, bytes);
}

const void *memory_mark(void)
{
	return newest;
}

void memory_release(const void *mark)
{
	while (newest && newest != mark) {
		struct block *block = newest;

		newest = block->older;
		free(block);
	}
	if (newest)
		newest->newer = NULL;
}
