/* SPDX-License-Identifier: Apache-2.0 */
/* Memory until exit; see memory.h. */
#include "memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

struct block {
	struct block *older, *newer;
	uint64_t number; /* 1, 2, … in the order in which the blocks were made */
	_Alignas(max_align_t) char data[];
};

static struct block *newest;
static uint64_t count;

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
	exit(STATUS_ERROR);
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
		*block = (struct block){ .older = newest, .number = ++count };
	link_block(block);
	return block->data;
}

void *memory_get(size_t bytes)
{
	return memset(memory_resize(NULL, bytes), 0, bytes);
}

uint64_t memory_mark(void)
{
	return count;
}

void memory_release(uint64_t mark)
{
	while (newest && newest->number > mark) {
		struct block *block = newest;

		newest = block->older;
		free(block);
	}
	if (newest)
		newest->newer = NULL;
}
