/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations: who may touch them, and what is known of them. */
#include "rig.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u

static void crashed(int signal)
{
	(void)signal;
	_exit(42);
}

static void crashes(const volatile char *at)
{
	int status;
	pid_t child = fork();

	if (!child) {
		signal(SIGSEGV, crashed);
		_exit(*at ? 1 : 0);
	}
	check_int(waitpid(child, &status, 0), child);
	check(WIFEXITED(status));
	check_int(WEXITSTATUS(status), 42);
}

static void processors_may_not_touch_it(void)
{
	CUdeviceptr memory;

	rig_begin();
	memory = device_alloc(100);
	crashes((const char *)memory);
	crashes((const char *)memory + 99);
	memset(view_of(memory, 100), 7, 100);
	check_ok(rig.cuda.cuMemFree_v2(memory));
	crashes((const char *)memory); /* nothing else has got the addresses */
	rig_end(0);
}

static void views_end_where_the_allocation_does(void)
{
	CUdeviceptr memory;
	int other;

	rig_begin();
	memory = device_alloc(5000);
	check(rig.view((void *)memory, 5000) == view_of(memory + 1, 4999) - 1);
	check(!rig.view((void *)memory, 5001));
	check(!rig.view((void *)(memory + 4999), 2));
	check(!rig.view((void *)(memory - 1), 2));
	check(!rig.view(&other, sizeof(other)));
	check_ok(rig.cuda.cuMemFree_v2(memory));
	check(!rig.view((void *)memory, 1));
	rig_end(0);
}

static void alignment_is_512_bytes_and_no_more(void)
{
	CUdeviceptr memory[9], beyond = 0;
	size_t large = (size_t)3 << 20;

	rig_begin();
	for (int i = 0; i < 9; i++) {
		memory[i] = device_alloc(i < 8 ? 600 : large);
		check_int(memory[i] % 512, 0);
		beyond |= i < 8 ? memory[i] % PAGE : 0;
	}
	check(beyond);
	check_int(memory[8] % PAGE, 0);
	check_int(counts_now().allocations, 9);
	check_int(counts_now().device_bytes, 8 * 600 + large);
	for (int i = 0; i < 9; i++)
		check_ok(rig.cuda.cuMemFree_v2(memory[i]));
	rig_end(0);
}

static void pointers_are_known(void)
{
	CUcontext context = rig_begin(), second;
	unsigned type = 0;
	int ordinal = -1;
	CUdeviceptr memory;
	char *pinned, *plain = malloc(64);

	check_ok(rig.cuda.cuDevicePrimaryCtxRetain(&second, 1));
	check_ok(rig.cuda.cuCtxSetCurrent(second));
	memory = device_alloc(64);
	check_ok(rig.cuda.cuCtxSetCurrent(context));
	pinned = pinned_alloc(64);
	check_ok(rig.cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						memory + 63));
	check_int(type, CU_MEMORYTYPE_DEVICE);
	check_ok(rig.cuda.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
						memory));
	check_int(ordinal, 1);
	check_ok(rig.cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						(CUdeviceptr)pinned));
	check_int(type, CU_MEMORYTYPE_HOST);
	check_int(rig.cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						 (CUdeviceptr)plain),
		  CUDA_ERROR_INVALID_VALUE);
	check_int(rig.cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						 memory + 64),
		  CUDA_ERROR_INVALID_VALUE);
	check_ok(rig.cuda.cuMemFree_v2(memory));
	check_int(rig.cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory),
		  CUDA_ERROR_INVALID_VALUE);
	check_ok(rig.cuda.cuMemFreeHost(pinned));
	check_ok(rig.cuda.cuDevicePrimaryCtxRelease_v2(1));
	free(plain);
	rig_end(0);
}

static void only_what_is_there_is_freed(void)
{
	CUdeviceptr memory;
	char *pinned;

	rig_begin();
	memory = device_alloc(64);
	pinned = pinned_alloc(64);
	check_int(rig.cuda.cuMemFree_v2(memory + 1), CUDA_ERROR_INVALID_VALUE);
	check_int(rig.cuda.cuMemFreeHost(pinned + 1), CUDA_ERROR_INVALID_VALUE);
	check_int(rig.cuda.cuMemFree_v2((CUdeviceptr)pinned), CUDA_ERROR_INVALID_VALUE);
	check_ok(rig.cuda.cuMemFree_v2(memory));
	check_ok(rig.cuda.cuMemFreeHost(pinned));
	check_int(rig.cuda.cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
	check_ok(rig.cuda.cuMemFree_v2(0));
	rig_end(4);
}

static uint64_t id_of(CUdeviceptr memory)
{
	uint64_t id = 0;

	check_ok(rig.cuda.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
	return id;
}

static void every_allocation_has_its_own_id(void)
{
	CUdeviceptr one, other;
	uint64_t first;

	rig_begin();
	one = device_alloc(64);
	other = device_alloc(64);
	first = id_of(one);
	check(first);
	check(id_of(one + 63) == first);
	check(id_of(other) != first);
	check_ok(rig.cuda.cuMemFree_v2(one));
	one = device_alloc(64);
	check(id_of(one) != first);
	check_ok(rig.cuda.cuMemFree_v2(one));
	check_ok(rig.cuda.cuMemFree_v2(other));
	rig_end(0);
}

const struct check memory_checks[] = {
	{ "processors may not touch it", processors_may_not_touch_it, NULL },
	{ "views end where the allocation does", views_end_where_the_allocation_does, NULL },
	{ "alignment is 512 bytes and no more", alignment_is_512_bytes_and_no_more, NULL },
	{ "pointers are known", pointers_are_known, "device; device" },
	{ "every allocation has its own id", every_allocation_has_its_own_id, NULL },
	{ "only what is there is freed", only_what_is_there_is_freed, NULL },
	{ NULL, NULL, NULL },
};
