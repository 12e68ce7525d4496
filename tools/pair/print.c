/* SPDX-License-Identifier: Apache-2.0 */
/* Text output; see print.h. */
#include "print.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "tools/shared/clean.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/hosts.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/member.h"
#include "tools/shared/output_args.h"

#define LINE_MAX_BYTES 2048
#define WIDTH          96 /* columns of advice if the terminal's width is unknown */
#define INDENT         7
#define FINDING_INDENT 9
#define ACCOUNT_TEXT   120

void print_line(FILE *out, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	clean(text, sizeof(text), line, strlen(line));
	fprintf(out, "%s\n", text);
	fflush(out);
}

/* As print_line, in several lines. */
static void print_wrapped(FILE *out, int width, int indent, const char *line)
{
	char text[LINE_MAX_BYTES];

	clean(text, sizeof(text), line, strlen(line));
	terminal_wrap(out, width, 0, indent, text);
	fflush(out);
}

void print_row(FILE *out, const struct terminal *terminal, int indent, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	print_wrapped(out, terminal_width(terminal, 0), indent, line);
}

/* Prints "  fix    text". */
static void print_advice(FILE *out, const struct terminal *terminal, const char *head,
			 const char *text)
{
	char line[LINE_MAX_BYTES];

	if (!*text)
		return;
	snprintf(line, sizeof(line), "  %-6s %s", head, text);
	print_wrapped(out, terminal_width(terminal, WIDTH), FINDING_INDENT, line);
}

static void print_host(FILE *out, const struct terminal *t, const char *which, const json_t *facts)
{
	const json_t *dev;
	size_t i;

	print_row(out, t, INDENT, "host   %.64s (%s): anynet %.32s, NCCL %.64s, Linux %.64s",
		  member_text(facts, "host"), which, member_text(facts, "version"),
		  host_fact(facts, "nccl", "not on the library search path"),
		  member_text(facts, "kernel"));
	if (json_is_null(json_object_get(facts, "gpus")))
		print_row(out, t, INDENT, "       GPUs not known: NVML did not answer");
	else if (*member_text(facts, "gpus"))
		print_row(out, t, INDENT, "       %.200s, driver %.32s", member_text(facts, "gpus"),
			  member_text(facts, "driver"));
	json_array_foreach (json_object_get(facts, "devices"), i, dev)
		print_row(out, t, INDENT, "       device %zu  %.64s  %.3s  %lld Mb/s  %.16s %.64s",
			  i, member_text(dev, "name"), member_text(dev, "transport"),
			  member_int(dev, "speed_mbps", 0, INT32_MAX, 0),
			  member_text(dev, "interface"), member_text(dev, "address"));
}

static void print_way(FILE *out, const struct terminal *t, const json_t *result)
{
	const json_t *both = json_object_get(result, "way");
	const json_t *here = json_object_get(both, "local"),
		     *there = json_object_get(both, "remote");
	const json_t *clock = json_object_get(result, "clock"), *port;
	double offset = member_real(clock, "offset_ns") / 1e6;
	size_t i;

	print_row(out, t, INDENT, "path   %.64s (%.16s, MTU %lld) to %.64s (%.16s, MTU %lld)",
		  member_text(here, "local"), member_text(here, "interface"),
		  member_int(here, "mtu", 0, INT32_MAX, 0), member_text(there, "local"),
		  member_text(there, "interface"), member_int(there, "mtu", 0, INT32_MAX, 0));
	json_array_foreach (json_object_get(result, "ports"), i, port) {
		if (strcmp(member_text(port, "state"), "ok") ||
		    strcmp(member_text(port, "to"), "server"))
			continue;
		print_row(out, t, INDENT,
			  "       path MTU %lld, segments of %lld bytes, according to this kernel",
			  member_int(port, "pmtu", 0, INT32_MAX, 0),
			  member_int(port, "mss", 0, INT32_MAX, 0));
		break;
	}
	if (clock)
		print_row(out, t, INDENT, "clock  other host %.3f ms %s, accurate to %.3f ms",
			  fabs(offset), offset < 0 ? "behind" : "ahead",
			  member_real(clock, "error_ns") / 1e6);
}

static const char *arrow(const json_t *item)
{
	return strcmp(member_text(item, "to"), "server") ? "inbound " : "outbound";
}

static void print_ports(FILE *out, const struct terminal *t, const json_t *result)
{
	const json_t *p;
	size_t i;

	json_array_foreach (json_object_get(result, "ports"), i, p)
		print_row(out, t, INDENT, "port   %s  %.64s:%lld%s%.64s  %.20s", arrow(p),
			  member_text(p, "address"), member_int(p, "port", 0, 65535, 0),
			  *member_text(p, "device") ? " of " : "", member_text(p, "device"),
			  member_text(p, "state"));
}

