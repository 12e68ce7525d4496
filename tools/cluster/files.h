/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files named on the command line of anynet cluster. */
#ifndef CLUSTER_FILES_H
#define CLUSTER_FILES_H

#include <argp.h>
#include <jansson.h>
#include <stddef.h>

/* Returns the whole file, NUL-terminated; the caller frees it. NULL if it cannot be read or is too large. */
char *files_read(const char *path, size_t *bytes);

/* Reads an earlier run, without the parts that are not compared. Exits with an error if it is not valid. */
json_t *files_baseline(struct argp_state *state, const char *path);

#endif
