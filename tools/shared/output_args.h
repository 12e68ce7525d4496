/* SPDX-License-Identifier: Apache-2.0 */
/* --color and --quiet, for the commands that print findings; children of their argp. One of each per process. */
#ifndef SHARED_OUTPUT_ARGS_H
#define SHARED_OUTPUT_ARGS_H

#include <argp.h>
#include <stdbool.h>

extern const struct argp_child color_args[];  /* --color, which terminal_of obeys */
extern const struct argp_child output_args[]; /* and --quiet */

/* Nothing but warnings and errors is to be printed. */
bool output_is_quiet(void);

#endif
