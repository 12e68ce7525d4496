/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's own CUDA context, which does not reach the application's memory (gpu.c). The functions of libcuda are the
 * test's; a stream and an event are known by their context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/util.h>

#include "transports/base/net.h"
#include "transports/memory/gpu_internal.h"

#define CUDA_INVALID_CONTEXT 201
#define CUDA_ILLEGAL_ADDRESS 700

static struct context {
	bool is_gone;
} own, primary;

static struct {
	struct context *current;
	int ordinal;         /* of the memory */
	bool hangs;          /* a copy in the own context is never done; else it fails */
	bool is_locked;      /* the own context cannot be entered */
	uint8_t *registered; /* of the host's memory */
	uint8_t *copied_to;  /* by the copy in the own context */
	int error;           /* of earlier calls, which queries return */
	uint64_t now_ms;
} cuda;

uint64_t __wrap_os_now_ms(void);

/* Each look at the clock takes a second. */
uint64_t __wrap_os_now_ms(void)
{
	return cuda.now_ms += 1000;
}

static int text_of(int error, const char **text)
{
	(void)error;
	*text = "an error";
	return 0;
}

static int device_get(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

static int retain(void **context, int device)
{
	(void)device;
	*context = &primary;
	return 0;
}

static int push(void *context)
{
	assert_null(cuda.current);
	assert_false(((struct context *)context)->is_gone);
	if (context == &own && cuda.is_locked)
		return CUDA_INVALID_CONTEXT;
	cuda.current = context;
	return 0;
}

static int pop(void **context)
{
	*context = cuda.current;
	cuda.current = NULL;
	return 0;
}

static int exchange_mode(int *mode)
{
	(void)mode;
	return 0;
}

static int attribute(void *value, int name, uint64_t address)
{
	if (cuda.error)
		return cuda.error;
	if (name == CUDA_POINTER_ORDINAL)
		*(int *)value = cuda.ordinal;
	else if (address == (uintptr_t)cuda.registered)
		*(uint64_t *)value = address;
	else
		return CUDA_INVALID_VALUE;
	return 0;
}

static int priorities(int *least, int *greatest)
{
	*least = *greatest = 0;
	return 0;
}

static int make_stream(void **stream, unsigned flags, int priority)
{
	(void)flags;
	(void)priority;
	*stream = cuda.current;
	return 0;
}

static int make_event(void **event, unsigned flags)
{
	(void)flags;
	*event = cuda.current;
	return 0;
}

static int record(void *event, void *stream)
{
	assert_ptr_equal(event, cuda.current);
	assert_ptr_equal(stream, cuda.current);
	return 0;
}

static int query(void *event)
{
	assert_ptr_equal(event, cuda.current);
	return event == &own && cuda.hangs ? CUDA_NOT_READY : 0;
}

static int pin(void *memory, size_t bytes, unsigned flags)
{
	(void)bytes;
	(void)flags;
	cuda.registered = memory;
	return 0;
}

static int unpin(void *memory)
{
	assert_ptr_equal(memory, cuda.registered);
	cuda.registered = NULL;
	return 0;
}

static int copy_out(void *to, uint64_t from, size_t bytes, void *stream)
{
	assert_ptr_equal(stream, cuda.current);
	if (cuda.current == &own && !cuda.hangs) {
		cuda.is_locked = true;
		return CUDA_ILLEGAL_ADDRESS;
	}
	if (cuda.current == &own)
		cuda.copied_to = to;
	else
		memcpy(to, (void *)(uintptr_t)from, bytes);
	return 0;
}

static int create(void **context, unsigned flags, int device)
{
	(void)flags;
	(void)device;
	*context = &own;
	return push(&own);
}

static int destroy(void *context)
{
	((struct context *)context)->is_gone = true;
	return 0;
}

static int setup(void **state)
{
	static struct anynet_config cfg = { .cuda_own_context = ANYNET_SWITCH_ON };
	static char library;

	(void)state;
	anynet_net.cfg = &cfg;
	own.is_gone = false;
	cuda.is_locked = cuda.hangs = false;
	cuda.error = 0;
	cuda.registered = NULL;
	cuda.ordinal++;
	gpus.cuda = (struct cuda){
		.library = &library,
		.get_error_name = text_of,
		.get_error_string = text_of,
		.device_get = device_get,
		.primary_ctx_retain = retain,
		.ctx_push = push,
		.ctx_pop = pop,
		.thread_exchange_capture_mode = exchange_mode,
		.pointer_get_attribute = attribute,
		.ctx_priority_range = priorities,
		.stream_create = make_stream,
		.event_create = make_event,
		.event_record = record,
		.event_query = query,
		.mem_host_register = pin,
		.mem_host_unregister = unpin,
		.memcpy_to_host = copy_out,
		.ctx_create = create,
		.ctx_destroy = destroy,
	};
	return 0;
}

/* A copy goes by the primary context. */
static struct gpu *check_gpu(void)
{
	static const char there[] = "there";
	char here[sizeof(there)] = "", why[200];
	struct gpu *gpu;

	assert_int_equal(gpu_of(there, &gpu, why, sizeof(why)), 0);
	assert_int_equal(gpu_fetch(gpu, here, there, sizeof(there)), 0);
	assert_string_equal(here, there);
	assert_null(cuda.current);
	return gpu;
}

/* Not even if it cannot be entered any more. */
static void test_nothing_of_a_context_that_is_given_up_is_used(void **state)
{
	(void)state;
	check_gpu();
	assert_true(own.is_gone);
}

static void test_a_copy_that_is_not_done_keeps_its_memory(void **state)
{
	struct gpu *gpu;

	(void)state;
	cuda.hangs = true;
	gpu = check_gpu();
	assert_false(own.is_gone);
	assert_non_null(cuda.copied_to);
	for (int i = 0; i < GPU_BOUNCES; i++)
		assert_ptr_not_equal(gpu_bounce_memory(gpu, i), cuda.copied_to);
}

/* An error of the application's kernels, say, does not. */
static void test_only_a_reset_counts_as_one(void **state)
{
	const int errors[] = { CUDA_INVALID_CONTEXT, CUDA_ILLEGAL_ADDRESS, CUDA_UNKNOWN };
	struct gpu *gpu;

	(void)state;
	gpu = check_gpu();
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		cuda.error = errors[i];
		assert_int_equal(gpu_check_context(gpu), errors[i]);
	}
	cuda.error = 0;
	assert_int_equal(gpu_check_context(gpu), 0);
	cuda.error = CUDA_INVALID_VALUE;
	assert_int_equal(gpu_check_context(gpu), CUDA_CONTEXT_IS_DESTROYED);
	cuda.error = 0;
	assert_int_equal(gpu_check_context(gpu), CUDA_CONTEXT_IS_DESTROYED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nothing_of_a_context_that_is_given_up_is_used, setup),
		cmocka_unit_test_setup(test_a_copy_that_is_not_done_keeps_its_memory, setup),
		cmocka_unit_test_setup(test_only_a_reset_counts_as_one, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
