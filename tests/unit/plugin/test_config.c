/* SPDX-License-Identifier: Apache-2.0 */
/* The settings: every row of the table, its parser, its alias, and the check for misspelt names. */
#include "config_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "plugin/config_parse.h"
#include "support/capture.h"
#include "unit/environment.h"

struct anynet_config cfg;
enum anynet_config_source sources[ANYNET_CONFIG_ROWS_MAX];

static int setup(void **state)
{
	(void)state;
	environment_clear();
	log_to_capture();
	return 0;
}

void load_with(const char *first, ...)
{
	va_list args;

	environment_clear();
	va_start(args, first);
	for (const char *entry = first; entry; entry = va_arg(args, const char *)) {
		const char *equals = strchr(entry, '=');
		char name[128];

		snprintf(name, sizeof(name), "%.*s", (int)(equals - entry), entry);
		assert_int_equal(setenv(name, equals + 1, 1), 0);
	}
	va_end(args);
	log_to_capture();
	anynet_config_load(&cfg, sources);
}

const struct anynet_config_row *row_of(const char *name)
{
	for (size_t i = 0; i < anynet_config_row_count; i++) {
		if (!strcmp(anynet_config_rows[i].name, name))
			return &anynet_config_rows[i];
	}
	fail_msg("no row %s", name);
	return NULL;
}

enum anynet_config_source source_of(const char *name)
{
	return sources[row_of(name) - anynet_config_rows];
}

const char *value_of(const char *name)
{
	static char text[512];

	return anynet_config_format(row_of(name), &cfg, text, sizeof(text));
}

static void test_defaults_load_without_a_log_line(void **state)
{
	(void)state;
	load_with(NULL);
	assert_int_equal(capture_count(0, NULL), 0);
	for (size_t i = 0; i < anynet_config_row_count; i++)
		assert_int_equal(sources[i], ANYNET_FROM_DEFAULT);
	assert_int_equal(cfg.transport, ANYNET_CHOOSE_AUTO);
	assert_false(cfg.ib_disable);
	assert_string_equal(cfg.socket_ifname, "");
	assert_int_equal(cfg.socket_family, AF_UNSPEC);
	assert_int_equal(cfg.port_min, 0);
	assert_int_equal(cfg.io_threads, ANYNET_AUTO);
	assert_int_equal(cfg.streams_per_nic, ANYNET_AUTO);
	assert_int_equal(cfg.stripe, ANYNET_SWITCH_AUTO);
	assert_int_equal(cfg.eager_bytes, 32 << 10);
	assert_int_equal(cfg.replay_bytes, 256 << 10);
	assert_int_equal(cfg.keep_bytes, ANYNET_AUTO);
	assert_int_equal(cfg.chunk_bytes, 128 << 10);
	assert_int_equal(cfg.sndbuf_bytes, ANYNET_AUTO);
	assert_int_equal(cfg.peer_timeout_ms, 30000);
	assert_int_equal(cfg.recovery_timeout_ms, 60000);
	assert_int_equal(cfg.stall_warn_ms, 30000);
	assert_false(cfg.checksum);
	assert_int_equal(cfg.connect_timeout_ms, 60000);
	assert_int_equal(cfg.handshake_timeout_ms, 5000);
	assert_string_equal(cfg.allow, "");
	assert_string_equal(cfg.secret_file, "");
	assert_int_equal(cfg.max_recvs, 8);
	assert_false(cfg.profile);
}

static void test_every_row_is_complete_and_its_name_is_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < anynet_config_row_count; i++) {
		const struct anynet_config_row *row = &anynet_config_rows[i];

		assert_int_equal(strncmp(row->name, "ANYNET_", 7), 0);
		assert_non_null(row->initial);
		assert_true(strlen(row->accepts) > 0);
		assert_true(strlen(row->doc) > 0 && row->doc[strlen(row->doc) - 1] == '.');
		assert_null(strchr(row->accepts, '|'));
		assert_null(strchr(row->doc, '|'));
		assert_true(row->offset < sizeof(struct anynet_config));
		if (row->alias)
			assert_int_equal(strncmp(row->alias, "NCCL_", 5), 0);
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(row->name, anynet_config_rows[j].name);
			assert_true(row->offset != anynet_config_rows[j].offset);
		}
	}
}

