/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the command line. */
#ifndef PERF_ARGS_H
#define PERF_ARGS_H

#include "perf.h"
#include "tools/hosts/hosts_args.h"

struct perf_arguments {
	struct perf_options perf; /* spec NULL = the plugin of this tool */
	struct hosts_options hosts;
};

/* Exits if the command line is wrong. */
void perf_parse(int argc, char **argv, struct perf_arguments *a);

/* Returns the options that have to be the same on all hosts, as a command line. */
char *perf_words(const struct perf_options *o);

bool perf_is_of_two(int ranks);

#endif
