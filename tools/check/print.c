/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report as text or JSON; see findings.h. */
#include "findings.h"

#include <string.h>

#include "tools/shared/document.h"
#include "tools/shared/terminal.h"

#define INDENT 8 /* width of the verdict column */

struct style {
	FILE *out;
	int width;
	bool colour;
};

static void print_verdict(enum check_verdict verdict, const struct style *s)
{
	static const char *const colours[] = { "\033[32m", "\033[36m", "\033[33m", "\033[1;31m" };

	fprintf(s->out, "%s%-*s%s ", s->colour ? colours[verdict] : "", INDENT - 1,
		verdict_name(verdict), s->colour ? "\033[0m" : "");
}

/* Prints the text behind a label and ": "; further lines are indented. */
static void print_behind(const char *label, const char *text, int indent, const struct style *s)
{
	fprintf(s->out, "%s: ", label);
	terminal_wrap(s->out, s->width, INDENT + (int)strlen(label) + 2, indent, text);
}

static void print_advice(const char *label, const char *text, const struct style *s)
{
	if (!text)
		return;
	fprintf(s->out, "%*s", INDENT, "");
	print_behind(label, text, INDENT + 5, s);
}

static void print_problems(const struct check_report *report, enum check_verdict verdict,
			   const struct style *s)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct check_finding *finding = &report->findings[i];

		if (finding->verdict != verdict)
			continue;
		print_verdict(verdict, s);
		print_behind(finding->area, finding->found, INDENT, s);
		print_advice("why", finding->why, s);
		print_advice("fix", finding->fix, s);
	}
}

static void print_others(const struct check_report *report, const struct style *s)
{
	const char *area = NULL;

	for (size_t i = 0; i < report->count; i++) {
		const struct check_finding *finding = &report->findings[i];

		if (finding->verdict >= CHECK_WARN)
			continue;
		if (!area || strcmp(area, finding->area) != 0)
			fprintf(s->out, "%s\n", finding->area);
		area = finding->area;
		fputs("  ", s->out);
		print_verdict(finding->verdict, s);
		terminal_wrap(s->out, s->width, INDENT + 2, INDENT + 2, finding->found);
	}
	if (area)
		fputc('\n', s->out);
}

void findings_print_text(const struct check_report *report, int width, bool colour, FILE *out)
{
	static const char *const colours[] = { "\033[32m", "\033[33m", "\033[1;31m" }; /* by exit status */
	const struct style style = { out, width, colour };
	size_t counts[CHECK_VERDICTS];
	int status = findings_exit_status(report);

	for (int verdict = 0; verdict < CHECK_VERDICTS; verdict++)
		counts[verdict] = findings_count(report, (enum check_verdict)verdict);
	print_problems(report, CHECK_ERROR, &style);
	print_problems(report, CHECK_WARN, &style);
	if (status)
		fputc('\n', out);
	print_others(report, &style);
	fprintf(out, "%s%zu error%s, %zu warning%s%s, %zu note%s; %zu passed\n",
		colour ? colours[status] : "", counts[CHECK_ERROR],
		counts[CHECK_ERROR] == 1 ? "" : "s", counts[CHECK_WARN],
		counts[CHECK_WARN] == 1 ? "" : "s", colour ? "\033[0m" : "", counts[CHECK_NOTE],
		counts[CHECK_NOTE] == 1 ? "" : "s", counts[CHECK_OK]);
}

json_t *findings_json(const struct check_report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->count; i++) {
		const struct check_finding *finding = &report->findings[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s?, s:s?}", "area",
						      finding->area, "id", finding->id, "level",
						      verdict_name(finding->verdict), "finding",
						      finding->found, "why", finding->why, "fix",
						      finding->fix));
	}
	return list;
}

void findings_print_json(const struct check_report *report, FILE *out)
{
	document_print("check",
		       json_pack("{s:i, s:i, s:i, s:o}", "status", findings_exit_status(report),
				 "errors", (int)findings_count(report, CHECK_ERROR), "warnings",
				 (int)findings_count(report, CHECK_WARN), "findings",
				 findings_json(report)),
		       out);
}
