/* SPDX-License-Identifier: Apache-2.0 */
/* The check for misspelt names: variables of the environment that are no settings. */
#include "config_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "plugin/config_parse.h"
#include "support/capture.h"
#include "unit/environment.h"

void test_unknown_names_of_ours_are_questioned(void **state)
{
	static const struct {
		const char *typed, *meant;
	} typos[] = {
		{ "ANYNET_TRANPORT=tcp", "ANYNET_TRANSPORT?" },
		{ "ANYNET_SOCKET_IFNAMES=eth0", "ANYNET_SOCKET_IFNAME?" },
		{ "ANYNET_PORTRANGE=1-2", "ANYNET_PORT_RANGE?" },
		{ "anynet_max_recvs=1", "ANYNET_MAX_RECVS?" },
		{ "ANYNET_DBUG=info", "ANYNET_DEBUG?" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(typos); i++) {
		load_with(typos[i].typed, NULL);
		assert_int_equal(capture_count(0, NULL), 1);
		assert_int_equal(capture_count(ANYNET_LOG_WARN, typos[i].meant), 1);
	}
	load_with("ANYNET_QUANTUM_FLUX=1", NULL);
	assert_int_equal(capture_count(0, NULL), 1);
	assert_non_null(strstr(newest_line(), "ANYNET_QUANTUM_FLUX is not a setting"));
	assert_null(strstr(newest_line(), "did you mean"));
	load_with("ANYNET_DEBUG=info", "ANYNET_TRANSPORT=tcp", NULL);
	assert_int_equal(capture_count(0, NULL), 0);
}

void test_nearly_right_names_of_nccl_are_questioned(void **state)
{
	static const struct {
		const char *typed, *meant;
	} typos[] = {
		{ "NCCL_SOCKET_IFNAMES=eth0", "NCCL_SOCKET_IFNAME?" },
		{ "NCCL_SOKCET_IFNAME=eth0", "NCCL_SOCKET_IFNAME?" },
		{ "NCCL_NSOCKS_PER_THREAD=4", "NCCL_NSOCKS_PERTHREAD?" },
		{ "NCCL_SOCKET_NTHREAD=4", "NCCL_SOCKET_NTHREADS?" },
		{ "nccl_ib_disable=1", "NCCL_IB_DISABLE?" },
		{ "NCCL_IB_HCAS=mlx5_0", "NCCL_IB_HCA?" },
		{ "NCCL_IB_HAC=mlx5_0", "NCCL_IB_HCA?" }, /* two letters swapped */
		{ "NCCL_NET_PLUGINS=anynet", "NCCL_NET_PLUGIN?" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(typos); i++) {
		load_with(typos[i].typed, NULL);
		assert_int_equal(capture_count(0, NULL), 1);
		assert_int_equal(capture_count(ANYNET_LOG_WARN, typos[i].meant), 1);
	}
}

/* Names that NCCL knows and that are not about networks: none counts as misspelt. */
void test_other_names_of_nccl_are_left_alone(void **state)
{
	static const char *const fine[] = {
		"NCCL_DEBUG",        "NCCL_DEBUG_SUBSYS",   "NCCL_P2P_DISABLE",
		"NCCL_SHM_DISABLE",  "NCCL_P2P_LEVEL",      "NCCL_ALGO",
		"NCCL_PROTO",        "NCCL_NTHREADS",       "NCCL_MIN_NCHANNELS",
		"NCCL_NVLS_ENABLE",  "NCCL_RAS_ENABLE",     "NCCL_PAT_ENABLE",
		"NCCL_WIN_ENABLE",   "NCCL_CUMEM_ENABLE",   "NCCL_GIN_ENABLE",
		"NCCL_TOPO_FILE",    "NCCL_ENV_PLUGIN",     "NCCL_TUNER_PLUGIN",
		"NCCL_NVB_DISABLE",  "NCCL_NVTX_DISABLE",   "NCCL_RMA_DISABLE",
		"NCCL_MNNVL_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_IB_QPS_PER_CONNECTION",
		"NCCL_IB_SL",        "NCCL_IB_TC",          "NCCL_ROOT",
		"NCCL_HOME",         "NCCL_VERSION",        "NCCL_INCLUDE_DIR",
		"NCCL_SET", /* a script's own variable: one letter from NCCL_NET, but short */
	};
	char entry[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		snprintf(entry, sizeof(entry), "%s=", fine[i]);
		load_with(entry, NULL);
		if (capture_count(0, NULL))
			fail_msg("%s: %s", fine[i], newest_line());
	}
}

void test_odd_environments_do_no_harm(void **state)
{
	char name[300];

	(void)state;
	memset(name, 'A', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	memcpy(name, "ANYNET_", 7);
	environment_clear();
	setenv(name, "1", 1);
	name[100] = 0;
	setenv(name, "1", 1);
	setenv("ANYNET_", "1", 1);
	setenv("NCCL_", "1", 1);
	setenv("NCCL_A", "%s%n", 1);
	setenv("ANYNET_TCP_CONNECTIONS", "%s%n%d", 1);
	log_to_capture();
	anynet_config_load(&cfg, NULL);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "%s%n%d"), 1);
	assert_int_equal(cfg.streams_per_nic, ANYNET_AUTO);
}
