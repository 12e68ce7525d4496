/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of memory, and their owners. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

static void pageable_memory_is_the_callers_again(void)
{
	cudaStream_t stream = stream_new(cudaStreamNonBlocking);
	int *x = ints_new(), *y = ints_new(), *from = malloc(INTS * sizeof(int)), to[INTS];
	atomic_int gate = 0;

	for (int i = 0; i < INTS; i++)
		from[i] = 7;
	check_ok(launch(stream, kernel_gate, 1, &(struct work){ .gate = &gate }));
	check_ok(cudaMemcpyAsync(x, from, INTS * sizeof(int), cudaMemcpyHostToDevice, stream));
	memset(from, 0, INTS * sizeof(int));
	free(from);
	check_ok(launch(stream, kernel_add, 1, &(struct work){ .from = x, .to = y }));
	atomic_store(&gate, 1);
	check_ok(cudaMemcpyAsync(to, y, sizeof(to), cudaMemcpyDefault, stream));
	for (int i = 0; i < INTS; i++)
		check_int(to[i], 8);
}

static void pointer_is(const void *pointer, enum cudaMemoryType type, bool on_device, bool on_host)
{
	struct cudaPointerAttributes attributes;

	check_ok(cudaPointerGetAttributes(&attributes, pointer));
	check_int(attributes.type, type);
	check(attributes.devicePointer == (on_device ? pointer : NULL));
	check(attributes.hostPointer == (on_host ? pointer : NULL));
	check_int(attributes.device, on_device ? 0 : cudaInvalidDeviceId);
}

static void memory_is_known_by_address(void)
{
	PFN_cuPointerGetAttribute_v4000 get_attribute;
	PFN_cuMemGetAddressRange_v3020 get_range;
	char *device, *host, *registered = aligned_alloc(4096, 8192);
	size_t before, after, total, bytes;
	CUdeviceptr start;
	void *pointer;
	int ordinal;

	entry_get("cuPointerGetAttribute", 4000, &get_attribute);
	entry_get("cuMemGetAddressRange", 3020, &get_range);
	check_ok(cudaMemGetInfo(&before, &total));
	check_ok(cudaMalloc((void **)&device, 10000));
	check((uintptr_t)device % 512 == 0);
	check_ok(cudaMemGetInfo(&after, &total));
	check(after < before && before <= total);
	check_ok(cudaHostAlloc((void **)&host, 5000, cudaHostAllocMapped));
	pointer_is(device, cudaMemoryTypeDevice, true, false);
	pointer_is(device + 9999, cudaMemoryTypeDevice, true, false);
	pointer_is(host + 4999, cudaMemoryTypeHost, true, true);
	pointer_is(registered, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaHostRegister(registered, 8192, cudaHostRegisterMapped));
	pointer_is(registered + 8191, cudaMemoryTypeHost, true, true);
	check_int(cudaHostRegister(registered + 4096, 4096, 0),
		  cudaErrorHostMemoryAlreadyRegistered);
	check_ok(cudaHostGetDevicePointer(&pointer, registered, 0));
	check(pointer == registered);
	check_ok(get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)device));
	check_int(ordinal, 0);
	check_ok(get_range(&start, &bytes, (CUdeviceptr)device + 5));
	check(start == (CUdeviceptr)device && bytes >= 10000);
	check_ok(cudaHostUnregister(registered));
	check_int(cudaHostUnregister(registered), cudaErrorHostMemoryNotRegistered);
	pointer_is(registered, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaFree(device));
	check_ok(cudaFreeHost(host));
	pointer_is(device, cudaMemoryTypeUnregistered, false, true);
	pointer_is(host, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaMemGetInfo(&after, &total));
	check(after == before);
	check(get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)device));
	free(registered);
}

static void pools_free_in_the_streams_order(void)
{
	struct cudaMemPoolProps props = { .allocType = cudaMemAllocationTypePinned,
					  .location = { .type = cudaMemLocationTypeDevice } };
	cudaStream_t stream = stream_new(cudaStreamNonBlocking);
	uint64_t threshold = ~UINT64_C(0);
	atomic_int gate = 0;
	cudaMemPool_t pool;
	void *memory;

	check_ok(cudaMemPoolCreate(&pool, &props));
	check_ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	check_ok(cudaMallocFromPoolAsync(&memory, INTS * sizeof(int), pool, stream));
	check_ok(launch(stream, kernel_add, 1,
			&(struct work){ .gate = &gate, .from = memory, .to = memory }));
	check_ok(cudaFreeAsync(memory, stream));
	check_int(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
	check_int(cudaFree(memory), cudaErrorInvalidValue);
	atomic_store(&gate, 1);
	check_ok(cudaStreamSynchronize(stream));
	pointer_is(memory, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaMemPoolDestroy(pool));
}

const struct selfcheck memory_checks[] = {
	{ CHECK(pageable_memory_is_the_callers_again) },
	{ CHECK(memory_is_known_by_address) },
	{ CHECK(pools_free_in_the_streams_order) },
	{ 0 },
};
