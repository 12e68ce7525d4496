/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name presented to NCCL, and the table of selection: the result of each NCCL_NET and ANYNET_TRANSPORT on hosts
 * with and without IB, and its log lines. Usage: test_selector FAKE_VERBS_LIBRARY
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "plugin/selector.h"
#include "support/capture.h"
#include "unit/environment.h"
#include "unit/netns.h"

static const char *fake_file;
static struct anynet_config cfg;
static struct anynet_probe probe;

static int setup(void **state)
{
	(void)state;
	environment_clear();
	setenv("NCCL_DEBUG", "INFO", 1);
	log_to_capture();
	anynet_config_load(&cfg, NULL);
	/* every host has lo */
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "lo");
	snprintf(cfg.ibverbs_lib, sizeof(cfg.ibverbs_lib), "%s", fake_file);
	setenv("FAKE_VERBS", "device mlx5_0 open=13", 1);
	return 0;
}

static void run_as(const char *name)
{
	log_to_capture();
	anynet_selector_run(name, &cfg, &probe);
}

static void expect_tcp_on_lo(void)
{
	assert_int_equal(probe.device_count, 1);
	assert_int_equal(probe.devices[0].transport, ANYNET_TRANSPORT_TCP);
	assert_string_equal(probe.devices[0].name, "lo");
}

static void test_names_served_keep_the_users_spelling(void **state)
{
	static const char *const served[] = { "IB",     "ib",     "Ib",     "Socket", "socket",
					      "SOCKET", "anynet", "AnyNet", "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(served); i++)
		assert_string_equal(anynet_selector_name_for(served[i]), served[i]);
}

static void test_other_names_are_left_to_others(void **state)
{
	static const char *const others[] = { "AWS Libfabric", "IBext", "I",      "IB ",
					      "Sockets",       "none",  "anynet2" };

	(void)state;
	assert_string_equal(anynet_selector_name_for(NULL), "anynet");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_string_equal(anynet_selector_name_for(others[i]), "anynet");
}

/* The name in this process, in a child with NCCL_NET `value`; NULL = not set. */
static void expect_own_name(const char *value, const char *expected)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		char variable[64];
		const char *name;

		unsetenv("NCCL_NET");
		snprintf(variable, sizeof(variable), "NCCL_NET=%s", value ? value : "");
		if (value)
			putenv(variable);
		name = anynet_selector_name();
		/* NCCL keeps the pointer for ever, whatever happens to the environment */
		memset(variable, 'x', sizeof(variable) - 1);
		_exit(strcmp(name, expected) || anynet_selector_name() != name);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_the_name_stays_where_it_is(void **state)
{
	(void)state;
	expect_own_name(NULL, "anynet");
	expect_own_name("", "");
	expect_own_name("ib", "ib");
	expect_own_name("sOcKeT", "sOcKeT");
	expect_own_name("ANYNET", "ANYNET");
	expect_own_name("other", "anynet");
}

static void test_without_nccl_net_tcp_is_used_without_a_warning(void **state)
{
	static const char *const names[] = { "anynet", "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		run_as(names[i]);
		expect_tcp_on_lo();
		assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 0);
		assert_int_equal(capture_count(ANYNET_LOG_INFO, "IB mlx5_0 not used: cannot open"),
				 1);
		assert_int_equal(capture_count(ANYNET_LOG_INFO, "TCP lo usable: 127.0.0.1"), 1);
		assert_int_equal(capture_count(ANYNET_LOG_INFO,
					       "dev 0 lo transport TCP addr 127.0.0.1 speed"),
				 1);
	}
}

