/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests rely on, checked on the fake libcuda.so.1.
 *
 *   cuda_check LIBRARY
 */
#include "rig.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#undef check /* cmocka's, of a parameter */
#define check(condition) check_that(condition, "%s", #condition)

#define CHECKS_MAX 64

struct rig rig;
static const char *library;

static void find(void *lib, const char *name, void *function)
{
	void *symbol = dlsym(lib, name);

	check_that(symbol, "%s: %s", name, dlerror());
	memcpy(function, &symbol, sizeof(symbol));
}

static void rig_open(void)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	check_that(lib, "%s", dlerror());
#define CUDA_FIND(name, arguments) find(lib, #name, &rig.cuda.name);
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
	find(lib, "fake_cuda_script", &rig.script);
	find(lib, "fake_cuda_reset", &rig.reset);
	find(lib, "fake_cuda_counts", &rig.counts);
	find(lib, "fake_cuda_view", &rig.view);
	find(lib, "fake_cuda_pin", &rig.pin);
	find(lib, "fake_cuda_unpin", &rig.unpin);
	find(lib, "fake_cuda_pin_dmabuf", &rig.pin_dmabuf);
	find(lib, "fake_cuda_on_flush", &rig.on_flush);
	dlclose(lib);
	check(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)); /* it is known by that name now */
}

CUcontext rig_begin(void)
{
	CUcontext context;

	check_ok(rig.cuda.cuInit(0));
	check_ok(rig.cuda.cuDevicePrimaryCtxRetain(&context, 0));
	check_ok(rig.cuda.cuCtxPushCurrent_v2(context));
	return context;
}

void rig_end(uint64_t misuses)
{
	struct fake_cuda_counts counts;
	CUcontext context;

	check_ok(rig.cuda.cuCtxPopCurrent_v2(&context));
	counts = counts_now();
	check_int(counts.allocations, 0);
	check_int(counts.device_bytes, 0);
	check_int(counts.pinned, 0);
	check_int(counts.pinned_bytes, 0);
	check_int(counts.streams, 0);
	check_int(counts.events, 0);
	check_int(counts.registrations, 0);
	check_int(counts.waiting, 0);
	check_ok(rig.cuda.cuDevicePrimaryCtxRelease_v2(0));
	counts = counts_now();
	check_int(counts.contexts, 0);
	check_int(counts.misuses, misuses);
}

void order(const char *script)
{
	check_int(rig.script(script), 0);
}

struct fake_cuda_counts counts_now(void)
{
	struct fake_cuda_counts counts;

	rig.counts(&counts);
	return counts;
}

CUdeviceptr device_alloc(size_t bytes)
{
	CUdeviceptr memory;

	check_ok(rig.cuda.cuMemAlloc_v2(&memory, bytes));
	return memory;
}

char *pinned_alloc(size_t bytes)
{
	void *memory;

	check_ok(rig.cuda.cuMemHostAlloc(&memory, bytes, 0));
	return memory;
}

char *view_of(CUdeviceptr device, size_t bytes)
{
	char *view = rig.view((const void *)device, bytes);

	check_that(view, "no view of %zu bytes", bytes);
	return view;
}

CUstream stream_new(void)
{
	CUstream stream;

	check_ok(rig.cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

CUevent event_new(void)
{
	CUevent event;

	check_ok(rig.cuda.cuEventCreate(&event, 2));
	return event;
}

uint64_t event_poll(CUevent event)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an event");
	uint64_t count = 0;
	int ret;

	while ((ret = rig.cuda.cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
		count++;
		deadline_turn(&deadline);
	}
	check_ok(ret);
	return count;
}

static void run_check(void **state)
{
	const struct check *check = *state;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		unsetenv("FAKE_CUDA");
		if (check->description)
			setenv("FAKE_CUDA", check->description, 1);
		rig_open();
		check->run();
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct check *lists[] = { adapter_checks, context_checks, memory_checks,
					script_checks, stream_checks };
	struct CMUnitTest tests[CHECKS_MAX];
	size_t count = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
		return 2;
	}
	library = argv[1];
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		for (const struct check *check = lists[i]; check->name; check++)
			tests[count++] = (struct CMUnitTest){ check->name, run_check, NULL, NULL,
							      (void *)(uintptr_t)check };
	cmocka_set_test_filter(getenv("TEST_FILTER"));
	return _cmocka_run_group_tests(argv[0], tests, count, NULL, NULL);
}
