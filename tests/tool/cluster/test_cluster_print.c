/* SPDX-License-Identifier: Apache-2.0 */
/* The report in a terminal: figures of other hosts may have any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made_up.h"
#include "tools/cluster/judge.h"
#include "tools/cluster/print.h"

#define HOSTS 20 /* the maximum for a matrix */

static char *print_on(json_t *run, const struct terminal *terminal)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	cluster_print(run, out, terminal);
	assert_int_equal(fclose(out), 0);
	json_decref(run);
	return text;
}

static char *print(json_t *run)
{
	return print_on(run, &(struct terminal){ 0 });
}

static void test_matrix(void **state)
{
	char *text = print(made_up_run(3));

	(void)state;
	assert_non_null(strstr(text, "    0           100.0   100.0\n"));
	assert_non_null(strstr(text, "    1   1.000           1.000\n"));
	assert_non_null(strstr(text, "\nok: "));
	free(text);
}

/* Paths are listed per host only if they differ. */
static void test_paths(void **state)
{
	json_t *run = made_up_run(3);
	char *text;

	(void)state;
	json_object_set_new(made_up_link(run, 0, 1), "path", json_string("IB"));
	text = print(run);
	assert_non_null(strstr(text, "3 pairs: 1 over InfiniBand or RoCE, 2 over TCP"));
	assert_non_null(strstr(text, "    0              IB     TCP\n"));
	free(text);
	text = print(made_up_run(3));
	assert_null(strstr(text, "    0             TCP     TCP\n"));
	free(text);
}

/* No line is wider than the terminal, and no column is missing. */
static void test_narrow_terminal(void **state)
{
	json_t *run = made_up_run(HOSTS);
	char *text, *line, *next;
	size_t rows = 0;

	(void)state;
	json_object_set_new(made_up_facts(run, 1), "nccl", json_string("2.19.3"));
	json_object_set_new(run, "findings", judge(json_incref(run), NULL));
	json_decref(run);
	text = next = print_on(run, &(struct terminal){ .width = 60 });
	assert_non_null(strstr(text, "warning: the NCCL on the library search path: "));
	while ((line = strsep(&next, "\n"))) {
		if (strlen(line) > 60)
			fail_msg("%zu columns: %s", strlen(line), line);
		rows += !strncmp(line, "   19 ", 6);
	}
	assert_int_equal(rows, 2 * 4); /* 6 columns at once, of latency and of bandwidth */
	free(text);
}

static void test_huge_figures(void **state)
{
	json_t *run = made_up_run(HOSTS);
	char *text;

	(void)state;
	for (size_t a = 0; a < HOSTS; a++) {
		for (size_t b = 0; b < a; b++) {
			json_t *link = made_up_link(run, a, b);

			json_object_set_new(link, "us", json_real(1e300));
			json_object_set_new(link, "mb_s", json_pack("[f, f]", 1e300, 1e300));
		}
	}
	text = print(run);
	assert_non_null(strstr(text, "\n   19 "));
	assert_non_null(strstr(text, "\nok: "));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrix),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_narrow_terminal),
		cmocka_unit_test(test_huge_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
