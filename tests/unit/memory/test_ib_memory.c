/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations of NCCL's memory on verbs devices, with one port or several. */
#include "two_nics.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* In the middle of a registration of this memory another thread registers it, too. */
static struct anynet_mr *rival;

/* A registration fails with this errno; meanwhile the device fails. 0, false = not. */
static int refusal;
static bool device_fails;

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct anynet_mr *mr = rival;

	rival = NULL;
	if (mr)
		assert_non_null(ib_memory_on(mr, nics[0], why, sizeof(why)));
	atomic_store(&nics[0]->failed, device_fails);
	errno = refusal;
	return refusal ? NULL : stub->reg_mr(pd, addr, bytes, access);
}

static int setup(void **state)
{
	refusal = 0;
	device_fails = false;
	two_nics_setup(state);
	verbs.reg_mr = reg_mr;
	return 0;
}

static void test_memory_is_released_with_its_registration(void **state)
{
	struct anynet_mr *mr;
	unsigned before;

	(void)state;
	ib_open_recv(&pair, 1, 1);
	before = stub_objects();
	assert_int_equal(anynet_reg_mr(pair.recv, data, sizeof(data), ANYNET_PTR_HOST, NULL, &mr),
			 0);
	assert_int_equal(stub_objects(), before + 1);
	anynet_dereg_mr(pair.recv, mr);
	assert_int_equal(stub_objects(), before);
}

static void register_on(const struct anynet_device *first, const struct anynet_device *second,
			int expected, unsigned registrations)
{
	const struct anynet_device fused = { .member_count = 2, .members = { first, second } };
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	unsigned before = stub_objects();

	assert_int_equal(ib_memory_register(&mr, &fused, false, why, sizeof(why)), expected);
	assert_int_equal(stub_objects(), before + registrations);
	ib_memory_release(&mr);
	assert_int_equal(stub_objects(), before);
}

static void test_a_port_that_is_gone_keeps_the_others_from_nothing(void **state)
{
	const struct anynet_device gone = { .name = "gone", .index = 2 };

	(void)state;
	register_on(&local_dev, &other, 0, 2);
	register_on(&local_dev, &gone, 0, 1);
	register_on(&gone, &local_dev, 0, 1);
	register_on(&gone, &gone, -ENODEV, 0);
	stub_refused_mrs = 1;
	register_on(&local_dev, &gone, -ENOMEM, 0);
	assert_int_equal(stub_refused_mrs, 0);
}

/* It is opened again, and the memory is registered at the next use. */
static void test_memory_waits_for_a_device_that_fails(void **state)
{
	static const int errors[] = { EIO, ENODEV, ENOMEM };
	const struct anynet_device gone = { .name = "gone", .index = 2 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		refusal = errors[i];
		register_on(&local_dev, &gone, errors[i] == ENOMEM ? -ENOMEM : -ENODEV, 0);
	}
	device_fails = true;
	register_on(&local_dev, &gone, -ENODEV, 0);
	atomic_store(&nics[0]->failed, false);
}

static void test_of_two_threads_that_register_the_same_neither_leaks(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	unsigned before = stub_objects();

	(void)state;
	rival = &mr;
	assert_non_null(ib_memory_on(&mr, nics[0], why, sizeof(why)));
	assert_null(rival);
	assert_int_equal(stub_objects(), before + 1);
	ib_memory_release(&mr);
	assert_int_equal(stub_objects(), before);
}

/* As after a failover to a NIC of which regMr knows nothing. */
static void test_a_nic_is_proven_before_it_has_gpu_memory(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) },
				.gpu = &gpu,
				.dmabuf.fd = -1 };

	(void)state;
	proofs[1] = -EALREADY;
	assert_non_null(ib_memory_on(&mr, nics[0], why, sizeof(why)));
	assert_null(ib_memory_on(&mr, nics[1], why, sizeof(why)));
	ib_memory_release(&mr);
}

/* In regMr the port may be down: neither proof nor queue pair for flushes can be had. */
static void test_gpu_memory_waits_for_its_port(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) },
				.gpu = &gpu,
				.dmabuf.fd = -1 };
	unsigned before = stub_objects();

	(void)state;
	proofs[0] = -EAGAIN;
	assert_int_equal(ib_memory_register(&mr, &local_dev, true, why, sizeof(why)), 0);
	assert_int_equal(stub_objects(), before);
	assert_non_null(ib_memory_on(&mr, nics[0], why, sizeof(why)));
	ib_memory_release(&mr);
}

/* NCCL may register a buffer that is empty, at any address. Its messages have no payload. */
static void test_empty_memory_needs_no_registration(void **state)
{
	void *const places[] = { NULL, data + 16, (void *)UINTPTR_MAX };
	struct anynet_mr mr = { .gpu = &gpu, .dmabuf.fd = -1 };
	unsigned before = stub_objects();

	(void)state;
	proofs[0] = -EALREADY;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		mr.range.addr = places[i];
		assert_int_equal(ib_memory_register(&mr, &local_dev, true, why, sizeof(why)), 0);
		assert_non_null(ib_memory_on(&mr, nics[0], why, sizeof(why)));
		assert_int_equal(stub_objects(), before);
		ib_memory_release(&mr);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, two_nics_teardown)
	const struct CMUnitTest tests[] = {
		T(test_memory_is_released_with_its_registration),
		T(test_a_port_that_is_gone_keeps_the_others_from_nothing),
		T(test_memory_waits_for_a_device_that_fails),
		T(test_of_two_threads_that_register_the_same_neither_leaks),
		T(test_a_nic_is_proven_before_it_has_gpu_memory),
		T(test_gpu_memory_waits_for_its_port),
		T(test_empty_memory_needs_no_registration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
