/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet's own warnings: every format of anynet_warn in the source has a rule, and every format of a rule is in the
 * source and has a sample that it can produce. Arguments: source directories.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reading.h"

#define FORMATS_MAX 256

static char *formats[FORMATS_MAX];
static int format_count;

/* The adjacent string literals from `p` on, concatenated; NULL = none. */
static char *literals(const char *p)
{
	char text[1024];
	size_t n = 0;

	p += strspn(p, " \t\n");
	if (*p != '"')
		return NULL;
	while (*p == '"') {
		for (p++; *p && *p != '"' && n + 1 < sizeof(text); p++) {
			if (*p == '\\' && p[1])
				p++;
			text[n++] = *p;
		}
		p += *p == '"';
		p += strspn(p, " \t\n");
	}
	text[n] = '\0';
	return strdup(text);
}

static char *contents(const char *path)
{
	FILE *in = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(in);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, in) > 0);
	fclose(in);
	return text;
}

static void take_calls(const char *text, const char *call)
{
	for (const char *p = text; (p = strstr(p, call)); p++) {
		char *format = literals(p + strlen(call));

		if (!format)
			continue;
		assert_true(format_count < FORMATS_MAX);
		formats[format_count++] = format;
	}
}

static int take_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *end = strrchr(path, '.');
	char *text;

	(void)st;
	(void)ftw;
	if (type != FTW_F || !end || strcmp(end, ".c") != 0)
		return 0;
	text = contents(path);
	take_calls(text, "anynet_warn(");
	free(text);
	return 0;
}

/* Whether `text` ends in output that `format` can produce: a conversion matches anything. */
static bool could_be(const char *format, const char *text, bool anywhere)
{
	size_t plain = strcspn(format, "%");

	for (;; text++) {
		if (!strncmp(format, text, plain)) {
			const char *next = format + plain;

			if (!*next)
				return text[plain] == '\0' || anywhere;
			next++;
			next += strspn(next, "#.0123456789lz");
			if (could_be(next + 1, text + plain, true))
				return true;
		}
		if (!anywhere || !*text)
			return false;
	}
}

static bool is_in(const char *format, char *const *list, int count)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(list[i], format))
			return true;
	return false;
}

static void source_has_rules(void **state)
{
	struct rules *rules = reading_rules();

	(void)state;
	assert_true(format_count > 30);
	for (int i = 0; i < format_count; i++) {
		bool found = false;

		for (size_t r = 0; r < rules->count && !found; r++)
			found = is_in(formats[i], rules->rules[r]->formats,
				      rules->rules[r]->format_count);
		if (!found)
			fail_msg("no rule for the warning \"%s\"", formats[i]);
	}
}

static void rules_have_source(void **state)
{
	struct rules *rules = reading_rules();

	(void)state;
	for (size_t r = 0; r < rules->count; r++)
		for (int i = 0; i < rules->rules[r]->format_count; i++)
			if (!is_in(rules->rules[r]->formats[i], formats, format_count))
				fail_msg("rule %s has a format that no warning has: \"%s\"",
					 rules->rules[r]->id, rules->rules[r]->formats[i]);
}

static void formats_have_samples(void **state)
{
	struct rules *rules = reading_rules();

	(void)state;
	for (size_t r = 0; r < rules->count; r++) {
		const struct rule *rule = rules->rules[r];

		for (int i = 0; i < rule->format_count; i++) {
			bool found = false;

			for (int s = 0; s < rule->sample_count; s++)
				found |= could_be(rule->formats[i], rule->samples[s], true);
			if (!found)
				fail_msg("rule %s has no sample of \"%s\"", rule->id,
					 rule->formats[i]);
		}
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(source_has_rules),
		cmocka_unit_test(rules_have_source),
		cmocka_unit_test(formats_have_samples),
	};
	int ret;

	for (int i = 1; i < argc; i++)
		if (nftw(argv[i], take_file, 16, FTW_PHYS))
			return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 0; i < format_count; i++)
		free(formats[i]);
	return ret;
}
