/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations: access to them, and queries about them. */
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
	CUdeviceptr memory = device_alloc(100);

	crashes((const char *)memory);
	crashes((const char *)memory + 99);
	memset(view_of(memory, 100), 7, 100);
	check_ok(cuda.cuMemFree_v2(memory));
	crashes((const char *)memory); /* the addresses were not reused */
}

static void views_end_where_the_allocation_does(void)
{
	int other;
	CUdeviceptr memory = device_alloc(5000);

	check(rig.view((void *)memory, 5000) == view_of(memory + 1, 4999) - 1);
	check(!rig.view((void *)memory, 5001));
	check(!rig.view((void *)(memory + 4999), 2));
	check(!rig.view((void *)(memory - 1), 2));
	check(!rig.view(&other, sizeof(other)));
	check_ok(cuda.cuMemFree_v2(memory));
	check(!rig.view((void *)memory, 1));
}

static void alignment_is_512_bytes_and_no_more(void)
{
	CUdeviceptr memory[9], beyond = 0;
	size_t large = (size_t)3 << 20;

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
		check_ok(cuda.cuMemFree_v2(memory[i]));
}

static int type_of(CUdeviceptr pointer, unsigned *type)
{
	return cuda.cuPointerGetAttribute(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
}

static void pointers_are_known(void)
{
	CUcontext context = rig_context, second;
	unsigned type = 0;
	int ordinal = -1;
	CUdeviceptr memory;
	char *pinned, *plain = malloc(64);

	check_ok(cuda.cuDevicePrimaryCtxRetain(&second, 1));
	check_ok(cuda.cuCtxSetCurrent(second));
	memory = device_alloc(64);
	check_ok(cuda.cuCtxSetCurrent(context));
	pinned = pinned_alloc(64);
	check_ok(type_of(memory + 63, &type));
	check_int(type, CU_MEMORYTYPE_DEVICE);
	check_ok(cuda.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
	check_int(ordinal, 1);
	check_ok(type_of((CUdeviceptr)pinned, &type));
	check_int(type, CU_MEMORYTYPE_HOST);
	check_int(type_of((CUdeviceptr)plain, &type), CUDA_ERROR_INVALID_VALUE);
	check_int(type_of(memory + 64, &type), CUDA_ERROR_INVALID_VALUE);
	check_ok(cuda.cuMemFree_v2(memory));
	check_int(type_of(memory, &type), CUDA_ERROR_INVALID_VALUE);
	check_ok(cuda.cuMemFreeHost(pinned));
	check_ok(cuda.cuDevicePrimaryCtxRelease_v2(1));
	free(plain);
}

static void only_what_is_there_is_freed(void)
{
	CUdeviceptr memory = device_alloc(64);
	char *pinned = pinned_alloc(64);

	check_int(cuda.cuMemFree_v2(memory + 1), CUDA_ERROR_INVALID_VALUE);
	check_int(cuda.cuMemFreeHost(pinned + 1), CUDA_ERROR_INVALID_VALUE);
	check_int(cuda.cuMemFree_v2((CUdeviceptr)pinned), CUDA_ERROR_INVALID_VALUE);
	check_ok(cuda.cuMemFree_v2(memory));
	check_ok(cuda.cuMemFreeHost(pinned));
	check_int(cuda.cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
	check_ok(cuda.cuMemFree_v2(0));
}

static uint64_t id_of(CUdeviceptr memory)
{
	uint64_t id = 0;

	check_ok(cuda.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
	return id;
}

static void every_allocation_has_its_own_id(void)
{
	CUdeviceptr one, other;
	uint64_t first;

	one = device_alloc(64);
	other = device_alloc(64);
	first = id_of(one);
	check(first);
	check(id_of(one + 63) == first);
	check(id_of(other) != first);
	check_ok(cuda.cuMemFree_v2(one));
	one = device_alloc(64);
	check(id_of(one) != first);
	check_ok(cuda.cuMemFree_v2(one));
	check_ok(cuda.cuMemFree_v2(other));
}

const struct selfcheck memory_checks[] = {
	{ CHECK(processors_may_not_touch_it) },
	{ CHECK(views_end_where_the_allocation_does) },
	{ CHECK(alignment_is_512_bytes_and_no_more) },
	{ CHECK(pointers_are_known), .description = "device; device" },
	{ CHECK(every_allocation_has_its_own_id) },
	{ CHECK(only_what_is_there_is_freed), .misuses = 4 },
	{ 0 },
};
