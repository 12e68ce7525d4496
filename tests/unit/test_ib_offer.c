/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IB's probe where IB is offered, on the fake libibverbs: ports that prove themselves become devices,
 * those that do not say at which step, and TCP stands by.
 * Usage: test_ib_offer FAKE_LIBRARY
 */
#include <dlfcn.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/device.h>

#include "environment.h"
#include "transports/ib/ib_standby.h"

#define IB_PORT  "port=1:4:7:0"
#define ETH_PORT "port=2:4:0:99 gid=0/1/fe80::1/1 gid=3/2/::ffff:127.0.0.1/1" /* ifindex 1: lo */

static const char *fake_file;
static void *fake;
static struct anynet_config cfg;
static struct anynet_probe probe;

static int count_of(const char *function)
{
	int (*counter)(void);
	void *address = dlsym(fake, function);

	assert_non_null(address);
	memcpy(&counter, &address, sizeof(counter));
	return counter();
}

static int setup(void **state)
{
	(void)state;
	environment_clear();
	anynet_config_load(&cfg, NULL);
	snprintf(cfg.ibverbs_lib, sizeof(cfg.ibverbs_lib), "%s", fake_file);
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "lo"); /* is on every host */
	cfg.transport = ANYNET_CHOOSE_IB;
	return 0;
}

static void run_on(const char *script)
{
	setenv("FAKE_VERBS", script, 1);
	memset(&probe, 0, sizeof(probe));
	anynet_ib_transport.probe(&cfg, &probe);
	assert_int_equal(count_of("fake_verbs_open_count"), 0);
	assert_int_equal(count_of("fake_verbs_list_count"), 0);
	assert_int_equal(count_of("fake_verbs_object_count"), 0);
}

static const struct anynet_candidate *verdict_on(const char *name)
{
	for (int i = 0; i < probe.candidate_count; i++)
		if (!strcmp(probe.candidates[i].name, name))
			return &probe.candidates[i];
	fail_msg("no verdict on %s", name);
	return NULL;
}

static void expect_verdict(const char *name, bool usable, const char *part)
{
	const struct anynet_candidate *verdict = verdict_on(name);

	assert_int_equal(verdict->usable, usable);
	if (!strstr(verdict->reason, part))
		fail_msg("'%s' is not in '%s'", part, verdict->reason);
}

static void test_a_port_that_proves_itself_is_a_device(void **state)
{
	int proofs = count_of("fake_verbs_proof_count");
	const struct anynet_device *dev = &probe.devices[0];
	const struct sockaddr_in *addr = (const void *)&dev->addr;

	(void)state;
	run_on("mlx5_0 guid=42 " ETH_PORT);
	assert_int_equal(count_of("fake_verbs_proof_count"), proofs + 1);
	assert_int_equal(probe.device_count, 1);
	assert_int_equal(dev->link, ANYNET_LINK_IB);
	assert_int_equal(dev->index, 0);
	assert_string_equal(dev->name, "mlx5_0");
	assert_string_equal(dev->pci_path, ""); /* this host has no such device */
	assert_int_equal(dev->guid, 42);
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

static void test_infiniband_ports_of_one_card(void **state)
{
	(void)state;
	run_on("mlx4_0 " IB_PORT " " IB_PORT " port=1:1:0:0; mlx5_1 " IB_PORT);
	assert_int_equal(probe.device_count, 3);
	assert_string_equal(probe.devices[0].name, "mlx4_0:1");
	assert_string_equal(probe.devices[1].name, "mlx4_0:2");
	assert_string_equal(probe.devices[2].name, "mlx5_1");
	assert_int_equal(probe.devices[0].guid, 77); /* without a system image the node's own */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(probe.devices[i].index, i);
		assert_string_equal(probe.devices[i].ifname, "lo"); /* of the first standby */
	}
	expect_verdict("mlx4_0:3", false, "port is DOWN");
}

