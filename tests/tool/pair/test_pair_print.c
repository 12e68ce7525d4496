/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `anynet pair`: no wider than the terminal, and only text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/pair/print.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/member.h"

#define WORDS "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"

static char *print(const char *what, const struct terminal *terminal)
{
	json_t *list = json_array(), *result;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	judge_add(list, &(struct advice){ "setting", "warning", WORDS, "" }, "%s", what);
	result = json_pack("{s:{s:s}, s:o}", "local", "host", "here", "findings", list);
	print_result(result, out, terminal);
	json_decref(result);
	assert_int_equal(fclose(out), 0);
	return text;
}

static size_t columns(const char *line)
{
	size_t count = 0;

	for (; *line; line++)
		count += ((unsigned char)*line & 0xc0) != 0x80;
	return count;
}

static void test_width(void **state)
{
	char *text =
		print(WORDS " täglich grüßt das Murmeltier im Schnee", &(struct terminal){ 0 });
	char *next, *line;
	bool full = false;

	(void)state;
	assert_non_null(
		strstr(text, "warning: " WORDS " täglich grüßt das Murmeltier im Schnee\n"));
	free(text);
	text = next = print("äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü äöü",
			    &(struct terminal){ .width = 50 });
	while ((line = strsep(&next, "\n"))) {
		if (columns(line) > 50)
			fail_msg("%zu columns: %s", columns(line), line);
		/* "warning: " or as many blanks, and ten words: 48 columns. */
		full |= columns(line) == 48;
		assert_null(strstr(line, "\xc3\n"));
	}
	assert_true(full);
	free(text);
	/* A word longer than a line is not split. */
	text = print("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx y",
		     &(struct terminal){ .width = 50 });
	assert_non_null(strstr(text, "xxxxxxxxxxxx\n         y\n"));
	free(text);
}

static void test_colour(void **state)
{
	char *text = print("x", &(struct terminal){ .colour = true });

	(void)state;
	assert_non_null(strstr(text, "\033[33mwarning: x\n\033[0m"));
	free(text);
}

/* Escape sequences, C1 controls and direction marks. */
static void test_text_only(void **state)
{
	char *text = print("a\033[31m b\xc2\x9b c\xe2\x80\xae d\xff e\n", &(struct terminal){ 0 });

	(void)state;
	assert_non_null(strstr(text, "warning: a?[31m b? c? d? e?\n"));
	free(text);
}

/* A text truncated within a character is still printed. */
static void test_truncated_text(void **state)
{
	json_t *list = json_array();
	char what[FINDING_MAX + 10];
	const char *told;

	(void)state;
	memset(what, 'x', sizeof(what));
	memcpy(what + FINDING_MAX - 2, "ä", 3);
	judge_add(list, &(struct advice){ "setting", "note", "", "" }, "%s", what);
	told = member_text(json_array_get(list, 0), "finding");
	assert_true(strlen(told) > FINDING_MAX - 10 && !strncmp(told, "xxxx", 4));
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_width),
		cmocka_unit_test(test_colour),
		cmocka_unit_test(test_text_only),
		cmocka_unit_test(test_truncated_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
