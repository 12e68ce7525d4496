/* SPDX-License-Identifier: Apache-2.0 */
/* What `anynet pair` and `anynet serve` print for people. */
#ifndef PAIR_PRINT_H
#define PAIR_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* One line. Control characters, which may come from the peer, are replaced. Flushed at once. */
void print_line(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One of them (finding.h). */
void print_finding(FILE *out, const json_t *finding, bool colour);

/* The whole result with its findings (verdict.h). */
void print_result(const json_t *result, FILE *out, bool colour);

#endif
