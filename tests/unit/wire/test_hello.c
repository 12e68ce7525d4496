/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and hellos: contents and refusals. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/util.h>

#include "support/capture.h"
#include "transports/wire/hello.h"
#include "unit/environment.h"
#include "unit/local_net.h"
#include "wire_addr.h"

static const uint8_t token[ANYNET_TOKEN_BYTES] = "0123456789abcdef";

static int setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	return 0;
}

/* --- handles --- */

static struct anynet_wire_handle good_handle(void)
{
	struct anynet_wire_addr addrs[4] = { addr_of("10.0.0.1"), addr_of("fd00::1"),
					     addr_of("10.1.0.1"), addr_of("10.2.0.1") };
	struct anynet_wire_handle handle;

	handle_fill(&handle, 7, token, addrs, 4);
	return handle;
}

static void test_a_handle_says_where_to_connect(void **state)
{
	struct anynet_wire_handle handle = good_handle();
	char why[160] = "";

	(void)state;
	assert_int_equal(handle_check(&handle, why, sizeof(why)), 0);
	assert_int_equal(handle.endpoint, 7);
	assert_int_equal(handle.pid, getpid());
	assert_memory_equal(handle.token, token, sizeof(token));
	assert_int_equal(handle.addrs[2].ip[1], 1);
	assert_int_equal(handle.local[0], 0);
}

static void handle_is_refused(const struct anynet_wire_handle *handle, const char *text)
{
	char why[160] = "";

	assert_int_equal(handle_check(handle, why, sizeof(why)), -EINVAL);
	if (!strstr(why, text))
		fail_msg("'%s' does not say '%s'", why, text);
}

static void test_a_wrong_handle_is_refused_with_the_reason(void **state)
{
	struct anynet_wire_handle handle = good_handle();

	(void)state;
	handle.magic ^= 1;
	handle_is_refused(&handle, "does not run anynet");
	handle = good_handle();
	handle.transports = 1u << ANYNET_TRANSPORT_IB;
	handle_is_refused(&handle, "no TCP address");
	handle = good_handle();
	handle.addrs[0].family = 5;
	handle_is_refused(&handle, "no TCP address");
}

/* Versions of this process, of its peer, and the version used. */
static void test_the_highest_version_that_both_speak_is_used(void **state)
{
	static const struct {
		uint16_t oldest, newest, peer_oldest, peer_newest, version;
	} rows
		[] = {
			{ 7, 7, 7, 7, 7 },  { 7, 8, 7, 7, 7 },     { 7, 7, 7, 8, 7 },
			{ 7, 9, 8, 10, 9 }, { 8, 9, 7, 12, 9 },    { 7, 8, 9, 10, 8 },
			{ 9, 10, 7, 8, 9 }, /* none: the nearest supported one */
			{ 7, 7, 0, 7, 7 },  { 7, 7, 0, 65535, 7 },
		};
	struct anynet_config cfg = local_cfg;
	struct anynet_wire_handle handle = good_handle();

	(void)state;
	assert_int_equal(handle.oldest, ANYNET_WIRE_OLDEST);
	assert_int_equal(handle.version, ANYNET_WIRE_VERSION);
	anynet_net.cfg = &cfg;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cfg.wire_oldest_later = (uint16_t)(rows[i].oldest - ANYNET_WIRE_OLDEST);
		cfg.wire_newest_later = (uint16_t)(rows[i].newest - ANYNET_WIRE_VERSION);
		handle.oldest = (uint8_t)rows[i].peer_oldest;
		handle.version = rows[i].peer_newest;
		assert_int_equal(handle_version(&handle), rows[i].version);
	}
	anynet_net.cfg = &local_cfg;
}

/* --- hellos --- */

static struct anynet_wire_hello good_hello(enum anynet_hello_type type)
{
	struct anynet_wire_addr addrs[2] = { addr_of("10.0.0.1"), addr_of("10.1.0.1") };
	struct anynet_wire_hello hello;

	hello_fill(&hello, &local_dev, addrs, 2);
	hello.type = (uint8_t)type;
	hello.kind = ANYNET_KIND_COMM;
	hello.streams = 2;
	hello.plan[1] = (struct anynet_wire_pair){ 1, 1 };
	return hello;
}

