/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptions of variables in `anynet check`, and how it prints findings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/check/check.h"
#include "tools/check/library.h"
#include "tools/check/variables.h"

static void test_every_variable_is_complete(void **state)
{
	(void)state;
	for (size_t i = 0; i < nccl_variable_count; i++) {
		const struct nccl_variable *variable = &nccl_variables[i];
		const char *accepts = variable_accepts(variable);
		char text[16];

		assert_ptr_equal(variable_of(variable->name), variable); /* so its name is unique */
		assert_true(strlen(variable->meaning) > 0);
		assert_true(strlen(accepts) > 0);
		assert_true(variable_takes(variable, ""));
		assert_true(variable->least <= variable->most);
		if (variable->since)
			assert_int_equal(nccl_version_parse(
						 nccl_version_text(variable->since, text)),
					 variable->since);
		if (variable->until)
			assert_true(variable->since < variable->until);
	}
}

static void test_values_are_judged_as_nccl_does(void **state)
{
	static const struct {
		const char *name, *value;
		int good;
	} cases[] = {
		{ "NCCL_P2P_DISABLE", "1", 1 },
		{ "NCCL_P2P_DISABLE", "2", 1 },
		{ "NCCL_P2P_DISABLE", "0x1", 1 },
		{ "NCCL_P2P_DISABLE", "yes", 0 },
		{ "NCCL_P2P_DISABLE", " 1 ", 0 },
		{ "NCCL_P2P_DISABLE", "1 # comment", 0 },
		{ "NCCL_IB_TIMEOUT", "31", 1 },
		{ "NCCL_IB_TIMEOUT", "32", 0 },
		{ "NCCL_IB_TIMEOUT", "-1", 0 },
		{ "NCCL_IB_TIMEOUT", "99999999999999999999", 0 },
		{ "NCCL_IB_GID_INDEX", "-1", 1 },
		{ "NCCL_RAS_TIMEOUT_FACTOR", "1.5", 1 },
		{ "NCCL_RAS_TIMEOUT_FACTOR", "0", 0 },
		{ "NCCL_DEBUG", "info", 1 },
		{ "NCCL_DEBUG", "DEBUG", 0 },
		{ "NCCL_DEBUG_SUBSYS", "INIT,NET", 1 },
		{ "NCCL_DEBUG_SUBSYS", "^ALL", 1 },
		{ "NCCL_DEBUG_SUBSYS", "INIT NET", 0 },
		{ "NCCL_ALGO", "Ring,Tree", 1 },
		{ "NCCL_ALGO", "ring,collnetdirect;allreduce:tree,nvls;broadcast:^ring", 1 },
		{ "NCCL_ALGO", "allreduc:tree", 0 },
		{ "NCCL_PROTO", "^LL128", 1 },
		{ "NCCL_PROTO", "LL64", 0 },
		{ "NCCL_NET_GDR_LEVEL", "PHB", 1 },
		{ "NCCL_NET_GDR_LEVEL", "3", 1 },
		{ "NCCL_NET_GDR_LEVEL", "NODE", 0 },
		{ "NCCL_SOCKET_IFNAME", "^=docker0,lo", 1 },
		{ "NCCL_SOCKET_IFNAME", "eth0, eth1", 0 },
		{ "NCCL_SOCKET_IFNAME", "eth0,", 0 },
		{ "NCCL_SOCKET_IFNAME", "e", 0 },
		{ "NCCL_SOCKET_IFNAME", "^", 0 },
		{ "NCCL_SOCKET_IFNAME", "^=", 0 },
		{ "NCCL_SOCKET_IFNAME", "^,lo", 0 },
		{ "NCCL_SOCKET_IFNAME", "=^a", 1 },
		{ "NCCL_IB_HCA", "^", 0 },
		{ "NCCL_IB_HCA", "=,mlx5_0", 0 },
		{ "NCCL_IB_HCA", "=mlx5_0:1,mlx5_1::0:0", 1 },
		{ "NCCL_SOCKET_FAMILY", "AF_INET6", 1 },
		{ "NCCL_SOCKET_FAMILY", "IPv6", 0 },
		{ "NCCL_IB_ADDR_RANGE", "10.0.0.0/8", 1 },
		{ "NCCL_IB_ADDR_RANGE", "10.0.0/8", 0 },
		{ "NCCL_COMM_ID", "192.0.2.1:4711", 1 },
		{ "NCCL_COMM_ID", "[::1]:4711", 1 },
		{ "NCCL_COMM_ID", "192.0.2.1", 0 },
		{ "NCCL_COMM_ID", "host:99999", 0 },
		{ "NCCL_DEBUG_FILE", "~/log", 0 },
		{ "NCCL_NETDEVS_POLICY", "MAX:2", 1 },
		{ "NCCL_NETDEVS_POLICY", "SOME", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct nccl_variable *variable = variable_of(cases[i].name);

		assert_non_null(variable);
		if (variable_takes(variable, cases[i].value) != cases[i].good)
			fail_msg("%s=%s", cases[i].name, cases[i].value);
	}
}

static void test_typos_are_recognised(void **state)
{
	(void)state;
	assert_string_equal(variable_meant("NCCL_SOCKET_IFNAMES")->name, "NCCL_SOCKET_IFNAME");
	assert_string_equal(variable_meant("nccl_debug")->name, "NCCL_DEBUG");
	assert_string_equal(variable_meant("NCCL_P2P_DISABEL")->name, "NCCL_P2P_DISABLE");
	assert_null(variable_meant("NCCL_"));
	assert_null(variable_meant("NCCL_A"));
	assert_null(variable_meant("NCCL_SOMETHING_ELSE"));
	assert_null(variable_meant(""));
}

static void assert_printable(const char *raw, const char *expected)
{
	char *clean = text_printable(raw);

	assert_string_equal(clean, expected);
}

static void test_texts_are_made_printable(void **state)
{
	(void)state;
	assert_printable("plain – text ü 漢 \xf0\x9f\x98\x80",
			 "plain – text ü 漢 \xf0\x9f\x98\x80");
	assert_printable("\033[31mred\n", "\\x1b[31mred\\x0a");
	assert_printable("\xff\xc3", "\\xff\\xc3");
	assert_printable("\xc0\xaf", "\\xc0\\xaf");          /* an overlong form of '/' */
	assert_printable("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
	assert_printable("\xc2\x9b", "\\xc2\\x9b");          /* CSI in one byte */
	assert_printable("\xe2\x80\xae", "\\xe2\\x80\\xae"); /* reverses the direction of writing */
	assert_printable("\xe2\x80\x8e", "\\xe2\\x80\\x8e"); /* a direction mark */
	assert_printable("\xe2\x80\xa8", "\\xe2\\x80\\xa8"); /* a line separator */
	assert_printable("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
}

/* The report printed in this style. The caller frees it. */
static char *printed(const struct check *check, int width, bool colour)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	findings_print_text(&check->report, width, colour, out);
	fclose(out);
	return text;
}

static void test_problems_come_first(void **state)
{
	struct check check = { 0 };
	char *text;

	(void)state;
	check.report.area = "one";
	found(&check, CHECK_OK, "a", "fine");
	found(&check, CHECK_WARN, "b", "odd %d", 7);
	check.report.area = "two";
	found(&check, CHECK_ERROR, "c", "broken");
	found_why(&check, "it is %s", "old");
	found_fix(&check, "renew it");
	found(&check, CHECK_NOTE, "d", "known");
	assert_int_equal(findings_worst(&check.report), CHECK_ERROR);
	text = printed(&check, 0, 0);
	assert_string_equal(text, "error   two: broken\n"
				  "        why: it is old\n"
				  "        fix: renew it\n"
				  "warning one: odd 7\n"
				  "\n"
				  "one\n"
				  "  ok      fine\n"
				  "two\n"
				  "  note    known\n"
				  "\n"
				  "1 error, 1 warning, 1 note; 1 passed\n");
	free(text);
	text = printed(&check, 0, 1);
	assert_non_null(strstr(text, "\033[1;31merror"));
	free(text);
}

static void test_lines_are_broken_at_the_width(void **state)
{
	struct check check = { 0 };
	char *text;

	(void)state;
	check.report.area = "area";
	found(&check, CHECK_WARN, "a",
	      "many short words that – together – are longer than a line can be, and "
	      "a_word_that_is_longer_than_any_line_and_is_printed_as_it_is_all_the_same");
	found_why(&check, "%s", "");
	text = printed(&check, 50, 0);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		size_t columns = 0;

		for (size_t i = 0; line[i]; i++)
			columns += ((unsigned char)line[i] & 0xc0) != 0x80;
		if (columns > 50 && !strstr(line, "a_word_that"))
			fail_msg("%zu columns: %s", columns, line);
	}
	free(text);
}

static void test_an_empty_report_is_good(void **state)
{
	struct check check = { 0 };
	char *text = printed(&check, 80, 0);

	(void)state;
	assert_int_equal(findings_worst(&check.report), CHECK_OK);
	assert_string_equal(text, "0 errors, 0 warnings, 0 notes; 0 passed\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_variable_is_complete),
		cmocka_unit_test(test_values_are_judged_as_nccl_does),
		cmocka_unit_test(test_typos_are_recognised),
		cmocka_unit_test(test_texts_are_made_printable),
		cmocka_unit_test(test_problems_come_first),
		cmocka_unit_test(test_lines_are_broken_at_the_width),
		cmocka_unit_test(test_an_empty_report_is_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
