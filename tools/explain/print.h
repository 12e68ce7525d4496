/* SPDX-License-Identifier: Apache-2.0 */
/* A report on a stream. */
#ifndef EXPLAIN_PRINT_H
#define EXPLAIN_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "report.h"

/* For people: `width` columns, with colours or without. */
void print_text(const struct report *report, FILE *out, int width, bool colour);

/* For programs; all texts are valid UTF-8. */
void print_json(const struct report *report, FILE *out);

/* The table of rules, for people: what can be recognised. */
void print_rules(const struct rules *rules, FILE *out, int width);

#endif
