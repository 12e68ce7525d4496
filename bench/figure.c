/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds over all nets, medians, the table and the CSV. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_BYTES 300

/* values[case][net][metric][round] */
struct results {
	double *values;
	int rounds, nets;
};

static double *series(const struct results *r, int which_case, int net, int metric)
{
	size_t index = ((size_t)which_case * (size_t)r->nets + (size_t)net) * BENCH_METRICS_MAX +
		       (size_t)metric;

	return r->values + index * (size_t)r->rounds;
}

static double median(const struct results *r, int which_case, int net, int metric)
{
	double values[BENCH_ROUNDS_MAX];

	memcpy(values, series(r, which_case, net, metric), (size_t)r->rounds * sizeof(double));
	return median_of(values, r->rounds);
}

/* First net / this net: the median of the ratios of each round. The speed of a virtual machine
 * drifts, and the measurements of one round are close in time. */
static double ratio(const struct results *r, int which_case, int net, int metric)
{
	const double *first = series(r, which_case, 0, metric);
	const double *other = series(r, which_case, net, metric);
	double ratios[BENCH_ROUNDS_MAX];

	for (int i = 0; i < r->rounds; i++)
		ratios[i] = first[i] / other[i];
	return median_of(ratios, r->rounds);
}

static int metric_count(const struct bench_figure *f)
{
	int n = 0;

	while (n < BENCH_METRICS_MAX && f->metrics[n])
		n++;
	return n;
}

static void print_number(double value, int width)
{
	if (isinf(value))
		printf(" %*s", width, "never");
	else if (isnan(value))
		printf(" %*s", width, "-");
	else
		printf(" %*.*f", width,
		       value >= 1000  ? 0
		       : value >= 100 ? 1
		       : value >= 10  ? 2
				      : 3,
		       value);
}

static void print_head(const struct bench_figure *f, const struct bench_options *opts)
{
	int metrics = metric_count(f);

	printf("#%s%s%s", f->has_size ? "  size(B)" : "", f->has_comms ? " comms" : "",
	       f->has_ways ? " ways" : "");
	for (int net = 0; net < opts->net_count; net++) {
		printf(" |");
		for (int m = 0; m < metrics; m++)
			printf(" %9s", f->metrics[m]);
	}
	for (int net = 1; net < opts->net_count; net++) {
		printf(" |");
		for (int m = 0; m < (net == 1 ? f->ratios : 1); m++)
			printf(" 1/%d %8s", net + 1, f->metrics[m]);
	}
	printf("\n");
}

static void print_row(const struct bench_figure *f, const struct bench_options *opts,
		      const struct results *r, const struct bench_case *c, int which_case)
{
	int metrics = metric_count(f);

	printf(" ");
	if (f->has_size)
		printf(" %8zu", c->bytes);
	if (f->has_comms)
		printf(" %5d", c->comms);
	if (f->has_ways)
		printf(" %4d", c->ways);
	for (int net = 0; net < opts->net_count; net++) {
		printf(" |");
		for (int m = 0; m < metrics; m++)
			print_number(median(r, which_case, net, m), 9);
	}
	for (int net = 1; net < opts->net_count; net++) {
		printf(" |");
		for (int m = 0; m < (net == 1 ? f->ratios : 1); m++)
			printf(" %12.3f", ratio(r, which_case, net, m));
	}
	printf("\n");
	fflush(stdout);
}

/* Writes one line for each net, metric and round: raw values. */
static void write_csv(const struct bench_figure *f, const struct bench_options *opts,
		      const struct results *r, const struct bench_case *c, int which_case)
{
	if (!opts->csv)
		return;
	for (int net = 0; net < opts->net_count; net++) {
		for (int m = 0; m < metric_count(f); m++) {
			for (int round = 0; round < r->rounds; round++)
				fprintf(opts->csv, "%s,%d,\"%s\",%zu,%d,%d,%d,%s,%.6g\n", f->name,
					net + 1, opts->nets[net].text, c->bytes, c->comms, c->ways,
					round, f->metrics[m], series(r, which_case, net, m)[round]);
		}
	}
	fflush(opts->csv);
}

static int measure_once(const struct bench_figure *f, const struct bench_options *opts,
			const struct bench_case *c, int net, double *values, char *label)
{
	const struct bench_area *area;
	struct group g;
	int ret;

	for (int m = 0; m < BENCH_METRICS_MAX; m++)
		values[m] = NAN;
	ret = pair_run(&g, f, opts, &opts->nets[net], c);
	if (!g.area)
		return GROUP_ERROR;
	area = g.area;
	snprintf(label, LABEL_BYTES, "%s", area->label);
	for (int m = 0; !ret && m < BENCH_METRICS_MAX; m++)
		values[m] = area->values[m];
	group_destroy(&g);
	if (ret)
		fprintf(stderr, "net_bench: %s failed with %s\n", f->name, opts->nets[net].text);
	return ret;
}

/* Measures one case with all nets, round by round, so that disturbances affect all nets alike. */
static int measure_case(const struct bench_figure *f, const struct bench_options *opts,
			const struct bench_case *c, int which_case, struct results *r)
{
	int worst = GROUP_OK;

	for (int round = 0; round < r->rounds; round++) {
		for (int net = 0; net < opts->net_count; net++) {
			char label[LABEL_BYTES] = "";
			double values[BENCH_METRICS_MAX];

			if (measure_once(f, opts, c, net, values, label))
				worst = GROUP_ERROR;
			for (int m = 0; m < BENCH_METRICS_MAX; m++)
				series(r, which_case, net, m)[round] = values[m];
			if (!which_case && !round)
				printf("# %d: %s (%s)\n", net + 1, opts->nets[net].text, label);
		}
	}
	return worst;
}

int bench_run(const struct bench_figure *f, const struct bench_options *opts)
{
	struct bench_case cases[BENCH_CASES_MAX];
	int count = f->cases(opts, cases), worst = GROUP_OK;
	struct results r = { .rounds = opts->rounds, .nets = opts->net_count };

	if (f->rounds_max && r.rounds > f->rounds_max)
		r.rounds = f->rounds_max;
	r.values = calloc((size_t)count * (size_t)r.nets * BENCH_METRICS_MAX * (size_t)r.rounds,
			  sizeof(double));
	if (!r.values)
		return GROUP_ERROR;
	printf("#\n# %s: %s; medians of %d round%s\n", f->name, f->title, r.rounds,
	       r.rounds == 1 ? "" : "s");
	for (int i = 0; i < count; i++) {
		if (measure_case(f, opts, &cases[i], i, &r))
			worst = GROUP_ERROR;
		if (!i)
			print_head(f, opts);
		print_row(f, opts, &r, &cases[i], i);
		write_csv(f, opts, &r, &cases[i], i);
	}
	free(r.values);
	return worst;
}
