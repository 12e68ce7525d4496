/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about GPU memory, with a sysfs made by the test and a device with given answers. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <nccl_net/device.h>
#include <nccl_net/util.h>

#include "fakes/stubs/fake_mr.h"
#include "transports/device/gpu_memory.h"
#include "unit/sysfs_tree.h"

/* A module, or an entry registered by one, with its version. */
static void make_version(const char *path, const char *version)
{
	char file[PATH_MAX];

	snprintf(file, sizeof(file), "%s/version", path);
	tree_file(file, version);
}

static void expect_peer(bool loaded, const char *wanted)
{
	char why[ANYNET_REASON_BYTES];

	assert_int_equal(gpu_peer_memory(tree_root(), why, sizeof(why)), loaded);
	assert_string_equal(why, wanted);
}

static void test_no_module_is_loaded(void **state)
{
	static const char none[] =
		"no GPU peer-memory module is loaded; try modprobe nvidia_peermem";

	(void)state;
	expect_peer(false, none);
	make_version("module/nvidia", "535.54.03\n");
	tree_dir("kernel/mm/memory_peers");
	tree_dir("module/nvidia_peermem");
	expect_peer(false, none);
}

static void test_each_module_is_found(void **state)
{
	static const char *const paths[] = { "module/nvidia_peermem",
					     "module/nvidia_peermem_nc",
					     "module/nv_peer_mem",
					     "kernel/mm/memory_peers/nv_mem",
					     "kernel/mm/memory_peers/nv_mem_nc",
					     "kernel/mm/memory_peers/nvidia-peermem" };
	char wanted[80];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		make_version(paths[i], "1.3-0\n");
		snprintf(wanted, sizeof(wanted), "%s 1.3-0 is loaded", strrchr(paths[i], '/') + 1);
		expect_peer(true, wanted);
		assert_int_equal(tree_remove(state), 0);
		assert_int_equal(tree_create(state), 0);
	}
}

static void test_the_module_is_named_before_what_it_registers(void **state)
{
	(void)state;
	make_version("kernel/mm/memory_peers/nv_mem", "1.0\n");
	make_version("module/nvidia_peermem", "535.54.03\n");
	expect_peer(true, "nvidia_peermem 535.54.03 is loaded");
}

static void test_a_version_that_cannot_be_read_is_left_out(void **state)
{
	(void)state;
	tree_dir("module/nvidia_peermem/version");
	expect_peer(true, "nvidia_peermem is loaded");
	make_version("module/nv_peer_mem", "");
	expect_peer(true, "nvidia_peermem is loaded");
}

static void test_a_version_that_cannot_be_opened_is_left_out(void **state)
{
	(void)state;
	tree_dir("module/nvidia_peermem");
	assert_int_equal(mknod(tree_path("module/nvidia_peermem/version"), S_IFSOCK | 0600, 0), 0);
	expect_peer(true, "nvidia_peermem is loaded");
}

/* NCCL takes GPU memory for out of reach then, and both must say the same. */
static void test_a_sysfs_that_cannot_be_searched_has_none(void **state)
{
	char why[ANYNET_REASON_BYTES];

	(void)state;
	tree_link("module", "module"); /* also root gets ELOOP */
	assert_false(gpu_peer_memory(tree_root(), why, sizeof(why)));
}

static void test_a_root_that_is_too_long_has_none(void **state)
{
	char path[PATH_MAX], why[ANYNET_REASON_BYTES];

	(void)state;
	memset(path, '/', sizeof(path));
	memcpy(path, tree_root(), strlen(tree_root()));
	path[sizeof(path) - 1] = 0;
	make_version("module/nvidia_peermem", "1\n");
	assert_false(gpu_peer_memory(path, why, sizeof(why)));
}

static void expect_dmabuf(int error, bool taken, const char *part)
{
	char why[ANYNET_REASON_BYTES] = "";

	fake_reset();
	fake.error = error;
	fake.no_errno = !error;
	if (gpu_dmabuf(&fake.verbs, &fake.pd, why, sizeof(why)) != taken || !strstr(why, part))
		fail_msg("%d: %s", error, why);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(fake.last.kind, FAKE_DMABUF);
	assert_int_equal(fake.last.fd, -1);
	assert_int_equal(fake.last.bytes, 0);
}

