/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are opened at run time: which are accepted. (libibverbs is in test_ib_probe.c.) */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transports/device/rdmacm.h"
#include "transports/memory/cuda.h"

static const char *whole, *older, *lacking, *cm; /* the files */

static void test_a_driver_has_all_functions(void **state)
{
	struct cuda cuda;
	char why[200];

	(void)state;
	assert_int_equal(cuda_open(whole, &cuda, why, sizeof(why)), 0);
	assert_non_null(cuda.init);
	assert_non_null(cuda.memcpy_to_device);
	assert_non_null(cuda.mem_get_handle);
	assert_non_null(cuda.flush_writes);
}

static void test_an_older_driver_does_without_what_is_new(void **state)
{
	struct cuda cuda;
	char why[200];

	(void)state;
	assert_int_equal(cuda_open(older, &cuda, why, sizeof(why)), 0);
	assert_non_null(cuda.library);
	assert_non_null(cuda.event_query);
	assert_null(cuda.mem_get_handle);
	assert_null(cuda.flush_writes);
}

static void test_what_is_missing_is_named(void **state)
{
	struct cuda cuda;
	char why[200];

	(void)state;
	assert_int_equal(cuda_open(lacking, &cuda, why, sizeof(why)), -ENOSYS);
	assert_non_null(strstr(why, "lacks cuEventQuery"));
	assert_null(cuda.library);
	assert_null(cuda.init);
	assert_int_equal(cuda_open("libanynet-none.so.1", &cuda, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "libanynet-none.so.1"));
	assert_null(cuda.library);
}

static void test_the_rdma_cm_is_wanted_whole(void **state)
{
	struct rdmacm rdmacm;
	char why[200];

	(void)state;
	assert_int_equal(rdmacm_open(cm, &rdmacm, why, sizeof(why)), 0);
	assert_non_null(rdmacm.create_id);
	assert_non_null(rdmacm.establish);
	assert_non_null(rdmacm.init_qp_attr);
	rdmacm_close(&rdmacm);
	assert_null(rdmacm.library);
	assert_int_equal(rdmacm_open("libc.so.6", &rdmacm, why, sizeof(why)), -ENOSYS);
	assert_non_null(strstr(why, "lacks rdma_create_event_channel@RDMACM_1.0"));
	assert_null(rdmacm.library);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_driver_has_all_functions),
		cmocka_unit_test(test_an_older_driver_does_without_what_is_new),
		cmocka_unit_test(test_what_is_missing_is_named),
		cmocka_unit_test(test_the_rdma_cm_is_wanted_whole),
	};

	if (argc != 5)
		return 2;
	whole = argv[1];
	older = argv[2];
	lacking = argv[3];
	cm = argv[4];
	return cmocka_run_group_tests_name("libraries", tests, NULL, NULL);
}