static void test_ib_without_verbs_gets_tcp_and_one_reason(void **state)
{
	static const char *const names[] = { "IB", "ib" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		run_as(names[i]);
		expect_tcp_on_lo();
		assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
		assert_int_equal(capture_count(ANYNET_LOG_WARN,
					       "NCCL_NET=IB, but IB is not used: mlx5_0: cannot "
					       "open /dev/infiniband/uverbs0: Permission denied"),
				 1);
		assert_int_equal(capture_count(ANYNET_LOG_WARN, "using TCP on lo 127.0.0.1"), 1);
	}
	cfg.transport = ANYNET_CHOOSE_IB;
	run_as("Socket"); /* the plugin's own setting is more specific */
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "ANYNET_TRANSPORT=ib, but IB"), 1);
}

static void test_the_warning_counts_further_reasons(void **state)
{
	(void)state;
	setenv("FAKE_VERBS", "device mlx5_0; port layer=ib state=down; port layer=ib state=down; device mlx5_1 open=13", 1);
	run_as("IB");
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "mlx5_0:1: port is DOWN (2 more"), 1);
	assert_int_equal(capture_count(ANYNET_LOG_INFO, "IB mlx5_"), 3);
}

/* Unless TCP is requested; the plugin's setting precedes NCCL's. */
static void test_ib_that_is_there_is_used_and_nothing_else(void **state)
{
	static const struct {
		const char *name;
		int transport;
	} wishes[] = {
		{ "anynet", ANYNET_CHOOSE_AUTO }, { "IB", ANYNET_CHOOSE_AUTO },
		{ "", ANYNET_CHOOSE_AUTO },       { "anynet", ANYNET_CHOOSE_IB },
		{ "IB", ANYNET_CHOOSE_IB },       { "Socket", ANYNET_CHOOSE_IB },
	};

	(void)state;
	setenv("FAKE_VERBS", "device mlx5_0; port layer=ib lid=7 gid=0,::1; port layer=ib state=down", 1);
	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++) {
		cfg.transport = wishes[i].transport;
		run_as(wishes[i].name);
		assert_int_equal(probe.device_count, 1);
		assert_int_equal(probe.devices[0].transport, ANYNET_TRANSPORT_IB);
		assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 0);
		assert_int_equal(capture_count(ANYNET_LOG_INFO, "IB mlx5_0 usable: ACTIVE"), 1);
		assert_int_equal(capture_count(ANYNET_LOG_INFO, "TCP lo not used: standby: "), 1);
		assert_int_equal(capture_count(ANYNET_LOG_INFO,
					       "dev 0 mlx5_0 transport IB addr 127.0.0.1 speed"),
				 1);
	}
}

static void test_ib_that_does_not_prove_itself_is_a_warning(void **state)
{
	(void)state;
	setenv("FAKE_VERBS", "device mlx5_0; port layer=ib lid=7 gid=0,::1; fault call reg_mr errno=12", 1);
	cfg.transport = ANYNET_CHOOSE_IB;
	run_as("anynet");
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN,
				       "ANYNET_TRANSPORT=ib, but IB is not used: mlx5_0:1: cannot "
				       "allocate 4 MiB of registered memory"),
			 1);
}

/* A host where it leaves no port slows its job down. */
static void test_a_choice_of_ports_that_leaves_none_is_a_warning(void **state)
{
	static const char text[] = "is set, but IB is not used: mlx5_0";

	(void)state;
	setenv("FAKE_VERBS", "device mlx5_0; port gid=0,fe80::1; port gid=0,fe80::1", 1);
	snprintf(cfg.ib_hca, sizeof(cfg.ib_hca), "mlx5_9");
	run_as("anynet");
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "NCCL_IB_HCA is set"), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, text), 1);
	*cfg.ib_hca = 0;
	cfg.ib_gid_index = 3;
	run_as("anynet");
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "NCCL_IB_GID_INDEX is set"), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, text), 1);
	cfg.ib_gid_index = ANYNET_AUTO;
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "10.0.0.0/8");
	run_as("anynet");
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "NCCL_IB_ADDR_RANGE is set"), 1);
	setenv("FAKE_VERBS", "list errno=38", 1); /* a host without RDMA */
	run_as("anynet");
	run_as("Socket");
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 0);
}

