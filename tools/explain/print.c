/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text: errors, warnings and harmless lines, with their fixes. */
#include "print.h"
#include "tools/shared/clean.h"
#include "tools/shared/output_args.h"
#include "tools/shared/terminal.h"

#include <string.h>

#define FOLLOW_QUOTE 164 /* bytes for the message of a consequence, including the NUL */

struct printer {
	const struct report *report;
	FILE *out;
	int width;
	bool colour;
};

static void paint(const struct printer *p, const char *code)
{
	if (p->colour)
		fprintf(p->out, "\033[%sm", code);
}

/* Prints `text`, wrapped, after `label`. Further lines are aligned with the text of the first. */
static void wrap(const struct printer *p, int indent, const char *label, const char *text)
{
	int left = indent + (int)strlen(label);

	fprintf(p->out, "%*s", indent, "");
	paint(p, "2");
	fputs(label, p->out);
	paint(p, "0");
	terminal_wrap(p->out, p->width, left, left, text);
}

static void print_place(const struct printer *p, const struct place *place)
{
	fprintf(p->out, "%s:%lu", p->report->files[place->file].name, place->line);
}

/* "job.log:12, rank 3 on node1, 8 lines" */
static void print_where(const struct printer *p, const struct finding *f)
{
	const char *who = report_who(p->report, &f->sources);

	print_place(p, &f->first);
	if (*who)
		fprintf(p->out, ", %s", who);
	if (f->count > 1)
		fprintf(p->out, ", %lu lines", f->count);
}

static void print_values(const struct printer *p, const struct finding *f)
{
	for (int i = 0; i < f->value_count; i++) {
		const struct value *v = &f->values[i];
		const char *who = report_who(p->report, &v->sources);

		fprintf(p->out, "   %s: ", *v->text ? v->text : "none");
		print_place(p, &v->first);
		fprintf(p->out, "%s%s\n", *who ? ", " : "", who);
	}
}

static void print_follows(const struct printer *p, const struct finding *f)
{
	if (!f->follow_count)
		return;
	fprintf(p->out, "   consequences\n");
	for (size_t i = 0; i < f->follow_count; i++) {
		const struct finding *next = f->follows[i];
		char quote[FOLLOW_QUOTE];

		fprintf(p->out, "   - %s (", next->title);
		print_where(p, next);
		fprintf(p->out, ")\n");
		paint(p, "2");
		clean(quote, sizeof(quote), next->message, strlen(next->message));
		fprintf(p->out, "     > %s\n", quote);
		paint(p, "0");
	}
}

static void print_finding(const struct printer *p, const struct finding *f, const char *kind,
			  const char *code)
{
	fputc('\n', p->out);
	paint(p, code);
	fprintf(p->out, "%s", kind);
	paint(p, "0");
	paint(p, "1");
	fprintf(p->out, "  %s", f->title);
	paint(p, "0");
	fprintf(p->out, "  [%s]\n   ", f->rule->id);
	print_where(p, f);
	fprintf(p->out, "\n");
	if (f->rule->kind == RULE_DIFFER)
		print_values(p, f);
	else
		fprintf(p->out, "   > %s\n", f->message);
	wrap(p, 3, "why    ", f->why);
	wrap(p, 3, "fix    ", f->fix);
	if (f->rule->versions)
		wrap(p, 3, "with   ", f->rule->versions);
	if (f->rule->see)
		wrap(p, 3, "see    ", f->rule->see);
	if (f->kind == RULE_FOLLOWS)
		wrap(p, 3, "note   ",
		     "This is a consequence, and its cause is not in this log: read the logs of "
		     "the other ranks, first the one that failed first.");
	else if (f->kind == RULE_ERROR && f->confidence == CONFIDENCE_LIKELY)
		wrap(p, 3, "note   ", "Likely, not certain.");
	print_follows(p, f);
}

static void print_head(const struct printer *p)
{
	const struct report *r = p->report;
	double size = (double)r->bytes;
	int unit = 0;

	for (; size >= 1000 && unit < 4; unit++)
		size /= 1000;
	if (r->file_count == 1)
		fprintf(p->out, "%s", r->files[0].name);
	else
		fprintf(p->out, "%d files", r->file_count);
	if (r->unread_count)
		fprintf(p->out, " (%zu not read)", r->unread_count);
	fprintf(p->out, ": %lu line%s, %.*f %s: ", r->lines, r->lines == 1 ? "" : "s", unit ? 1 : 0,
		size, ((const char *[]){ "B", "kB", "MB", "GB", "TB" })[unit]);
	if (!r->error_count && !r->warning_count && !r->harmless_count)
		fprintf(p->out, "no known problem\n");
	else
		fprintf(p->out, "%zu error%s, %zu warning%s, %zu harmless\n", r->error_count,
			r->error_count == 1 ? "" : "s", r->warning_count,
			r->warning_count == 1 ? "" : "s", r->harmless_count);
}

void print_text(const struct report *r, FILE *out, int width, bool colour)
{
	struct printer p = { r, out, width, colour };

	print_head(&p);
	for (size_t i = 0; i < r->error_count; i++)
		print_finding(&p, r->errors[i], "ERROR", "1;31");
	for (size_t i = 0; i < r->warning_count; i++)
		print_finding(&p, r->warnings[i], "warning", "1;33");
	if (output_is_quiet())
		return;
	if (r->harmless_count) {
		fputc('\n', out);
		paint(&p, "1;32");
		fprintf(out, "harmless\n");
		paint(&p, "0");
	}
	for (size_t i = 0; i < r->harmless_count; i++) {
		const struct finding *f = r->harmless[i];

		fprintf(out, "   %s  [%s]\n     ", f->title, f->rule->id);
		print_where(&p, f);
		fputc('\n', out);
		wrap(&p, 5, "", f->why);
	}
}

void print_rules(const struct rules *rules, FILE *out, int width)
{
	struct printer p = { .out = out, .width = width };

	for (size_t i = 0; i < rules->count; i++) {
		const struct rule *rule = rules->rules[i];

		if (rule->kind == RULE_WHO)
			continue;
		fprintf(out, "%s (%s, %d)\n", rule->id, rule_kind_text(rule->kind), rule->cause);
		wrap(&p, 3, "", rule->title);
		for (int j = 0; j < rule->line_count; j++)
			fprintf(out, "   > %s\n", pattern_text(rule->lines[j]));
		wrap(&p, 3, "why    ", rule->why);
		wrap(&p, 3, "fix    ", rule->fix);
	}
}
