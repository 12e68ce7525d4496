/* SPDX-License-Identifier: Apache-2.0 */
/* PCI paths and speeds, from a sysfs made by the test. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "transports/device/sysfs.h"
#include "unit/sysfs_tree.h"

/* A device directory with a subsystem. */
static void make_device(const char *path, const char *subsystem)
{
	char bus[64], link[PATH_MAX];

	snprintf(bus, sizeof(bus), "bus/%s", subsystem);
	snprintf(link, sizeof(link), "%s/subsystem", path);
	tree_dir(path);
	tree_link(tree_path(bus), link);
}

/* Interface `name` whose device is `device`, "" = none. */
static void make_netif(const char *name, const char *device)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "class/net/%s", name);
	tree_dir(path);
	if (!*device)
		return;
	snprintf(path, sizeof(path), "class/net/%s/device", name);
	tree_link(tree_path(device), path);
}

static void expect_pci(const char *class_name, const char *name, const char *below_root)
{
	char path[PATH_MAX];

	assert_ptr_equal(sysfs_pci_path(tree_root(), class_name, name, path), path);
	assert_string_equal(path, *below_root ? tree_path(below_root) : "");
}

static void test_a_nic_is_its_pci_function(void **state)
{
	(void)state;
	make_device("devices/pci0000:00/0000:00:01.0", "pci");
	make_device("devices/pci0000:00/0000:00:01.0/0000:3b:00.1", "pci");
	make_netif("eth0", "devices/pci0000:00/0000:00:01.0/0000:3b:00.1");
	expect_pci("net", "eth0", "devices/pci0000:00/0000:00:01.0/0000:3b:00.1");
}

static void test_verbs_devices_have_their_own_class(void **state)
{
	(void)state;
	make_device("devices/pci0000:00/10000:3b:00.0", "pci");
	tree_dir("class/infiniband/mlx5_0");
	tree_link(tree_path("devices/pci0000:00/10000:3b:00.0"), "class/infiniband/mlx5_0/device");
	expect_pci("infiniband", "mlx5_0", "devices/pci0000:00/10000:3b:00.0");
	expect_pci("net", "mlx5_0", "");
}

static void test_virtio_is_the_pci_function_it_sits_on(void **state)
{
	(void)state;
	make_device("devices/pci0000:00/0000:00:03.0", "pci");
	make_device("devices/pci0000:00/0000:00:03.0/virtio2", "virtio");
	make_netif("eth0", "devices/pci0000:00/0000:00:03.0/virtio2");
	expect_pci("net", "eth0", "devices/pci0000:00/0000:00:03.0");
}

static void test_a_device_without_pci_has_no_path(void **state)
{
	(void)state;
	make_device("devices/platform/fsl-eth.0", "platform");
	make_netif("eth0", "devices/platform/fsl-eth.0");
	expect_pci("net", "eth0", "");
	/* looks like a PCI address, but is none: NCCL would take it for a PCI device */
	make_device("devices/vmbus/0000:00:04.0", "vmbus");
	make_netif("eth1", "devices/vmbus/0000:00:04.0");
	expect_pci("net", "eth1", "");
	/* on the bus, but not an address: NCCL copies it into 32 bytes unchecked */
	make_device("devices/pci0000:00/a-very-long-name-that-is-no-pci-address.0", "pci");
	make_netif("eth2", "devices/pci0000:00/a-very-long-name-that-is-no-pci-address.0");
	expect_pci("net", "eth2", "");
	make_device("devices/x/0000:00:04.8", "pci");
	make_netif("eth3", "devices/x/0000:00:04.8");
	expect_pci("net", "eth3", "");
}

static void test_missing_and_virtual_interfaces_have_no_path(void **state)
{
	(void)state;
	expect_pci("net", "eth7", "");
	make_netif("veth0", "");
	expect_pci("net", "veth0", "");
	make_netif("dangling", "devices/gone");
	expect_pci("net", "dangling", "");
}

static void test_a_stacked_interface_is_on_its_lowers_card(void **state)
{
	(void)state;
	make_device("devices/pci0000:00/0000:05:00.0", "pci");
	make_device("devices/pci0000:00/0000:06:00.0", "pci");
	make_netif("eth0", "devices/pci0000:00/0000:05:00.0");
	make_netif("eth1", "devices/pci0000:00/0000:06:00.0");
	make_netif("bond0", "");
	tree_link("../eth1", "class/net/bond0/lower_eth1");
	tree_link("../eth0", "class/net/bond0/lower_eth0");
	make_netif("bond0.7", "");
	tree_link("../bond0", "class/net/bond0.7/lower_bond0");
	expect_pci("net", "bond0.7", "devices/pci0000:00/0000:05:00.0");
}