static void test_socket_does_not_look_for_ib(void **state)
{
	(void)state;
	run_as("socket");
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_INFO,
				       "IB libibverbs not used: not opened: NCCL_NET=Socket"),
			 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 0);
	cfg.transport = ANYNET_CHOOSE_TCP;
	run_as("IB"); /* as requested: no warning */
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_INFO, "ANYNET_TRANSPORT=tcp"), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 0);
}

static void test_disabled_ib_is_the_reason_if_ib_was_asked_for(void **state)
{
	(void)state;
	cfg.ib_disable = true;
	run_as("anynet");
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 0);
	assert_int_equal(capture_count(ANYNET_LOG_INFO, "NCCL_IB_DISABLE=1"), 1);
	run_as("IB");
	expect_tcp_on_lo();
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "NCCL_IB_DISABLE=1"), 1);
}

static void test_a_missing_library_is_no_warning_unless_ib_was_asked_for(void **state)
{
	(void)state;
	/* the device list depends on the hardware, but there is at least one line */
	snprintf(cfg.ibverbs_lib, sizeof(cfg.ibverbs_lib), "/nowhere/libibverbs.so.9");
	run_as("anynet");
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 0);
	assert_int_equal(capture_count(ANYNET_LOG_INFO, "/nowhere/libibverbs.so.9: cannot open"),
			 1);
	run_as("IB");
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "/nowhere/libibverbs.so.9: cannot open"),
			 1);
}

static void test_an_ifname_that_cannot_be_honoured_is_a_warning(void **state)
{
	(void)state;
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "no-such-interface");
	run_as("anynet");
	assert_true(probe.device_count >= 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "NCCL_SOCKET_IFNAME: 'no-such-interface'"),
			 1);
}

static void test_running_again_starts_afresh(void **state)
{
	(void)state;
	run_as("anynet");
	run_as("anynet");
	expect_tcp_on_lo();
}

static void test_a_host_without_any_network_is_told_so(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		netns_enter(); /* lo is down there */
		run_as("IB");
		_exit(probe.device_count ||
		      capture_count(ANYNET_LOG_WARN, "using TCP on nothing") != 1 ||
		      capture_count(ANYNET_LOG_WARN, "no usable network: no interface") != 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIP_EXIT)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_served_keep_the_users_spelling),
		cmocka_unit_test(test_other_names_are_left_to_others),
		cmocka_unit_test(test_the_name_stays_where_it_is),
		cmocka_unit_test_setup(test_without_nccl_net_tcp_is_used_without_a_warning, setup),
		cmocka_unit_test_setup(test_ib_without_verbs_gets_tcp_and_one_reason, setup),
		cmocka_unit_test_setup(test_the_warning_counts_further_reasons, setup),
		cmocka_unit_test_setup(test_ib_that_is_there_is_used_and_nothing_else, setup),
		cmocka_unit_test_setup(test_ib_that_does_not_prove_itself_is_a_warning, setup),
		cmocka_unit_test_setup(test_a_choice_of_ports_that_leaves_none_is_a_warning, setup),
		cmocka_unit_test_setup(test_socket_does_not_look_for_ib, setup),
		cmocka_unit_test_setup(test_disabled_ib_is_the_reason_if_ib_was_asked_for, setup),
		cmocka_unit_test_setup(test_a_missing_library_is_no_warning_unless_ib_was_asked_for,
				       setup),
		cmocka_unit_test_setup(test_an_ifname_that_cannot_be_honoured_is_a_warning, setup),
		cmocka_unit_test_setup(test_running_again_starts_afresh, setup),
		cmocka_unit_test_setup(test_a_host_without_any_network_is_told_so, setup),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s FAKE_VERBS_LIBRARY\n", argv[0]);
		return 1;
	}
	fake_file = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
