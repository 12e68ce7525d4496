/* SPDX-License-Identifier: Apache-2.0 */
/* What adapters get of device memory. */
#include "rig.h"

#include <string.h>
#include <unistd.h>

#define PAGE 4096u

static void a_dmabuf_is_the_memory(void)
{
	CUdeviceptr memory, second_page;
	int fd = -1;
	char *view;

	rig_begin();
	memory = device_alloc(3 * PAGE);
	second_page = (memory / PAGE + 1) * PAGE;
	check_ok(rig.cuda.cuMemGetHandleForAddressRange(&fd, second_page, PAGE,
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	check(rig.pin_dmabuf(fd, 100, PAGE - 100) == view_of(second_page + 100, 1));
	check(!rig.pin_dmabuf(fd, 100, PAGE - 99));
	check(!rig.pin_dmabuf(0, 0, 1));
	close(fd);
	view = view_of(second_page + 100, 1);
	strcpy(view, "hello");
	check_ok(rig.cuda.cuMemFree_v2(memory));
	check(!strcmp(view, "hello")); /* as long as somebody has it registered */
	rig.unpin(view);
	check_int(counts_now().dmabufs, 1);
	rig_end(1); /* it was freed before */
}

static int dmabuf(CUdeviceptr memory, size_t bytes)
{
	int fd;

	return rig.cuda.cuMemGetHandleForAddressRange(&fd, memory, bytes, 1, 0);
}

static void a_dmabuf_is_of_whole_pages(void)
{
	CUdeviceptr memory;

	rig_begin();
	memory = device_alloc((size_t)2 << 20);
	check_int(dmabuf(memory, 100), CUDA_ERROR_INVALID_VALUE);
	check_int(dmabuf(memory + 512, PAGE), CUDA_ERROR_INVALID_VALUE);
	check_int(dmabuf(memory, ((size_t)2 << 20) + PAGE), CUDA_ERROR_INVALID_VALUE);
	check_ok(rig.cuda.cuMemFree_v2(memory));
	check_int(dmabuf(memory, PAGE), CUDA_ERROR_INVALID_VALUE);
	rig_end(4);
}

static void a_dmabuf_by_pcie(void)
{
	CUdeviceptr memory;
	int fd;

	rig_begin();
	memory = device_alloc((size_t)2 << 20);
	check_ok(rig.cuda.cuMemGetHandleForAddressRange(&fd, memory, PAGE, 1, 1));
	close(fd);
	check_int(rig.cuda.cuMemGetHandleForAddressRange(&fd, memory, PAGE, 1, 2),
		  CUDA_ERROR_INVALID_VALUE);
	check_int(counts_now().dmabufs_by_pcie, 1);
	check_ok(rig.cuda.cuMemFree_v2(memory));
	rig_end(0);
}

static void an_old_driver_knows_no_flags(void)
{
	CUdeviceptr memory;
	int fd;

	rig_begin();
	memory = device_alloc((size_t)2 << 20);
	check_int(rig.cuda.cuMemGetHandleForAddressRange(&fd, memory, PAGE, 1, 1),
		  CUDA_ERROR_INVALID_VALUE);
	check_ok(rig.cuda.cuMemFree_v2(memory));
	rig_end(0);
}

static void a_device_without_dmabufs(void)
{
	CUdeviceptr memory;

	rig_begin();
	memory = device_alloc((size_t)2 << 20);
	check_int(dmabuf(memory, PAGE), CUDA_ERROR_NOT_SUPPORTED);
	check_ok(rig.cuda.cuMemFree_v2(memory));
	rig_end(0);
}

static void what_an_adapter_has_stays_readable(void)
{
	CUdeviceptr memory;
	char *view;

	rig_begin();
	memory = device_alloc(64);
	check(!rig.pin((void *)memory, 2 * PAGE));
	check(rig.pin((void *)(memory / PAGE * PAGE), PAGE)); /* whole pages */
	rig.unpin(view_of(memory, 64));
	view = rig.pin((void *)memory, 64);
	check(view);
	check(rig.pin((void *)(memory + 8), 8) == view + 8);
	check_int(counts_now().registrations, 2);
	rig.unpin(view + 8);
	strcpy(view, "hello");
	check_ok(rig.cuda.cuMemFree_v2(memory));
	check(!strcmp(view, "hello"));
	check(!rig.view((void *)memory, 1));
	rig.unpin(view);
	rig_end(1); /* it was freed too early */
}

static int flushed;

static void count_a_flush(void)
{
	flushed++;
	check(!counts_now().misuses); /* no lock is held */
}

static void flushes_are_passed_on(void)
{
	rig_begin();
	check_ok(rig.cuda.cuFlushGPUDirectRDMAWrites(0, 200));
	rig.on_flush(count_a_flush);
	check_ok(rig.cuda.cuFlushGPUDirectRDMAWrites(0, 100));
	check_int(rig.cuda.cuFlushGPUDirectRDMAWrites(0, 7), CUDA_ERROR_INVALID_VALUE);
	order("fail cuFlushGPUDirectRDMAWrites code=801");
	check_int(rig.cuda.cuFlushGPUDirectRDMAWrites(0, 200), CUDA_ERROR_NOT_SUPPORTED);
	check_int(flushed, 1);
	check_int(counts_now().flushes, 2);
	rig_end(0);
}

const struct check adapter_checks[] = {
	{ "a dma-buf is the memory", a_dmabuf_is_the_memory, NULL },
	{ "a dma-buf is of whole pages", a_dmabuf_is_of_whole_pages, NULL },
	{ "a dma-buf by PCIe", a_dmabuf_by_pcie, "version 12080" },
	{ "an old driver knows no flags", an_old_driver_knows_no_flags, "version 12070" },
	{ "a device without dma-bufs", a_device_without_dmabufs, "device dmabuf=0" },
	{ "what an adapter has stays readable", what_an_adapter_has_stays_readable, NULL },
	{ "flushes are passed on", flushes_are_passed_on, NULL },
	{ NULL, NULL, NULL },
};
