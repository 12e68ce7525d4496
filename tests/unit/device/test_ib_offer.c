/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IB's probe with usable ports, on the fake libibverbs: ports that pass the test become devices, others report the step
 * that failed, and TCP is standby. Usage: test_ib_offer FAKE_LIBRARY
 */
#include <endian.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "transports/device/ib_standby.h"
#include "unit/ib_probing.h"

#define IB_PORT  "; port layer=ib lid=7 gid=0,::1"
#define ETH_PORT "; port gid=0,fe80::1,v1,lo gid=3,127.0.0.1,v2,lo"

static const struct anynet_candidate *verdict_on(const char *name)
{
	for (int i = 0; i < ib_probed.candidate_count; i++)
		if (!strcmp(ib_probed.candidates[i].name, name))
			return &ib_probed.candidates[i];
	fail_msg("no verdict on %s", name);
	return NULL;
}

static void expect_verdict(const char *name, bool usable, const char *part)
{
	const struct anynet_candidate *verdict = verdict_on(name);

	assert_int_equal(verdict->usable, usable);
	probing_says(verdict, part);
}

static void test_a_port_that_proves_itself_is_a_device(void **state)
{
	uint64_t qps = probing_counts().qps_made;
	const struct anynet_device *dev = &ib_probed.devices[0];
	const struct sockaddr_in *addr = (const void *)&dev->addr;

	(void)state;
	probing_run("device mlx5_0 guid=42 max_qp=1000" ETH_PORT);
	assert_int_equal(probing_counts().qps_made, qps + 1);
	assert_int_equal(ib_probed.device_count, 1);
	assert_int_equal(dev->transport, ANYNET_TRANSPORT_IB);
	assert_int_equal(dev->index, 0);
	assert_string_equal(dev->name, "mlx5_0");
	assert_string_equal(dev->pci_path, ""); /* this host has no such device */
	assert_int_equal(dev->guid, htobe64(42));
	assert_int_equal(dev->port, 1);
	assert_int_equal(dev->speed_mbps, 100000);
	assert_int_equal(dev->max_comms, 1000);
	assert_string_equal(dev->ifname, "lo");
	assert_int_equal(dev->ifindex, if_nametoindex("lo"));
	assert_int_equal(ntohl(addr->sin_addr.s_addr), INADDR_LOOPBACK);
	expect_verdict("mlx5_0", true,
		       "ACTIVE, RoCE, 100000 Mb/s, GID index 3 (127.0.0.1), memlock ");
	expect_verdict("mlx5_0", true, ", control on lo 127.0.0.1");
}

static void test_a_verdict_says_how_much_memory_may_be_locked(void **state)
{
	struct rlimit old, limit;

	(void)state;
	getrlimit(RLIMIT_MEMLOCK, &old);
	limit = old;
	limit.rlim_cur = 64 << 10;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	probing_run("device mlx5_0" IB_PORT);
	expect_verdict("mlx5_0", true,
		       "ACTIVE, InfiniBand, 100000 Mb/s, LID 7, GID index 0 (::1), memlock 64 KiB");
	setrlimit(RLIMIT_MEMLOCK, &old);
}

static void test_infiniband_ports_of_one_card(void **state)
{
	(void)state;
	probing_run("device mlx4_0 guid=0" IB_PORT IB_PORT "; port layer=ib state=down; device mlx5_1" IB_PORT);
	assert_int_equal(ib_probed.device_count, 3);
	assert_string_equal(ib_probed.devices[0].name, "mlx4_0:1");
	assert_string_equal(ib_probed.devices[1].name, "mlx4_0:2");
	assert_string_equal(ib_probed.devices[2].name, "mlx5_1");
	/* without a system image GUID that of the node */
	assert_int_equal(ib_probed.devices[0].guid, htobe64(0x02fa4e0000000000u));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ib_probed.devices[i].index, i);
		assert_string_equal(ib_probed.devices[i].ifname, "lo"); /* of the first standby */
	}
	expect_verdict("mlx4_0:3", false, "port is DOWN");
}

