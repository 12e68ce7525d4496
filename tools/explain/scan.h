/* SPDX-License-Identifier: Apache-2.0 */
/* Reading logs: blocks into lines, lines to rules, what they match to the report. */
#ifndef EXPLAIN_SCAN_H
#define EXPLAIN_SCAN_H

#include "report.h"
#include "rules.h"

#define SCAN_BLOCK (1u << 20) /* bytes that are read at once; a line may be longer */

struct scan;

/* `block`: SCAN_BLOCK, or less (at least 256) in a test. Keeps both pointers. */
struct scan *scan_new(struct rules *rules, struct report *report, size_t block);

void scan_free(struct scan *scan);

/*
 * Reads all of a file descriptor. `tick`, if not NULL, is called after every block with the bytes of
 * this file so far. 0 or -errno of read.
 */
int scan_fd(struct scan *scan, int fd, const char *name,
	    void (*tick)(void *context, unsigned long long bytes), void *context);

/* The same with memory. */
void scan_memory(struct scan *scan, const char *data, size_t bytes, const char *name);

#endif
