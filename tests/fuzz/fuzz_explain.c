/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs and rule files. The first byte selects: a rule file, or a log and the size of the blocks in which it is read.
 * The findings must not depend on that size if no line is longer, and the output must be text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "tools/explain/print.h"
#include "tools/explain/report.h"
#include "tools/explain/rules.h"
#include "tools/explain/scan.h"
#include "tools/shared/memory.h"

#define BLOCK_MIN 256

static struct rules *built_in(void)
{
	static struct rules *rules;

	if (rules)
		return rules;
	rules = rules_new();
	must(!rules_add(rules, (const char *)explain_rules_text, explain_rules_bytes, ""));
	must(!rules_finish(rules));
	return rules;
}

static void use_as_rules(const char *text, size_t bytes)
{
	struct rules *rules = rules_new();
	struct match match;
	const char *why = rules_add(rules, text, bytes, "fuzz");

	if (!why)
		why = rules_finish(rules);
	if (!why)
		why = rules_check(rules, rules->count);
	if (why)
		must(*why);
	else
		rules_find(rules, text, bytes, &match);
	rules_free(rules);
}

static struct report *read_log(const char *text, size_t bytes, size_t block)
{
	struct report *report = report_new(built_in());
	struct scan *scan = scan_new(built_in(), report, block);
	int fd = memfd_create("log", MFD_CLOEXEC);

	must(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes && !lseek(fd, 0, SEEK_SET));
	scan_fd(scan, fd, "log", NULL, NULL);
	close(fd);
	report_conclude(report);
	return report;
}

/* Lines are shorter than a block, and no escape sequence removes the end of a line. */
static bool is_plain(const char *text, size_t bytes)
{
	size_t run = 0;

	for (size_t i = 0; i < bytes; i++) {
		run = text[i] == '\n' ? 0 : run + 1;
		if (run >= BLOCK_MIN || text[i] == 0x1b)
			return false;
	}
	return true;
}

static void must_be_equal(const struct report *a, const struct report *b)
{
	must(a->lines == b->lines && a->bytes == b->bytes);
	must(a->error_count == b->error_count && a->warning_count == b->warning_count);
	must(a->finding_count == b->finding_count);
	for (size_t i = 0; i < a->finding_count; i++) {
		const struct finding *x = a->findings[i], *y = b->findings[i];

		must(x->count == y->count && x->value_count == y->value_count);
		must(!x->count || (x->first.line == y->first.line &&
				   !strcmp(x->message, y->message) && !strcmp(x->why, y->why)));
	}
}

static void must_be_text(const char *text)
{
	for (; *text; text++)
		must((unsigned char)*text >= ' ' || *text == '\n');
}

/* Every finding has its message in the JSON: jansson omits invalid UTF-8. */
static void must_have_messages(const struct report *report, const char *json)
{
	size_t wanted = report->error_count + report->warning_count + report->harmless_count;

	for (size_t i = 0; i < report->error_count; i++)
		wanted += report->errors[i]->follow_count;
	for (; (json = strstr(json, "\"message\": \"")); json++)
		wanted--;
	must(!wanted);
}

static void print(const struct report *report)
{
	char *text = NULL, *json = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	must(out);
	print_text(report, out, 80, false);
	must(!fclose(out) && strlen(text) == bytes);
	must_be_text(text);
	out = open_memstream(&json, &bytes);
	must(out);
	print_json(report, out);
	must(!fclose(out) && strlen(json) == bytes);
	must_be_text(json);
	must_have_messages(report, json);
	free(text);
	free(json);
}

static void use_as_log(const char *text, size_t bytes, size_t block)
{
	struct report *report = read_log(text, bytes, block), *whole;

	print(report);
	if (is_plain(text, bytes)) {
		whole = read_log(text, bytes, bytes + BLOCK_MIN);
		must_be_equal(report, whole);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint64_t mark;

	built_in();
	mark = memory_mark();
	if (bytes && data[0] & 1)
		use_as_rules((const char *)data + 1, bytes - 1);
	else if (bytes)
		use_as_log((const char *)data + 1, bytes - 1, BLOCK_MIN + data[0]);
	memory_release(mark);
	return 0;
}
