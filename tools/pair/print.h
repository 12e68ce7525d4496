/* SPDX-License-Identifier: Apache-2.0 */
/* What `anynet pair` and `anynet serve` print for people. */
#ifndef PAIR_PRINT_H
#define PAIR_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/shared/terminal.h"

/* One line, clean (tools/explain/clean.h): half of it may be the peer's word. Flushed at once. */
void print_line(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same, broken at blanks where the terminal ends; lines that follow are indented by so much. */
void print_row(FILE *out, const struct terminal *terminal, int indent, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* One of them (finding.h). */
void print_finding(FILE *out, const json_t *finding, const struct terminal *terminal);

/* All of them; with --quiet no notes. */
void print_findings(FILE *out, const json_t *findings, const struct terminal *terminal);

/* The whole result with its findings (verdict.h). */
void print_result(const json_t *result, FILE *out, const struct terminal *terminal);

#endif
