/* SPDX-License-Identifier: Apache-2.0 */
/* The list of findings; see findings.h. */
#include "findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static const char *const names[] = {
	[CHECK_OK] = "ok",
	[CHECK_NOTE] = "note",
	[CHECK_WARN] = "warning",
	[CHECK_ERROR] = "error",
};

const char *verdict_name(enum check_verdict verdict)
{
	return names[verdict];
}

static char *printable(const char *fmt, va_list args) ANYNET_PRINTF(1, 0);

static char *printable(const char *fmt, va_list args)
{
	char *raw = text_vformat(fmt, args), *clean = text_printable(raw);

	free(raw);
	return clean;
}

void finding_add(struct check_report *report, enum check_verdict verdict, const char *area,
		 const char *id, const char *fmt, ...)
{
	struct check_finding *finding;
	va_list args;

	if (report->count == report->room) {
		report->room = report->room ? 2 * report->room : 32;
		report->findings =
			text_grow(report->findings, report->room * sizeof(*report->findings));
	}
	finding = &report->findings[report->count++];
	*finding = (struct check_finding){ .verdict = verdict, .area = area, .id = id };
	va_start(args, fmt);
	finding->found = printable(fmt, args);
	va_end(args);
}

void finding_why(struct check_report *report, const char *fmt, ...)
{
	struct check_finding *newest = &report->findings[report->count - 1];
	va_list args;

	free(newest->why);
	va_start(args, fmt);
	newest->why = printable(fmt, args);
	va_end(args);
}

void finding_fix(struct check_report *report, const char *fmt, ...)
{
	struct check_finding *newest = &report->findings[report->count - 1];
	va_list args;

	free(newest->fix);
	va_start(args, fmt);
	newest->fix = printable(fmt, args);
	va_end(args);
}

enum check_verdict findings_worst(const struct check_report *report)
{
	enum check_verdict worst = CHECK_OK;

	for (size_t i = 0; i < report->count; i++) {
		if (report->findings[i].verdict > worst)
			worst = report->findings[i].verdict;
	}
	return worst;
}

bool findings_have(const struct check_report *report, const char *id)
{
	for (size_t i = 0; i < report->count; i++) {
		if (!strcmp(report->findings[i].id, id))
			return true;
	}
	return false;
}

size_t findings_count(const struct check_report *report, enum check_verdict verdict)
{
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++)
		count += report->findings[i].verdict == verdict;
	return count;
}

static void finding_free(struct check_finding *finding)
{
	free(finding->found);
	free(finding->why);
	free(finding->fix);
}

void findings_drop(struct check_report *report, size_t count)
{
	while (report->count > count)
		finding_free(&report->findings[--report->count]);
}

void findings_keep(struct check_report *report, enum check_verdict least)
{
	size_t kept = 0;

	for (size_t i = 0; i < report->count; i++) {
		if (report->findings[i].verdict >= least)
			report->findings[kept++] = report->findings[i];
		else
			finding_free(&report->findings[i]);
	}
	report->count = kept;
}

void findings_free(struct check_report *report)
{
	findings_drop(report, 0);
	free(report->findings);
	*report = (struct check_report){ 0 };
}