static double rate(const json_t *run)
{
	double us = member_real(run, "us");

	return us > 0 ? member_real(run, "bytes") / us / 1e3 : 0;
}

/* Returns "  3 of 707 segments retransmitted, bottleneck: network", if TCP_INFO is known. */
static const char *account(const json_t *s, char *text, size_t room)
{
	*text = '\0';
	if (member_int(s, "segments", 1, INT64_MAX, 0))
		snprintf(text, room, "  %lld of %lld segments retransmitted, bottleneck: %s",
			 member_int(s, "retransmits", 0, INT64_MAX, 0),
			 member_int(s, "segments", 0, INT64_MAX, 0), verdict_limit(s));
	return text;
}

static void print_streams(FILE *out, const struct terminal *t, const json_t *result)
{
	char text[ACCOUNT_TEXT];
	const json_t *s;
	size_t i;

	json_array_foreach (json_object_get(result, "tcp"), i, s)
		if (!strcmp(member_text(s, "state"), "ok"))
			print_row(out, t, INDENT, "tcp    %s   1 stream   %7.3f GB/s%s", arrow(s),
				  rate(s), account(s, text, sizeof(text)));
}

static void print_plugin(FILE *out, const struct terminal *t, const json_t *p)
{
	const json_t *latency = json_object_get(p, "latency"), *run;
	char text[ACCOUNT_TEXT];
	size_t i;

	if (json_is_object(latency))
		print_row(
			out, t, INDENT,
			"plugin %.3s   round trip of 8 bytes: min %.1f, median %.1f, p90 %.1f, p99 "
			"%.1f, p99.9 %.1f, max %.1f us (%lld)",
			member_text(p, "transport"), member_real(latency, "min"),
			member_real(latency, "median"), member_real(latency, "p90"),
			member_real(latency, "p99"), member_real(latency, "p999"),
			member_real(latency, "max"), member_int(latency, "count", 0, INT32_MAX, 0));
	json_array_foreach (json_object_get(p, "runs"), i, run) {
		long long channels = member_int(run, "channels", 1, 64, 1);

		print_row(out, t, INDENT, "plugin %.3s   %s  %2lld connection%s  %7.3f GB/s%s",
			  member_text(p, "transport"), arrow(run), channels,
			  channels == 1 ? " " : "s", rate(run), account(run, text, sizeof(text)));
	}
}

void print_finding(FILE *out, const json_t *f, const struct terminal *t)
{
	const char *level = member_text(f, "level");
	const char *on = !strcmp(level, "error")     ? "\033[31m"
			 : !strcmp(level, "warning") ? "\033[33m"
						     : "";

	if (t->colour)
		fputs(on, out);
	print_row(out, t, FINDING_INDENT, "%s: %s", level, member_text(f, "finding"));
	if (t->colour)
		fputs("\033[0m", out);
	print_advice(out, t, "why", member_text(f, "why"));
	print_advice(out, t, "fix", member_text(f, "fix"));
}

void print_findings(FILE *out, const json_t *findings, const struct terminal *t)
{
	const json_t *finding;
	size_t i;

	json_array_foreach (findings, i, finding) {
		if (!output_is_quiet() || strcmp(member_text(finding, "level"), "note") != 0)
			print_finding(out, finding, t);
	}
}

void print_result(const json_t *result, FILE *out, const struct terminal *t)
{
	static const char *const verdicts[] = {
		"ok: these two hosts can work together",
		"warnings: jobs work, but see the findings",
		"errors: NCCL will fail or hang between these hosts; see the findings",
	};
	const json_t *item, *findings = json_object_get(result, "findings");
	size_t i;

	if (output_is_quiet()) {
		print_findings(out, findings, t);
		return;
	}
	print_host(out, t, "this host", json_object_get(result, "local"));
	if (json_object_get(result, "remote")) {
		print_host(out, t, "other host", json_object_get(result, "remote"));
		print_way(out, t, result);
	}
	print_ports(out, t, result);
	print_streams(out, t, result);
	json_array_foreach (json_object_get(result, "plugin"), i, item)
		print_plugin(out, t, item);
	print_findings(out, findings, t);
	print_row(out, t, FINDING_INDENT, "%s",
		  !verdict_is_unmeasured(findings) ? verdicts[findings_status(findings)]
		  : json_object_get(result, "remote")
			  ? "incomplete: NCCL between these hosts was not fully tested"
			  : "nothing was measured: NCCL between these hosts was not tested");
}
