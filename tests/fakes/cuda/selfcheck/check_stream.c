/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, streams and events. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 8192

/* Device memory, pinned memory, a stream, and an event after its work. */
struct bench {
	CUdeviceptr device;
	char *pinned, *view;
	CUstream stream;
	CUevent event;
};

static struct bench bench_set(void)
{
	struct bench bench = { .device = device_alloc(BYTES), .pinned = pinned_alloc(BYTES) };

	bench.view = view_of(bench.device, BYTES);
	bench.stream = stream_new();
	bench.event = event_new();
	memset(bench.view, 1, BYTES);
	memset(bench.pinned, 2, BYTES);
	return bench;
}

static void bench_clear(const struct bench *bench)
{
	check_ok(cuda.cuEventDestroy_v2(bench->event));
	check_ok(cuda.cuStreamDestroy_v2(bench->stream));
	check_ok(cuda.cuMemFreeHost(bench->pinned));
	check_ok(cuda.cuMemFree_v2(bench->device));
}

static int to_device(const struct bench *bench, size_t offset, size_t bytes)
{
	return cuda.cuMemcpyHtoDAsync_v2(bench->device + offset, bench->pinned + offset, bytes,
					 bench->stream);
}

static int to_host(const struct bench *bench, size_t offset, size_t bytes)
{
	return cuda.cuMemcpyDtoHAsync_v2(bench->pinned + offset, bench->device + offset, bytes,
					 bench->stream);
}

static void copies_move_bytes(void)
{
	struct bench bench = bench_set();
	char plain[4];

	check_ok(to_device(&bench, 8, 16));
	check_ok(cuda.cuEventRecord(bench.event, bench.stream));
	event_poll(bench.event);
	check(bench.view[7] == 1 && bench.view[8] == 2 && bench.view[23] == 2 &&
	      bench.view[24] == 1);
	check_ok(to_host(&bench, 0, BYTES));
	check_ok(cuda.cuStreamSynchronize(bench.stream));
	check(!memcmp(bench.pinned, bench.view, BYTES));
	check_ok(cuda.cuMemcpyHtoD_v2(bench.device + 3, "abc", 3));
	check_ok(cuda.cuMemcpyDtoH_v2(plain, bench.device + 2, 4));
	check(!memcmp(plain, "\1abc", 4));
	check_int(counts_now().copies, 2);
	check_int(counts_now().copied_bytes, 16 + BYTES);
	bench_clear(&bench);
}

static void copies_are_held_back(void)
{
	struct bench bench = bench_set();

	order("hold 3");
	check_ok(to_device(&bench, 0, 8));
	check_ok(to_host(&bench, 8, 8));
	check_int(counts_now().waiting, 2);
	check_ok(cuda.cuEventRecord(bench.event, bench.stream));
	for (int i = 0; i < 3; i++) {
		check_int(*bench.view, 1); /* not before */
		check_int(cuda.cuEventQuery(bench.event), CUDA_ERROR_NOT_READY);
	}
	check(event_poll(bench.event) >= 3); /* for the second one */
	check_int(*bench.view, 2);
	check_int(bench.pinned[8], 1);
	check(counts_now().queries >= 7);
	bench_clear(&bench);
}

/* The source is read then, not when the copy is submitted. */
static void copies_are_done_late(void)
{
	struct bench bench = bench_set();

	order("hold 1000000");
	check_ok(to_device(&bench, 0, 8));
	memset(bench.pinned, 9, 8);
	order("hold 0");
	check_ok(cuda.cuStreamSynchronize(bench.stream));
	check_int(*bench.view, 9);
	bench_clear(&bench);
}

static void waiting_lets_them_go(void)
{
	struct bench bench = bench_set();

	order("hold 1000000");
	check_ok(to_device(&bench, 0, 8));
	check_ok(cuda.cuEventRecord(bench.event, bench.stream));
	check_ok(to_host(&bench, 8, 8));
	check_ok(cuda.cuEventSynchronize(bench.event));
	check_int(*bench.view, 2);
	check_int(bench.pinned[8], 2); /* after the event */
	check_int(cuda.cuStreamQuery(bench.stream), CUDA_ERROR_NOT_READY);
	check_ok(cuda.cuStreamSynchronize(bench.stream));
	check_int(bench.pinned[8], 1);
	check_ok(cuda.cuStreamQuery(bench.stream));
	bench_clear(&bench);
}

