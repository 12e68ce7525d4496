/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report as text or JSON; see findings.h. */
#include "findings.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/document.h"

#define WIDTH_MOST 120 /* longer lines are hard to read */
#define INDENT     8   /* width of the verdict column */

static const char *const colours[] = {
	[CHECK_OK] = "\033[32m",
	[CHECK_NOTE] = "\033[36m",
	[CHECK_WARN] = "\033[33m",
	[CHECK_ERROR] = "\033[1;31m",
};

struct terminal findings_terminal(FILE *out)
{
	struct terminal terminal = terminal_of(out);

	terminal.width = terminal_width(&terminal, 0);
	if (terminal.width > WIDTH_MOST)
		terminal.width = WIDTH_MOST;
	return terminal;
}

/* Columns of the first `bytes` bytes: the number of UTF-8 characters that begin in them. */
static unsigned columns(const char *text, size_t bytes)
{
	unsigned count = 0;

	for (size_t i = 0; i < bytes; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

/* Prints text from column `at` on, wrapped at blanks; continuation lines are indented. */
static void print_wrapped(const char *text, unsigned at, unsigned indent, int width, FILE *out)
{
	bool first = true;

	while (*text) {
		size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " ");
		unsigned wide = columns(text, blanks + word);

		if (width && !first && at + wide > (unsigned)width) {
			fprintf(out, "\n%*s", (int)indent, "");
			text += blanks;
			at = indent;
			wide = columns(text, word);
			blanks = 0;
		}
		fwrite(text, 1, blanks + word, out);
		text += blanks + word;
		at += wide;
		first = false;
	}
	fputc('\n', out);
}

static void print_verdict(enum check_verdict verdict, const struct terminal *style, FILE *out)
{
	fprintf(out, "%s%-*s%s", style->colour ? colours[verdict] : "", INDENT - 1,
		verdict_name(verdict), style->colour ? "\033[0m" : "");
	fputc(' ', out);
}

static void print_labelled(const char *label, const char *text, const struct terminal *style,
			   FILE *out)
{
	if (!text)
		return;
	fprintf(out, "%*s%s: ", INDENT, "", label);
	print_wrapped(text, INDENT + (unsigned)strlen(label) + 2, INDENT + 5, style->width, out);
}

static void print_problem(const struct check_finding *finding, const struct terminal *style,
			  FILE *out)
{
	print_verdict(finding->verdict, style, out);
	fprintf(out, "%s: ", finding->area);
	print_wrapped(finding->found, INDENT + (unsigned)strlen(finding->area) + 2, INDENT,
		      style->width, out);
	print_labelled("why", finding->why, style, out);
	print_labelled("fix", finding->fix, style, out);
}

static void print_problems(const struct check_report *report, const struct terminal *style,
			   FILE *out)
{
	for (int verdict = CHECK_ERROR; verdict >= CHECK_WARN; verdict--) {
		for (size_t i = 0; i < report->count; i++) {
			if ((int)report->findings[i].verdict == verdict)
				print_problem(&report->findings[i], style, out);
		}
	}
	if (findings_worst(report) >= CHECK_WARN)
		fputc('\n', out);
}

static void print_others(const struct check_report *report, const struct terminal *style, FILE *out)
{
	const char *area = NULL;

	for (size_t i = 0; i < report->count; i++) {
		const struct check_finding *finding = &report->findings[i];

		if (finding->verdict >= CHECK_WARN)
			continue;
		if (!area || strcmp(area, finding->area) != 0) {
			area = finding->area;
			fprintf(out, "%s\n", area);
		}
		fputs("  ", out);
		print_verdict(finding->verdict, style, out);
		print_wrapped(finding->found, INDENT + 2, INDENT + 2, style->width, out);
	}
	if (area)
		fputc('\n', out);
}

void findings_print_text(const struct check_report *report, const struct terminal *style, FILE *out)
{
	size_t errors = findings_count(report, CHECK_ERROR),
	       warns = findings_count(report, CHECK_WARN);
	size_t notes = findings_count(report, CHECK_NOTE);
	enum check_verdict worst = findings_worst(report);

	print_problems(report, style, out);
	print_others(report, style, out);
	fprintf(out, "%s%zu error%s, %zu warning%s%s, %zu note%s; %zu passed\n",
		style->colour ? colours[worst < CHECK_WARN ? CHECK_OK : worst] : "", errors,
		errors == 1 ? "" : "s", warns, warns == 1 ? "" : "s",
		style->colour ? "\033[0m" : "", notes, notes == 1 ? "" : "s",
		findings_count(report, CHECK_OK));
}

void findings_print_json(const struct check_report *report, FILE *out)
{
	enum check_verdict worst = findings_worst(report);
	json_t *list = json_array();

	for (size_t i = 0; i < report->count; i++) {
		const struct check_finding *finding = &report->findings[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s?, s:s?}", "area",
						      finding->area, "id", finding->id, "level",
						      verdict_name(finding->verdict), "finding",
						      finding->found, "why", finding->why, "fix",
						      finding->fix));
	}
	document_print("check",
		       json_pack("{s:i, s:i, s:i, s:o}", "status",
				 worst == CHECK_ERROR  ? 2
				 : worst == CHECK_WARN ? 1
						       : 0,
				 "errors", (int)findings_count(report, CHECK_ERROR), "warnings",
				 (int)findings_count(report, CHECK_WARN), "findings", list),
		       out);
}
