/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that need more than their own parser: lists, ranges, and settings that depend on others. */
#include "config_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "plugin/config_parse.h"
#include "support/capture.h"
#include "unit/environment.h"

/* net-api.md §5.3: streams are threads times sockets per thread, 64 at most. */
void test_nccls_threads_and_sockets_multiply(void **state)
{
	(void)state;
	load_with("NCCL_SOCKET_NTHREADS=4", "NCCL_NSOCKS_PERTHREAD=4", NULL);
	assert_int_equal(capture_count(0, NULL), 0);
	assert_int_equal(cfg.io_threads, 4);
	assert_int_equal(cfg.streams_per_nic, 16);
	load_with("NCCL_SOCKET_NTHREADS=4", NULL);
	assert_int_equal(cfg.streams_per_nic, 4);
	assert_int_equal(source_of("ANYNET_TCP_CONNECTIONS"), ANYNET_FROM_ALIAS);
	load_with("NCCL_NSOCKS_PERTHREAD=4", NULL);
	assert_int_equal(cfg.streams_per_nic, 4);
	assert_int_equal(cfg.io_threads, ANYNET_AUTO);
	load_with("NCCL_SOCKET_NTHREADS=0", "NCCL_NSOCKS_PERTHREAD=2", NULL);
	assert_int_equal(cfg.io_threads, 0);
	assert_int_equal(cfg.streams_per_nic, 2);
	load_with("NCCL_SOCKET_NTHREADS=4", "ANYNET_TCP_CONNECTIONS=2", NULL);
	assert_int_equal(cfg.streams_per_nic, 2);
	load_with("ANYNET_IO_THREADS=4", "NCCL_NSOCKS_PERTHREAD=2", NULL);
	assert_int_equal(cfg.streams_per_nic, 2);
}

void test_too_many_streams_are_lowered_with_one_warning(void **state)
{
	(void)state;
	load_with("NCCL_SOCKET_NTHREADS=16", "NCCL_NSOCKS_PERTHREAD=8", NULL);
	assert_int_equal(capture_count(0, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "using 64 TCP connections"), 1);
	assert_int_equal(cfg.streams_per_nic, 64);
	load_with("NCCL_SOCKET_NTHREADS=40", NULL);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "NCCL_SOCKET_NTHREADS 40"), 1);
	assert_int_equal(cfg.io_threads, 16);
	load_with("NCCL_NSOCKS_PERTHREAD=100", NULL);
	assert_int_equal(capture_count(0, NULL), 1);
	assert_int_equal(cfg.streams_per_nic, 64);
	load_with("NCCL_NSOCKS_PERTHREAD=100 ", NULL);
	assert_int_equal(cfg.streams_per_nic, 64);
	/* the plugin's own setting is not lowered but refused */
	load_with("ANYNET_TCP_CONNECTIONS=100", NULL);
	assert_int_equal(capture_count(0, NULL), 1);
	assert_int_equal(cfg.streams_per_nic, ANYNET_AUTO);
}

void test_nccls_comm_id_is_a_hint_in_all_its_forms(void **state)
{
	static const struct {
		const char *text, *subnet;
	} forms[] = {
		{ "10.0.0.1:29500", "10.0.0.1" },
		{ "[fd00::1]:29500", "fd00::1" },
		{ "head-node-7.cluster.example.org:29500", "" },
		{ "head:29500", "" },
		{ "a-very-long-host-name-of-a-node.in-a-very-long-domain-name.example.org:29500",
		  "" },
		{ "fd00:1::/64", "fd00:1::/64" },
		{ "10.0.0.1", "10.0.0.1" },
	};
	static const char *const bad[] = { "head",        "head:port",   "10.0.0.1/",
					   "10.0.0/8",    "10.0.0.1/-1", "10.0.0.1/ 8",
					   "fd00::1/129", ":5",          "head:70000" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		char entry[256];

		snprintf(entry, sizeof(entry), "NCCL_COMM_ID=%s", forms[i].text);
		load_with(entry, NULL);
		assert_int_equal(capture_count(0, NULL), 0);
		assert_string_equal(cfg.socket_subnet, forms[i].subnet);
		assert_false(cfg.socket_subnet_own);
	}
	load_with("ANYNET_SOCKET_SUBNET=10.0.0.1", NULL);
	assert_true(cfg.socket_subnet_own);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		refuse_value(row_of("ANYNET_SOCKET_SUBNET"), bad[i]);
}

void test_lists_of_networks(void **state)
{
	static const struct {
		const char *text, *list;
	} good[] = {
		{ "10.0.0.1", "10.0.0.1" },
		{ "0.0.0.0/0,::/0", "0.0.0.0/0,::/0" },
		{ "10.1.0.0/016 ,	192.168.7.7 , fd00::1/128",
		  "10.1.0.0/016,192.168.7.7,fd00::1/128" },
		{ "NONE", "none" },
	};
	static const char *const bad[] = {
		"10.0.0.0/8,",   ",10.0.0.0/8",   "10.0.0.0/8,,10.1.0.0/16",
		"10.0.0.0/0x8",  "10.0.0.0/",     "10.0.0.0/-1",
		"10.0.0.0/8 10", "fd00::/129",    "host.example.org",
		"10.0.0.1:80",   "all",           "none,10.0.0.1",
		"10.0. 0.1",     "10.0.0.0/0008",
	};
	char entry[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		snprintf(entry, sizeof(entry), "ANYNET_ALLOW=%s", good[i].text);
		load_with(entry, NULL);
		assert_int_equal(capture_count(0, NULL), 0);
		assert_string_equal(cfg.allow, good[i].list);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		refuse_value(row_of("ANYNET_ALLOW"), bad[i]);
}

/* A value that is too long must not open access that it was to close. */
void test_a_refused_list_allows_no_network(void **state)
{
	char entry[1100] = "ANYNET_ALLOW=10.0.0.1";

	(void)state;
	for (int i = 0; i < 100; i++)
		strcat(entry, ",10.0.0.1");
	load_with(entry, NULL);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, "using none"), 1);
	assert_string_equal(cfg.allow, "none");
}

/* Whoever sets the variable wants a restriction: only the empty value is none. */
void test_blanks_lift_no_restriction(void **state)
{
	static const char *const names[] = { "ANYNET_ALLOW", "ANYNET_SECRET_FILE", "ANYNET_IB_HCA",
					     "ANYNET_SOCKET_IFNAME" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		refuse_value(row_of(names[i]), " ");
		refuse_value(row_of(names[i]), "   ");
	}
	load_with("ANYNET_DUMP_DIR= ", NULL);
	assert_int_equal(capture_count(0, NULL), 0);
}

void test_port_ranges(void **state)
{
	static const char *const bad[] = { "1",    "5-",    "-5",   "0-5", "5-70000",
					   "5--7", "5-7-9", "5- 7", "a-b", "1-0" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		refuse_value(row_of("ANYNET_PORT_RANGE"), bad[i]);
	load_with("ANYNET_PORT_RANGE=0", NULL);
	assert_int_equal(capture_count(0, NULL), 0);
	assert_int_equal(cfg.port_max, 0);
	load_with("ANYNET_PORT_RANGE=7-7", NULL);
	assert_int_equal(cfg.port_min, 7);
	assert_int_equal(cfg.port_max, 7);
}

void test_eager_sends_fit_into_half_the_ring(void **state)
{
	(void)state;
	load_with("ANYNET_TCP_EAGER=64k", "ANYNET_TCP_REPLAY=64k", NULL);
	assert_int_equal(capture_count(0, NULL), 1);
	assert_int_equal(cfg.eager_bytes, 32 << 10);
}
