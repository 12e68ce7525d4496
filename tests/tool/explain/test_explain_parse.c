/* SPDX-License-Identifier: Apache-2.0 */
/* Rule files: errors and their messages; patterns; and the precedence of a user's rules over the built-in ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <nccl_net/util.h>

#include "tools/explain/rules.h"

#define BODY "kind error\ntitle t\nwhy m\nfix d\n"

static void refused(const char *text, const char *because)
{
	struct rules *rules = rules_new();
	const char *why = rules_add(rules, text, strlen(text), "mine");

	if (!why)
		why = rules_finish(rules);
	if (!why)
		why = rules_check(rules, rules->count);
	if (!why)
		fail_msg("accepted: %s", text);
	else if (!strstr(why, because))
		fail_msg("'%s' instead of '%s'", why, because);
	rules_free(rules);
}

static void invalid_rules(void **state)
{
	(void)state;
	refused("line 12345678\n", "mine:1: before the first [rule]");
	refused("[a b]\n", "characters other");
	refused("[a\n", "begins with [its-name]");
	refused("[a]\n" BODY, "has no line");
	refused("[a]\n" BODY "line 12345678\n", "has no sample");
	refused("[a]\ntitle t\nwhy m\nfix d\nline 12345678\nsample 12345678\n", "has no kind");
	refused("[a]\nkind error\nline 12345678\nsample 12345678\n", "[a] has no title");
	refused("[a]\nkind error\ntitle t\nwhy m\nline 12345678\nsample 12345678\n", "[a] has no fix");
	refused("[a]\n" BODY "line 123456\n", "seven bytes");
	refused("[a]\n" BODY "line 1234{*}5678\n", "seven bytes");
	refused("[a]\n" BODY "line 12345678{x\n", "an unmatched brace");
	refused("[a]\n" BODY "line 12345678{X}\n", "characters other");
	refused("[a]\n" BODY "line 12345678{x}{x}\n", "a field name that is used twice");
	refused("[a]\n" BODY "line 12345678{x:(}\nsample 12345678\n", "not a regular expression");
	refused("[a]\n" BODY "line 12345678\nsample 1234567\n", "no sample for");
	refused("[a]\n" BODY "line 12345678\nsample 12345678\nsample x\n", "matches no rule");
	refused("[a]\nkind error\ntitle t\nwhy m {x}\nfix d\nline 12345678\nsample 12345678\n",
		"uses the field x");
	refused("[a]\nkind bad\n", "mine:2: kind bad");
	refused("[a]\ncause 100\n", "a number from 0 to 99");
	refused("[a]\nsmell bad\n", "is not one of kind");
	refused("[a]\nkind\n", "has no value");
	refused("[a]\n more\n", "without a line before it");
	refused("[a]\n" BODY "title t\n", "twice in one rule");
	refused("[a]\n" BODY "line 12345678\nsample 12345678\n[a]\n" BODY
		"line 12345678\nsample 12345678\n[b]\n",
		"is defined twice");
	refused("[a]\n" BODY "line 12345678\nsample 12345678\n[b]\n" BODY
		"line 123456789\nsample 123456789\n",
		"its sample matches a");
	refused("[a]\nkind differ\ntitle t\nwhy m\nfix d\nline 12345678\nsample 12345678\n",
		"without {value}");
	refused("[a]\nkind who\nline 12345678\nsample 12345678\n", "without {rank}");
}

/* JSON would lose the finding. */
static void what_is_not_text(void **state)
{
	static const char *const texts[] = { "[a]\0\n", "[\xe4]\n" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct rules *rules = rules_new();
		const char *why = rules_add(rules, texts[i], 4, "mine");

		assert_non_null(why);
		assert_non_null(strstr(why, "this is not UTF-8 text"));
		rules_free(rules);
	}
}

static void patterns(void **state)
{
	char *why;
	struct match match;
	struct pattern *p =
		pattern_new("a.b(c)*[d] {{x}} {name:[a-z]{2,3}} {*}end of it {last}", &why);
	const char *line = "  a.b(c)*[d] {x} abc ... end of it \x01word and";

	(void)state;
	assert_non_null(p);
	assert_true(pattern_match(p, line, strlen(line), &match));
	assert_int_equal(match_field(&match, "name")->bytes, 3);
	assert_string_equal(rules_expand("<{name}|{last}|{none}>{", &match), "<abc|?word|{none}>{");
	assert_false(pattern_match(p, "axb(c)*[d] {x} abc end of it w", 31, &match));
	pattern_free(p);
}

/* A pattern with endless backtracking does not match, and terminates. */
static void endless_backtracking(void **state)
{
	char *why, line[4000];
	struct match match;
	struct pattern *p = pattern_new("beginning {x:(a+)+(a+)+(a+)+[bc]}", &why);

	(void)state;
	memset(line, 'a', sizeof(line));
	memcpy(line, "beginning ", 10);
	assert_false(pattern_match(p, line, sizeof(line), &match));
	pattern_free(p);
}

static void own_rules_first(void **state)
{
	static const char mine[] =
		"[too-many-files]\n" BODY
		"  and more\nline Too many open files\nsample Too many open files\n";
	struct rules *rules = rules_new();
	struct match match;

	(void)state;
	assert_null(rules_add(rules, mine, sizeof(mine) - 1, "mine"));
	assert_null(rules_add(rules, (const char *)explain_rules_text, explain_rules_bytes,
			      "built in"));
	assert_null(rules_finish(rules));
	assert_null(rules_check(rules, 1));
	assert_string_equal(rules_find(rules, "x Too many open files", 21, &match)->fix,
			    "d and more");
	rules_free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(invalid_rules),   cmocka_unit_test(what_is_not_text),
		cmocka_unit_test(patterns),        cmocka_unit_test(endless_backtracking),
		cmocka_unit_test(own_rules_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