/* `accepts` has the limits in words; they must be the enforced ones. */
static void test_the_words_tell_the_bounds_of_numbers(void **state)
{
	(void)state;
	for (size_t i = 0; i < anynet_config_row_count; i++) {
		const struct anynet_config_row *row = &anynet_config_rows[i];
		struct anynet_config at_bound = { .io_threads = (int)row->min };
		char low[32], high[32], words[128];

		if (row->parse != anynet_parse_int && row->parse != anynet_parse_auto_int &&
		    row->parse != anynet_parse_size && row->parse != anynet_parse_chunk &&
		    row->parse != anynet_parse_auto_size)
			continue;
		snprintf(low, sizeof(low), "%ld", row->min);
		snprintf(high, sizeof(high), "%ld", row->max);
		assert_int_equal(row->parse(row, low, &at_bound), 0);
		anynet_config_format(row, &at_bound, low, sizeof(low));
		assert_int_equal(row->parse(row, high, &at_bound), 0);
		anynet_config_format(row, &at_bound, high, sizeof(high));
		snprintf(words, sizeof(words), "%s to %s", low, high);
		if (!strstr(row->accepts, words))
			fail_msg("%s: '%s' is not in '%s'", row->name, words, row->accepts);
	}
}

static void test_every_row_reads_back_what_it_prints(void **state)
{
	(void)state;
	load_with(NULL);
	for (size_t i = 0; i < anynet_config_row_count; i++) {
		const struct anynet_config_row *row = &anynet_config_rows[i];
		struct anynet_config again;
		char text[512], text_again[512];

		memset(&again, 0x5a, sizeof(again));
		anynet_config_format(row, &cfg, text, sizeof(text));
		assert_string_equal(text, row->initial);
		assert_int_equal(row->parse(row, text, &again), 0);
		anynet_config_format(row, &again, text_again, sizeof(text_again));
		assert_string_equal(text, text_again);
	}
}