static void test_a_hello_tells_who_we_are(void **state)
{
	struct anynet_wire_hello hello = good_hello(ANYNET_HELLO);
	struct anynet_peer peer;

	(void)state;
	assert_int_equal(hello_check(&hello, ANYNET_HELLO), 0);
	assert_int_equal(hello.bytes, sizeof(hello));
	assert_int_equal(hello.replay_bytes, LOCAL_RING_BYTES);
	assert_int_equal(hello.chunk_bytes, LOCAL_CHUNK_BYTES);
	assert_int_equal(hello.max_recvs, ANYNET_RECVS_MAX);
	assert_int_equal(hello_addr_count(&hello), 2);
	hello_peer(&hello, &peer);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.max_recvs, ANYNET_RECVS_MAX);
	assert_string_equal(peer.device, "lo");
	assert_string_equal(peer.host, anynet_net.host);
	assert_int_equal(hello.features, 0);
	local_cfg.checksum = true;
	assert_int_equal(good_hello(ANYNET_HELLO).features, ANYNET_FEATURE_CHECKSUM);
}

static void test_eight_addresses_are_counted(void **state)
{
	struct anynet_wire_hello hello = good_hello(ANYNET_HELLO);

	(void)state;
	for (int i = 0; i < ANYNET_HELLO_ADDRS; i++)
		hello.addrs[i] = addr_of("10.0.0.1");
	assert_int_equal(hello_addr_count(&hello), ANYNET_HELLO_ADDRS);
	hello.addrs[3].family = 9;
	assert_int_equal(hello_addr_count(&hello), 3);
}

#define REFUSED(kind_of, field, value)                                   \
	do {                                                             \
		struct anynet_wire_hello bad = good_hello(kind_of);      \
		bad.field = value;                                       \
		if (hello_check(&bad, kind_of) != -EPROTO)               \
			fail_msg("%s = %s is accepted", #field, #value); \
	} while (0)

static void test_fields_out_of_range_are_refused(void **state)
{
	(void)state;
	REFUSED(ANYNET_HELLO, magic, 1);
	REFUSED(ANYNET_HELLO, type, ANYNET_WELCOME);
	REFUSED(ANYNET_HELLO, bytes, sizeof(struct anynet_wire_hello) + 1);
	REFUSED(ANYNET_HELLO, kind, 0);
	REFUSED(ANYNET_HELLO, kind, ANYNET_KIND_QP + 1);
	REFUSED(ANYNET_HELLO, streams, 0);
	REFUSED(ANYNET_HELLO, streams, ANYNET_STREAMS_MAX + 1);
	REFUSED(ANYNET_HELLO, stream, ANYNET_STREAMS_MAX);
	REFUSED(ANYNET_HELLO, replay_bytes, 1023);
	REFUSED(ANYNET_WELCOME, type, ANYNET_HELLO);
	REFUSED(ANYNET_WELCOME, status, ANYNET_STATUS_COUNT);
	REFUSED(ANYNET_WELCOME, streams, 0);
	REFUSED(ANYNET_WELCOME, streams, ANYNET_STREAMS_MAX + 1);
	REFUSED(ANYNET_WELCOME, addrs[0].family, 0);
	REFUSED(ANYNET_WELCOME, plan[1].to, 2); /* only two addresses */
	REFUSED(ANYNET_WELCOME, plan[1].from, ANYNET_HELLO_ADDRS);
}

static void test_a_refusal_needs_neither_streams_nor_addresses(void **state)
{
	struct anynet_wire_hello hello = good_hello(ANYNET_WELCOME);

	(void)state;
	hello.status = ANYNET_STATUS_BUSY;
	hello.streams = 0;
	hello.addrs[0].family = 0;
	assert_int_equal(hello_check(&hello, ANYNET_WELCOME), 0);
}

static void test_another_version_differs_from_an_unauthenticated_peer(void **state)
{
	struct anynet_wire_hello hello = good_hello(ANYNET_HELLO);

	(void)state;
	assert_false(hello_is_foreign(&hello, sizeof(hello)));
	hello.version = ANYNET_WIRE_VERSION + 1;
	hello.bytes = 60;
	assert_int_equal(hello_check(&hello, ANYNET_HELLO), -EPROTONOSUPPORT);
	assert_true(hello_is_foreign(&hello, 48));
	assert_false(hello_is_foreign(&hello, 47));
	hello.magic ^= 1;
	assert_int_equal(hello_check(&hello, ANYNET_HELLO), -EPROTO);
	assert_false(hello_is_foreign(&hello, 48));
	hello = good_hello(ANYNET_HELLO);
	hello.version = ANYNET_WIRE_VERSION - 1;
	assert_int_equal(hello_check(&hello, ANYNET_HELLO), -EPROTONOSUPPORT);
	assert_true(hello_is_foreign(&hello, 48));
}

static void test_texts_from_outside_are_made_safe_to_print(void **state)
{
	struct anynet_wire_hello hello = good_hello(ANYNET_WELCOME);
	struct anynet_peer peer;

	(void)state;
	memset(hello.host, 'h', sizeof(hello.host));
	strcpy(hello.device, "e\x1b[2Jth\n0");
	strcpy(hello.reason, "\x80no");
	assert_int_equal(hello_check(&hello, ANYNET_WELCOME), 0);
	assert_int_equal(strlen(hello.host), sizeof(hello.host) - 1);
	assert_string_equal(hello.device, "e?[2Jth?0");
	assert_string_equal(hello.reason, "?no");
	hello_peer(&hello, &peer);
	assert_int_equal(strlen(peer.host), sizeof(peer.host) - 1);
}

static bool foreign; /* the program's locale is active, in which every byte is a letter */

const unsigned short **__ctype_b_loc(void)
{
	static unsigned short classes[384];
	static const unsigned short *table = classes + 128;
	const unsigned short **(*real)(void);
	void *symbol = dlsym(RTLD_NEXT, "__ctype_b_loc");

	memset(classes, 0xff, sizeof(classes));
	memcpy(&real, &symbol, sizeof(real));
	return foreign ? &table : real();
}

/* Equal at both ends, or their proofs differ. */
static void test_the_programs_locale_makes_no_difference(void **state)
{
	struct anynet_wire_hello hello = { .host = "caf\xe9", .device = "eth\x9b 1\x7f~" };

	(void)state;
	foreign = true;
	hello_make_printable(&hello);
	foreign = false;
	assert_string_equal(hello.host, "caf?");
	assert_string_equal(hello.device, "eth? 1?~");
}

static void test_tokens_differ_in_any_byte(void **state)
{
	uint8_t other[ANYNET_TOKEN_BYTES];

	(void)state;
	memcpy(other, token, sizeof(other));
	assert_true(constant_time_equal(token, other, sizeof(other)));
	for (int i = 0; i < ANYNET_TOKEN_BYTES; i++) {
		other[i] ^= 0x80;
		assert_false(constant_time_equal(token, other, sizeof(other)));
		other[i] ^= 0x80;
	}
}

static void test_different_nccl_versions_are_warned_about_once(void **state)
{
	struct anynet_peer peer = {
		.host = "host-b", .pid = 9, .nccl_version = 22809, .max_recvs = 8
	};
	struct anynet_device dev = { .max_recvs = 8 };

	(void)state;
	anynet_net_set_nccl(0, NULL);
	hello_warn(&peer, &dev);
	anynet_net_set_nccl(22809, "libnccl.so.2");
	hello_warn(&peer, &dev);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	anynet_net_set_nccl(2708, "/opt/libnccl.so.2");
	hello_warn(&peer, &dev);
	hello_warn(&peer, &dev);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 1);
	assert_int_equal(capture_count(CAPTURE_WARN, "host-b pid 9 runs NCCL 2.28.9"), 1);
	assert_int_equal(capture_count(CAPTURE_WARN, "NCCL 2.7.8 from /opt/libnccl.so.2"), 1);
	anynet_net_set_nccl(0, NULL);
}

