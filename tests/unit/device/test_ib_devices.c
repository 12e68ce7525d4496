/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs ports as NCCL sees them: order, names, PCI paths and port numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transports/device/ib_devices.h"

#define MAX 8

static struct anynet_config cfg;
static struct ib_found found[MAX];
static int count;
static struct anynet_device dev;

static int setup(void **state)
{
	(void)state;
	memset(&cfg, 0, sizeof(cfg));
	memset(found, 0, sizeof(found));
	count = 0;
	cfg.max_recvs = 8;
	cfg.ib_pci_order = cfg.ib_merge_vfs = true;
	return 0;
}

static struct ib_found *add(const char *name, int port, int port_count, const char *pci,
			    uint64_t guid)
{
	struct ib_found *one = &found[count++];

	*one = (struct ib_found){ .port = (uint8_t)port,
				  .port_count = port_count,
				  .guid = guid,
				  .speed_mbps = 400000,
				  .max_qp = 1234 };
	snprintf(one->verbs_name, sizeof(one->verbs_name), "%s", name);
	if (*pci)
		snprintf(one->pci_path, sizeof(one->pci_path), "/sys/devices/pci0000:00/%s", pci);
	return one;
}

static void expect_order(const char *const *names)
{
	for (int i = 0; i < count; i++) {
		char name[80];

		snprintf(name, sizeof(name), "%.60s:%d", found[i].verbs_name, found[i].port);
		assert_string_equal(name, names[i]);
	}
}

static void expect_device(int i, const char *name, const char *pci, int port)
{
	char path[128] = "";

	memset(&dev, 0, sizeof(dev));
	ib_devices_describe(&cfg, found, count, i, &dev);
	assert_string_equal(dev.name, name);
	if (*pci)
		snprintf(path, sizeof(path), "/sys/devices/pci0000:00/%s", pci);
	assert_string_equal(dev.pci_path, path);
	assert_int_equal(dev.port, port);
}

/* As in NCCL's own IB: a separate device at its own PCI address, although its ports are those of the plain one. */
static void test_a_data_direct_engine_is_another_device(void **state)
{
	(void)state;
	add("a", 1, 1, "0000:01:00.0", 1);
	add("a", 1, 1, "0000:02:00.3", 1)->data_direct = true;
	add("b", 1, 1, "0000:01:00.1", 1);
	add("b", 1, 1, "0000:02:00.4", 1)->data_direct = true;
	expect_device(0, "a", "0000:01:00.0", 1);
	assert_false(dev.force_flush);
	expect_device(1, "a_dma", "0000:02:00.3", 1);
	assert_true(dev.force_flush);
	expect_device(2, "b", "0000:01:00.0", 2);
	expect_device(3, "b_dma", "0000:02:00.4", 1);
	add("c", 1, 2, "0000:03:00.0", 2)->data_direct = true;
	add("c", 2, 2, "0000:03:00.0", 2)->data_direct = true;
	expect_device(4, "c_dma:1", "0000:03:00.0", 1);
	expect_device(5, "c_dma:2", "0000:03:00.0", 2);
}

static void test_stream_and_plane_are_those_of_the_setting(void **state)
{
	(void)state;
	strcpy(cfg.ib_hca, "=a:1:3:4,a:2");
	add("a", 1, 2, "", 1);
	add("a", 2, 2, "", 1);
	expect_device(0, "a:1", "", 1);
	assert_int_equal(dev.rail_id, 3);
	assert_int_equal(dev.plane_id, 4);
	expect_device(1, "a:2", "", 2);
	assert_int_equal(dev.rail_id, -1);
	assert_int_equal(dev.plane_id, -1);
}

static void test_order_is_by_pci_address_name_and_port(void **state)
{
	static const char *const sorted[] = { "mlx5_7:1", "mlx5_2:1", "mlx5_2:2", "rxe2:1",
					      "rxe10:1" };
	static const char *const as_found[] = { "rxe10:1", "mlx5_2:2", "mlx5_2:1", "rxe2:1",
						"mlx5_7:1" };

	(void)state;
	add("rxe10", 1, 1, "", 1);
	add("mlx5_2", 2, 2, "0000:af:00.0", 2);
	add("mlx5_2", 1, 2, "0000:af:00.0", 2);
	add("rxe2", 1, 1, "", 3);
	add("mlx5_7", 1, 1, "0000:3b:00.0", 4);
	cfg.ib_pci_order = false;
	ib_devices_sort(&cfg, found, count);
	expect_order(as_found);
	cfg.ib_pci_order = true;
	ib_devices_sort(&cfg, found, count);
	expect_order(sorted);
}

