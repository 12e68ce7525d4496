/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a verbs port (net-api.md §5.4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transports/device/ib_port.h"
#include "unit/sysfs_tree.h"

static uint64_t told; /* as libibverbs reports it, in 100 Mb/s */
static int told_error;

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	(void)context;
	assert_int_equal(port, 2);
	*speed = told;
	return told_error;
}

static int speed_by(int (*query)(struct ibv_context *context, uint32_t port, uint64_t *speed),
		    uint8_t lane, uint8_t width)
{
	const struct verbs verbs = { .get_device_name = get_device_name,
				     .query_port_speed = query };
	struct ibv_port_attr attr = { .active_speed = lane, .active_width = width };
	struct ibv_device device = { .name = "mlx5_0" };
	struct ibv_context context = { .device = &device };
	const struct verbs_port port = { &verbs, &context, 2 };

	return ib_port_speed(&port, tree_root(), &attr);
}

static int speed(uint8_t lane, uint8_t width)
{
	return speed_by(NULL, lane, width);
}

static void test_speed_is_a_lanes_times_the_width(void **state)
{
	(void)state;
	assert_int_equal(speed(1, 1), 2500);     /* SDR 1x */
	assert_int_equal(speed(2, 2), 20000);    /* DDR 4x */
	assert_int_equal(speed(4, 2), 40000);    /* QDR 4x */
	assert_int_equal(speed(8, 2), 40000);    /* FDR10 4x */
	assert_int_equal(speed(16, 2), 56000);   /* FDR 4x */
	assert_int_equal(speed(32, 2), 100000);  /* EDR 4x */
	assert_int_equal(speed(64, 2), 200000);  /* HDR 4x */
	assert_int_equal(speed(128, 2), 400000); /* NDR 4x */
	assert_int_equal(speed(32, 4), 200000);  /* 8x */
	assert_int_equal(speed(32, 8), 300000);  /* 12x */
	assert_int_equal(speed(64, 16), 100000); /* 2x */
}

static void test_an_unknown_rate_is_the_nearest_known(void **state)
{
	(void)state;
	assert_int_equal(speed(0, 0), 2500);
	assert_int_equal(speed(128, 128), 200000);
}

/* For XDR, 200 Gb/s a lane, active_speed says NDR. */
static void test_a_rate_that_lanes_do_not_tell(void **state)
{
	(void)state;
	tree_file("class/infiniband/mlx5_0/ports/2/rate", "800 Gb/sec (4X XDR)\n");
	assert_int_equal(speed(128, 2), 800000);
	tree_file("class/infiniband/mlx5_0/ports/2/rate", "2.5 Gb/sec (1X SDR)\n");
	assert_int_equal(speed(128, 2), 400000); /* unknown to the kernel */
	assert_int_equal(speed(1, 1), 2500);
	tree_file("class/infiniband/mlx5_0/ports/2/rate", "hello\n");
	assert_int_equal(speed(128, 2), 400000);
}

static void test_libibverbs_is_asked_first(void **state)
{
	(void)state;
	tree_file("class/infiniband/mlx5_0/ports/2/rate", "800 Gb/sec (4X XDR)\n");
	told = 2000; /* for example half of two ports */
	assert_int_equal(speed_by(query_port_speed, 128, 2), 200000);
	told = 0;
	assert_int_equal(speed_by(query_port_speed, 128, 2), 800000);
	told = UINT64_MAX;
	assert_int_equal(speed_by(query_port_speed, 128, 2), 800000);
	told = 2000;
	told_error = 95; /* EOPNOTSUPP */
	assert_int_equal(speed_by(query_port_speed, 128, 2), 800000);
}

static void test_an_mtu_is_a_power_of_two(void **state)
{
	struct ibv_port_attr attr = { .active_mtu = IBV_MTU_256 };

	(void)state;
	assert_int_equal(ib_port_mtu(&attr), 256);
	attr.active_mtu = IBV_MTU_4096;
	assert_int_equal(ib_port_mtu(&attr), 4096);
	attr.active_mtu = (enum ibv_mtu)0;
	assert_int_equal(ib_port_mtu(&attr), 256);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_tree(test_speed_is_a_lanes_times_the_width),
		with_tree(test_an_unknown_rate_is_the_nearest_known),
		with_tree(test_a_rate_that_lanes_do_not_tell),
		with_tree(test_libibverbs_is_asked_first),
		cmocka_unit_test(test_an_mtu_is_a_power_of_two),
	};

	return cmocka_run_group_tests_name("ib_port", tests, NULL, NULL);
}
