/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that libc could make, if that did not read the environment or the program's locale on the way: our threads
 * run beside the program's, which may call setenv or setlocale at any time. Any thread.
 */
#ifndef ANYNET_LIBC_TEXT_H
#define ANYNET_LIBC_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* "2026-11-23T08:41:07.250Z" of milliseconds since 1970: what gmtime_r makes, which reads TZ when it is first called in
 * a process. Returns `text`, of UTC_TEXT_BYTES. */
#define UTC_TEXT_BYTES 64
const char *utc_text(uint64_t ms, char text[UTC_TEXT_BYTES]);

/* Milliseconds as seconds, with 0, 1 or 3 decimals behind a point: what printf makes of them has the point of the
 * program's locale. Returns `text`, of SECONDS_TEXT_BYTES. */
#define SECONDS_TEXT_BYTES 32
const char *seconds_text(uint64_t ms, unsigned decimals, char text[SECONDS_TEXT_BYTES]);

/* strerror of this positive errno, in English: translated texts are looked for by LANGUAGE, at every call. */
const char *error_text(int error);

#endif
