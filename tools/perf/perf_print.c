/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: output in the format of nccl-tests, as CSV or as JSON. */
#include "perf.h"
#include "tools/shared/document.h"

#include <jansson.h>
#include <stdio.h>

static struct {
	double busbw_sum;
	int rows;
	uint64_t wrong;
	json_t *json_rows;
} totals;

static const char *type_name(const struct perf_options *opts)
{
	return opts->type == PERF_INT32 ? "int32" : "float";
}

static const char *redop_name(const struct perf_options *opts)
{
	return opts->pattern->has_sums ? "sum" : "none";
}

static void print_table_head(const struct perf_options *o, const struct perf_report *report)
{
	printf("# anynet perf " ANYNET_VERSION ": %s, %d rank%s", o->pattern->title, o->ranks,
	       o->ranks == 1 ? "" : "s");
	if (o->ranks > o->here)
		printf(" on %d hosts", o->ranks / o->here);
	printf(", one process each, host memory");
	if (o->pattern->has_sums)
		printf(", %d channel%s", o->channels, o->channels == 1 ? "" : "s");
	printf("\n# minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d "
	       "validation: %d\n",
	       o->min_bytes, o->max_bytes, o->step_bytes ? o->step_bytes : (size_t)o->factor,
	       o->step_bytes ? "bytes" : "factor", o->warmups, o->iterations, o->check);
	printf("#\n# Net %s, API v%d, from %s\n", report->net, report->abi, report->path);
	for (int i = 0; i < o->ranks; i++) {
		const struct perf_place *at = &report->places[i];

		printf("#  Rank %2d Pid %6d on %s device %2d [%s] %d Mb/s\n", i, at->pid, at->host,
		       o->dev, at->device, at->speed_mbps);
	}
	printf("#\n# %10s %13s %9s %7s %10s %7s %7s %7s\n", "size", "count", "type", "redop",
	       "time", "algbw", "busbw", "#wrong");
	printf("# %10s %13s %9s %7s %10s %7s %7s %7s\n", "(B)", "(elements)", "", "", "(us)",
	       "(GB/s)", "(GB/s)", "");
}

void perf_print_head(const struct perf_options *o, const struct perf_report *report)
{
	switch (o->format) {
	case PERF_CSV:
		printf("size_bytes,count,type,redop,time_us,algbw_gbps,busbw_gbps,wrong\n");
		break;
	case PERF_JSON:
		totals.json_rows = json_array();
		break;
	default:
		print_table_head(o, report);
	}
	fflush(stdout);
}

static void print_table_row(const struct perf_options *o, const struct perf_row *row)
{
	int digits = row->time_us >= 10000 ? 0 : row->time_us >= 100 ? 1 : 2;

	printf("  %10zu %13zu %9s %7s %10.*f %7.2f %7.2f ", row->bytes, row->count, type_name(o),
	       redop_name(o), digits, row->time_us, row->algbw, row->busbw);
	if (o->check)
		printf("%7llu\n", (unsigned long long)row->wrong);
	else
		printf("%7s\n", "N/A");
}

void perf_print_row(const struct perf_options *o, const struct perf_row *row)
{
	totals.busbw_sum += row->busbw;
	totals.wrong += row->wrong;
	totals.rows++;
	switch (o->format) {
	case PERF_CSV:
		printf("%zu,%zu,%s,%s,%.3f,%.6f,%.6f,", row->bytes, row->count, type_name(o),
		       redop_name(o), row->time_us, row->algbw, row->busbw);
		if (o->check)
			printf("%llu", (unsigned long long)row->wrong);
		printf("\n");
		break;
	case PERF_JSON:
		json_array_append_new(
			totals.json_rows,
			json_pack("{s:I, s:I, s:s, s:s, s:f, s:f, s:f, s:o}", "size_bytes",
				  (json_int_t)row->bytes, "count", (json_int_t)row->count, "type",
				  type_name(o), "redop", redop_name(o), "time_us", row->time_us,
				  "algbw_gbps", row->algbw, "busbw_gbps", row->busbw, "wrong",
				  o->check ? json_integer((json_int_t)row->wrong) : json_null()));
		break;
	default:
		print_table_row(o, row);
	}
	fflush(stdout);
}

static json_t *processes(const struct perf_options *o, const struct perf_report *report)
{
	json_t *all = json_array();

	for (int i = 0; i < o->ranks; i++) {
		const struct perf_place *at = &report->places[i];

		json_array_append_new(all, json_pack("{s:i, s:s, s:i, s:s, s:i}", "rank", i, "host",
						     at->host, "pid", at->pid, "device", at->device,
						     "speed_mbps", at->speed_mbps));
	}
	return all;
}

static void print_json(const struct perf_options *o, const struct perf_report *report, double mean)
{
	json_t *all;

	all = json_pack(
		"{s:s, s:i, s:i, s:i, s:{s:s, s:i, s:s, s:s}, s:o, s:i, s:i, s:o, s:I, s:f}",
		"pattern", o->pattern->name, "hosts", o->ranks / o->here, "ranks", o->ranks,
		"channels", o->channels, "net", "name", report->net, "abi", report->abi, "path",
		report->path, "device", report->places[0].device, "processes", processes(o, report),
		"warmups", o->warmups, "iterations", o->iterations, "rows", totals.json_rows,
		"wrong", (json_int_t)totals.wrong, "mean_busbw_gbps", mean);
	document_print("perf", all, stdout);
}

void perf_print_end(const struct perf_options *o, const struct perf_report *report)
{
	double mean = totals.rows ? totals.busbw_sum / totals.rows : 0;

	if (o->format == PERF_JSON)
		print_json(o, report, mean);
	if (o->format != PERF_TABLE)
		return;
	if (o->check)
		printf("# Out of bounds values : %llu %s\n", (unsigned long long)totals.wrong,
		       totals.wrong ? "FAILED" : "OK");
	printf("# Avg bus bandwidth    : %g\n", mean);
}