static void test_a_loop_of_interfaces_ends(void **state)
{
	(void)state;
	make_netif("a", "");
	make_netif("b", "");
	tree_link("../b", "class/net/a/lower_b");
	tree_link("../a", "class/net/b/lower_a");
	expect_pci("net", "a", "");
}

static void test_wifi(void **state)
{
	(void)state;
	make_netif("eth0", "");
	make_netif("wlp3s0", "");
	tree_dir("class/ieee80211/phy0");
	tree_file("class/ieee80211/phy0/name", "phy0\n");
	tree_link("../../ieee80211/phy0", "class/net/wlp3s0/phy80211");
	assert_false(sysfs_is_wifi(tree_root(), "eth0"));
	assert_true(sysfs_is_wifi(tree_root(), "wlp3s0"));
}

static void test_speed(void **state)
{
	(void)state;
	make_netif("eth0", "");
	assert_int_equal(sysfs_net_speed(tree_root(), "eth0"), 0);
	tree_file("class/net/eth0/speed", "25000\n");
	assert_int_equal(sysfs_net_speed(tree_root(), "eth0"), 25000);
	tree_file("class/net/eth0/speed", "-1\n");
	assert_int_equal(sysfs_net_speed(tree_root(), "eth0"), 0);
	tree_file("class/net/eth0/speed", "fast\n");
	assert_int_equal(sysfs_net_speed(tree_root(), "eth0"), 0);
	tree_file("class/net/eth0/speed", "");
	assert_int_equal(sysfs_net_speed(tree_root(), "eth0"), 0);
	assert_int_equal(sysfs_net_speed(tree_root(), "nothing"), 0);
}

static void test_the_first_rdma_device(void **state)
{
	char name[16];

	(void)state;
	sysfs_first_rdma(tree_root(), name, sizeof(name));
	assert_string_equal(name, "");
	tree_dir("class/infiniband");
	sysfs_first_rdma(tree_root(), name, sizeof(name));
	assert_string_equal(name, "");
	tree_dir("class/infiniband/mlx5_1");
	tree_dir("class/infiniband/mlx5_0");
	sysfs_first_rdma(tree_root(), name, sizeof(name));
	assert_string_equal(name, "mlx5_0");
}

static void make_pci(const char *address, const char *vendor, const char *class)
{
	char path[128];

	snprintf(path, sizeof(path), "bus/pci/devices/%s/vendor", address);
	tree_file(path, vendor);
	snprintf(path, sizeof(path), "bus/pci/devices/%s/class", address);
	tree_file(path, class);
}

static void test_gpus_are_counted(void **state)
{
	(void)state;
	assert_int_equal(sysfs_gpus(tree_root()), 0);
	make_pci("0000:00:02.0", "0x8086\n", "0x030000\n"); /* of the host */
	make_pci("0000:3b:00.0", "0x15b3\n", "0x020000\n");
	make_pci("0000:17:00.0", "0x10de\n", "0x068000\n"); /* NVSwitch */
	assert_int_equal(sysfs_gpus(tree_root()), 0);
	make_pci("0000:18:00.0", "0x10de\n", "0x030200\n");
	make_pci("0000:19:00.0", "0x10de\n", "0x030000\n");
	make_pci("0000:20:00.0", "0x10de\n", "");
	tree_dir("bus/pci/devices/0000:21:00.0");
	assert_int_equal(sysfs_gpus(tree_root()), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_tree(test_gpus_are_counted),
		with_tree(test_a_nic_is_its_pci_function),
		with_tree(test_verbs_devices_have_their_own_class),
		with_tree(test_virtio_is_the_pci_function_it_sits_on),
		with_tree(test_a_device_without_pci_has_no_path),
		with_tree(test_missing_and_virtual_interfaces_have_no_path),
		with_tree(test_a_stacked_interface_is_on_its_lowers_card),
		with_tree(test_a_loop_of_interfaces_ends),
		with_tree(test_speed),
		with_tree(test_wifi),
		with_tree(test_the_first_rdma_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
