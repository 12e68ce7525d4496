/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as one HTML page. It refers to no other file or address, and its content security policy forbids
 * them. Texts come from other hosts and files, so all output is constants, numbers, or escaped by put_text.
 */
#include <math.h>
#include <string.h>

#include "matrix.h"
#include "print.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/hosts.h"
#include "tools/shared/member.h"

/* The page is also well-formed XML; the tests parse it as XML. */
static const char head[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta charset=\"utf-8\" />\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	"style-src 'unsafe-inline'; script-src 'unsafe-inline'\" />\n"
	"<meta name=\"viewport\" content=\"width=device-width\" />\n"
	"<title>anynet cluster</title>\n<style>\n"
	"body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; "
	"color: #1c2430; background: #fff; }\n"
	"h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }\n"
	"table { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
	"th, td { padding: .25em .6em; text-align: right; border: 1px solid #d5dae1; }\n"
	"th { background: #f2f4f7; font-weight: 600; }\n"
	"td.text, th.text { text-align: left; }\n"
	".scroll { overflow-x: auto; }\n"
	".self { background: #f2f4f7; } .broken { background: #7a0c1e; color: #fff; }\n"
	"section.finding { border-left: .35em solid #8a94a3; padding: .3em .9em; margin: .7em 0; }\n"
	"section.error { border-color: #b00020; } section.warning { border-color: #d98200; }\n"
	"section.finding p { margin: .15em 0; } .level { font-weight: 600; }\n"
	"button { font: inherit; font-weight: 600; background: none; border: 0; padding: 0; "
	"cursor: pointer; }\n"
	"button:focus-visible { outline: 2px solid #1a5fb4; }\n"
	"</style></head><body>\n";

/* A click on a column header sorts by that column; the next click reverses the order. */
static const char script[] =
	"<script>\n"
	"document.querySelectorAll('table.sorted').forEach(function (table) {\n"
	"  table.querySelectorAll('thead th').forEach(function (th, column) {\n"
	"    th.querySelector('button').addEventListener('click', function () {\n"
	"      var up = th.getAttribute('aria-sort') !== 'ascending', body = table.tBodies[0];\n"
	"      table.querySelectorAll('thead th').forEach(function (other) {\n"
	"        other.removeAttribute('aria-sort');\n"
	"      });\n"
	"      th.setAttribute('aria-sort', up ? 'ascending' : 'descending');\n"
	"      Array.from(body.rows).sort(function (a, b) {\n"
	"        var x = a.cells[column].textContent, y = b.cells[column].textContent;\n"
	"        var d = parseFloat(x) - parseFloat(y);\n"
	"        var order = isNaN(d) ? x.localeCompare(y) : d;\n"
	"        return up ? order : -order;\n"
	"      }).forEach(function (row) { body.appendChild(row); });\n"
	"    });\n"
	"  });\n"
	"});\n"
	"</script>\n";

static void put_text(FILE *out, const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '&')
			fputs("&amp;", out);
		else if (*c == '<')
			fputs("&lt;", out);
		else if (*c == '>')
			fputs("&gt;", out);
		else if (*c == '"')
			fputs("&quot;", out);
		else if (*c == '\'')
			fputs("&#39;", out);
		else if (*c < ' ' || *c == 0x7f)
			fputc('?', out);
		else if (*c == 0xef && c[1] == 0xbf && c[2] >= 0xbe) { /* U+FFFE, U+FFFF: no XML */
			fputc('?', out);
			c += 2;
		} else
			fputc(*c, out);
	}
}

static void put_element(FILE *out, const char *tag, const char *text)
{
	fprintf(out, "<%s>", tag);
	put_text(out, text);
	fprintf(out, "</%.*s>", (int)strcspn(tag, " "), tag);
}

/* --- findings --- */

static void put_paragraph(FILE *out, const char *label, const char *text)
{
	if (!*text)
		return;
	fprintf(out, "<p><span class=\"level\">%s</span> ", label);
	put_text(out, text);
	fputs("</p>\n", out);
}

static void put_findings(FILE *out, const json_t *findings)
{
	static const char *const levels[] = { "error", "warning", "note" };
	const json_t *finding;
	size_t i;

	fputs("<h2>Findings</h2>\n", out);
	if (!json_array_size(findings))
		fputs("<p>None.</p>\n", out);
	json_array_foreach (findings, i, finding) {
		const char *level = levels[2];

		for (size_t l = 0; l < 2; l++) {
			if (!strcmp(member_text(finding, "level"), levels[l]))
				level = levels[l];
		}
		fprintf(out, "<section class=\"finding %s\">\n", level);
		put_paragraph(out, level, member_text(finding, "finding"));
		put_paragraph(out, "why", member_text(finding, "why"));
		put_paragraph(out, "fix", member_text(finding, "fix"));
		fputs("</section>\n", out);
	}
}

/* --- heat maps --- */

/* Percentage of red: 0 at the median or better, 100 at 16 times worse, logarithmic. */
static int heat(double value, double median, enum figure figure)
{
	double worse = figure == FIGURE_MB_S ? median / value : value / median;
	double share = log2(worse) / 4;

	return share <= 0 ? 0 : share >= 1 ? 100 : (int)(100 * share);
}