static void streams_do_not_wait_for_each_other(void)
{
	struct bench bench, other;

	bench = bench_set();
	other = bench_set();
	order("hold 1000000");
	check_ok(to_device(&bench, 0, 8));
	check_ok(to_device(&other, 0, 8));
	check_ok(cuda.cuStreamSynchronize(other.stream));
	check_int(*other.view, 2);
	check_int(*bench.view, 1);
	check_ok(cuda.cuStreamDestroy_v2(other.stream));
	other.stream = stream_new();
	order("no-faults");
	check_ok(cuda.cuStreamSynchronize(bench.stream));
	bench_clear(&bench);
	bench_clear(&other);
}

static void an_event_is_done_before_it_is_recorded(void)
{
	struct bench bench = bench_set();

	check_ok(cuda.cuEventQuery(bench.event));
	check_ok(cuda.cuEventSynchronize(bench.event));
	bench_clear(&bench);
}

static void ranges_are_checked(void)
{
	struct bench bench = bench_set();
	char *plain = malloc(64);

	check_int(to_device(&bench, BYTES - 8, 9), CUDA_ERROR_INVALID_VALUE);
	check_int(to_host(&bench, BYTES - 8, 9), CUDA_ERROR_INVALID_VALUE);
	check_int(cuda.cuMemcpyHtoD_v2(bench.device + BYTES - 8, plain, 9),
		  CUDA_ERROR_INVALID_VALUE);
	check_int(cuda.cuMemcpyHtoDAsync_v2(bench.device, plain, 8, bench.stream),
		  CUDA_ERROR_INVALID_VALUE);
	check_int(cuda.cuMemcpyDtoHAsync_v2(plain, bench.device, 8, bench.stream),
		  CUDA_ERROR_INVALID_VALUE);
	check_int(cuda.cuMemcpyHtoDAsync_v2((CUdeviceptr)plain, bench.pinned, 8, bench.stream),
		  CUDA_ERROR_INVALID_VALUE);
	check_ok(to_device(&bench, 0, 0));
	check_ok(cuda.cuStreamSynchronize(bench.stream));
	bench_clear(&bench);
	check_int(cuda.cuMemcpyDtoH_v2(plain, bench.device, 8), CUDA_ERROR_INVALID_VALUE);
	free(plain);
}

