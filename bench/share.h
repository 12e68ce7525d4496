/* SPDX-License-Identifier: Apache-2.0 */
/* What net_bench and real_bench have in common: nets on the command line, medians, the CSV. */
#ifndef BENCH_SHARE_H
#define BENCH_SHARE_H

#include <argp.h>
#include <stdio.h>

/* In "VAR=VALUE … SPEC": the last word, and the environment as the words in front of it say. */
const char *net_spec(const char *text);
void net_set_environment(const char *text);

/* The file to append every round's numbers to; ends the process if it cannot be opened. */
FILE *csv_open(struct argp_state *state, const char *path);

int compare_doubles(const void *a, const void *b);
/* Sorts the values. */
double median_of(double *values, int count);

#endif
