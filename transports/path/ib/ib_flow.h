/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the statistics say of a queue pair's speed, as the kernel says it of a TCP connection: bytes that have arrived,
 * and the time in which any were in flight. Small frames do not count: they cost no look at the clock, and the adapter
 * does not report each.
 */
#ifndef ANYNET_IB_FLOW_H
#define ANYNET_IB_FLOW_H

#include <stddef.h>
#include <stdint.h>

#define IB_FLOW_LARGE 4096 /* bytes of a frame */

struct ib_flow {
	uint64_t acked;    /* bytes of large frames that have arrived */
	uint64_t busy_us;  /* time with large frames in flight, up to since_us */
	uint64_t since_us; /* the present such time began then; 0 = none */
	uint64_t last;     /* number of the last large frame */
	uint64_t timed;    /* 1 + number of the frame that is being timed; 0 = none */
	uint64_t timed_us; /* when it was posted */
	uint64_t rtt_us;   /* time until a large frame is known to have arrived, smoothed; 0 = not known */
};

/* A large frame has been posted. */
void ib_flow_begin(struct ib_flow *flow, uint64_t frame);

/* It has arrived. */
void ib_flow_arrived(struct ib_flow *flow, uint64_t frame, size_t bytes);

/* busy_us by now. */
uint64_t ib_flow_busy_us(const struct ib_flow *flow);

#endif
