/* SPDX-License-Identifier: Apache-2.0 */
/* Text helpers shared by the printers of pages. */
#ifndef STATS_WORDS_H
#define STATS_WORDS_H

#include "view.h"

#define WORDS_LINE 512

/* "1.50 GB"; "?" if negative. Returns static memory that the fourth next call overwrites. */
const char *words_amount(double bytes);

double words_seconds(uint64_t ms);
const char *words_plural(size_t count);

/* Describes stream `i` of the connection in one line of WORDS_LINE bytes. Returns `text`. */
const char *words_stream(const struct connection *connection, int i, const struct page *page,
			 char *text);

/* Converts at_ms to UTC by the host's clock: "2026-01-02T03:04:05.678Z", WORDS_TIME bytes. Returns `text`. */
#define WORDS_TIME 32
const char *words_time(const struct page *page, uint64_t at_ms, char *text);

#endif
