/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs that a comm of a device uses, and the number of streams (nics.c): for NICs and fused devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transports/device/ib_standby.h"
#include "unit/local_net.h"

#define NICS 10

static struct anynet_device nics[NICS], fused;
static struct anynet_device standbys[4]; /* beside lo */
static int standby_count;

__typeof__(ib_standby_at) __real_ib_standby_at, __wrap_ib_standby_at;

const struct anynet_device *__wrap_ib_standby_at(int i)
{
	const struct anynet_device *found = __real_ib_standby_at(i);

	return found || !i || i > standby_count ? found : &standbys[i - 1];
}

/* `count` NICs of 25 Gb/s; for IB devices, with the host's lo as standby. */
static void start(enum anynet_transport_kind transport, int count)
{
	struct anynet_probe probe = { .device_count = 0 };
	struct netif_table table;

	local_net_start();
	local_cfg.stripe = ANYNET_SWITCH_AUTO;
	local_cfg.streams_per_nic = ANYNET_AUTO;
	local_cfg.ib_qps = 1;
	for (int i = 0; i < count; i++) {
		nics[i] = local_dev;
		nics[i].transport = transport;
		nics[i].index = i;
		nics[i].speed_mbps = 25000;
		nics[i].copies_in_kernel = false;
		snprintf(nics[i].name, sizeof(nics[i].name), "nic%d", i);
		snprintf(nics[i].ifname, sizeof(nics[i].ifname), "nic%d", i);
		((struct sockaddr_in *)&nics[i].addr)->sin_addr.s_addr =
			htonl(0x0a000001u + (uint32_t)i);
	}
	ib_standby_drop();
	if (transport == ANYNET_TRANSPORT_IB) {
		snprintf(local_cfg.socket_ifname, sizeof(local_cfg.socket_ifname), "=lo");
		assert_int_equal(netif_read(&table), 0);
		assert_int_equal(ib_standby_find(&local_cfg, &table, &probe), 0);
		netif_free(&table);
		ib_standby_number(count);
	}
	anynet_net_start(&local_cfg, nics, count);
	anynet_net.gpu_count = 0; /* of this host */
}

/* The device of these NICs: "21" = nic2 and nic1. */
static const struct anynet_device *fuse(const char *members)
{
	fused = nics[members[0] - '0'];
	fused.index = ANYNET_DEVICES_MAX;
	fused.speed_mbps = 0;
	for (fused.member_count = 0; members[fused.member_count]; fused.member_count++) {
		fused.members[fused.member_count] = &nics[members[fused.member_count] - '0'];
		fused.speed_mbps += 25000;
	}
	return &fused;
}

/* The set as digits, "s" for the standby lo, "a" and so on for others. */
static const char *set_of(const struct anynet_device *dev, int max)
{
	static char text[16];
	const struct anynet_device *set[ANYNET_HELLO_ADDRS];
	int count = nic_list(dev, set, max);

	for (int i = 0; i < count; i++)
		text[i] = set[i] >= nics && set[i] < nics + NICS ? (char)('0' + set[i]->index)
			  : set[i] >= standbys && set[i] < standbys + 4
				  ? (char)('a' + (set[i] - standbys))
				  : 's';
	text[count] = '\0';
	return text;
}