/* One value other than the default for every row, and one that must be refused. */
static const struct sample {
	const char *name, *good, *printed, *bad;
} samples[] = {
	{ "ANYNET_TRANSPORT", "IB", "ib", "i" },
	{ "ANYNET_IB_DISABLE", "yes", "1", "maybe" },
	{ "ANYNET_IB_HCA", "^=mlx5_0:1,mlx5_1", "^=mlx5_0:1,mlx5_1", NULL },
	{ "ANYNET_IBVERBS_LIB", "/opt/lib/libibverbs.so.1", "/opt/lib/libibverbs.so.1", NULL },
	{ "ANYNET_IB_GID_INDEX", "3", "3", "256" },
	{ "ANYNET_IB_ROCE_VERSION_NUM", "1", "1", "3" },
	{ "ANYNET_IB_ADDR_FAMILY", "AF_INET6", "AF_INET6", "ipv6" },
	{ "ANYNET_IB_ADDR_RANGE", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/33" },
	{ "ANYNET_IB_ROUTABLE_FLID_GID_INDEX", "0", "0", "-1" },
	{ "ANYNET_IB_DATA_DIRECT", "2", "2", "3" },
	{ "ANYNET_IB_MERGE_VFS", "0", "0", "some" },
	{ "ANYNET_IB_MERGE_NICS", "2", "2", "3" },
	{ "ANYNET_IB_DEVICE_PCI_ORDER", "0", "0", "pci" },
	{ "ANYNET_IB_TIMEOUT", "22", "22", "32" },
	{ "ANYNET_IB_RETRY_CNT", "3", "3", "8" },
	{ "ANYNET_IB_SL", "5", "5", "16" },
	{ "ANYNET_IB_TC", "106", "106", "256" },
	{ "ANYNET_IB_PKEY", "1", "1", "65536" },
	{ "ANYNET_IB_ADAPTIVE_ROUTING", "1", "1", "2" },
	{ "ANYNET_IB_AR_THRESHOLD", "0", "0", "2g" },
	{ "ANYNET_IB_QPS_PER_CONNECTION", "4", "4", "65" },
	{ "ANYNET_IB_SPLIT_DATA_ON_QPS", "1", "1", "some" },
	{ "ANYNET_IB_ECE_ENABLE", "0", "0", "some" },
	{ "ANYNET_IB_LOOPBACK", "0", "0", "maybe" },
	{ "ANYNET_IB_CM", "1", "1", "please" },
	{ "ANYNET_RDMACM_LIB", "/opt/lib/librdmacm.so.1", "/opt/lib/librdmacm.so.1", NULL },
	{ "ANYNET_IB_PCI_RELAXED_ORDERING", "0", "0", "3" },
	{ "ANYNET_IB_PEER_MEMORY", "on", "on", "maybe" },
	{ "ANYNET_GDR_FLUSH_DISABLE", "1", "1", "some" },
	{ "ANYNET_TCP_CUDA", "1", "1", "please" },
	{ "ANYNET_CUDA_LIB", "/opt/lib/libcuda.so.1", "/opt/lib/libcuda.so.1", NULL },
	{ "ANYNET_CUDA_OWN_CONTEXT", "off", "off", "mine" },
	{ "ANYNET_SOCKET_IFNAME", "\t =eth0,eth1 \n", "=eth0,eth1", "e" },
	{ "ANYNET_SOCKET_FAMILY", "af_inet6", "AF_INET6", "inet7" },
	{ "ANYNET_SOCKET_SUBNET", "10.1.0.0/16", "10.1.0.0/16", "10.1.0.0/33" },
	{ "ANYNET_PORT_RANGE", "40000-40100", "40000-40100", "40100-40000" },
	{ "ANYNET_IO_THREADS", " 4 ", "4", "17" },
	{ "ANYNET_TCP_CONNECTIONS", "0x10", "16", "0" },
	{ "ANYNET_TCP_STRIPE", "ON", "on", "2" },
	{ "ANYNET_TCP_EAGER", "16K", "16k", "2m" },
	{ "ANYNET_TCP_REPLAY", "65536", "64k", "1k" },
	{ "ANYNET_TCP_KEEP", "0", "0", "65m" },
	{ "ANYNET_TCP_CHUNK", "1m", "1m", "100000" },
	{ "ANYNET_TCP_ZEROCOPY", "off", "off", "sometimes" },
	{ "ANYNET_TCP_SNDBUF", "4m", "4m", "-3" },
	{ "ANYNET_TCP_RCVBUF", "1000000", "1000000", "8g" },
	{ "ANYNET_TCP_CONGESTION", "bbr", "bbr", "bbr; rm" },
	{ "ANYNET_PEER_TIMEOUT", "1500ms", "1500ms", "10h" },
	{ "ANYNET_RECOVERY_TIMEOUT", "0", "0s", "61min" },
	{ "ANYNET_STALL_WARN", "250ms", "250ms", "soon" },
	{ "ANYNET_CHECKSUM", "1", "1", "crc" },
	{ "ANYNET_CONNECT_TIMEOUT", "2min", "120s", "-1" },
	{ "ANYNET_HANDSHAKE_TIMEOUT", "3", "3s", "1ms" },
	{ "ANYNET_ALLOW", "10.0.0.0/8, fd00::/8", "10.0.0.0/8,fd00::/8", "10.0.0.0/33" },
	{ "ANYNET_SECRET_FILE", "/etc/anynet/secret", "/etc/anynet/secret", NULL },
	{ "ANYNET_MAX_RECVS", "1", "1", "9" },
	{ "ANYNET_PROFILE", "on", "1", "auto" },
	{ "ANYNET_STATS", "Off", "off", "run/anynet" },
	{ "ANYNET_DUMP_DIR", "/var/log/anynet", "/var/log/anynet", "log/anynet" },
};

static void test_every_row_has_a_sample(void **state)
{
	(void)state;
	assert_int_equal(ARRAY_SIZE(samples), anynet_config_row_count);
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		assert_string_equal(samples[i].name, anynet_config_rows[i].name);
}

static void test_good_values_are_taken(void **state)
{
	char entry[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		snprintf(entry, sizeof(entry), "%s=%s", samples[i].name, samples[i].good);
		/* a large ring, so that no eager size is too large for it */
		if (!strcmp(samples[i].name, "ANYNET_TCP_EAGER"))
			load_with(entry, "ANYNET_TCP_REPLAY=1m", NULL);
		else
			load_with(entry, NULL);
		assert_int_equal(capture_count(0, NULL), 0);
		assert_string_equal(value_of(samples[i].name), samples[i].printed);
		assert_int_equal(source_of(samples[i].name), ANYNET_FROM_ENV);
	}
}

void refuse_value(const struct anynet_config_row *row, const char *value)
{
	char entry[1200];

	snprintf(entry, sizeof(entry), "%s=%s", row->name, value);
	load_with(entry, NULL);
	assert_int_equal(capture_count(0, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
	assert_non_null(strstr(newest_line(), row->name));
	assert_non_null(strstr(newest_line(), row->accepts));
	if (strlen(value) < 80)
		assert_non_null(strstr(newest_line(), value));
	/* A list of interfaces with one character is none. */
	if (row->refused && (row->parse != anynet_parse_ifname || value[1]))
		assert_string_equal(value_of(row->name), row->refused);
	else
		assert_string_equal(value_of(row->name), row->initial);
	assert_int_equal(source_of(row->name), ANYNET_FROM_DEFAULT);
}

static void test_bad_values_are_quoted_and_the_default_kept(void **state)
{
	static const char *const never_numbers[] = {
		"-99",
		"99999999999999999999",
		"-99999999999999999999",
		"9223372036854775807k",
		"18014398509481992k", /* 8 KiB if it wrapped around */
		"1 2",
		"12x",
		"0x",
		"k",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct anynet_config_row *row = row_of(samples[i].name);

		if (samples[i].bad)
			refuse_value(row, samples[i].bad);
		for (size_t j = 0; j < ARRAY_SIZE(never_numbers); j++) {
			if (row->max && row->parse != anynet_parse_text &&
			    row->parse != anynet_parse_ifname && row->parse != anynet_parse_word)
				refuse_value(row, never_numbers[j]);
		}
	}
}

static void test_flags_are_numbers_too(void **state)
{
	(void)state;
	load_with("NCCL_IB_DISABLE=-5", NULL);
	assert_true(cfg.ib_disable);
	refuse_value(row_of("ANYNET_IB_DISABLE"), "99999999999999999999");
}

static void test_texts_that_do_not_fit_are_refused(void **state)
{
	static const char *const names[] = { "ANYNET_IBVERBS_LIB", "ANYNET_TCP_CONGESTION",
					     "ANYNET_SOCKET_SUBNET", "ANYNET_SECRET_FILE" };
	static const size_t lengths[] = { 256, 511, 512, 1000 };
	char value[1001];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(lengths); j++) {
			memset(value, 'x', lengths[j]);
			value[lengths[j]] = 0;
			refuse_value(row_of(names[i]), value);
		}
	}
}

/* Names of NICs that are too long must not allow those that they were to exclude; most fit. */
static void test_long_lists_restrict(void **state)
{
	static const struct {
		const char *name, *shut;
	} lists[] = { { "ANYNET_IB_HCA", "^" },
		      { "NCCL_IB_HCA", "^" },
		      { "ANYNET_SOCKET_IFNAME", "=lo" },
		      { "NCCL_SOCKET_IFNAME", "=lo" } };
	static const size_t lengths[] = { 256, 1000, 4095, 4096, 70000 };
	static char entry[70100], value[70001];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const char *field = strstr(lists[i].name, "HCA") ? cfg.ib_hca : cfg.socket_ifname;

		for (size_t j = 0; j < ARRAY_SIZE(lengths); j++) {
			bool fits = lengths[j] < 4096;

			memset(value, 'x', lengths[j]);
			value[lengths[j]] = 0;
			snprintf(entry, sizeof(entry), "%s=%s", lists[i].name, value);
			load_with(entry, NULL);
			assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), fits ? 0 : 1);
			assert_string_equal(field, fits ? value : lists[i].shut);
		}
	}
}

