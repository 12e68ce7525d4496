/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the plugin: a file each, so that the loader makes a library of each, with its own variables. */
#ifndef TESTS_SIM_LOAD_H
#define TESTS_SIM_LOAD_H

#include "sim/process.h"

/* Load that many, before the first fork; they are never unloaded. */
void load_copies(const char *plugin, unsigned count);
bool load_is_copy(const char *path);

/* One that no process has had yet; what its constructors registered becomes the process's. */
const char *load_take(struct sim_process *process);

#endif