static void test_a_port_is_named_only_where_a_card_has_several(void **state)
{
	(void)state;
	add("mlx5_0", 2, 2, "0000:3b:00.0", 5); /* port 1 is not usable */
	add("mlx4_0", 1, 2, "0000:5e:00.0", 6);
	add("mlx4_0", 2, 2, "0000:5e:00.0", 6);
	expect_device(0, "mlx5_0", "0000:3b:00.0", 2);
	expect_device(1, "mlx4_0:1", "0000:5e:00.0", 1);
	expect_device(2, "mlx4_0:2", "0000:5e:00.0", 2);
}

static void test_functions_of_a_card_are_its_ports(void **state)
{
	(void)state;
	add("mlx5_0", 1, 1, "0000:3b:00.0", 5);
	add("mlx5_1", 1, 1, "0000:3b:00.1", 5);
	add("mlx5_2", 1, 1, "0000:5e:00.0", 6);
	expect_device(0, "mlx5_0", "0000:3b:00.0", 1);
	expect_device(1, "mlx5_1", "0000:3b:00.0", 2);
	expect_device(2, "mlx5_2", "0000:5e:00.0", 1);
}

static void test_ports_are_unique_where_functions_have_several(void **state)
{
	(void)state;
	add("a", 1, 2, "0000:3b:00.0", 5);
	add("a", 2, 2, "0000:3b:00.0", 5);
	add("b", 1, 2, "0000:3b:00.1", 5);
	add("b", 2, 2, "0000:3b:00.1", 5);
	for (int i = 0; i < 4; i++) {
		ib_devices_describe(&cfg, found, count, i, &dev);
		assert_int_equal(dev.port, i + 1);
	}
}

static void test_virtual_functions_may_be_merged(void **state)
{
	(void)state;
	add("mlx5_0", 1, 1, "0000:3b:00.0", 5);
	add("mlx5_9", 1, 1, "0000:3b:02.3", 5);
	add("mlx5_33", 1, 1, "0000:3b:10.1", 5);
	expect_device(1, "mlx5_9", "0000:3b:00.0", 2);
	expect_device(2, "mlx5_33", "0000:3b:00.0", 3);
	cfg.ib_merge_vfs = false;
	expect_device(1, "mlx5_9", "0000:3b:02.0", 1);
}

static void test_virtual_devices_have_no_path(void **state)
{
	(void)state;
	add("rxe0", 1, 1, "", 5);
	add("rxe1", 1, 1, "", 6);
	expect_device(0, "rxe0", "", 1);
	expect_device(1, "rxe1", "", 1);
	assert_true(dev.guid != 5);
}

static void test_the_rest_of_the_properties(void **state)
{
	(void)state;
	add("mlx5_0", 1, 1, "0000:3b:00.0", 5);
	cfg.max_recvs = 3;
	expect_device(0, "mlx5_0", "0000:3b:00.0", 1);
	assert_int_equal(dev.transport, ANYNET_TRANSPORT_IB);
	assert_int_equal(dev.guid, 5);
	assert_int_equal(dev.speed_mbps, 400000);
	assert_int_equal(dev.max_comms, 1234);
	assert_int_equal(dev.max_recvs, 3);
	assert_int_equal(dev.ptr_support, ANYNET_PTR_HOST);
	assert_true(dev.reg_is_global);
	assert_false(dev.force_flush);
}

static void test_a_long_name_keeps_its_port(void **state)
{
	char name[64];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	add(name, 1, 2, "", 5);
	add(name, 2, 2, "", 5);
	ib_devices_describe(&cfg, found, count, 1, &dev);
	assert_string_equal(strchr(dev.name, ':'), ":2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_data_direct_engine_is_another_device, setup),
		cmocka_unit_test_setup(test_stream_and_plane_are_those_of_the_setting, setup),
		cmocka_unit_test_setup(test_order_is_by_pci_address_name_and_port, setup),
		cmocka_unit_test_setup(test_a_port_is_named_only_where_a_card_has_several, setup),
		cmocka_unit_test_setup(test_functions_of_a_card_are_its_ports, setup),
		cmocka_unit_test_setup(test_ports_are_unique_where_functions_have_several, setup),
		cmocka_unit_test_setup(test_virtual_functions_may_be_merged, setup),
		cmocka_unit_test_setup(test_virtual_devices_have_no_path, setup),
		cmocka_unit_test_setup(test_the_rest_of_the_properties, setup),
		cmocka_unit_test_setup(test_a_long_name_keeps_its_port, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
