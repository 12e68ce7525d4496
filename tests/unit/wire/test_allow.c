/* SPDX-License-Identifier: Apache-2.0 */
/* Networks, the list of those that may connect, and the record of addresses that were logged. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/subnet.h>
#include <nccl_net/util.h>

#include "transports/base/log_once.h"
#include "transports/wire/allow.h"

static struct sockaddr_storage addr_of(const char *text)
{
	struct sockaddr_storage addr = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };
	void *ip = addr.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&addr)->sin_addr
					     : (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr;

	assert_int_equal(inet_pton(addr.ss_family, text, ip), 1);
	return addr;
}

static void test_networks_are_parsed(void **state)
{
	static const struct {
		const char *text;
		int family, prefix;
	} good[] = { { "10.0.0.0/8", AF_INET, 8 },    { "10.0.0.1", AF_INET, -1 },
		     { "0.0.0.0/0", AF_INET, 0 },     { "10.0.0.1/032", AF_INET, 32 },
		     { "fd00::/8", AF_INET6, 8 },     { "::1", AF_INET6, -1 },
		     { "fd00::1/128", AF_INET6, 128 } };
	static const char *const bad[] = {
		"",
		"/8",
		"10.0.0.0/",
		"10.0.0.0/33",
		"10.0.0.0/-1",
		"10.0.0/8",
		"10.0.0.0/ 8",
		"10.0.0.0/8x",
		"fd00::/129",
		"10.0.0.0/0008",
		"host",
		"10.0.0.1:80",
		"10.0.0.0/8/8",
		"fd00::1%lo",
		"[::1]",
		"10.0.0.0/99999999999999999999",
		"fd00:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111",
	};
	struct subnet net;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		if (!subnet_parse(good[i].text, strlen(good[i].text), &net))
			fail_msg("%s", good[i].text);
		assert_int_equal(net.family, good[i].family);
		assert_int_equal(net.prefix, good[i].prefix);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (subnet_parse(bad[i], strlen(bad[i]), &net))
			fail_msg("%s", bad[i]);
	assert_true(subnet_parse("10.0.0.0/16,…", 10, &net));
	assert_int_equal(net.prefix, 1);
}

static void permits(const char *list, const char *addr, bool wanted)
{
	struct sockaddr_storage from = addr_of(addr);

	allow_start(list);
	if (allow_permits(&from) != wanted)
		fail_msg("'%s' %s %s", list, wanted ? "refuses" : "permits", addr);
}

static void test_a_list_permits_its_networks_only(void **state)
{
	(void)state;
	permits("", "192.0.2.1", true);
	permits("", "2001:db8::1", true);
	permits("none", "127.0.0.1", false);
	permits("none", "::1", false);
	permits("10.0.0.0/8", "10.255.255.255", true);
	permits("10.0.0.0/8", "11.0.0.0", false);
	permits("10.0.0.0/8", "fd00::1", false);
	permits("10.0.0.0/8", "127.0.0.1", false);
	permits("10.1.2.3/8", "10.9.9.9", true);
	permits("10.0.0.1", "10.0.0.1", true);
	permits("10.0.0.1", "10.0.0.2", false);
	permits("0.0.0.0/0", "192.0.2.1", true);
	permits("0.0.0.0/0", "2001:db8::1", false);
	permits("::/0", "2001:db8::1", true);
	permits("::/0", "192.0.2.1", false);
	permits("fd00::/9", "fd7f::1", true);
	permits("fd00::/9", "fd80::1", false);
	permits("172.16.0.0/12", "172.31.0.1", true);
	permits("172.16.0.0/12", "172.32.0.1", false);
	permits("10.0.0.0/8,fd00::/8,192.0.2.7", "192.0.2.7", true);
	permits("10.0.0.0/8,fd00::/8,192.0.2.7", "fd00:1::2", true);
	permits("10.0.0.0/8,fd00::/8,192.0.2.7", "192.0.2.8", false);
}

static void test_ipv4_within_ipv6_is_ipv4(void **state)
{
	(void)state;
	permits("10.0.0.0/8", "::ffff:10.1.2.3", true);
	permits("10.0.0.0/8", "::ffff:11.1.2.3", false);
	permits("::ffff:10.0.0.0/104", "10.1.2.3", true);
	permits("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", true);
	permits("::ffff:10.0.0.0/104", "11.1.2.3", false);
	permits("::ffff:10.0.0.1", "10.0.0.1", true);
	permits("::ffff:10.0.0.1", "10.0.0.2", false);
	permits("::/0", "::ffff:10.0.0.1", false);
}

static void test_an_invalid_list_allows_no_network(void **state)
{
	(void)state;
	permits("10.0.0.0/8,10.0.0.0/33", "10.0.0.1", false);
	permits("everybody", "10.0.0.1", false);
	permits("10.0.0.0/8,,", "10.0.0.1", false);
}

static void test_the_longest_list_is_kept(void **state)
{
	char list[512] = "::";

	(void)state;
	for (int i = 0; i < 165; i++)
		strcat(list, ",::");
	strcat(list, ",10.0.0.1");
	permits(list, "10.0.0.1", true);
	permits(list, "10.0.0.2", false);
}

static void test_each_address_is_logged_once(void **state)
{
	struct sockaddr_storage a = addr_of("10.0.0.1"), b = addr_of("fd00::1"),
				like_a = addr_of("0a00:0001::");
	struct log_once told = { 0 };

	(void)state;
	assert_true(log_once(&told, &a));
	assert_true(log_once(&told, &b));
	assert_false(log_once(&told, &a));
	((struct sockaddr_in *)&a)->sin_port = 4711;
	assert_false(log_once(&told, &a));
	assert_false(log_once(&told, &b));
	assert_true(log_once(&told, &like_a));
}

static void test_a_crowd_does_not_fill_the_log(void **state)
{
	struct sockaddr_storage addr = addr_of("10.0.0.0");
	struct log_once told = { 0 };
	unsigned lines = 0;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(0x0a000000 + i);
		lines += log_once(&told, &addr);
	}
	assert_int_equal(lines, LOG_ONCE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_networks_are_parsed),
		cmocka_unit_test(test_a_list_permits_its_networks_only),
		cmocka_unit_test(test_ipv4_within_ipv6_is_ipv4),
		cmocka_unit_test(test_an_invalid_list_allows_no_network),
		cmocka_unit_test(test_the_longest_list_is_kept),
		cmocka_unit_test(test_each_address_is_logged_once),
		cmocka_unit_test(test_a_crowd_does_not_fill_the_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
