/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that a NIC reaches a GPU (gpu_proof.c), where it cannot be run, too. GPU memory is the host's here. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/util.h>

#include "support/capture.h"
#include "transports/base/os.h"
#include "transports/device/ib_self.h"
#include "transports/memory/gpu_proof.h"
#include "unit/ib_ends.h"

#define NUMBER_BYTES 8 /* of a queue pair */

static struct nic_memory memory;
static struct anynet_mr mr = { .gpu = (struct gpu *)(void *)&memory };
static uint8_t scratch[GPU_SCRATCH_BYTES];
static int refusal; /* of the registration, a -errno */
static bool no_random, no_numbers, no_scratch, unreachable, port_goes_down, device_fails, queue_breaks;
static bool unreadable; /* for CUDA */
static char why[ANYNET_REASON_BYTES];

/* --- in place of os.c, gpu.c and the adapter --- */

int __wrap_os_random(void *data, size_t bytes);
int __real_os_random(void *data, size_t bytes);
void *__wrap_gpu_scratch(struct gpu *gpu);
struct memory_id __wrap_gpu_memory_id(const void *addr, size_t bytes);
int __wrap_gpu_ordinal(const struct gpu *gpu);
int __wrap_gpu_fetch(struct gpu *gpu, void *to, const void *from, size_t bytes);
int __wrap_ib_mr_register(struct ib_mr_cache *cache, const struct anynet_mr *piece,
			  struct ib_mr **made, char *reason, size_t reason_bytes);
int __real_ib_self_post(struct ib_self *self, enum ibv_wr_opcode opcode, void *local,
			uint32_t bytes, uint64_t remote, uint32_t rkey);
int __wrap_ib_self_post(struct ib_self *self, enum ibv_wr_opcode opcode, void *local,
			uint32_t bytes, uint64_t remote, uint32_t rkey);

int __wrap_os_random(void *data, size_t bytes)
{
	return (bytes > NUMBER_BYTES ? no_random : no_numbers) ? -ENOSYS : __real_os_random(data, bytes);
}

void *__wrap_gpu_scratch(struct gpu *gpu)
{
	(void)gpu;
	return no_scratch ? NULL : scratch;
}

struct memory_id __wrap_gpu_memory_id(const void *addr, size_t bytes)
{
	(void)addr;
	(void)bytes;
	return memory_id_unique();
}

int __wrap_gpu_ordinal(const struct gpu *gpu)
{
	(void)gpu;
	return 0;
}

int __wrap_gpu_fetch(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
	(void)gpu;
	memcpy(to, from, bytes);
	return unreadable ? -EIO : 0;
}

int __wrap_ib_self_post(struct ib_self *self, enum ibv_wr_opcode opcode, void *local,
			uint32_t bytes, uint64_t remote, uint32_t rkey)
{
	bool of_gpu = remote == (uintptr_t)scratch;
	int ret = __real_ib_self_post(self, opcode, local, bytes, remote, rkey);

	assert_int_equal(ret, 0);
	if (of_gpu && queue_breaks)
		return EIO;
	if (of_gpu && opcode == IBV_WR_RDMA_WRITE)
		memcpy(scratch, local, bytes);
	else if (of_gpu)
		memcpy(local, scratch, bytes);
	memory.nic->downs += of_gpu && port_goes_down;
	memory.nic->failed = of_gpu && device_fails;
	stub_complete(self->qp, 1, of_gpu && unreachable ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	return 0;
}

int __wrap_ib_mr_register(struct ib_mr_cache *cache, const struct anynet_mr *piece,
			  struct ib_mr **made, char *reason, size_t reason_bytes)
{
	return refusal ? refusal
		       : ib_mr_get(cache, &piece->range, IB_MR_READ, made, reason, reason_bytes);
}

/* --- */

static int setup(void **state)
{
	pair_setup(state);
	memory = (struct nic_memory){ .nic = ib_ends_start(), .cache = memory.cache };
	if (!memory.cache)
		memory.cache =
			ib_mr_cache_create(memory.nic->verbs, memory.nic->pd, ANYNET_AUTO);
	refusal = 0;
	no_random = no_numbers = no_scratch = unreachable = port_goes_down = device_fails =
		queue_breaks = unreadable = false;
	return memory.cache ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	capture_check();
	return 0;
}

/* In regMr, or when the NIC is about to use the memory. */
static int prove(bool must_know)
{
	return gpu_prove(&memory, &mr, must_know, why, sizeof(why));
}

static void test_what_cannot_be_reached_is_not_used(void **state)
{
	(void)state;
	unreachable = true;
	assert_int_equal(prove(false), -ENOMEM);
	assert_int_equal(prove(false), -EALREADY);
	assert_int_equal(prove(true), -EALREADY);
}

static void test_what_is_reached_is_used(void **state)
{
	(void)state;
	assert_int_equal(prove(false), 0);
	unreachable = true; /* it is not asked again */
	assert_int_equal(prove(false), 0);
}

static void test_what_cannot_be_proved_is_used(void **state)
{
	bool *const missing[] = { &no_random, &no_scratch, &unreadable };

	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		setup(state);
		*missing[i] = true;
		assert_int_equal(prove(false), -EAGAIN);
		assert_int_equal(prove(true), 0);
		assert_int_equal(prove(false), 0);
	}
}

static void test_a_queue_pair_that_cannot_be_made_is_the_reason(void **state)
{
	(void)state;
	memset(why, 0, sizeof(why));
	no_numbers = true;
	assert_int_equal(prove(false), -EAGAIN);
	assert_string_equal(why, "no random numbers");
}

/* The port was down in regMr. */
static void test_what_could_not_be_proved_is_proved_before_it_is_used(void **state)
{
	(void)state;
	stub_refused_mrs = 1;
	assert_int_equal(prove(false), -ENOMEM);
	no_scratch = true;
	assert_int_equal(prove(false), -EAGAIN);
	no_scratch = false;
	unreachable = true;
	assert_int_equal(prove(true), -ENOMEM);
	assert_int_equal(prove(true), -EALREADY);
}

/* Then neither its memory nor any other can be registered. */
static void test_a_device_that_fails_before_proves_nothing(void **state)
{
	static const int errors[] = { -EIO, -ENODEV };

	(void)state;
	for (int i = 0; i < 2; i++) {
		refusal = errors[i];
		assert_int_equal(prove(false), -EAGAIN);
	}
	refusal = -EINVAL;
	memory.nic->failed = true;
	assert_int_equal(prove(false), -EAGAIN);
	memory.nic->failed = false;
	assert_int_equal(prove(false), -ENOMEM);
}

/* It says nothing of the GPU that requests fail then. */
static void test_a_port_that_goes_down_meanwhile_proves_nothing(void **state)
{
	bool *const losses[] = { &port_goes_down, &device_fails, &queue_breaks };

	(void)state;
	for (int i = 0; i < 3; i++) {
		unreachable = *losses[i] = true;
		assert_int_equal(prove(false), -EAGAIN);
		memory.nic->failed = false;
		unreachable = *losses[i] = false;
	}
	/* It is back. */
	unreachable = true;
	assert_int_equal(prove(false), -ENOMEM);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_what_cannot_be_reached_is_not_used),
		T(test_what_is_reached_is_used),
		T(test_what_cannot_be_proved_is_used),
		T(test_a_queue_pair_that_cannot_be_made_is_the_reason),
		T(test_a_device_that_fails_before_proves_nothing),
		T(test_a_port_that_goes_down_meanwhile_proves_nothing),
		T(test_what_could_not_be_proved_is_proved_before_it_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