static void test_every_step_of_the_proof_has_its_words(void **state)
{
	static const struct {
		const char *property, *words;
	} steps[] = {
		{ "pd=12", "cannot have a protection domain: out of memory" },
		{ "mr=12",
		  "cannot have 4 MiB of memory registered: out of memory that may be pinned: "
		  "RLIMIT_MEMLOCK is " },
		{ "mr=14", "cannot have 4 MiB of memory registered: Bad address" },
		{ "mr=1", "registered: out of memory that may be pinned: RLIMIT_MEMLOCK is " },
		{ "cq=22", "cannot have a completion queue: Invalid argument" },
		{ "qp=12", "cannot have a queue pair: out of memory that may be pinned" },
		{ "init=22", "a queue pair on GID 3 (127.0.0.1) does not become INIT: Invalid" },
		{ "rtr=110", "does not become RTR: Connection timed out" },
		{ "rts=22", "does not become RTS: Invalid argument" },
		{ "recv=12", "a queue pair takes no work: Cannot allocate memory" },
		{ "send=22", "a queue pair takes no work: Invalid argument" },
		{ "poll=5", "its completion queue cannot be polled" },
		{ "status=12", "no answer: its packets are lost (status 12, vendor 0x81)" },
		{ "status=10", "an RDMA WRITE to itself failed with status 10, vendor 0x81" },
		{ "silent", "an RDMA WRITE to itself got 0 of 2 completions in 3 s" },
		{ "garbles", "an RDMA WRITE to itself brought other bytes" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		char script[160];

		snprintf(script, sizeof(script), "mlx5_0 %s " ETH_PORT, steps[i].property);
		run_on(script);
		assert_int_equal(probe.device_count, 0);
		expect_verdict("mlx5_0:1", false, steps[i].words);
	}
}

static void test_what_fails_leaves_the_others(void **state)
{
	int standbys;

	(void)state;
	run_on("mlx5_0 qp=12 " ETH_PORT "; mlx5_1 " ETH_PORT);
	assert_int_equal(probe.device_count, 1);
	assert_string_equal(probe.devices[0].name, "mlx5_1");
	ib_standby(&standbys);
	assert_int_equal(standbys, 1);
}

static void test_tcp_stands_by_beside_ib_only(void **state)
{
	const struct anynet_device *const *standby;
	int count;

	(void)state;
	run_on("mlx5_0 " IB_PORT "; mlx5_1 " ETH_PORT);
	standby = anynet_ib_transport.standby(&count);
	assert_int_equal(count, 1);
	assert_int_equal(standby[0]->link, ANYNET_LINK_TCP);
	assert_string_equal(standby[0]->name, "lo");
	assert_int_equal(standby[0]->index, 2); /* behind those of NCCL */
	expect_verdict("lo", false, "stands by: 127.0.0.1");
	run_on("mlx5_0 port=1:1:0:0");
	ib_standby(&count);
	assert_int_equal(count, 0);
	assert_int_equal(probe.candidate_count, 1);
}

static void test_an_interface_that_is_not_wanted_gets_no_control_connections(void **state)
{
	(void)state;
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "^lo");
	run_on("mlx5_0 " ETH_PORT);
	if (probe.device_count && strcmp(probe.devices[0].ifname, "lo"))
		return; /* this host has another interface */
	/* nothing but lo is left: the setting is given up, with a word */
	expect_verdict("NCCL_SOCKET_IFNAME", false, "leaves no interface");
}

static void test_more_ports_than_fit_are_usable_but_no_devices(void **state)
{
	char script[1024] = "";
	int usable = 0, standbys;

	(void)state;
	for (int i = 0; i < 16; i++) {
		char device[64];

		snprintf(device, sizeof(device),
			 "%sd%d " IB_PORT " " IB_PORT " " IB_PORT " " IB_PORT, i ? ";" : "", i);
		strcat(script, device);
	}
	run_on(script);
	assert_int_equal(probe.device_count, ANYNET_DEVICES_MAX - IB_STANDBY_MAX);
	for (int i = 0; i < probe.candidate_count; i++)
		usable += probe.candidates[i].usable;
	assert_int_equal(usable, 64); /* the selector warns of the difference */
	assert_int_equal(ib_standby(&standbys)[0]->index, probe.device_count);
	for (int i = 0; i < probe.device_count; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(probe.devices[i].name, probe.devices[j].name);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_port_that_proves_itself_is_a_device, setup),
		cmocka_unit_test_setup(test_infiniband_ports_of_one_card, setup),
		cmocka_unit_test_setup(test_every_step_of_the_proof_has_its_words, setup),
		cmocka_unit_test_setup(test_what_fails_leaves_the_others, setup),
		cmocka_unit_test_setup(test_tcp_stands_by_beside_ib_only, setup),
		cmocka_unit_test_setup(
			test_an_interface_that_is_not_wanted_gets_no_control_connections, setup),
		cmocka_unit_test_setup(test_more_ports_than_fit_are_usable_but_no_devices, setup),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s FAKE_LIBRARY\n", argv[0]);
		return 1;
	}
	fake_file = argv[1];
	fake = dlopen(fake_file, RTLD_NOW | RTLD_LOCAL); /* held for its counters */
	if (!fake) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
