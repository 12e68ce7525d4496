/* SPDX-License-Identifier: Apache-2.0 */
/* How far the clocks of two hosts are apart, from round trips between them. */
#ifndef PAIR_CLOCK_H
#define PAIR_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of CLOCK_REALTIME: asked and answered by this host's clock, seen and replied by the
 * other's. */
struct clock_sample {
	int64_t asked, seen, replied, answered;
};

struct clock_offset {
	int64_t offset_ns; /* the other's clock minus this one's */
	int64_t error_ns;  /* the offset is right within so much */
};

/*
 * The sample with the shortest round trip counts: what the way there and the way back differ by is at
 * most that trip. Samples that cannot be (an answer before the question) are left out; false if none is
 * left.
 */
bool clock_estimate(const struct clock_sample *samples, size_t count, struct clock_offset *out);

int64_t clock_now_ns(void);

#endif
