/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacements for libc functions that read the environment or the program's locale. The plugin's threads run
 * concurrently with the program's, which may call setenv or setlocale at any time. Any thread.
 */
#ifndef ANYNET_LIBC_TEXT_H
#define ANYNET_LIBC_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Milliseconds since 1970 as "2026-11-23T08:41:07.250Z". Replaces gmtime_r, whose first call in a process reads TZ.
 * Returns `text`. */
#define UTC_TEXT_BYTES 64
const char *utc_text(uint64_t ms, char text[UTC_TEXT_BYTES]);

/* Milliseconds as seconds with 0, 1 or 3 decimals. Replaces printf, which uses the decimal point of the program's
 * locale. Returns `text`. */
#define SECONDS_TEXT_BYTES 32
const char *seconds_text(uint64_t ms, unsigned decimals, char text[SECONDS_TEXT_BYTES]);

/* The text of a positive errno, in English. Replaces strerror, which reads LANGUAGE to find translations. */
const char *error_text(int error);

#endif
