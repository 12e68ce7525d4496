/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings table in docs/settings.md is the one that the code prints. To update it, replace the text between the
 * marks by the output of `anynet config --markdown`. README.md names only existing settings, and its table has the
 * code's setting, NCCL variable and default. Usage: test_settings_doc docs/settings.md README.md
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/config.h>

static const char begin_mark[] = "<!-- settings: anynet config --markdown -->\n";
static const char end_mark[] = "<!-- end of settings -->";
static const char name_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static const char *settings_page, *readme;

/* Reads a whole file. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	if (!file || getdelim(&text, &size, 0, file) < 0)
		fail_msg("%s: cannot be read", path);
	fclose(file);
	return text;
}

/* The table as the code prints it. */
static char *printed_table(void)
{
	char *table = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&table, &bytes);

	assert_non_null(out);
	anynet_config_print_markdown(out);
	fclose(out);
	return table;
}

static void test_settings_page_holds_the_table(void **state)
{
	char *table = printed_table(), *text = read_file(settings_page);
	char *start = strstr(text, begin_mark);

	(void)state;
	if (!start)
		fail_msg("%s: no '%s'", settings_page, begin_mark);
	start += strlen(begin_mark);
	if (strncmp(start, table, strlen(table)) ||
	    strncmp(start + strlen(table), end_mark, strlen(end_mark)))
		fail_msg("%s: the table is not what the code prints:\n%s", settings_page, table);
	free(text);
	free(table);
}

static void test_readme_names_settings_that_exist(void **state)
{
	char *table = printed_table(), *text = read_file(readme);
	const char *name = text;
	size_t found = 0;

	(void)state;
	for (; (name = strstr(name, "ANYNET_")); found++) {
		size_t length = strspn(name, name_characters);
		char row[128];

		snprintf(row, sizeof(row), "\n| `%.*s` |", (int)length, name);
		if (!strstr(table, row))
			fail_msg("%s: there is no setting %.*s", readme, (int)length, name);
		name += length;
	}
	assert_true(found);
	free(text);
	free(table);
}

/* Its rows begin with the first three columns of the printed ones. */
static void test_readme_rows_agree(void **state)
{
	char *table = printed_table(), *text = read_file(readme);
	char *row = text;
	size_t found = 0;

	(void)state;
	for (; (row = strstr(row, "\n| `ANYNET_")); found++) {
		char *end = row + 1, *copy;

		for (int column = 0; end && column < 3; column++)
			end = strchr(end + 1, '|');
		assert_non_null(end);
		copy = strndup(row, (size_t)(end + 1 - row));
		if (!strstr(table, copy))
			fail_msg("%s: the code has another row than%s", readme, copy);
		free(copy);
		row = end;
	}
	assert_true(found);
	free(text);
	free(table);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_settings_page_holds_the_table),
		cmocka_unit_test(test_readme_names_settings_that_exist),
		cmocka_unit_test(test_readme_rows_agree),
	};

	if (argc != 3)
		return 2;
	settings_page = argv[1];
	readme = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
