/* SPDX-License-Identifier: Apache-2.0 */
/*
 * makeVDevice in every version that has it: which devices are fused and which are not. Each test runs in its own
 * process, because fused devices are never removed.
 */
#include "fusing.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "child.h"
#include "support/check.h"

/* --- properties --- */

static void fuse_by_every_version(void)
{
	begin("iiiiiiii");
	check_int(device_count(), 8);
	for (int abi = 9; abi <= 12; abi++) {
		int dev, most = abi < 12 ? 4 : 8;

		check_ok(make_by(abi, &dev, most, (const int[]){ 7, 6, 5, 4, 3, 2, 1, 0 }));
		check_int(dev, 8 + abi - 9);
		check_int(device_count(), dev + 1);
		check_int(props_of(dev).vprops.count, most);
		for (int i = 0; i < most; i++)
			check_int(props_of(dev).vprops.devs[i], 7 - i);
	}
	for (int dev = 0; dev < 8; dev++) {
		check_int(props_of(dev).vprops.count, 1);
		check_int(props_of(dev).vprops.devs[0], dev);
	}
	check_int(fake_log.warnings, 0);
}

static void test_every_version_fuses(void **state)
{
	(void)state;
	assert_int_equal(in_process(fuse_by_every_version), 0);
}

static void properties(void)
{
	struct anynet_net_props_v12 first, fused;
	int dev;

	begin("iiii");
	dev = make(3, (const int[]){ 1, 2, 0 });
	first = props_of(1);
	fused = props_of(dev);
	check(!strcmp(fused.name, "mlx5_1+mlx5_2+mlx5_0"));
	check(!strcmp(fused.pci_path, first.pci_path));
	check(fused.guid == first.guid);
	check_int(fused.port, first.port);
	check_int(fused.speed_mbps, 700000);
	check_int(fused.max_comms, 980);
	check_int(fused.max_recvs, 6);
	check_int(fused.ptr_support, ANYNET_PTR_HOST | ANYNET_PTR_DMABUF);
	check_int(fused.force_flush, 1);
	check_int(fused.reg_is_global, 1);
	dev = make(2, (const int[]){ 0, 3 });
	check_int(props_of(dev).ptr_support, ANYNET_PTR_HOST);
	check_int(props_of(dev).force_flush, 0);
	check_int(props_of(dev).speed_mbps, 900000);
}

static void test_properties_come_from_the_members(void **state)
{
	(void)state;
	assert_int_equal(in_process(properties), 0);
}

static void expect_place(int a, int b, int rail, int plane)
{
	int dev = make(2, (const int[]){ a, b });

	check_int(props_of(dev).rail_id, rail);
	check_int(props_of(dev).plane_id, plane);
}

/* NCCL fuses by rail on request, and connects no two devices of different planes. */
static void rails_and_planes(void)
{
	fake.rails = "00117-";
	fake.planes = "35537-";
	begin("iiiiii");
	check_int(props_of(4).rail_id, 7);
	check_int(props_of(4).plane_id, 7);
	check_int(props_of(5).rail_id, -1);
	check_int(props_of(5).plane_id, -1);
	expect_place(0, 1, 0, 0x4000 | 1 << 1 | 1 << 2);
	expect_place(2, 3, 1, 0x4000 | 1 << 1 | 1 << 2); /* the same planes as those */
	expect_place(1, 2, -1, 0x4000 | 1 << 2);
	expect_place(0, 4, -1, 0x4000 | 1 << 1 | 1 << 3);
	expect_place(3, 5, -1, 0x4000 | 1 << 1 | 1);
	expect_place(5, 3, -1, 0x4000 | 1 << 1 | 1);
}

static void no_rails_and_planes(void)
{
	begin("ii");
	expect_place(0, 1, -1, -1);
}

static void test_rails_and_planes_are_told(void **state)
{
	(void)state;
	assert_int_equal(in_process(rails_and_planes), 0);
	assert_int_equal(in_process(no_rails_and_planes), 0);
}

/* A table with four members cannot describe eight. */
static void read_by_older_tables(void)
{
	struct anynet_net_props_v11 v11;
	struct anynet_net_props_v9 v9;
	struct anynet_net_props_v8 v8;
	int dev;

	begin("iiiiiiii");
	dev = make(8, (const int[]){ 0, 1, 2, 3, 4, 5, 6, 7 });
	check_ok(ncclNetPlugin_v11.get_properties(dev, &v11));
	check_ok(ncclNetPlugin_v9.get_properties(dev, &v9));
	check_ok(ncclNetPlugin_v8.get_properties(dev, &v8));
	check_int(v11.vprops.count, 4);
	check_int(v9.vprops.count, 4);
	check_int(v9.vprops.devs[3], 3);
	check(v11.name == v8.name);
}

static void test_older_tables_tell_what_they_can(void **state)
{
	(void)state;
	assert_int_equal(in_process(read_by_older_tables), 0);
}