static void test_an_empty_variable_is_unset(void **state)
{
	(void)state;
	load_with("ANYNET_MAX_RECVS=", "ANYNET_SOCKET_IFNAME=", "NCCL_SOCKET_IFNAME=eth0", NULL);
	assert_int_equal(capture_count(0, NULL), 0);
	assert_int_equal(cfg.max_recvs, 8);
	assert_string_equal(cfg.socket_ifname, "eth0");
	assert_int_equal(source_of("ANYNET_SOCKET_IFNAME"), ANYNET_FROM_ALIAS);
}

static void test_every_alias_is_honoured_and_ours_wins(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct anynet_config_row *row = row_of(samples[i].name);
		char ours[256], alias[256];

		if (!row->alias)
			continue;
		snprintf(alias, sizeof(alias), "%s=%s", row->alias, samples[i].good);
		load_with(alias, NULL);
		assert_int_equal(capture_count(0, NULL), 0);
		assert_string_equal(value_of(row->name), samples[i].printed);
		assert_int_equal(source_of(row->name), ANYNET_FROM_ALIAS);

		snprintf(ours, sizeof(ours), "%s=%s", row->name, samples[i].good);
		snprintf(alias, sizeof(alias), "%s=%s", row->alias, "never looked at");
		load_with(ours, alias, NULL);
		assert_int_equal(capture_count(0, NULL), 0);
		assert_string_equal(value_of(row->name), samples[i].printed);
		assert_int_equal(source_of(row->name), ANYNET_FROM_ENV);

		if (!samples[i].bad || !strcmp(row->alias, "NCCL_SOCKET_NTHREADS"))
			continue;
		snprintf(alias, sizeof(alias), "%s=%s", row->alias, samples[i].bad);
		load_with(alias, NULL);
		assert_int_equal(capture_count(ANYNET_LOG_WARN, row->alias), 1);
		assert_string_equal(value_of(row->name), row->initial);
	}
}

