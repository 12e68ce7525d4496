/* SPDX-License-Identifier: Apache-2.0 */
/* A comm whose paths show the signs of life that the test sets, at times that the test sets. */
#ifndef TESTS_UNIT_SIGNS_H
#define TESTS_UNIT_SIGNS_H

#include "pair.h"

#define SIGNS_LARGE           (LOCAL_RING_BYTES * 3)
#define SIGNS_PEER_TIMEOUT_MS 30000
#define SIGNS_STALL_MS        4000

struct signs {
	struct pair pair;
	/* State of the paths: initially all is well */
	struct stream_signs streams[PAIR_STREAMS_MAX];
	bool mute;                               /* there are no signs */
	unsigned pings[PAIR_STREAMS_MAX];        /* heartbeats sent */
	uint64_t now;
	uint8_t out[SIGNS_LARGE], in[SIGNS_LARGE];
};

extern struct signs signs;

/* State of a path: nothing waits for an answer, something waits without a problem, or it was retransmitted, once or more
 * often, without an answer. */
extern const struct stream_signs signs_healthy, signs_waits, signs_tried_once, signs_dead;

/* Setup and teardown for cmocka: recovery is on, the times are those above. */
int signs_setup(void **state);
int signs_teardown(void **state);

/* A comm without requests, and one with a waiting request of tag 7: a receive of 64 bytes, a send of SIGNS_LARGE. */
void signs_open_idle_send(unsigned streams);
struct anynet_request *signs_open_recv(unsigned streams);
struct anynet_request *signs_open_send(unsigned streams);

struct anynet_comm *signs_comm(void);

/* The comm is checked this much later. */
void signs_look_after(uint64_t ms);

/* The path of a stream dies; one look later its time is known. */
void signs_lose(unsigned stream);

bool signs_suspect(unsigned stream);

#endif
