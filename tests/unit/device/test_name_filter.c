/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's list syntax for interfaces and verbs devices (net-api.md §5.3, §5.4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/util.h>

#include "transports/device/name_filter.h"

struct row {
	const char *filter, *name;
	int port;
	bool pass;
};

static void check(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct row *row = &rows[i];

		if (name_filter_pass(row->filter, row->name, row->port) != row->pass)
			fail_msg("'%s' on %s:%d is not %d", row->filter, row->name, row->port,
				 row->pass);
	}
}

static void test_interface_lists(void **state)
{
	static const struct row rows[] = {
		{ "", "eth0", -1, true },
		{ "eth", "eth0", -1, true },
		{ "eth", "meth0", -1, false },
		{ "eth0", "eth01", -1, true },
		{ "=eth0", "eth01", -1, false },
		{ "=eth0", "eth0", -1, true },
		{ "=eth", "eth0", -1, false },
		{ "ib,eth", "eth0", -1, true },
		{ "ib,eth", "ib3", -1, true },
		{ "ib,eth", "lo", -1, false },
		{ "^docker", "docker0", -1, false },
		{ "^docker", "eth0", -1, true },
		{ "^docker,lo", "lo", -1, false },
		{ "^=docker", "docker0", -1, true },
		{ "^=docker0", "docker0", -1, false },
		{ "^=a,b", "b", -1, false },
		{ "^=a,b", "c", -1, true },
		{ ",,eth0,", "eth0", -1, true },
		{ ",,eth0,", "lo", -1, false },
		{ "^", "eth0", -1, false },
		{ "^=", "eth0", -1, false },
		{ ",", "eth0", -1, true },
		{ "=^eth0", "eth0", -1, false }, /* the order of the signs is fixed */
	};

	(void)state;
	check(rows, ARRAY_SIZE(rows));
}

static void test_device_lists_with_ports(void **state)
{
	static const struct row rows[] = {
		{ "mlx5", "mlx5_0", 1, true },
		{ "mlx5_0:1", "mlx5_0", 1, true },
		{ "mlx5_0:1", "mlx5_0", 2, false },
		{ "mlx5_0:1", "mlx5_0", -1, true },
		{ "mlx5_1", "mlx5_10", 1, true },
		{ "=mlx5_1", "mlx5_10", 1, false },
		{ "=mlx5_0:1,mlx5_1:2", "mlx5_1", 2, true },
		{ "=mlx5_0:1,mlx5_1:2", "mlx5_1", 1, false },
		{ "^mlx5_0:1", "mlx5_0", 1, false },
		{ "^mlx5_0:1", "mlx5_0", 2, true },
		{ "^mlx5_0:1", "mlx5_1", 1, true },
		{ "^=mlx5_0:1", "mlx5_0", 1, false },
		{ "=mlx5_0:1:0:1", "mlx5_0", 1, true }, /* name:port:rail:plane */
		{ "=mlx5_0:1:0:1", "mlx5_0", 2, false },
		{ "=mlx5_0::3", "mlx5_0", 2, true }, /* any port */
		{ "=mlx5_0:", "mlx5_0", 2, true },
		{ "mlx5_0:x", "mlx5_0", 1, false },
		{ "mlx5_0:1x", "mlx5_0", 1, false },
		{ "mlx5_0:99999999999999999999", "mlx5_0", 1, false },
	};

	(void)state;
	check(rows, ARRAY_SIZE(rows));
}

static void test_items_tell_the_place(void **state)
{
	static const struct {
		const char *filter, *name;
		int port, rail, plane;
	} rows[] = {
		{ "", "mlx5_0", 1, -1, -1 },
		{ "mlx5_0", "mlx5_0", 1, -1, -1 },
		{ "=mlx5_0:1:2:3", "mlx5_0", 1, 2, 3 },
		{ "mlx5_0::2", "mlx5_0", 7, 2, -1 },
		{ "mlx5_0:::3", "mlx5_0", 7, -1, 3 },
		{ "mlx5_0:1:0:0:9", "mlx5_0", 1, 0, 0 }, /* there are no more fields */
		{ "mlx5_0:1:2:3,mlx5_0:2:4:5", "mlx5_0", 2, 4, 5 },
		{ "mlx5:1:2:3,mlx5_0:1:4:5", "mlx5_0", 1, 2, 3 }, /* the first */
		{ "mlx5_1:1:2:3", "mlx5_0", 1, -1, -1 },
		{ "^mlx5_0:1:2:3", "mlx5_0", 1, -1, -1 },
		{ "^mlx5_0:1:2:3", "mlx5_1", 1, -1, -1 },
		{ "mlx5_0:1:x:-1", "mlx5_0", 1, -1, -1 },
		{ "mlx5_0:1:32767:16383", "mlx5_0", 1, 32767, 16383 },
		{ "mlx5_0:1:32768:16384", "mlx5_0", 1, -1, -1 },
		{ "mlx5_0:1:99999999999:99999999999", "mlx5_0", 1, -1, -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int rail = 4711, plane = 4711;

		name_filter_place(rows[i].filter, rows[i].name, rows[i].port, &rail, &plane);
		if (rail != rows[i].rail || plane != rows[i].plane)
			fail_msg("%s: rail %d, plane %d", rows[i].filter, rail, plane);
	}
}

static void test_excluding_and_naming(void **state)
{
	(void)state;
	assert_true(name_filter_excludes("^eth"));
	assert_true(name_filter_excludes("^=eth"));
	assert_false(name_filter_excludes("=eth"));
	assert_false(name_filter_excludes(""));
	assert_true(name_filter_names("lo,eth0", "eth0"));
	assert_true(name_filter_names("=eth0", "eth0"));
	assert_false(name_filter_names("eth", "eth0"));
	assert_false(name_filter_names("eth01", "eth0"));
	assert_false(name_filter_names("^eth0", "eth0"));
	assert_false(name_filter_names("", "eth0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interface_lists),
		cmocka_unit_test(test_device_lists_with_ports),
		cmocka_unit_test(test_items_tell_the_place),
		cmocka_unit_test(test_excluding_and_naming),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
