/* SPDX-License-Identifier: Apache-2.0 */
/* The report in a terminal: figures of other hosts may be of any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made_up.h"
#include "tools/cluster/print.h"

#define HOSTS 20 /* as many as have a matrix */

static char *print(json_t *run)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	cluster_print(run, out, false);
	assert_int_equal(fclose(out), 0);
	json_decref(run);
	return text;
}

static void test_matrix(void **state)
{
	char *text = print(made_up_run(3));

	(void)state;
	assert_non_null(strstr(text, "    0           100.0   100.0\n"));
	assert_non_null(strstr(text, "    1   1.000           1.000\n"));
	assert_non_null(strstr(text, "\nfine: "));
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
	assert_non_null(strstr(text, "\nfine: "));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrix),
		cmocka_unit_test(test_huge_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
