/* SPDX-License-Identifier: Apache-2.0 */
/* Page-aligned memory for NICs; see pinned.h. */
#include "base/pinned.h"

#include <sys/mman.h>
#include <unistd.h>

size_t pinned_round(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) & ~(page - 1);
}

void *pinned_alloc(size_t bytes)
{
	void *memory = mmap(NULL, pinned_round(bytes), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void pinned_free(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, pinned_round(bytes));
}
