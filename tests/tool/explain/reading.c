/* SPDX-License-Identifier: Apache-2.0 */
/* See reading.h. */
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rules *reading_rules(void)
{
	static struct rules *rules;
	const char *why;

	if (rules)
		return rules;
	rules = rules_new();
	why = rules_add(rules, (const char *)explain_rules_text, explain_rules_bytes, "built in");
	if (!why)
		why = rules_finish(rules);
	if (why) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
	return rules;
}

struct report *reading_report(const char *text, size_t bytes, size_t block)
{
	struct report *report = report_new(reading_rules());
	struct scan *scan = scan_new(reading_rules(), report, block);

	scan_memory(scan, text, bytes, "log");
	report_conclude(report);
	return report;
}

struct report *reading_report_of_two(const char *first, const char *second)
{
	struct report *report = report_new(reading_rules());
	struct scan *scan = scan_new(reading_rules(), report, SCAN_BLOCK);

	scan_memory(scan, first, strlen(first), "first");
	scan_memory(scan, second, strlen(second), "second");
	report_conclude(report);
	return report;
}

const struct finding *reading_find(const struct report *report, const char *id)
{
	for (size_t i = 0; i < report->finding_count; i++)
		if (report->findings[i]->count && !strcmp(report->findings[i]->rule->id, id))
			return report->findings[i];
	return NULL;
}
