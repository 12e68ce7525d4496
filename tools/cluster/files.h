/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the command line of anynet cluster names. */
#ifndef CLUSTER_FILES_H
#define CLUSTER_FILES_H

#include <argp.h>
#include <jansson.h>
#include <stddef.h>

/* The whole file, with a zero behind it; NULL: it cannot be read, or is too large. The caller's. */
char *files_read(const char *path, size_t *bytes);

/* An earlier run, without what is not compared. Ends the program if it is none. */
json_t *files_baseline(struct argp_state *state, const char *path);

#endif
