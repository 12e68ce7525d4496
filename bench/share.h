/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by net_bench and real_bench: nets on the command line, medians, the CSV. */
#ifndef BENCH_SHARE_H
#define BENCH_SHARE_H

#include <argp.h>
#include <stdio.h>

/* For "VAR=VALUE … SPEC": net_spec returns the last word, net_set_environment sets the variables
 * before it. */
const char *net_spec(const char *text);
void net_set_environment(const char *text);

/* Opens the file that every round's numbers are appended to. Exits if it cannot be opened. */
FILE *csv_open(struct argp_state *state, const char *path);

/* Returns the median. Sorts the values. */
double median_of(double *values, int count);

#endif
