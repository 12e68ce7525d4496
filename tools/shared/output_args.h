/* SPDX-License-Identifier: Apache-2.0 */
/* --color and --quiet for commands that print findings: children of their argp. The values are
 * global to the process. */
#ifndef SHARED_OUTPUT_ARGS_H
#define SHARED_OUTPUT_ARGS_H

#include <argp.h>
#include <stdbool.h>

extern const struct argp_child color_args[];  /* --color; terminal_of applies it */
extern const struct argp_child output_args[]; /* --color and --quiet */
extern const struct argp output_argp;         /* the same, for a command with more children */

/* True if only warnings and errors are to be printed. */
bool output_is_quiet(void);

#endif
