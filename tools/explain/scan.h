/* SPDX-License-Identifier: Apache-2.0 */
/* Reads logs, matches their lines against the rules, and adds the matches to a report. */
#ifndef EXPLAIN_SCAN_H
#define EXPLAIN_SCAN_H

#include "report.h"
#include "rules.h"

#define SCAN_BLOCK (1u << 20) /* bytes of the read buffer; a line may be longer */

struct scan;

/* `block` is SCAN_BLOCK; tests use less, at least 256. Keeps both pointers. */
struct scan *scan_new(struct rules *rules, struct report *report, size_t block);

/*
 * Reads `fd` to its end. Calls `tick`, if not NULL, after every block with the bytes read from it so far. Returns NULL,
 * or why it, or the rest of it, cannot be read.
 */
const char *scan_fd(struct scan *scan, int fd, const char *name,
		    void (*tick)(void *context, unsigned long long bytes), void *context);

#endif