static void test_of_an_ib_device_its_ports_come_first(void **state)
{
	(void)state;
	start(ANYNET_TRANSPORT_IB, 4);
	assert_string_equal(set_of(&nics[1], 8), "1230s");
	assert_string_equal(set_of(fuse("12"), 8), "1230s");
	assert_string_equal(set_of(fuse("31"), 8), "3102s");
	assert_string_equal(set_of(fuse("0123"), 8), "0123s");
	start(ANYNET_TRANSPORT_IB, 10);
	assert_string_equal(set_of(&nics[0], 8), "012345s");
	assert_string_equal(set_of(fuse("98"), 8), "980123s");
	assert_string_equal(set_of(fuse("01234567"), 8), "01234567");
	assert_string_equal(set_of(fuse("0123456"), 8), "0123456s");
	/* The last standby has a place: it may be on another network than the others. */
	standby_count = 4;
	for (int i = 0; i < standby_count; i++) {
		standbys[i] = nics[0];
		((struct sockaddr_in *)&standbys[i].addr)->sin_addr.s_addr =
			htonl(0x0b000001u + (uint32_t)i);
	}
	assert_string_equal(set_of(&nics[0], 8), "012345sd");
	assert_string_equal(set_of(fuse("0123456"), 8), "0123456d");
	assert_string_equal(set_of(fuse("01234567"), 8), "01234567");
	standby_count = 0;
	/* A standby with the address of a port is not another path. */
	((struct sockaddr_in *)&nics[3].addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_string_equal(set_of(&nics[0], 8), "012345");
}

static void test_of_an_ib_device_all_ports_want_streams(void **state)
{
	(void)state;
	start(ANYNET_TRANSPORT_IB, 10);
	assert_int_equal(nic_streams_wanted(&nics[0]), 1);
	assert_int_equal(nic_streams_wanted(fuse("12")), 2);
	local_cfg.ib_qps = 3;
	assert_int_equal(nic_streams_wanted(&nics[0]), 3);
	assert_int_equal(nic_streams_wanted(fuse("1234")), 12);
	local_cfg.ib_qps = 64;
	assert_int_equal(nic_streams_wanted(fuse("12345678")), ANYNET_STREAMS_MAX);
}

/* Fusing devices does not change the NICs of a comm; each NIC has streams according to its speed. */
static void test_a_tcp_device_is_striped_from_its_members_on(void **state)
{
	(void)state;
	start(ANYNET_TRANSPORT_TCP, 4);
	assert_string_equal(set_of(&nics[2], 8), "2013");
	assert_string_equal(set_of(fuse("31"), 8), "3102");
	assert_int_equal(nic_streams_wanted(&nics[0]), 2);
	assert_int_equal(nic_streams_wanted(fuse("0123")), 2);
	nics[0].speed_mbps = 10000;
	assert_string_equal(set_of(fuse("31"), 8), "3120"); /* for when a path fails */
	assert_string_equal(set_of(fuse("31"), 2), "31");
}

static void test_one_nic_is_not_odd(void **state)
{
	(void)state;
	start(ANYNET_TRANSPORT_TCP, 1);
	assert_false(nic_is_odd(&nics[0]));
	start(ANYNET_TRANSPORT_IB, 2);
	nics[1].speed_mbps = 10000;
	assert_false(nic_is_odd(&nics[0]));
}

/* If NCCL itself spreads over the NICs, one is enough for a comm; the others are for recovery. */
static void test_a_nic_for_each_gpu_is_enough(void **state)
{
	(void)state;
	start(ANYNET_TRANSPORT_TCP, 8);
	anynet_net.gpu_count = 0; /* unknown */
	assert_int_equal(nic_spread(&nics[2]), 8);
	anynet_net.gpu_count = 9;
	assert_int_equal(nic_spread(&nics[2]), 8);
	anynet_net.gpu_count = 8;
	assert_int_equal(nic_spread(&nics[2]), 1);
	assert_int_equal(nic_spread(fuse("31")), 2);
	assert_string_equal(set_of(&nics[2], 8), "20134567");
	local_cfg.stripe = ANYNET_SWITCH_OFF;
	anynet_net.gpu_count = 0;
	assert_string_equal(set_of(&nics[2], 8), "20134567");
	assert_int_equal(nic_spread(&nics[2]), 1);
	anynet_net.gpu_count = 8;
	local_cfg.stripe = ANYNET_SWITCH_ON;
	assert_int_equal(nic_spread(&nics[2]), 8);
	local_cfg.stripe = ANYNET_SWITCH_AUTO;
	nics[7].speed_mbps = 10000; /* a management NIC */
	assert_string_equal(set_of(&nics[7], 8), "70123456");
	assert_true(nic_is_odd(&nics[7])); /* leaving it costs speed */
	assert_false(nic_is_odd(&nics[2]));
	assert_int_equal(nic_spread(&nics[2]), 7);
	assert_int_equal(nic_spread(&nics[7]), 1);
}

/* Eight in total, unless a setting asks for more. */
static void test_connections_are_bounded_over_all_nics(void **state)
{
	(void)state;
	start(ANYNET_TRANSPORT_TCP, 8);
	for (int i = 0; i < 8; i++)
		nics[i].speed_mbps = 100000;
	anynet_net.gpu_count = 0;
	assert_int_equal(nic_streams_wanted(&nics[0]), 1);
	anynet_net.gpu_count = 8;
	assert_int_equal(nic_streams_wanted(&nics[0]), 4);
	assert_int_equal(nic_streams_wanted(fuse("01")), 4);
	assert_int_equal(nic_streams_wanted(fuse("0123")), 2);
	anynet_net_start(&local_cfg, nics, 4);
	anynet_net.gpu_count = 0;
	assert_int_equal(nic_streams_wanted(&nics[0]), 2);
	for (int i = 0; i < 4; i++)
		nics[i].speed_mbps = 10000;
	assert_int_equal(nic_streams_wanted(&nics[0]), 1);
	for (int i = 0; i < 4; i++)
		nics[i].may_be_faster = true;
	assert_int_equal(nic_streams_wanted(&nics[0]), 2);
	anynet_net_start(&local_cfg, nics, 1);
	assert_int_equal(nic_streams_wanted(&nics[0]), 4);
	local_cfg.streams_per_nic = 16;
	assert_int_equal(nic_streams_wanted(&nics[0]), 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_nic_is_not_odd),
		cmocka_unit_test(test_a_nic_for_each_gpu_is_enough),
		cmocka_unit_test(test_connections_are_bounded_over_all_nics),
		cmocka_unit_test(test_of_an_ib_device_its_ports_come_first),
		cmocka_unit_test(test_of_an_ib_device_all_ports_want_streams),
		cmocka_unit_test(test_a_tcp_device_is_striped_from_its_members_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