static void use(void)
{
	char handle[ANYNET_HANDLE_BYTES];
	void *out = NULL, *ctx = begin("rr");
	int dev = make(2, (const int[]){ 0, 1 });

	check_ok(ncclNetPlugin_v12.listen(ctx, dev, handle, &out));
	check_ok(ncclNetPlugin_v12.connect(ctx, dev, handle, &out, NULL));
	check_int(fake.dev->member_count, 2);
	check(!strcmp(fake.dev->members[1]->name, "mlx5_1"));
	check_int(ncclNetPlugin_v12.listen(ctx, dev + 1, handle, &out), ANYNET_NCCL_INVALID_USAGE);
}

static void test_it_is_a_device_for_connections(void **state)
{
	(void)state;
	assert_int_equal(in_process(use), 0);
}

/* NCCL 2.24 to 2.26 asks for groups of one as well, and once there is one new device it uses no others. */
static void one_alone(void)
{
	begin("iii");
	check_int(make(1, (const int[]){ 2 }), 3);
	check_int(device_count(), 4);
	check(!strcmp(props_of(3).name, props_of(2).name));
	check_int(props_of(3).speed_mbps, props_of(2).speed_mbps);
	check_int(props_of(3).vprops.count, 1);
	check_int(props_of(3).vprops.devs[0], 2);
}

static void test_one_alone_is_listed_again(void **state)
{
	(void)state;
	assert_int_equal(in_process(one_alone), 0);
}

/* NCCL 2.24 and 2.25, which end the communicator on invalid usage. */
static void apart_by_v9(void)
{
	int dev;

	setenv("NCCL_IB_MERGE_NICS", "0", 1);
	begin("iii");
	check_int(make_by(9, &dev, 2, (const int[]){ 0, 2 }), ANYNET_NCCL_SUCCESS);
	check_int(dev, 4);
	check_int(device_count(), 5);
	check_int(props_of(3).vprops.devs[0], 0);
	check_int(props_of(4).vprops.devs[0], 2);
	check_int(make_by(9, &dev, 0, NULL), ANYNET_NCCL_INVALID_USAGE);
	check_int(make_by(10, &dev, 2, (const int[]){ 0, 2 }), ANYNET_NCCL_INVALID_USAGE);
}

static void test_v9_lists_each_that_stays_alone(void **state)
{
	(void)state;
	assert_int_equal(in_process(apart_by_v9), 0);
}

/* --- what is refused --- */

/* By the widest table: refused, with `warnings` warnings that contain `words`; nothing has changed. */
static void check_refused(int count, const int *devs, int warnings, const char *words)
{
	int dev, before = device_count();

	fake_log_clear();
	check_int(make_by(12, &dev, count, devs), ANYNET_NCCL_INVALID_USAGE);
	check_int(dev, -1);
	check_int(device_count(), before);
	check_int(fake_log.warnings, warnings);
	check_that(!warnings || strstr(fake_log.text, words), "not '%s': %s", words, fake_log.text);
}

