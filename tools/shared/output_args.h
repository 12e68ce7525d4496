/* SPDX-License-Identifier: Apache-2.0 */
/* --json, --color and --quiet: children of a command's argp. The values are global to the process. */
#ifndef SHARED_OUTPUT_ARGS_H
#define SHARED_OUTPUT_ARGS_H

#include <argp.h>
#include <stdbool.h>

extern const struct argp_child json_args[]; /* --json */
extern const struct argp_child view_args[]; /* --json and --color; terminal_of applies --color */
/* --json, --color and --quiet, for what prints findings; output_argp: for a command with more children */
extern const struct argp_child output_args[];
extern const struct argp output_argp;

bool output_is_json(void);

/* True if only warnings and errors are to be printed. */
bool output_is_quiet(void);

#endif
