/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A logger as NCCL passes it to init, which keeps the lines. capture_check fails on lines that break NCCL's rules
 * (net-api.md §4.1, §4.2: unknown level, WARN without all flag bits, newline, long format) and on WARNs that were not
 * allowed.
 */
#ifndef TESTS_SUPPORT_CAPTURE_H
#define TESTS_SUPPORT_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#define CAPTURE_LINE_BYTES 1024

/* NCCL's levels (net-api.md §4.1). */
#define CAPTURE_WARN 2
#define CAPTURE_INFO 3

void capture_logger(int level, unsigned long flags, const char *file, int line, const char *fmt,
		    ...) __attribute__((format(printf, 5, 6)));

/* From now on WARNs are allowed. */
void capture_allow_warn(void);

/* Number of lines of `level` that contain `text`; level 0 = any, text NULL = any. */
size_t capture_count(int level, const char *text);

/* Copies the newest such line to `line`. */
bool capture_find(int level, const char *text, char line[CAPTURE_LINE_BYTES]);

/* Discards the lines so far, but not a breach of the rules. */
void capture_forget(void);

/* The first WARNs, on stderr. */
void capture_print(void);

/* Fails on breaches, and on WARNs that were not allowed. */
void capture_check(void);

#endif
