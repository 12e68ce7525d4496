/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a library: a file each, so that the loader makes a library of each, with its own variables. */
#ifndef TESTS_SIM_LOAD_H
#define TESTS_SIM_LOAD_H

#include "sim/process.h"

#define LOAD_PATH_BYTES 32

/* One copy, which is never unloaded, and its path. Its constructors run as that process (NULL: the simulator). Ends the
 * program if there is none. */
void *load_copy(const char *library, struct sim_process *constructors, char path[LOAD_PATH_BYTES]);

/* That many of the plugin, before the first fork. */
void load_copies(const char *plugin, unsigned count);
bool load_is_copy(const char *path);

/* One that no process has had yet; what its constructors registered becomes the process's. */
const char *load_take(struct sim_process *process);

#endif
