/* SPDX-License-Identifier: Apache-2.0 */
/* Text output of `anynet pair` and `anynet serve`. */
#ifndef PAIR_PRINT_H
#define PAIR_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/shared/terminal.h"

/* Prints one line, cleaned (tools/shared/clean.h), since parts of it come from the peer. Flushes
 * the stream. */
void print_line(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As print_line, wrapped at blanks to the terminal's width; continuation lines are indented by `indent`. */
void print_row(FILE *out, const struct terminal *terminal, int indent, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Prints one finding (finding.h). */
void print_finding(FILE *out, const json_t *finding, const struct terminal *terminal);

/* Prints all findings; with --quiet no notes. */
void print_findings(FILE *out, const json_t *findings, const struct terminal *terminal);

/* Prints the whole result with its findings (verdict.h). */
void print_result(const json_t *result, FILE *out, const struct terminal *terminal);

#endif
