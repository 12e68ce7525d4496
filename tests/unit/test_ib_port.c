/* SPDX-License-Identifier: Apache-2.0 */
/* What a verbs port's attributes mean (net-api.md §5.4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transports/ib/ib_port.h"

static int speed(uint8_t lane, uint8_t width)
{
	struct ibv_port_attr attr = { .active_speed = lane, .active_width = width };

	return ib_port_speed(&attr);
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

static void test_what_nobody_knows_yet_is_the_last_that_is_known(void **state)
{
	(void)state;
	assert_int_equal(speed(0, 0), 2500);
	assert_int_equal(speed(128, 128), 200000);
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
		cmocka_unit_test(test_speed_is_a_lanes_times_the_width),
		cmocka_unit_test(test_what_nobody_knows_yet_is_the_last_that_is_known),
		cmocka_unit_test(test_an_mtu_is_a_power_of_two),
	};

	return cmocka_run_group_tests_name("ib_port", tests, NULL, NULL);
}