static void put_cell(FILE *out, const struct cell *cell, enum figure figure, double median)
{
	double value = cell_figure(cell, figure);
	int percent = value > 0 && median > 0 ? heat(value, median, figure) : 0;

	if (!cell->link) {
		fputs("<td>not measured</td>", out);
		return;
	}
	if (!cell->is_ok) {
		fputs("<td class=\"broken\">broken</td>", out);
		return;
	}
	fprintf(out, "<td style=\"background: rgb(255, %d, %d)\">", 255 - percent * 3 / 2,
		255 - percent * 2);
	if (value > 0)
		fprintf(out, figure == FIGURE_US ? "%.1f" : "%.3f",
			figure == FIGURE_US ? value : value / 1e3);
	fputs("</td>", out);
}

static void put_map(FILE *out, const struct matrix *m, const char *title, enum figure figure)
{
	struct spread s = matrix_spread(m, figure);

	put_element(out, "h2", title);
	fputs("\n<div class=\"scroll\"><table><tr><th></th>", out);
	for (size_t to = 0; to < m->hosts; to++)
		put_element(out, "th", m->names[to]);
	fputs("</tr>\n", out);
	for (size_t from = 0; from < m->hosts; from++) {
		fputs("<tr>", out);
		put_element(out, "th", m->names[from]);
		for (size_t to = 0; to < m->hosts; to++) {
			if (from == to)
				fputs("<td class=\"self\"></td>", out);
			else
				put_cell(out, matrix_at(m, from, to), figure, s.median);
		}
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

/* --- tables --- */

static void put_heads(FILE *out, const char *const *names, size_t count)
{
	fputs("<div class=\"scroll\"><table class=\"sorted\"><thead><tr>", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "<th><button type=\"button\">%s</button></th>", names[i]);
	fputs("</tr></thead><tbody>\n", out);
}

static void put_links(FILE *out, const struct matrix *m)
{
	static const char *const names[] = { "from", "to",   "state",          "path",
					     "us",   "GB/s", "% retransmitted" };

	fputs("<h2>Paths</h2>\n", out);
	put_heads(out, names, sizeof(names) / sizeof(names[0]));
	for (size_t from = 0; from < m->hosts; from++) {
		for (size_t to = 0; to < m->hosts; to++) {
			const struct cell *cell = matrix_at(m, from, to);

			if (!cell->link)
				continue;
			fputs("<tr>", out);
			put_element(out, "td class=\"text\"", m->names[from]);
			put_element(out, "td class=\"text\"", m->names[to]);
			put_element(out, "td class=\"text\"", cell->is_ok ? "ok" : "broken");
			put_element(out, "td class=\"text\"", cell->path);
			fprintf(out, "<td>%.1f</td><td>%.3f</td><td>%.2f</td></tr>\n", cell->us,
				cell->mb_s / 1e3, 100 * cell->lost);
		}
	}
	fputs("</tbody></table></div>\n", out);
}

static void put_hosts(FILE *out, const json_t *hosts)
{
	static const char *const names[] = { "host",   "address", "anynet", "NCCL",
					     "kernel", "GPUs",    "devices" };
	const json_t *host, *dev;
	size_t i, j;

	fputs("<h2>Hosts</h2>\n", out);
	put_heads(out, names, sizeof(names) / sizeof(names[0]));
	json_array_foreach (hosts, i, host) {
		const json_t *facts = json_object_get(host, "facts");

		fputs("<tr>", out);
		put_element(out, "td class=\"text\"", member_text(host, "name"));
		put_element(out, "td class=\"text\"", member_text(host, "address"));
		put_element(out, "td class=\"text\"", member_text(facts, "version"));
		put_element(out, "td class=\"text\"", host_fact(facts, "nccl", ""));
		put_element(out, "td class=\"text\"", member_text(facts, "kernel"));
		put_element(out, "td class=\"text\"", host_fact(facts, "gpus", ""));
		fputs("<td class=\"text\">", out);
		json_array_foreach (json_object_get(facts, "devices"), j, dev) {
			put_text(out, j ? ", " : "");
			put_text(out, member_text(dev, "name"));
			fprintf(out, " %lld Mb/s", member_int(dev, "speed_mbps", 0, INT32_MAX, 0));
		}
		fputs("</td></tr>\n", out);
	}
	fputs("</tbody></table></div>\n", out);
}

void cluster_html(const json_t *doc, FILE *out)
{
	const json_t *findings = json_object_get(doc, "findings");
	struct matrix m;
	const char *why;

	fputs(head, out);
	put_element(out, "h1", "anynet cluster");
	fputs("\n<p>", out);
	put_text(out, member_text(doc, "when"));
	fprintf(out, ", %zu hosts. ", json_array_size(json_object_get(doc, "hosts")));
	put_text(out, cluster_verdict(findings));
	fputs("</p>\n", out);
	put_findings(out, findings);
	if (!matrix_read(doc, &m, &why)) {
		put_map(out, &m, "Round trips in microseconds", FIGURE_US);
		put_map(out, &m, "Bandwidth in GB/s, from row to column", FIGURE_MB_S);
		put_links(out, &m);
	}
	put_hosts(out, json_object_get(doc, "hosts"));
	fputs(script, out);
	fputs("</body></html>\n", out);
}
