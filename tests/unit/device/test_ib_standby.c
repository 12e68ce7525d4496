/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to which the control connections of an IB device are bound. */
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include <nccl_net/subnet.h>

#include "transports/device/ib_standby.h"
#include "unit/netif_table.h"

static struct netif_table table;
static struct anynet_config cfg;
static struct anynet_device dev;
static struct gid gid;

static int setup(void **state)
{
	(void)state;
	memset(&cfg, 0, sizeof(cfg));
	cfg.max_recvs = 8;
	table_start(&table);
	ib_standby_drop();
	return 0;
}

static void set_gid(const char *addr, unsigned ifindex)
{
	gid = (struct gid){ .ifindex = ifindex };
	assert_int_equal(inet_pton(AF_INET6, addr, gid.raw.raw), 1);
}

static bool bind_it(void)
{
	memset(&dev, 0, sizeof(dev));
	return ib_standby_bind(&cfg, &table, &gid, &dev);
}

static void expect(const char *ifname, const char *addr)
{
	char text[INET6_ADDRSTRLEN];

	assert_true(bind_it());
	assert_string_equal(dev.ifname, ifname);
	assert_string_equal(subnet_ip_text(&dev.addr, text), addr);
}

static void find_standbys(void)
{
	struct anynet_probe probe = { .device_count = 0 };

	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "lo");
	assert_int_equal(ib_standby_find(&cfg, &table, &probe), 0);
	*cfg.socket_ifname = 0;
}

static void test_the_address_of_the_gid_on_its_interface(void **state)
{
	unsigned index;

	(void)state;
	table_add(&table, "eth0", "", "10.0.0.1/24");
	index = table_add(&table, "roce0", "", "10.1.0.1/24 10.2.0.1/24 fd00::1/64")->index;
	set_gid("::ffff:10.2.0.1", index);
	expect("roce0", "10.2.0.1");
	assert_int_equal(dev.ifindex, index);
	assert_false(dev.copies_in_kernel);
	set_gid("fd00::1", index);
	expect("roce0", "fd00::1");
	cfg.socket_family = AF_INET;
	expect("roce0", "10.1.0.1");
}

static void test_another_address_of_the_interface(void **state)
{
	(void)state;
	set_gid("fe80::1", table_add(&table, "roce0", "", "~10.1.0.9/24 10.1.0.1/24")->index);
	expect("roce0", "10.1.0.1");
	cfg.socket_family = AF_INET6;
	assert_false(bind_it());
}

static void test_otherwise_the_address_of_the_first_standby(void **state)
{
	(void)state;
	set_gid("fe80::1", table_add(&table, "roce0", "", "fe80::1/64")->index);
	assert_false(bind_it());
	find_standbys();
	expect("lo", "127.0.0.1");
	assert_true(dev.copies_in_kernel);
	set_gid("fe80::1", 0); /* InfiniBand: no interface */
	expect("lo", "127.0.0.1");
}

/* As TCP's own devices: 169.254/16 comes after all others. */
static void test_a_standby_is_better_than_an_address_that_was_not_configured(void **state)
{
	unsigned index = table_add(&table, "roce0", "", "169.254.7.8/16 10.1.0.1/24")->index;

	(void)state;
	set_gid("::ffff:169.254.7.8", index);
	expect("roce0", "10.1.0.1");
	set_gid("::ffff:169.254.9.9", table_add(&table, "roce1", "", "169.254.9.9/16")->index);
	expect("roce1", "169.254.9.9");
	find_standbys();
	expect("lo", "127.0.0.1");
	set_gid("fe80::1", index);
	expect("roce0", "10.1.0.1");
}

static void test_an_interface_that_is_down_or_excluded_is_not_used(void **state)
{
	struct netif_link *roce;

	(void)state;
	find_standbys();
	roce = table_add(&table, "roce0", "", "10.1.0.1/24");
	set_gid("::ffff:10.1.0.1", roce->index);
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "eth");
	expect("lo", "127.0.0.1");
	*cfg.socket_ifname = 0;
	expect("roce0", "10.1.0.1");
	roce->flags &= ~(unsigned)IFF_UP;
	expect("lo", "127.0.0.1");
}

static void test_standbys_are_numbered_on(void **state)
{
	(void)state;
	find_standbys();
	ib_standby_number(5);
	assert_int_equal(ib_standby_at(0)->index, 5);
	assert_null(ib_standby_at(1));
	ib_standby_drop();
	assert_null(ib_standby_at(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_the_address_of_the_gid_on_its_interface, setup),
		cmocka_unit_test_setup(test_another_address_of_the_interface, setup),
		cmocka_unit_test_setup(test_otherwise_the_address_of_the_first_standby, setup),
		cmocka_unit_test_setup(
			test_a_standby_is_better_than_an_address_that_was_not_configured, setup),
		cmocka_unit_test_setup(test_an_interface_that_is_down_or_excluded_is_not_used,
				       setup),
		cmocka_unit_test_setup(test_standbys_are_numbered_on, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
