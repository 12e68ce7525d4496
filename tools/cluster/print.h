/* SPDX-License-Identifier: Apache-2.0 */
/* A run for people: in the terminal, and as a page. */
#ifndef CLUSTER_PRINT_H
#define CLUSTER_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/shared/terminal.h"

/* The document with its findings. */
void cluster_print(const json_t *doc, FILE *out, const struct terminal *terminal);

/* The same as one HTML page that needs nothing else: heat maps, a table to be sorted, all findings. */
void cluster_html(const json_t *doc, FILE *out);

/* "fine: ...", by the findings. */
const char *cluster_verdict(const json_t *findings);

#endif
