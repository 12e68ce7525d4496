/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the clock offset between two hosts from round trips. */
#ifndef PAIR_CLOCK_H
#define PAIR_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of CLOCK_REALTIME. asked and answered are of this host's clock, seen and replied of
 * the other's. */
struct clock_sample {
	int64_t asked, seen, replied, answered;
};

struct clock_offset {
	int64_t offset_ns; /* the other host's clock minus this one's */
	int64_t error_ns;  /* maximum error of offset_ns */
};

/*
 * Uses the sample with the shortest round trip, since the error is at most half of it. Ignores
 * impossible samples, such as an answer before the question. Returns false if none is left.
 */
bool clock_estimate(const struct clock_sample *samples, size_t count, struct clock_offset *out);

#endif