static void test_numbers_are_read_as_nccl_reads_them(void **state)
{
	(void)state;
	load_with("NCCL_SOCKET_NTHREADS=-2", "NCCL_NSOCKS_PERTHREAD=-2", NULL);
	assert_int_equal(capture_count(0, NULL), 0);
	assert_int_equal(cfg.io_threads, ANYNET_AUTO);
	assert_int_equal(cfg.streams_per_nic, ANYNET_AUTO);
	load_with("NCCL_SOCKET_SNDBUF=-1", "NCCL_SOCKET_RCVBUF=0x100000", "NCCL_IB_DISABLE=2",
		  NULL);
	assert_int_equal(capture_count(0, NULL), 0);
	assert_int_equal(cfg.sndbuf_bytes, ANYNET_AUTO);
	assert_int_equal(cfg.rcvbuf_bytes, 1 << 20);
	assert_true(cfg.ib_disable);
	load_with("NCCL_NSOCKS_PERTHREAD=010", NULL);
	assert_int_equal(cfg.streams_per_nic, 8);
}

static void test_markdown_has_a_line_per_row(void **state)
{
	char *text = NULL;
	size_t bytes = 0, lines = 0;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(out);
	anynet_config_print_markdown(out);
	fclose(out);
	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	assert_int_equal(lines, anynet_config_row_count + 2);
	for (size_t i = 0; i < anynet_config_row_count; i++)
		assert_non_null(strstr(text, anynet_config_rows[i].name));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_defaults_load_without_a_log_line, setup),
		cmocka_unit_test(test_every_row_is_complete_and_its_name_is_unique),
		cmocka_unit_test(test_the_words_tell_the_bounds_of_numbers),
		cmocka_unit_test_setup(test_every_row_reads_back_what_it_prints, setup),
		cmocka_unit_test(test_every_row_has_a_sample),
		cmocka_unit_test_setup(test_good_values_are_taken, setup),
		cmocka_unit_test_setup(test_bad_values_are_quoted_and_the_default_kept, setup),
		cmocka_unit_test_setup(test_flags_are_numbers_too, setup),
		cmocka_unit_test_setup(test_texts_that_do_not_fit_are_refused, setup),
		cmocka_unit_test_setup(test_long_lists_restrict, setup),
		cmocka_unit_test_setup(test_an_empty_variable_is_unset, setup),
		cmocka_unit_test_setup(test_every_alias_is_honoured_and_ours_wins, setup),
		cmocka_unit_test_setup(test_numbers_are_read_as_nccl_reads_them, setup),
		cmocka_unit_test_setup(test_nccls_threads_and_sockets_multiply, setup),
		cmocka_unit_test_setup(test_too_many_streams_are_lowered_with_one_warning, setup),
		cmocka_unit_test_setup(test_nccls_comm_id_is_a_hint_in_all_its_forms, setup),
		cmocka_unit_test_setup(test_lists_of_networks, setup),
		cmocka_unit_test_setup(test_a_refused_list_allows_no_network, setup),
		cmocka_unit_test_setup(test_blanks_lift_no_restriction, setup),
		cmocka_unit_test_setup(test_port_ranges, setup),
		cmocka_unit_test_setup(test_eager_sends_fit_into_half_the_ring, setup),
		cmocka_unit_test_setup(test_unknown_names_of_ours_are_questioned, setup),
		cmocka_unit_test_setup(test_nearly_right_names_of_nccl_are_questioned, setup),
		cmocka_unit_test_setup(test_other_names_of_nccl_are_left_alone, setup),
		cmocka_unit_test_setup(test_odd_environments_do_no_harm, setup),
		cmocka_unit_test(test_markdown_has_a_line_per_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
