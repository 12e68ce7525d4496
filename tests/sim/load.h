/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a library: each is a separate file, so that the loader gives each its own variables. */
#ifndef TESTS_SIM_LOAD_H
#define TESTS_SIM_LOAD_H

#include "sim/process.h"

#define LOAD_PATH_BYTES 32

/* Loads one copy, which is never unloaded, and returns its path. Its constructors run as that process (NULL: the
 * simulator). Ends the program on failure. */
void *load_copy(const char *library, struct sim_process *constructors, char path[LOAD_PATH_BYTES]);

/* Loads this many copies of the plugin, before the first fork. */
void load_copies(const char *plugin, unsigned count);
bool load_is_copy(const char *path);
bool load_is_plugin(const void *address); /* of a function */

/* An unused copy; the handlers that its constructors registered become the process's. */
const char *load_take(struct sim_process *process);

#endif
