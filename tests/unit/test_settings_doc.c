/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings table in the documents is the one that the code prints. To renew it, replace what is
 * between the marks by the output of `anynet config --markdown`.
 * Usage: test_settings_doc FILE…; a file without marks is fine, except for the first.
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

static char **files;
static int file_count;

/* The whole of a file, or NULL if there is none. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	if (getdelim(&text, &size, 0, file) < 0) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

static void test_documents_hold_the_table(void **state)
{
	char *table = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&table, &bytes);

	(void)state;
	assert_non_null(out);
	anynet_config_print_markdown(out);
	fclose(out);
	for (int i = 0; i < file_count; i++) {
		char *text = read_file(files[i]);
		char *start = text ? strstr(text, begin_mark) : NULL;

		if (!start && !i)
			fail_msg("%s: cannot be read or has no '%s'", files[i], begin_mark);
		if (start) {
			start += strlen(begin_mark);
			if (strncmp(start, table, bytes) ||
			    strncmp(start + bytes, end_mark, strlen(end_mark)))
				fail_msg("%s: the table is not what the code prints:\n%s", files[i],
					 table);
		}
		free(text);
	}
	free(table);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_documents_hold_the_table),
	};

	files = argv + 1;
	file_count = argc - 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
