/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text; see print.h. */
#include "print.h"

#include <stdio.h>
#include <string.h>

#include "matrix.h"
#include "tools/pair/print.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/hosts.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/member.h"
#include "tools/shared/output_args.h"
#include "tools/shared/text.h"

#define MATRIX_HOSTS 20 /* larger matrices are not printed */
#define ROW_COLUMNS  5  /* width of the host number */
#define CELL_COLUMNS 8  /* width of a cell */
#define INDENT       5

const char *cluster_verdict(const json_t *findings)
{
	static const char *const verdicts[] = {
		"ok: these hosts can work together",
		"warnings: jobs work, but see the findings",
		"errors: a job on all these hosts will fail or hang; see the findings",
	};

	return verdict_is_unmeasured(findings)
		       ? "incomplete: NCCL on the missing hosts was not tested"
		       : verdicts[findings_status(findings)];
}

static void print_hosts(const json_t *hosts, FILE *out, const struct terminal *t)
{
	const json_t *host;
	size_t i;

	json_array_foreach (hosts, i, host) {
		const json_t *facts = json_object_get(host, "facts"), *dev;
		const char *nccl = host_fact(facts, "nccl", "not found");

		if (!json_is_object(facts)) {
			print_row(out, t, INDENT, "%3zu  %.64s", i, member_text(host, "name"));
			continue;
		}
		dev = json_array_get(json_object_get(facts, "devices"), 0);
		print_row(out, t, INDENT,
			  "%3zu  %-16.64s %-16.64s anynet %.16s, NCCL %.32s, %zu device%s%s%.32s",
			  i, member_text(host, "name"), member_text(host, "address"),
			  member_text(facts, "version"), nccl,
			  json_array_size(json_object_get(facts, "devices")),
			  json_array_size(json_object_get(facts, "devices")) == 1 ? "" : "s",
			  dev ? ", first " : "", member_text(dev, "name"));
	}
}

static const char *cell_text(const struct cell *cell, enum figure figure)
{
	double value = cell_figure(cell, figure);

	if (!cell->link)
		return "-";
	if (!cell->is_ok)
		return "BROKEN";
	if (figure == FIGURE_PATH)
		return *cell->path ? text_format("%.7s", cell->path) : ".";
	if (value <= 0)
		return ".";
	return figure == FIGURE_US ? text_format("%.1f", value) : text_format("%.3f", value / 1e3);
}

/* Prints the columns from `begin` up to, but not including, `end`. */
static void print_part(const struct matrix *m, enum figure figure, size_t begin, size_t end,
		       FILE *out)
{
	char *line = text_dup("     ");

	for (size_t to = begin; to < end; to++)
		line = text_format("%s %7zu", line, to);
	print_line(out, "%s", line);
	for (size_t from = 0; from < m->hosts; from++) { /* absurd figures of a host need more than 7 columns */
		line = text_format("%5zu", from);
		for (size_t to = begin; to < end; to++)
			line = text_format("%s %7.31s", line,
					   from == to ? ""
						      : cell_text(matrix_at(m, from, to), figure));
		print_line(out, "%s", line);
	}
}

/* Prints the matrix in parts that fit the terminal. */
static void print_matrix(const struct matrix *m, enum figure figure, FILE *out,
			 const struct terminal *t)
{
	int width = terminal_width(t, 0);
	size_t columns = width ? (size_t)(width - ROW_COLUMNS) / CELL_COLUMNS : MATRIX_HOSTS;

	if (m->hosts > MATRIX_HOSTS)
		return;
	for (size_t begin = 0; begin < m->hosts; begin += columns)
		print_part(m, figure, begin,
			   begin + columns < m->hosts ? begin + columns : m->hosts, out);
}

static void print_figures(const struct matrix *m, const char *title, enum figure figure, FILE *out,
			  const struct terminal *t)
{
	struct spread s = matrix_spread(m, figure);
	double scale = figure == FIGURE_US ? 1 : 1e3;

	if (!s.count)
		return;
	print_row(out, t, INDENT, "%s: min %.3f, median %.3f, max %.3f", title, s.least / scale,
		  s.median / scale, s.most / scale);
	print_matrix(m, figure, out, t);
}

static void print_paths(const struct matrix *m, FILE *out, const struct terminal *t)
{
	size_t ib = 0, tcp = 0, broken = 0, pairs = m->hosts * (m->hosts - 1) / 2;

	for (size_t a = 0; a < m->hosts; a++) {
		for (size_t b = a + 1; b < m->hosts; b++) {
			const struct cell *cell = matrix_at(m, a, b);

			broken += cell->link && !cell->is_ok;
			ib += cell->is_ok && !strcmp(cell->path, "IB");
			tcp += cell->is_ok && !strcmp(cell->path, "TCP");
		}
	}
	print_row(
		out, t, INDENT,
		"%zu pair%s: %zu over InfiniBand or RoCE, %zu over TCP, %zu broken, %zu not measured",
		pairs, pairs == 1 ? "" : "s", ib, tcp, broken, pairs - m->links);
	if (ib && tcp)
		print_matrix(m, FIGURE_PATH, out, t);
	if (m->hosts > MATRIX_HOSTS)
		print_row(out, t, INDENT, "more than %d hosts: --html FILE has the whole matrix",
			  MATRIX_HOSTS);
}

void cluster_print(const json_t *doc, FILE *out, const struct terminal *t)
{
	const json_t *findings = json_object_get(doc, "findings");
	struct matrix m;
	const char *why;

	if (output_is_quiet()) {
		print_findings(out, findings, t);
		return;
	}
	print_hosts(json_object_get(doc, "hosts"), out, t);
	if (!matrix_read(doc, &m, &why)) {
		print_paths(&m, out, t);
		print_figures(&m, "round trip in us", FIGURE_US, out, t);
		print_figures(&m, "bandwidth in GB/s, from row to column", FIGURE_MB_S, out, t);
	}
	print_findings(out, findings, t);
	print_row(out, t, INDENT, "%s", cluster_verdict(findings));
}
