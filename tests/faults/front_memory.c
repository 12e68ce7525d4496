/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that fail on order. Not under a sanitizer, which replaces them itself. */
#include "front.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <support/check.h>

#if !TEST_SANITIZED
/* glibc's own entries, for programs that replace the public ones. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static bool refused(void)
{
	int err = front_verdict(FRONT_MEMORY);

	if (err)
		errno = err;
	return err;
}

IN_FRONT void *malloc(size_t bytes)
{
	return refused() ? NULL : __libc_malloc(bytes);
}

IN_FRONT void *calloc(size_t count, size_t bytes)
{
	return refused() ? NULL : __libc_calloc(count, bytes);
}

IN_FRONT void *realloc(void *old, size_t bytes)
{
	return refused() ? NULL : __libc_realloc(old, bytes);
}

IN_FRONT void *aligned_alloc(size_t align, size_t bytes)
{
	return refused() ? NULL : __libc_memalign(align, bytes);
}

IN_FRONT int posix_memalign(void **memory, size_t align, size_t bytes)
{
	if (refused())
		return ENOMEM;
	*memory = __libc_memalign(align, bytes);
	return *memory ? 0 : ENOMEM;
}
#endif
