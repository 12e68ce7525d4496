/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IB's probe on a libibverbs without hardware (tests/fakes/verbs): each reason for which a port is unusable has its own
 * verdict, and nothing stays open. Usage: test_ib_probe FAKE_LIBRARY FAKE_LIBRARY_THAT_LACKS_FUNCTIONS
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transports/device/sysfs.h"
#include "unit/ib_probing.h"

#define DOWN "; port layer=ib state=down"

static const char *lacking_file;

/* The first RDMA device of the kernel. */
static const char *kernels_first = "";

__typeof__(sysfs_first_rdma) __wrap_sysfs_first_rdma;

void __wrap_sysfs_first_rdma(const char *root, char *name, size_t bytes)
{
	assert_string_equal(root, ANYNET_SYSFS);
	snprintf(name, bytes, "%s", kernels_first);
}

/* No port can be offered, no queue pair is made, and no GID table is read entry by entry. */
static void run_on(const char *script)
{
	struct fake_verbs_counts before = probing_counts(), after;

	probing_run(script);
	after = probing_counts();
	assert_int_equal(ib_probed.device_count, 0);
	assert_int_equal(after.qps_made, before.qps_made);
	assert_int_equal(after.gid_reads, before.gid_reads);
	for (int i = 0; i < ib_probed.candidate_count; i++) {
		assert_int_equal(ib_probed.candidates[i].transport, ANYNET_TRANSPORT_IB);
		assert_false(ib_probed.candidates[i].usable);
	}
}

/* Verdict number `i` is about `name` and contains `part`. */
static void expect_verdict(int i, const char *name, const char *part)
{
	assert_true(i < ib_probed.candidate_count);
	assert_string_equal(ib_probed.candidates[i].name, name);
	probing_says(&ib_probed.candidates[i], part);
}

static void expect_only(const char *name, const char *part)
{
	assert_int_equal(ib_probed.candidate_count, 1);
	expect_verdict(0, name, part);
}

static void test_a_missing_library_is_said_in_the_loaders_words(void **state)
{
	(void)state;
	snprintf(ib_cfg.ibverbs_lib, sizeof(ib_cfg.ibverbs_lib), "/nowhere/libibverbs.so.9");
	anynet_ib_probe(&ib_cfg, &ib_probed);
	assert_true(ib_probed.candidate_count >= 1);
	expect_verdict(0, "libibverbs",
		       "/nowhere/libibverbs.so.9: cannot open shared object file: No such file");
}

static void test_missing_functions_are_named_with_their_version(void **state)
{
	(void)state;
	snprintf(ib_cfg.ibverbs_lib, sizeof(ib_cfg.ibverbs_lib), "%s", lacking_file);
	anynet_ib_probe(&ib_cfg, &ib_probed);
	assert_true(ib_probed.candidate_count >= 1);
	expect_verdict(0, "libibverbs", "lacks ibv_alloc_pd@IBVERBS_1.1, ibv_dealloc_pd@");
}

static void test_disabled_means_not_even_loaded(void **state)
{
	(void)state;
	ib_cfg.ib_disable = true;
	run_on("list errno=38");
	expect_only("libibverbs", "not opened: NCCL_IB_DISABLE=1");
}

static void test_a_kernel_without_rdma(void **state)
{
	(void)state;
	run_on("list errno=38"); /* ENOSYS */
	expect_only("libibverbs", "Function not implemented; the kernel has no RDMA");
	run_on("list errno=12");
	expect_only("libibverbs", "Cannot allocate memory");
}

static void test_no_device(void **state)
{
	(void)state;
	run_on("");
	expect_only("libibverbs", "no RDMA device");
	kernels_first = "mlx5_0";
	run_on("");
	kernels_first = "";
	expect_only(
		"mlx5_0",
		"the kernel has it, but libibverbs does not list it: its driver is not installed "
		"(ibverbs-providers), or /dev/infiniband is missing, perhaps only in the container");
}

static void test_a_device_that_may_not_be_opened(void **state)
{
	(void)state;
	run_on("device mlx5_0 open=13" DOWN "; device mlx5_1 open=2; device mlx5_2 open=5; device mlx5_3 open=1");
	assert_int_equal(ib_probed.candidate_count, 4);
	expect_verdict(0, "mlx5_0",
		       "cannot open /dev/infiniband/uverbs0: Permission denied; this user has no permission");
	expect_verdict(1, "mlx5_1", "uverbs1: No such file or directory; is the device node missing");
	expect_verdict(2, "mlx5_2", "uverbs2: Input/output error");
	expect_verdict(3, "mlx5_3", "Operation not permitted; this user has no permission");
}