static void bad_calls(void)
{
	struct anynet_net_vprops_v12 wide = { .count = 2, .devs = { 0, 1 } };
	struct anynet_net_vprops_v9 narrow = { .count = 2, .devs = { 0, 1 } };
	const int some[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
	int dev, fused;

	begin("iiiiiiiiir");
	check_int(ncclNetPlugin_v12.make_vdevice(NULL, &wide), ANYNET_NCCL_INVALID_ARGUMENT);
	check_int(ncclNetPlugin_v12.make_vdevice(&dev, NULL), ANYNET_NCCL_INVALID_ARGUMENT);
	check_int(ncclNetPlugin_v9.make_vdevice(NULL, &narrow), ANYNET_NCCL_INVALID_ARGUMENT);
	check_int(ncclNetPlugin_v11.make_vdevice(&dev, NULL), ANYNET_NCCL_INVALID_ARGUMENT);
	check_refused(0, some, 1, "cannot fuse 0 devices");
	check_refused(-1, some, 1, "cannot fuse -1 devices");
	check_refused(INT_MIN, some, 1, "devices");
	check_refused(9, some, 1, "9 devices: a fused device has 1 to 8");
	check_refused(INT_MAX, some, 1, "1 to 8");
	for (int abi = 9; abi <= 11; abi++) {
		fake_log_clear();
		check_int(make_by(abi, &dev, 5, some), ANYNET_NCCL_INVALID_USAGE);
		check(strstr(fake_log.text, "5 devices: a fused device has 1 to 4"));
		check_int(dev, -1);
	}
	check_refused(2, (const int[]){ 0, 10 }, 1, "dev 10, there are 10");
	check_refused(2, (const int[]){ -1, 0 }, 1, "dev -1");
	check_refused(2, (const int[]){ 0, INT_MAX }, 1, "there are 10");
	check_refused(2, (const int[]){ INT_MIN, 0 }, 1, "there are 10");
	check_refused(3, (const int[]){ 0, 1, 0 }, 1, "dev 0 mlx5_0 with itself");
	fused = make(2, some);
	check_refused(2, (const int[]){ 2, fused }, 1, "mlx5_0+mlx5_1: it is itself a fused device");
	check_refused(1, &fused, 1, "mlx5_0+mlx5_1: it is itself a fused device");
	check_refused(2, (const int[]){ 8, 9 }, 1, "mlx5_8 (InfiniBand) and dev 9 mlx5_9 (RoCE)");
	check_int(make(2, some + 2), fused + 1); /* and continues */
}

static void test_what_cannot_be_is_refused_and_said(void **state)
{
	(void)state;
	assert_int_equal(in_process(bad_calls), 0);
}

static void by_setting(void)
{
	setenv("NCCL_IB_MERGE_NICS", "0", 1);
	begin("ii");
	check_refused(2, (const int[]){ 0, 1 }, 0, NULL);
	check_int(make(1, (const int[]){ 1 }), 2);
}

static void test_a_setting_forbids_it(void **state)
{
	(void)state;
	assert_int_equal(in_process(by_setting), 0);
}

static void virtual_ports(void)
{
	begin("rrvv");
	check_refused(2, (const int[]){ 2, 3 }, 0, NULL);
	check_refused(2, (const int[]){ 0, 2 }, 0, NULL);
	check_refused(3, (const int[]){ 3, 0, 1 }, 0, NULL);
	check_int(make(2, (const int[]){ 0, 1 }), 4);
}

static void virtual_ports_all_the_same(void)
{
	setenv("ANYNET_IB_MERGE_NICS", "2", 1);
	begin("rrvv");
	check_int(make(2, (const int[]){ 2, 3 }), 4);
	check_int(make(3, (const int[]){ 0, 2, 1 }), 5);
}

/* NCCL would not find them. */
static void test_a_device_without_a_pci_address_stays_alone(void **state)
{
	(void)state;
	assert_int_equal(in_process(virtual_ports), 0);
	assert_int_equal(in_process(virtual_ports_all_the_same), 0);
}

static void tcp_devices(void)
{
	fake.more_nics = 2;
	begin(NULL);
	check_refused(2, (const int[]){ 0, 1 }, 0, NULL); /* that one is virtual */
	check_refused(2, (const int[]){ 0, 3 }, 0, NULL); /* of another speed */
	check_int(make(2, (const int[]){ 0, 2 }), 4);
	check(!strcmp(props_of(4).name, "eth7+more0"));
	check_int(props_of(4).speed_mbps, 50000);
}

static void tcp_devices_without_stripes(void)
{
	setenv("ANYNET_TCP_STRIPE", "off", 1);
	fake.more_nics = 1;
	begin(NULL);
	check_refused(2, (const int[]){ 0, 2 }, 0, NULL);
}

static void test_tcp_devices_are_fused_if_they_stripe_together(void **state)
{
	(void)state;
	assert_int_equal(in_process(tcp_devices), 0);
	assert_int_equal(in_process(tcp_devices_without_stripes), 0);
}

static void until_the_list_is_full(void)
{
	char ports[ANYNET_DEVICES_MAX - 1];

	memset(ports, 'i', sizeof(ports));
	ports[sizeof(ports) - 1] = '\0';
	begin(ports);
	check_int(device_count(), ANYNET_DEVICES_MAX - 2);
	check_int(make(2, (const int[]){ 0, 1 }), ANYNET_DEVICES_MAX - 2);
	check_int(make(2, (const int[]){ 0, 2 }), ANYNET_DEVICES_MAX - 1);
	check_refused(2, (const int[]){ 0, 3 }, 1, "there are already 64 devices");
	check_int(props_of(ANYNET_DEVICES_MAX - 1).vprops.devs[1], 2);
}

static void test_the_list_has_an_end(void **state)
{
	(void)state;
	assert_int_equal(in_process(until_the_list_is_full), 0);
}

static void long_names(void)
{
	fake.port_name = "a_verbs_device_whose_name_has_almost_as_many_letters_as_may";
	begin("iiiii");
	check_int(make(4, (const int[]){ 0, 1, 2, 3 }), 5);
	check_refused(5, (const int[]){ 0, 1, 2, 3, 4 }, 1, "too long: a_verbs_device");
}

static void test_names_have_to_fit(void **state)
{
	(void)state;
	assert_int_equal(in_process(long_names), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_version_fuses),
		cmocka_unit_test(test_properties_come_from_the_members),
		cmocka_unit_test(test_rails_and_planes_are_told),
		cmocka_unit_test(test_older_tables_tell_what_they_can),
		cmocka_unit_test(test_it_is_a_device_for_connections),
		cmocka_unit_test(test_one_alone_is_listed_again),
		cmocka_unit_test(test_v9_lists_each_that_stays_alone),
		cmocka_unit_test(test_what_cannot_be_is_refused_and_said),
		cmocka_unit_test(test_a_setting_forbids_it),
		cmocka_unit_test(test_a_device_without_a_pci_address_stays_alone),
		cmocka_unit_test(test_tcp_devices_are_fused_if_they_stripe_together),
		cmocka_unit_test(test_the_list_has_an_end),
		cmocka_unit_test(test_names_have_to_fit),
	};

	return cmocka_run_group_tests_name("fused", tests, NULL, NULL);
}