static void handles_are_checked(void)
{
	CUcontext first = rig_context, second;
	struct bench bench = bench_set();
	CUstream stream = stream_new();

	check_ok(cuda.cuStreamDestroy_v2(stream));
	check_int(cuda.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
	check_int(cuda.cuEventRecord(bench.event, stream), CUDA_ERROR_INVALID_HANDLE);
	check_int(cuda.cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
	check_int(cuda.cuEventQuery((CUevent)(void *)bench.stream), CUDA_ERROR_INVALID_HANDLE);
	check_int(cuda.cuStreamQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
	check_ok(cuda.cuDevicePrimaryCtxRetain(&second, 1));
	check_ok(cuda.cuCtxSetCurrent(second));
	check_int(to_device(&bench, 0, 8), CUDA_ERROR_INVALID_HANDLE);
	check_int(cuda.cuEventQuery(bench.event), CUDA_ERROR_INVALID_HANDLE);
	check_ok(cuda.cuCtxSetCurrent(first));
	check_ok(cuda.cuDevicePrimaryCtxRelease_v2(1));
	bench_clear(&bench);
}

/* Both the free and the copy are reported. */
static void memory_freed_too_early(void)
{
	struct bench bench;
	char *pinned;

	rig_begin();
	bench = bench_set();
	order("hold 1000000");
	check_ok(to_host(&bench, 0, 8));
	pinned = bench.pinned;
	check_ok(cuda.cuMemFreeHost(pinned));
	check_int(counts_now().misuses, 1);
	check_int(cuda.cuStreamSynchronize(bench.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	check_int(cuda.cuEventQuery(bench.event), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void a_stream_may_go_before_its_work(void)
{
	struct bench bench = bench_set();

	order("hold 1000000");
	check_ok(to_device(&bench, 0, 8));
	check_ok(cuda.cuEventRecord(bench.event, bench.stream));
	check_ok(cuda.cuStreamDestroy_v2(bench.stream));
	order("hold 0");
	event_poll(bench.event);
	check_int(*bench.view, 2);
	bench.stream = stream_new();
	bench_clear(&bench);
}

/* Work that cannot start delays later work in the queue, which has its priority. */
static void streams_of_one_priority_share_a_queue(void)
{
	CUstream blocking, streams[2];
	CUdeviceptr device = device_alloc(64);
	char *pinned = pinned_alloc(64);

	check_ok(cuda.cuStreamCreate(&blocking, 0));
	for (int i = 0; i < 2; i++)
		check_ok(cuda.cuStreamCreateWithPriority(&streams[i], 1, -i));
	order("busy on; queues one");
	check_ok(cuda.cuMemcpyDtoHAsync_v2(pinned, device, 8, blocking));
	for (int i = 0; i < 2; i++)
		check_ok(cuda.cuMemcpyDtoHAsync_v2(pinned + 8 + 8 * i, device, 8, streams[i]));
	check_ok(cuda.cuStreamSynchronize(streams[1]));
	check_int(cuda.cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
	order("busy off");
	check_ok(cuda.cuStreamSynchronize(streams[0]));
	for (int i = 0; i < 2; i++)
		check_ok(cuda.cuStreamDestroy_v2(streams[i]));
	check_ok(cuda.cuStreamDestroy_v2(blocking));
	check_ok(cuda.cuMemFree_v2(device));
	check_ok(cuda.cuMemFreeHost(pinned));
}

/* Rows of 20 bytes, at distances of 100 there and 50 here; the bytes between them stay unchanged. */
static void rows_are_copied_in_sectors(void)
{
	struct cuda_copy_2d copy = { .from_type = CU_MEMORYTYPE_HOST,
				     .from_pitch = 50,
				     .to_type = CU_MEMORYTYPE_DEVICE,
				     .to_pitch = 100,
				     .width = 20,
				     .rows = 10 };
	char *pinned, *view;
	CUstream stream;
	CUdeviceptr device = device_alloc(1000);

	pinned = pinned_alloc(500);
	view = view_of(device, 1000);
	stream = stream_new();
	for (int i = 0; i < 500; i++)
		pinned[i] = (char)(i % 50);
	memset(view, 99, 1000);
	copy.from_host = pinned + 3;
	copy.to_device = device + 7;
	order("sectors on");
	check_ok(cuda.cuMemcpy2DAsync_v2(&copy, stream));
	check_ok(cuda.cuStreamSynchronize(stream));
	for (int i = 0; i < 1000; i++) {
		int column = i % 100 - 7;

		check_int(view[i], column >= 0 && column < 20 ? 3 + column : 99);
	}
	check_ok(cuda.cuStreamDestroy_v2(stream));
	check_ok(cuda.cuMemFree_v2(device));
	check_ok(cuda.cuMemFreeHost(pinned));
}

const struct selfcheck stream_checks[] = {
	{ CHECK(copies_move_bytes) },
	{ CHECK(copies_are_held_back) },
	{ CHECK(copies_are_done_late) },
	{ CHECK(waiting_lets_them_go) },
	{ CHECK(streams_do_not_wait_for_each_other) },
	{ CHECK(an_event_is_done_before_it_is_recorded) },
	{ CHECK(ranges_are_checked), .misuses = 7 },
	{ CHECK(handles_are_checked), .description = "device; device", .misuses = 7 },
	{ CHECK(memory_freed_too_early), .setting = BARE },
	{ CHECK(a_stream_may_go_before_its_work) },
	{ CHECK(streams_of_one_priority_share_a_queue) },
	{ CHECK(rows_are_copied_in_sectors) },
	{ 0 },
};
