/* SPDX-License-Identifier: Apache-2.0 */
/* See reading.h. */
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void read_text(struct scan *scan, const char *text, size_t bytes, const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes || lseek(fd, 0, SEEK_SET))
		abort();
	scan_fd(scan, fd, name, NULL, NULL);
	close(fd);
}

struct report *reading_report(const char *text, size_t bytes, size_t block)
{
	struct report *report = report_new(reading_rules());
	struct scan *scan = scan_new(reading_rules(), report, block);

	read_text(scan, text, bytes, "log");
	report_conclude(report);
	return report;
}

struct report *reading_report_of_two(const char *first, const char *second)
{
	struct report *report = report_new(reading_rules());
	struct scan *scan = scan_new(reading_rules(), report, SCAN_BLOCK);

	read_text(scan, first, strlen(first), "first");
	read_text(scan, second, strlen(second), "second");
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