static void test_only_one_end_with_groups_is_warned_about_once(void **state)
{
	struct anynet_peer peer = { .host = "host-b", .pid = 9, .max_recvs = 1 };
	struct anynet_device dev = { .max_recvs = 1 };

	(void)state;
	hello_warn(&peer, &dev);
	peer.max_recvs = 4;
	dev.max_recvs = 8;
	hello_warn(&peer, &dev);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	peer.max_recvs = 1;
	hello_warn(&peer, &dev);
	hello_warn(&peer, &dev);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 1);
	assert_int_equal(capture_count(CAPTURE_WARN, "host-b pid 9 has ANYNET_MAX_RECVS=1"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(test_a_handle_says_where_to_connect),
		TEST(test_a_wrong_handle_is_refused_with_the_reason),
		TEST(test_the_highest_version_that_both_speak_is_used),
		TEST(test_a_hello_tells_who_we_are),
		TEST(test_eight_addresses_are_counted),
		TEST(test_fields_out_of_range_are_refused),
		TEST(test_a_refusal_needs_neither_streams_nor_addresses),
		TEST(test_another_version_differs_from_an_unauthenticated_peer),
		TEST(test_texts_from_outside_are_made_safe_to_print),
		TEST(test_the_programs_locale_makes_no_difference),
		TEST(test_tokens_differ_in_any_byte),
		TEST(test_different_nccl_versions_are_warned_about_once),
		TEST(test_only_one_end_with_groups_is_warned_about_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
