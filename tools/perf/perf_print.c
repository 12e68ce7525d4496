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

static void print_table_head(const struct perf_rank *r)
{
	const struct perf_options *o = r->opts;

	printf("# anynet perf " ANYNET_VERSION ": %s, %d rank%s, one process each, host memory",
	       o->pattern->title, o->ranks, o->ranks == 1 ? "" : "s");
	if (r->rings)
		printf(", %d channel%s", o->channels, o->channels == 1 ? "" : "s");
	printf("\n# minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d "
	       "validation: %d\n",
	       o->min_bytes, o->max_bytes, o->step_bytes ? o->step_bytes : (size_t)o->factor,
	       o->step_bytes ? "bytes" : "factor", o->warmups, o->iterations, o->check);
	printf("#\n# Net %s, API v%d, from %s\n", driver_name(r->ep.net), driver_abi(r->ep.net),
	       driver_path(r->ep.net));
	for (int i = 0; i < o->ranks; i++)
		printf("#  Rank %2d Pid %6d device %2d [%s] %d Mb/s\n", i, r->area->pid[i], o->dev,
		       r->ep.props.name, r->ep.props.speed_mbps);
	printf("#\n# %10s %13s %9s %7s %10s %7s %7s %7s\n", "size", "count", "type", "redop",
	       "time", "algbw", "busbw", "#wrong");
	printf("# %10s %13s %9s %7s %10s %7s %7s %7s\n", "(B)", "(elements)", "", "", "(us)",
	       "(GB/s)", "(GB/s)", "");
}

void perf_print_head(const struct perf_rank *r)
{
	switch (r->opts->format) {
	case PERF_CSV:
		printf("size_bytes,count,type,redop,time_us,algbw_gbps,busbw_gbps,wrong\n");
		break;
	case PERF_JSON:
		totals.json_rows = json_array();
		break;
	default:
		print_table_head(r);
	}
	fflush(stdout);
}

static void print_table_row(const struct perf_rank *r, const struct perf_row *row)
{
	int digits = row->time_us >= 10000 ? 0 : row->time_us >= 100 ? 1 : 2;

	printf("  %10zu %13zu %9s %7s %10.*f %7.2f %7.2f ", row->bytes, row->count,
	       type_name(r->opts), r->opts->pattern->redop, digits, row->time_us, row->algbw,
	       row->busbw);
	if (r->opts->check)
		printf("%7llu\n", (unsigned long long)row->wrong);
	else
		printf("%7s\n", "N/A");
}

void perf_print_row(const struct perf_rank *r, const struct perf_row *row)
{
	totals.busbw_sum += row->busbw;
	totals.wrong += row->wrong;
	totals.rows++;
	switch (r->opts->format) {
	case PERF_CSV:
		printf("%zu,%zu,%s,%s,%.3f,%.6f,%.6f,", row->bytes, row->count, type_name(r->opts),
		       r->opts->pattern->redop, row->time_us, row->algbw, row->busbw);
		if (r->opts->check)
			printf("%llu", (unsigned long long)row->wrong);
		printf("\n");
		break;
	case PERF_JSON:
		json_array_append_new(totals.json_rows,
				      json_pack("{s:I, s:I, s:s, s:s, s:f, s:f, s:f, s:o}",
						"size_bytes", (json_int_t)row->bytes, "count",
						(json_int_t)row->count, "type", type_name(r->opts),
						"redop", r->opts->pattern->redop, "time_us",
						row->time_us, "algbw_gbps", row->algbw,
						"busbw_gbps", row->busbw, "wrong",
						r->opts->check
							? json_integer((json_int_t)row->wrong)
							: json_null()));
		break;
	default:
		print_table_row(r, row);
	}
	fflush(stdout);
}

static void print_json(const struct perf_rank *r, double mean)
{
	const struct perf_options *o = r->opts;
	json_t *all;

	all = json_pack("{s:s, s:i, s:i, s:{s:s, s:i, s:s, s:s}, s:i, s:i, s:o, s:I, s:f}",
			"pattern", o->pattern->name, "ranks", o->ranks, "channels", o->channels,
			"net", "name", driver_name(r->ep.net), "abi", driver_abi(r->ep.net), "path",
			driver_path(r->ep.net), "device", r->ep.props.name, "warmups", o->warmups,
			"iterations", o->iterations, "rows", totals.json_rows, "wrong",
			(json_int_t)totals.wrong, "mean_busbw_gbps", mean);
	document_print("perf", all, stdout);
}

void perf_print_end(const struct perf_rank *r)
{
	double mean = totals.rows ? totals.busbw_sum / totals.rows : 0;

	if (r->opts->format == PERF_JSON)
		print_json(r, mean);
	if (r->opts->format != PERF_TABLE)
		return;
	if (r->opts->check)
		printf("# Out of bounds values : %llu %s\n", (unsigned long long)totals.wrong,
		       totals.wrong ? "FAILED" : "OK");
	printf("# Avg bus bandwidth    : %g\n", mean);
}
