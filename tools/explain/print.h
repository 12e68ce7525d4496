/* SPDX-License-Identifier: Apache-2.0 */
/* Prints reports and rules. */
#ifndef EXPLAIN_PRINT_H
#define EXPLAIN_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "report.h"

/* Prints the report for a person, in `width` columns. */
void print_text(const struct report *report, FILE *out, int width, bool colour);

/* Prints the report as JSON. All strings are valid UTF-8. */
void print_json(const struct report *report, FILE *out);

/* Prints the table of rules for a person. */
void print_rules(const struct rules *rules, FILE *out, int width);

#endif
