/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the memory that the plugin holds, per process, and overwrites what it frees. Only calls of the plugin itself count: what
 * the simulator needs for its sockets is allocated in the same threads. Sanitizers have functions of their own: their builds count
 * nothing.
 */
#include "sim/calls.h"
#include "sim/load.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static void count(void *caller, int blocks)
{
	if (blocks && process_self() && load_is_plugin(caller))
		process_self()->blocks += blocks;
}

void *malloc(size_t bytes)
{
	void *memory = __libc_malloc(bytes);

	count(__builtin_return_address(0), memory != NULL);
	return memory;
}

void *calloc(size_t number, size_t bytes)
{
	void *memory = __libc_calloc(number, bytes);

	count(__builtin_return_address(0), memory != NULL);
	return memory;
}

void *realloc(void *old, size_t bytes)
{
	void *memory = __libc_realloc(old, bytes);

	count(__builtin_return_address(0), memory && !old);
	return memory;
}

void *reallocarray(void *old, size_t number, size_t bytes)
{
	void *memory = NULL;

	if (__builtin_mul_overflow(number, bytes, &bytes))
		errno = ENOMEM;
	else
		memory = __libc_realloc(old, bytes);
	count(__builtin_return_address(0), memory && !old);
	return memory;
}

void *mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	void *memory;

	REAL(mmap, void *, void *, size_t, int, int, int, off_t);
	memory = real(at, bytes, access, flags, fd, offset);
	count(__builtin_return_address(0), memory != MAP_FAILED);
	return memory;
}

int munmap(void *memory, size_t bytes)
{
	REAL(munmap, int, void *, size_t);
	count(__builtin_return_address(0), -1);
	return real(memory, bytes);
}

#define FREED 0xdd

/* Whoever still uses what was freed finds no valid state in it. */
void free(void *memory)
{
	if (memory && load_is_plugin(__builtin_return_address(0)))
		memset(memory, FREED, malloc_usable_size(memory));
	count(__builtin_return_address(0), memory ? -1 : 0);
	__libc_free(memory);
}