static void test_every_step_of_the_proof_has_its_words(void **state)
{
	static const struct {
		const char *order, *words;
	} steps[] = {
		{ "fault call alloc_pd errno=12", "cannot allocate a protection domain: too little memory can be pinned" },
		{ "fault call reg_mr errno=12",
		  "cannot allocate 4 MiB of registered memory: too little memory can be pinned: "
		  "RLIMIT_MEMLOCK is " },
		{ "fault call reg_mr errno=14", "cannot allocate 4 MiB of registered memory: Bad address" },
		{ "fault call reg_mr errno=1", "memory: too little memory can be pinned: RLIMIT_MEMLOCK is " },
		{ "fault call create_cq errno=22", "cannot allocate a completion queue: Invalid argument" },
		{ "fault call create_qp errno=12", "cannot allocate a queue pair: too little memory can be pinned" },
		{ "fault call modify_qp errno=22", "cannot set a queue pair on GID 3 (127.0.0.1) to INIT: Invalid" },
		{ "fault call modify_qp nth=2 errno=110", "to RTR: Connection timed out" },
		{ "fault call modify_qp nth=3 errno=22", "to RTS: Invalid argument" },
		{ "fault call post_recv errno=12", "cannot post to a queue pair: Cannot allocate memory" },
		{ "fault call post_send errno=22", "cannot post to a queue pair: Invalid argument" },
		{ "fault call poll_cq errno=5", "the completion queue cannot be polled" },
		{ "vanish mlx5_0:1 any",
		  "no answer: its packets are lost (status 12, vendor 0xfa); if a virtual function's switch filters them, set "
		  "ANYNET_IB_LOOPBACK=0" },
		{ "fault status write-imm status=10", "the loopback RDMA WRITE failed with status 10, vendor 0xfa" },
		{ "fault delay any ms=60000", "the loopback RDMA WRITE and SEND got 0 of 4 completions in 3 s" },
		{ "fault garble write-imm", "the loopback RDMA WRITE delivered wrong data" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		char script[160];

		snprintf(script, sizeof(script), "device mlx5_0 endless" ETH_PORT "; %s", steps[i].order);
		probing_run(script);
		assert_int_equal(ib_probed.device_count, 0);
		expect_verdict("mlx5_0:1", false, steps[i].words);
	}
}

/* … and is offered all the same: queue pairs then copy themselves. */
static void test_an_adapter_without_inline_data_is_noticed(void **state)
{
	static const char *const kinds[] = { "clamp inline=32" ETH_PORT, "no-inline" ETH_PORT,
					   ETH_PORT "; fault garble send" };

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char script[160];

		snprintf(script, sizeof(script), "device mlx5_0 %s", kinds[i]);
		probing_run(script);
		assert_int_equal(ib_probed.device_count, 1);
		expect_verdict("mlx5_0", true, ", no inline data, control on");
	}
}

static void test_a_port_that_is_not_to_prove_itself_is_offered(void **state)
{
	(void)state;
	ib_cfg.ib_loopback = false;
	probing_run("device mlx5_0" ETH_PORT "; fault delay any ms=60000");
	assert_int_equal(ib_probed.device_count, 1);
	expect_verdict("mlx5_0", true, ", not tested (ANYNET_IB_LOOPBACK=0), control on");
}

static void test_what_fails_leaves_the_others(void **state)
{
	(void)state;
	probing_run("device mlx5_0" ETH_PORT "; device mlx5_1" ETH_PORT "; fault call create_qp errno=12 device=mlx5_0");
	assert_int_equal(ib_probed.device_count, 1);
	assert_string_equal(ib_probed.devices[0].name, "mlx5_1");
	assert_non_null(ib_standby_at(0));
	assert_null(ib_standby_at(1));
}

static void test_tcp_stands_by_beside_ib_only(void **state)
{
	const struct anynet_device *standby;

	(void)state;
	probing_run("device mlx5_0" IB_PORT "; device mlx5_1" ETH_PORT);
	standby = ib_standby_at(0);
	assert_non_null(standby);
	assert_int_equal(standby->transport, ANYNET_TRANSPORT_TCP);
	assert_string_equal(standby->name, "lo");
	assert_int_equal(standby->index, 2); /* after those of NCCL */
	assert_null(ib_standby_at(1));
	expect_verdict("lo", false, "standby: 127.0.0.1");
	probing_run("device mlx5_0; port layer=ib state=down");
	assert_null(ib_standby_at(0));
	assert_int_equal(ib_probed.candidate_count, 1);
}

static void test_an_interface_that_is_not_wanted_gets_no_control_connections(void **state)
{
	(void)state;
	snprintf(ib_cfg.socket_ifname, sizeof(ib_cfg.socket_ifname), "^lo");
	probing_run("device mlx5_0" ETH_PORT);
	if (ib_probed.device_count && strcmp(ib_probed.devices[0].ifname, "lo"))
		return; /* this host has another interface */
	/* only lo is left: the setting is ignored, with a warning */
	expect_verdict("NCCL_SOCKET_IFNAME", false, "leaves no interface");
}

static void test_more_ports_than_fit_are_usable_but_no_devices(void **state)
{
	char script[4096] = "";
	int usable = 0;

	(void)state;
	for (int i = 0; i < 16; i++) {
		char device[160];

		snprintf(device, sizeof(device),
			 "device d%d" IB_PORT IB_PORT IB_PORT IB_PORT ";", i);
		strcat(script, device);
	}
	probing_run(script);
	assert_int_equal(ib_probed.device_count,
			 31); /* NCCL has no room for more in one PCI place */
	for (int i = 0; i < ib_probed.candidate_count; i++)
		usable += ib_probed.candidates[i].usable;
	assert_int_equal(usable, 64); /* the selector warns of the difference */
	assert_int_equal(ib_standby_at(0)->index, ib_probed.device_count);
	for (int i = 0; i < ib_probed.device_count; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(ib_probed.devices[i].name,
						ib_probed.devices[j].name);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, probing_setup_on_lo)
		TEST(test_a_port_that_proves_itself_is_a_device),
		TEST(test_a_verdict_says_how_much_memory_may_be_locked),
		TEST(test_infiniband_ports_of_one_card),
		TEST(test_every_step_of_the_proof_has_its_words),
		TEST(test_an_adapter_without_inline_data_is_noticed),
		TEST(test_a_port_that_is_not_to_prove_itself_is_offered),
		TEST(test_what_fails_leaves_the_others),
		TEST(test_tcp_stands_by_beside_ib_only),
		TEST(test_an_interface_that_is_not_wanted_gets_no_control_connections),
		TEST(test_more_ports_than_fit_are_usable_but_no_devices),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s FAKE_LIBRARY\n", argv[0]);
		return 1;
	}
	if (!probing_hold(argv[1]))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
