/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: one session as nccl-tests prints it, and the medians of all rounds with the nets side by side. */
#include "real.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "share.h"

#define LABEL_BYTES 60

/* One row in all rounds. */
struct series {
	struct real_row row;
	double seconds[REAL_NETS_MAX][REAL_ROUNDS_MAX]; /* 0 = not measured */
};

struct results {
	const struct real_options *opts;
	struct series series[REAL_ROWS_MAX];
	int count;
};

struct results *results_create(const struct real_options *opts)
{
	struct results *r = calloc(1, sizeof(*r));

	if (r)
		r->opts = opts;
	return r;
}

void results_destroy(struct results *r)
{
	free(r);
}

static double bandwidth(const struct real_row *row, double seconds)
{
	return (double)row->bytes / seconds / 1e9;
}

static double bus_bandwidth(const struct real_row *row, double seconds, int ranks)
{
	return bandwidth(row, seconds) * real_tests[row->test].bus(ranks);
}

static void write_csv(const struct real_options *opts, const struct real_row *row, int net,
		      int round)
{
	const char *metrics[] = { "time_us", "busbw_GB/s" };
	double values[] = { row->seconds * 1e6, bus_bandwidth(row, row->seconds, opts->ranks) };

	for (int i = 0; i < 2; i++)
		fprintf(opts->csv, "%s,%d,\"%s\",%zu,%d,1,%d,%s,%.6g\n", real_tests[row->test].name,
			net + 1, opts->nets[net].text, row->bytes, opts->ranks, round, metrics[i],
			values[i]);
}

void results_add(struct results *r, int net, int round, const struct real_area *area)
{
	for (int i = 0; i < area->row_count; i++) {
		const struct real_row *row = &area->rows[i];
		struct series *series = r->series;

		while (series < r->series + r->count &&
		       (series->row.test != row->test || series->row.bytes != row->bytes))
			series++;
		if (series == r->series + r->count) {
			series->row = *row;
			r->count++;
		}
		series->seconds[net][round] = row->seconds;
		if (r->opts->csv)
			write_csv(r->opts, row, net, round);
	}
}

void print_head(const struct real_options *opts)
{
	printf("# real_bench %s: %d ranks, one process each, all on GPU %d, NCCL_HOSTID apart\n",
	       ANYNET_VERSION, opts->ranks, opts->device);
	printf("# minBytes %zu maxBytes %zu step: %d(factor) warmup iters: %d iters: %d (fewer "
	       "above 1 MiB) validation: 1\n",
	       opts->bytes_min, opts->bytes_max, opts->factor, opts->warmups, opts->iterations);
}

static void print_columns(const char *name)
{
	printf("#\n# %s\n#%11s %13s %9s %7s %10s %7s %7s %7s\n", name, "size", "count", "type",
	       "redop", "time", "algbw", "busbw", "#wrong");
	printf("#%11s %13s %9s %7s %10s %7s %7s\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)",
	       "(GB/s)");
}

void print_rows(const struct real_area *area, int ranks)
{
	int test = -1;

	for (int i = 0; i < area->row_count; i++) {
		const struct real_row *row = &area->rows[i];

		if (row->test != test)
			print_columns(real_tests[row->test].name);
		test = row->test;
		printf("%12zu %13zu %9s %7s %10.1f %7.2f %7.2f %7llu\n", row->bytes, row->count,
		       "float", real_tests[test].redop, row->seconds * 1e6,
		       bandwidth(row, row->seconds), bus_bandwidth(row, row->seconds, ranks),
		       (unsigned long long)row->wrong);
	}
	for (int i = 0; i < real_test_count; i++) {
		if (area->notes[i][0])
			printf("# %-8s %s\n", real_tests[i].name, area->notes[i]);
	}
	if (area->cuts)
		printf("# %u connections of the plugin were shut meanwhile\n", area->cuts);
	fflush(stdout);
}

/* Returns 0 if the row was measured in no round. */
static double time_median(const struct series *s, int net, int rounds)
{
	double values[REAL_ROUNDS_MAX];
	int count = 0;

	for (int i = 0; i < rounds; i++) {
		if (s->seconds[net][i] > 0)
			values[count++] = s->seconds[net][i];
	}
	return count ? median_of(values, count) : 0;
}

/* Time of the first net / this net: the median of the ratios of each round, whose measurements are
 * close in time. Returns 0 if no round has both. */
static double time_ratio(const struct series *s, int net, int rounds)
{
	double ratios[REAL_ROUNDS_MAX];
	int count = 0;

	for (int i = 0; i < rounds; i++) {
		if (s->seconds[0][i] > 0 && s->seconds[net][i] > 0)
			ratios[count++] = s->seconds[0][i] / s->seconds[net][i];
	}
	return count ? median_of(ratios, count) : 0;
}

static void print_series(const struct results *r, const struct series *s)
{
	int rounds = r->opts->rounds;

	printf("%15s %12zu", real_tests[s->row.test].name, s->row.bytes);
	for (int net = 0; net < r->opts->net_count; net++) {
		double seconds = time_median(s, net, rounds), ratio = time_ratio(s, net, rounds);

		if (seconds > 0)
			printf(" | %10.1f %7.2f", seconds * 1e6,
			       bus_bandwidth(&s->row, seconds, r->opts->ranks));
		else
			printf(" | %10s %7s", "-", "-");
		if (net && ratio > 0)
			printf("  time %5.2f busbw %5.2f", ratio, 1 / ratio);
	}
	printf("\n");
}

void results_print(const struct results *r)
{
	const struct real_options *opts = r->opts;

	if (!r->count || opts->net_count < 2)
		return;
	printf("#\n# medians of %d rounds, in which the nets take turns: us, bus bandwidth in GB/s; "
	       "ratios: first net / this one, the median of the rounds'\n",
	       opts->rounds);
	for (int net = 0; net < opts->net_count; net++)
		printf("# net %d: %s\n", net, opts->nets[net].text);
	for (int i = 0; i < r->count; i++)
		print_series(r, &r->series[i]);
}
