/* SPDX-License-Identifier: Apache-2.0 */
/* What the printers of pages have in common. */
#ifndef STATS_WORDS_H
#define STATS_WORDS_H

#include "view.h"

#define WORDS_LINE 512

/* "1.50 GB"; "?" if it is negative. Of static memory, of which four are in use at a time. */
const char *words_amount(double bytes);

double words_seconds(uint64_t ms);
const char *words_plural(size_t count);

/* The stream at this place of the connection, in one line of WORDS_LINE bytes. Returns `text`. */
const char *words_stream(const struct connection *connection, int i, const struct page *page,
			 char *text);

/* When it was, by the clock of the host: "2026-01-02T03:04:05.678Z", in WORDS_TIME bytes. Returns `text`. */
#define WORDS_TIME 32
const char *words_time(const struct page *page, uint64_t at_ms, char *text);

#endif
