/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the document of a run (matrix.h) with its findings. */
#ifndef CLUSTER_PRINT_H
#define CLUSTER_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/shared/terminal.h"

/* As text. */
void cluster_print(const json_t *doc, FILE *out, const struct terminal *terminal);

/* As a self-contained HTML page with heat maps, sortable tables and all findings. */
void cluster_html(const json_t *doc, FILE *out);

/* Returns the summary line that fits the findings. */
const char *cluster_verdict(const json_t *findings);

#endif