static void test_the_device_tells_whether_it_takes_dmabufs(void **state)
{
	(void)state;
	expect_dmabuf(EBADF, true, "supports dma-buf");
	expect_dmabuf(EOPNOTSUPP, false, "driver does not support dma-buf (Operation not supported)");
	expect_dmabuf(EPROTONOSUPPORT, false, "the kernel does not support dma-buf for verbs");
	expect_dmabuf(EIO, false, "not known whether the device supports dma-buf: Input/output error");
	expect_dmabuf(0, false, "not known whether the device supports dma-buf: no reason given");
}

static void test_an_old_library_takes_no_dmabufs(void **state)
{
	char why[ANYNET_REASON_BYTES];

	(void)state;
	fake_reset();
	fake.verbs.reg_dmabuf_mr = NULL;
	assert_false(gpu_dmabuf(&fake.verbs, &fake.pd, why, sizeof(why)));
	assert_non_null(strstr(why, "libibverbs is older than rdma-core 34"));
}

static void test_the_probe_leaves_nothing_behind(void **state)
{
	char why[ANYNET_REASON_BYTES];

	(void)state;
	fake_reset();
	assert_false(gpu_dmabuf(&fake.verbs, &fake.pd, why, sizeof(why)));
	assert_non_null(strstr(why, "a dma-buf that does not exist"));
	assert_int_equal(fake.regs, 1);
	assert_int_equal(fake_live(), 0);
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	(void)context;
	return &fake.pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

/* A setting overrides the loaded modules. */
static void test_peer_memory_may_be_said_to_be_there_or_not(void **state)
{
	struct anynet_config cfg = { .ib_peer_memory = ANYNET_SWITCH_AUTO };
	char text[ANYNET_REASON_BYTES];

	(void)state;
	fake_reset();
	fake.error = EOPNOTSUPP;
	fake.verbs.alloc_pd = alloc_pd;
	fake.verbs.dealloc_pd = dealloc_pd;
	assert_int_equal(gpu_ptr_support(&cfg, &fake.verbs, NULL, tree_root(), text, sizeof(text)), 0);
	cfg.ib_peer_memory = ANYNET_SWITCH_ON;
	assert_int_equal(gpu_ptr_support(&cfg, &fake.verbs, NULL, tree_root(), text, sizeof(text)),
			 ANYNET_PTR_CUDA);
	assert_non_null(strstr(text, "accessible: ANYNET_IB_PEER_MEMORY=on; "));
	make_version("module/nvidia_peermem", "1\n");
	cfg.ib_peer_memory = ANYNET_SWITCH_AUTO;
	assert_int_equal(gpu_ptr_support(&cfg, &fake.verbs, NULL, tree_root(), text, sizeof(text)),
			 ANYNET_PTR_CUDA);
	cfg.ib_peer_memory = ANYNET_SWITCH_OFF;
	assert_int_equal(gpu_ptr_support(&cfg, &fake.verbs, NULL, tree_root(), text, sizeof(text)), 0);
	assert_non_null(strstr(text, "not accessible: ANYNET_IB_PEER_MEMORY=off; "));
	fake.error = EBADF;
	assert_int_equal(gpu_ptr_support(&cfg, &fake.verbs, NULL, tree_root(), text, sizeof(text)),
			 ANYNET_PTR_DMABUF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_tree(test_no_module_is_loaded),
		with_tree(test_each_module_is_found),
		with_tree(test_the_module_is_named_before_what_it_registers),
		with_tree(test_a_version_that_cannot_be_read_is_left_out),
		with_tree(test_a_version_that_cannot_be_opened_is_left_out),
		with_tree(test_a_sysfs_that_cannot_be_searched_has_none),
		with_tree(test_a_root_that_is_too_long_has_none),
		cmocka_unit_test(test_the_device_tells_whether_it_takes_dmabufs),
		cmocka_unit_test(test_an_old_library_takes_no_dmabufs),
		cmocka_unit_test(test_the_probe_leaves_nothing_behind),
		with_tree(test_peer_memory_may_be_said_to_be_there_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
