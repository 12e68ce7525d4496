/* SPDX-License-Identifier: Apache-2.0 */
/* init, devices and getProperties (net-api.md §2.8, §8 rows 3 - 5). */
#include <support/capture.h>
#include <support/harness.h>

#include <limits.h>
#include <nccl_net/abi/nccl_types.h>
#include <nccl_net/device.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Contents of fields that the plugin did not write, from driver_properties. */
#define POISON      0xa5
#define POISON_INT  ((int)0xa5a5a5a5)
#define POISON_WORD 0xa5a5a5a5a5a5a5a5u

#define MESSAGE_MAX ((size_t)1 << 40)

static int device_count(struct test_net *net)
{
	int count = POISON_INT;
	check_ok(driver_devices(net->driver, &count));
	check(count > 0 && count <= ANYNET_DEVICES_MAX);
	return count;
}

static void check_written(const struct driver_props *props, int dev)
{
	const int numbers[] = {
		props->ptr_support,
		props->reg_is_global,
		props->force_flush,
		props->speed_mbps,
		props->port,
		props->max_comms,
		props->max_recvs,
		props->net_device_type,
		props->net_device_version,
		props->vdev_count,
		props->vdevs[0],
		props->max_multi_request,
	};

	check((uintptr_t)props->name != POISON_WORD);
	check((uintptr_t)props->pci_path != POISON_WORD);
	check(props->guid != POISON_WORD);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		check_that(numbers[i] != POISON_INT, "device %d: number %zu is not written", dev,
			   i);
	check(props->latency_us >= 0 && props->latency_us < 1e6f);
	check(props->max_p2p_bytes != POISON_WORD && props->max_coll_bytes != POISON_WORD);
	check(props->rail_id >= -1 && props->plane_id >= -1);
}

static void check_sensible(const struct driver_props *props, int dev)
{
	check(props->name && props->name[0]);
	check(!props->pci_path || !strncmp(props->pci_path, "/sys/", 5));
	check(props->ptr_support & ANYNET_PTR_HOST);
	check(!(props->ptr_support & ~(ANYNET_PTR_HOST | ANYNET_PTR_CUDA | ANYNET_PTR_DMABUF)));
	check(props->reg_is_global == 0 || props->reg_is_global == 1);
	check(props->force_flush == 0 || props->force_flush == 1);
	check(props->speed_mbps > 0);
	if (getenv("TEST_SPEED"))
		check_int(props->speed_mbps, atoi(getenv("TEST_SPEED")));
	check(props->max_comms > 0);
	check(props->max_recvs >= 1 && props->max_recvs <= 8);
	check_int(props->net_device_type, ANYNET_NCCL_DEVICE_HOST);
	check_int(props->vdev_count, 1);
	check_int(props->vdevs[0], dev);
	check(props->max_p2p_bytes > 0 && props->max_p2p_bytes <= MESSAGE_MAX);
	check(props->max_coll_bytes > 0 && props->max_coll_bytes <= MESSAGE_MAX);
	check(props->max_multi_request >= 1);
}

static void properties_are_all_written(struct test_net *net)
{
	int count = device_count(net);

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket leaves the virtual device out");
	for (int dev = 0; dev < count; dev++) {
		struct driver_props props;
		check_ok(driver_properties(net->driver, dev, &props));
		check_written(&props, dev);
		check_sensible(&props, dev);
	}
}

/* Name, and guid with port, identify devices (net-api.md §2.8). */
static void devices_are_distinct(struct test_net *net)
{
	int count = device_count(net);
	struct driver_props all[ANYNET_DEVICES_MAX];

	for (int dev = 0; dev < count; dev++)
		check_ok(driver_properties(net->driver, dev, &all[dev]));
	for (int a = 0; a < count; a++)
		for (int b = a + 1; b < count; b++) {
			check(strcmp(all[a].name, all[b].name));
			check(all[a].guid != all[b].guid || all[a].port != all[b].port);
		}
}

static void devices_and_strings_stay_the_same(struct test_net *net)
{
	int count = device_count(net);
	struct driver_props before, after;
	void *ctx = NULL;

	check_ok(driver_properties(net->driver, 0, &before));
	check_ok(driver_init(net->driver, &ctx, 2, -1, capture_logger, NULL));
	check_int(device_count(net), count);
	check_ok(driver_properties(net->driver, 0, &after));
	check(before.name == after.name && before.pci_path == after.pci_path);
	check_int(before.speed_mbps, after.speed_mbps);
	check(before.guid == after.guid);
	check_ok(driver_finalize(net->driver, ctx));
	check_int(device_count(net), count);
}

static void wrong_index_is_refused(struct test_net *net)
{
	const int wrong[] = { -1, device_count(net), INT_MAX, INT_MIN };
	unsigned char handle[DRIVER_HANDLE_BYTES] = { 0 };
	struct driver_props props;
	void *object;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets do not check the index");
	capture_allow_warn();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		check_int(driver_properties(net->driver, wrong[i], &props),
			  ANYNET_NCCL_INVALID_USAGE);
		object = NULL;
		check(driver_listen(net->driver, net->ctx, wrong[i], handle, &object) != 0);
		check(!object);
		check(driver_connect(net->driver, net->ctx, wrong[i], handle, &object) != 0);
		check(!object);
	}
}

static void *read_often(void *arg)
{
	struct test_net *net = arg;

	for (int i = 0; i < 200; i++) {
		struct driver_props props;
		check_ok(driver_properties(net->driver, 0, &props));
		check(props.name == net->props.name);
		check_int(device_count(net), device_count(net));
	}
	return NULL;
}

static void *init_often(void *arg)
{
	struct test_net *net = arg;

	for (int i = 0; i < 50; i++) {
		void *ctx = NULL;
		check_ok(driver_init(net->driver, &ctx, 3, -1, capture_logger, NULL));
		check_ok(driver_finalize(net->driver, ctx));
	}
	return NULL;
}

static void threads_may_ask_at_the_same_time(struct test_net *net)
{
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		check_ok(pthread_create(&threads[i], NULL, i % 2 ? init_often : read_often, net));
	for (size_t i = 0; i < 4; i++)
		check_ok(pthread_join(threads[i], NULL));
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "properties_are_all_written", properties_are_all_written },
		{ .name = "devices_are_distinct", devices_are_distinct },
		{ .name = "devices_and_strings_stay_the_same", devices_and_strings_stay_the_same },
		{ .name = "wrong_index_is_refused", wrong_index_is_refused },
		{ .name = "threads_may_ask_at_the_same_time", threads_may_ask_at_the_same_time },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
