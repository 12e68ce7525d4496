/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the command line. */
#ifndef TOOLS_PERF_ARGS_H
#define TOOLS_PERF_ARGS_H

#include "perf.h"

/* Exits with a message if an argument is invalid. */
void perf_parse(int argc, char **argv, struct perf_options *opts);

#endif
