/* SPDX-License-Identifier: Apache-2.0 */
/* A comm whose paths give the signs that the test says, at a time that the test says. */
#ifndef TESTS_UNIT_SIGNS_H
#define TESTS_UNIT_SIGNS_H

#include "pair.h"

#define SIGNS_LARGE           (LOCAL_RING_BYTES * 3)
#define SIGNS_PEER_TIMEOUT_MS 30000
#define SIGNS_STALL_MS        4000

struct signs {
	struct pair pair;
	/* What they tell: at first, that all is well */
	struct stream_signs streams[PAIR_STREAMS_MAX];
	bool mute;                               /* they tell nothing */
	unsigned pings[PAIR_STREAMS_MAX];        /* heartbeats sent */
	uint64_t now;
	uint8_t out[SIGNS_LARGE], in[SIGNS_LARGE];
};

extern struct signs signs;

/* What a path tells: nothing waits for an answer, something does and is no reason to worry, or it has
 * been retransmitted in vain. */
extern const struct stream_signs signs_healthy, signs_waits, signs_dead;

/* cmocka's setup and teardown: recovery is on, the times are those above. */
int signs_setup(void **state);
int signs_teardown(void **state);

/* A comm without requests, and one with a request of tag 7 that waits: a receive of 64 bytes, a send of
 * SIGNS_LARGE. */
void signs_open_idle_send(unsigned streams);
struct anynet_request *signs_open_recv(unsigned streams);
struct anynet_request *signs_open_send(unsigned streams);

struct anynet_comm *signs_comm(void);

/* So much later somebody looks at it. */
void signs_look_after(uint64_t ms);

/* The path of a stream dies; a look later it is known since when. */
void signs_lose(unsigned stream);

bool signs_suspect(unsigned stream);

#endif
