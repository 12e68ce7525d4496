/* SPDX-License-Identifier: Apache-2.0 */
/* The list of findings; see findings.h. */
#include "findings.h"

#include <stdarg.h>
#include <string.h>

#include "check.h"
#include "tools/shared/memory.h"

const char *verdict_name(enum check_verdict verdict)
{
	static const char *const names[] = { "ok", "note", "warning", "error" };

	return names[verdict];
}

static char *printable(const char *fmt, va_list args) ANYNET_PRINTF(1, 0);

static char *printable(const char *fmt, va_list args)
{
	return text_printable(text_vformat(fmt, args));
}

void found(struct check *check, enum check_verdict verdict, const char *id, const char *fmt, ...)
{
	struct check_report *report = &check->report;
	va_list args;

	report->findings =
		memory_resize(report->findings, (report->count + 1) * sizeof(*report->findings));
	va_start(args, fmt);
	report->findings[report->count++] = (struct check_finding){
		.verdict = verdict, .area = report->area, .id = id, .found = printable(fmt, args)
	};
	va_end(args);
}

void found_why(struct check *check, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	check->report.findings[check->report.count - 1].why = printable(fmt, args);
	va_end(args);
}

void found_fix(struct check *check, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	check->report.findings[check->report.count - 1].fix = printable(fmt, args);
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

int findings_exit_status(const struct check_report *report)
{
	static const int statuses[] = { [CHECK_WARN] = 1, [CHECK_ERROR] = 2 };

	return statuses[findings_worst(report)];
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

void findings_keep(struct check_report *report, enum check_verdict least)
{
	size_t kept = 0;

	for (size_t i = 0; i < report->count; i++) {
		if (report->findings[i].verdict >= least)
			report->findings[kept++] = report->findings[i];
	}
	report->count = kept;
}
