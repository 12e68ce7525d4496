/* SPDX-License-Identifier: Apache-2.0 */
/* Access of adapters to device memory. */
#include "rig.h"

#include <string.h>
#include <unistd.h>

#define PAGE 4096u

static void a_dmabuf_is_the_memory(void)
{
	CUdeviceptr memory, second_page;
	int fd = -1;
	char *view;

	memory = device_alloc(3 * PAGE);
	second_page = (memory / PAGE + 1) * PAGE;
	check_ok(cuda.cuMemGetHandleForAddressRange(&fd, second_page, PAGE,
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	check(rig.pin_dmabuf(fd, 100, PAGE - 100) == view_of(second_page + 100, 1));
	check(!rig.pin_dmabuf(fd, 100, PAGE - 99));
	check(!rig.pin_dmabuf(0, 0, 1));
	close(fd);
	view = view_of(second_page + 100, 1);
	strcpy(view, "hello");
	check_ok(cuda.cuMemFree_v2(memory));
	check(!strcmp(view, "hello")); /* as long as it is registered */
	rig.unpin(view);
	check_int(counts_now().dmabufs, 1);
}

static int dmabuf(CUdeviceptr memory, size_t bytes)
{
	int fd;

	return cuda.cuMemGetHandleForAddressRange(&fd, memory, bytes, 1, 0);
}

static void a_dmabuf_is_of_whole_pages(void)
{
	CUdeviceptr memory = device_alloc((size_t)2 << 20);

	check_int(dmabuf(memory, 100), CUDA_ERROR_INVALID_VALUE);
	check_int(dmabuf(memory + 512, PAGE), CUDA_ERROR_INVALID_VALUE);
	check_int(dmabuf(memory, ((size_t)2 << 20) + PAGE), CUDA_ERROR_INVALID_VALUE);
	check_ok(cuda.cuMemFree_v2(memory));
	check_int(dmabuf(memory, PAGE), CUDA_ERROR_INVALID_VALUE);
}

static void a_dmabuf_by_pcie(void)
{
	int fd;
	CUdeviceptr memory = device_alloc((size_t)2 << 20);

	check_ok(cuda.cuMemGetHandleForAddressRange(&fd, memory, PAGE, 1, 1));
	close(fd);
	check_int(cuda.cuMemGetHandleForAddressRange(&fd, memory, PAGE, 1, 2),
		  CUDA_ERROR_INVALID_VALUE);
	check_int(counts_now().dmabufs_by_pcie, 1);
	check_ok(cuda.cuMemFree_v2(memory));
}

static void an_old_driver_knows_no_flags(void)
{
	int fd;
	CUdeviceptr memory = device_alloc((size_t)2 << 20);

	check_int(cuda.cuMemGetHandleForAddressRange(&fd, memory, PAGE, 1, 1),
		  CUDA_ERROR_INVALID_VALUE);
	check_ok(cuda.cuMemFree_v2(memory));
}

static void a_device_without_dmabufs(void)
{
	CUdeviceptr memory = device_alloc((size_t)2 << 20);

	check_int(dmabuf(memory, PAGE), CUDA_ERROR_NOT_SUPPORTED);
	check_ok(cuda.cuMemFree_v2(memory));
}

static void what_an_adapter_has_stays_readable(void)
{
	char *view;
	CUdeviceptr memory = device_alloc(64);

	check(!rig.pin((void *)memory, 2 * PAGE));
	check(rig.pin((void *)(memory / PAGE * PAGE), PAGE)); /* whole pages */
	rig.unpin(view_of(memory, 64));
	view = rig.pin((void *)memory, 64);
	check(view);
	check(rig.pin((void *)(memory + 8), 8) == view + 8);
	check_int(counts_now().registrations, 2);
	rig.unpin(view + 8);
	strcpy(view, "hello");
	check_ok(cuda.cuMemFree_v2(memory));
	check(!strcmp(view, "hello"));
	check(!rig.view((void *)memory, 1));
	rig.unpin(view);
}

static int flushed;

static void count_a_flush(void)
{
	flushed++;
	check(!counts_now().misuses); /* no lock is held */
}

static void flushes_are_passed_on(void)
{
	check_ok(cuda.cuFlushGPUDirectRDMAWrites(0, 200));
	rig.on_flush(count_a_flush);
	check_ok(cuda.cuFlushGPUDirectRDMAWrites(0, 100));
	check_int(cuda.cuFlushGPUDirectRDMAWrites(0, 7), CUDA_ERROR_INVALID_VALUE);
	order("fail cuFlushGPUDirectRDMAWrites code=801");
	check_int(cuda.cuFlushGPUDirectRDMAWrites(0, 200), CUDA_ERROR_NOT_SUPPORTED);
	check_int(flushed, 1);
	check_int(counts_now().flushes, 2);
}

const struct selfcheck adapter_checks[] = {
	{ CHECK(a_dmabuf_is_the_memory), .misuses = 1 }, /* freed too early */
	{ CHECK(a_dmabuf_is_of_whole_pages), .misuses = 4 },
	{ CHECK(a_dmabuf_by_pcie), .description = "version 12080" },
	{ CHECK(an_old_driver_knows_no_flags), .description = "version 12070" },
	{ CHECK(a_device_without_dmabufs), .description = "device dmabuf=0" },
	{ CHECK(what_an_adapter_has_stays_readable), .misuses = 1 }, /* the same */
	{ CHECK(flushes_are_passed_on) },
	{ 0 },
};
