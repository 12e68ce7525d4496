/* SPDX-License-Identifier: Apache-2.0 */
/* The script language. */
#include "rig.h"

#include <string.h>

static void nonsense_is_not_obeyed(void)
{
	static const char *const wrong[] = { "hello",
					     "hold",
					     "hold x",
					     "fail",
					     "fail cuFrobnicate code=1",
					     "fail cuMem code=1",
					     "fail cuInit",
					     "fail cuInit nth=1 code",
					     "capture perhaps",
					     "device x=1",
					     "no-faults all" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		check_that(rig.script(wrong[i]) == -1, "'%s' is obeyed", wrong[i]);
	order("# nothing\n\n hold 1 ; hold 0 # and that\n");
	check_ok(cuda.cuInit(0));
	check_int(rig.script("device"), -1); /* too late */
}

static void init_fails_with_a_wrong_description(void)
{
	check_int(cuda.cuInit(0), CUDA_ERROR_UNKNOWN);
}

static void init_can_fail(void)
{
	check_int(cuda.cuInit(0), CUDA_ERROR_NO_DEVICE);
}

static void calls_fail_at_their_kth_time(void)
{
	CUdeviceptr memory;
	void *pinned;

	order("fail cuMemHostAlloc nth=2 count=2 code=2; fail cuMemAlloc_v2 code=999");
	check_int(cuda.cuMemAlloc_v2(&memory, 64), CUDA_ERROR_UNKNOWN);
	check_ok(cuda.cuMemHostAlloc(&pinned, 64, 0));
	check_ok(cuda.cuMemFreeHost(pinned));
	check_int(cuda.cuMemHostAlloc(&pinned, 64, 0), CUDA_ERROR_OUT_OF_MEMORY);
	check_int(cuda.cuMemHostAlloc(&pinned, 64, 0), CUDA_ERROR_OUT_OF_MEMORY);
	check_ok(cuda.cuMemHostAlloc(&pinned, 64, 0));
	order("fail cuMemFreeHost code=1");
	check_int(cuda.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	rig.reset();
	check_ok(cuda.cuMemFreeHost(pinned));
}

static void a_failed_copy_is_the_end_of_a_context(void)
{
	CUdeviceptr device = device_alloc(64);
	char *pinned = pinned_alloc(64);
	CUstream stream = stream_new();
	CUevent event = event_new();

	order("fail copy nth=2 code=700");
	for (int i = 0; i < 2; i++)
		check_ok(cuda.cuMemcpyHtoDAsync_v2(device + 8 * (size_t)i, pinned, 8, stream));
	/* Refused if the second one has already failed. */
	cuda.cuMemcpyHtoDAsync_v2(device + 16, pinned, 8, stream);
	check_int(cuda.cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	check_int(counts_now().copies, 1);
	check_int(cuda.cuEventRecord(event, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	check_int(cuda.cuMemFreeHost(pinned), CUDA_ERROR_ILLEGAL_ADDRESS);
	check_int(counts_now().misuses, 0);
	rig.reset();
	check_ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
	rig_begin();
	check_ok(cuda.cuStreamCreate(&stream, 1));
	check_ok(cuda.cuStreamDestroy_v2(stream));
}

static void a_capture_forbids_what_may_spoil_it(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr memory;
	CUevent event = event_new();

	check_int(cuda.cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	check_int(cuda.cuMemAlloc_v2(&memory, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	check_ok(cuda.cuThreadExchangeStreamCaptureMode(&mode));
	check_int(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	check_ok(cuda.cuEventQuery(event));
	memory = device_alloc(64);
	check_ok(cuda.cuMemFree_v2(memory));
	check_ok(cuda.cuThreadExchangeStreamCaptureMode(&mode));
	check_int(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	order("capture off");
	check_ok(cuda.cuEventQuery(event));
	check_ok(cuda.cuEventDestroy_v2(event));
	mode = 7;
	check_int(cuda.cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
}

static void a_kernel_that_does_not_end(void)
{
	CUstream blocking, stream;
	CUdeviceptr device = device_alloc(64);
	char *pinned = pinned_alloc(64);

	stream = stream_new();
	check_ok(cuda.cuStreamCreate(&blocking, 0));
	check_ok(cuda.cuMemcpyHtoDAsync_v2(device, pinned, 8, blocking));
	check_int(cuda.cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	check_int(cuda.cuStreamSynchronize(blocking), CUDA_ERROR_LAUNCH_TIMEOUT);
	check_int(cuda.cuMemcpyHtoD_v2(device, pinned, 8), CUDA_ERROR_LAUNCH_TIMEOUT);
	check_ok(cuda.cuMemcpyHtoDAsync_v2(device + 8, pinned, 8, stream));
	check_ok(cuda.cuStreamSynchronize(stream));
	order("busy off");
	check_ok(cuda.cuMemcpyHtoD_v2(device + 16, pinned, 8)); /* waits for the first */
	check(!memcmp(view_of(device, 8), pinned, 8));
	check_ok(cuda.cuStreamDestroy_v2(blocking));
	check_ok(cuda.cuStreamDestroy_v2(stream));
	check_ok(cuda.cuMemFreeHost(pinned));
	check_ok(cuda.cuMemFree_v2(device));
}

const struct selfcheck script_checks[] = {
	{ CHECK(nonsense_is_not_obeyed), .setting = BARE },
	{ CHECK(init_fails_with_a_wrong_description), .description = "hello", .setting = BARE },
	{ CHECK(init_can_fail), .description = "fail cuInit code=100", .setting = BARE },
	{ CHECK(calls_fail_at_their_kth_time) },
	{ CHECK(a_failed_copy_is_the_end_of_a_context) },
	{ CHECK(a_capture_forbids_what_may_spoil_it), .description = "capture on", .misuses = 3 },
	{ CHECK(a_kernel_that_does_not_end), .description = "busy on", .misuses = 2 },
	{ 0 },
};