static void test_devices_and_ports_that_cannot_be_queried(void **state)
{
	(void)state;
	run_on("device a query=5; device b; port query=22" DOWN "; device c");
	assert_int_equal(ib_probed.candidate_count, 4);
	expect_verdict(0, "a", "cannot be queried: Input/output error");
	expect_verdict(1, "b:1", "cannot be queried: Invalid argument");
	expect_verdict(2, "b:2", "port is DOWN");
	expect_verdict(3, "c", "has no ports");
}

static void test_ports_that_are_not_active_say_their_state(void **state)
{
	(void)state;
	run_on("device m" DOWN "; port layer=ib state=init; port layer=ib state=armed; port layer=ib state=99");
	assert_int_equal(ib_probed.candidate_count, 4);
	expect_verdict(0, "m:1", "port is DOWN");
	expect_verdict(1, "m:2", "port is INIT (not configured by a subnet manager");
	expect_verdict(2, "m:3", "port is ARMED");
	expect_verdict(3, "m:4", "port is in an unknown state");
}

static void test_active_ports_that_still_cannot_be_used(void **state)
{
	(void)state;
	run_on("device m; port layer=0 lid=1 gid=0,::1; port layer=ib gid=0,::1; port; port layer=ib lid=7; "
	       "device w iwarp; port gid=3,::1");
	assert_int_equal(ib_probed.candidate_count, 5);
	expect_verdict(0, "m:1", "link layer is neither InfiniBand nor Ethernet");
	expect_verdict(1, "m:2", "has no LID");
	expect_verdict(2, "m:3", "GID table is empty");
	expect_verdict(3, "m:4", "GID table is empty");
	expect_verdict(4, "w",
		       "is an iWARP device (for example Alibaba eRDMA), which needs");
}

static void test_the_hca_list_filters_devices_and_ports(void **state)
{
	static const char script[] = "device mlx5_0" DOWN DOWN "; device mlx5_1 open=13";
	char name[16];

	(void)state;
	snprintf(ib_cfg.ib_hca, sizeof(ib_cfg.ib_hca), "=mlx5_0:2");
	run_on(script);
	assert_int_equal(ib_probed.candidate_count, 3);
	expect_verdict(0, "mlx5_0:1", "filtered by NCCL_IB_HCA==mlx5_0:2");
	expect_verdict(1, "mlx5_0:2", "port is DOWN");
	expect_verdict(2, "mlx5_1", "filtered by NCCL_IB_HCA"); /* not opened: no EACCES */
	snprintf(ib_cfg.ib_hca, sizeof(ib_cfg.ib_hca), "^mlx5_0:2");
	run_on(script);
	assert_int_equal(ib_probed.candidate_count, 3);
	expect_verdict(0, "mlx5_0:1", "port is DOWN");
	expect_verdict(1, "mlx5_0:2", "filtered");
	expect_verdict(2, "mlx5_1", "Permission denied");
	snprintf(ib_cfg.ib_hca, sizeof(ib_cfg.ib_hca), "ib");
	run_on(script);
	assert_int_equal(ib_probed.candidate_count, 2);
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "mlx5_%d", i);
		expect_verdict(i, name, "filtered");
	}
}

static void test_a_second_probe_starts_afresh(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		run_on("device mlx5_0" DOWN);
		expect_only("mlx5_0:1", "port is DOWN");
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, probing_setup)
		TEST(test_a_missing_library_is_said_in_the_loaders_words),
		TEST(test_missing_functions_are_named_with_their_version),
		TEST(test_disabled_means_not_even_loaded),
		TEST(test_a_kernel_without_rdma),
		TEST(test_no_device),
		TEST(test_a_device_that_may_not_be_opened),
		TEST(test_devices_and_ports_that_cannot_be_queried),
		TEST(test_ports_that_are_not_active_say_their_state),
		TEST(test_active_ports_that_still_cannot_be_used),
		TEST(test_the_hca_list_filters_devices_and_ports),
		TEST(test_a_second_probe_starts_afresh),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: %s FAKE_LIBRARY LACKING_LIBRARY\n", argv[0]);
		return 1;
	}
	lacking_file = argv[2];
	if (!probing_hold(argv[1]))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
