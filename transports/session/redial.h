/* SPDX-License-Identifier: Apache-2.0 */
/* A part of recovery: one stream is dialled anew, over one pair of addresses after the other. With the comm's lock. */
#ifndef ANYNET_REDIAL_H
#define ANYNET_REDIAL_H

#include "session/dial.h"
#include "session/pairs.h"

/* Pauses between rounds over all pairs, and between tries to get back to a stream's own path. */
#define REDIAL_MIN_MS 10
#define REDIAL_MAX_MS 250 /* so that a path that came back is found within a second */
#define HOME_MIN_MS   1000
#define HOME_MAX_MS   10000

enum redial_aim {
	REDIAL_NOTHING,
	REDIAL_AGAIN,     /* the stream is broken or suspect: its own pair first, then all others */
	REDIAL_ELSEWHERE, /* the same, but the pair that it joins now last */
	REDIAL_HOME,      /* it works, but not where it belongs */
};

/* A connection being made for one stream (sender), or to ask about the sender (receiver). */
struct redial {
	enum redial_aim aim;
	bool said; /* a hello is out, or was: the receiver may have changed over */
	struct dial dial;
	struct anynet_wire_pair pair; /* being dialled … */
	unsigned pairs;               /* … of so many */
	unsigned tries;
	uint32_t epoch; /* last used */
	uint64_t next_ms, limit_ms, pause_ms;
};

struct attempt {
	struct anynet_wire_pair pair;
	int err;
};

struct recovery {
	uint64_t since_ms;   /* since when no stream works; 0 = one does */
	uint64_t refused_ms; /* since when nobody is there at any address; 0 = not so */
	bool told;           /* receiver: the sender has answered since no stream works */
	unsigned refusals;
	unsigned attempt_count;
	struct attempt attempts[PAIRS_MAX]; /* the last failure over each pair */
	unsigned streams;
	struct redial redials[];
};

/* Must a new connection stand soon? */
static inline bool redial_is_urgent(const struct redial *redial)
{
	return redial->aim == REDIAL_AGAIN || redial->aim == REDIAL_ELSEWHERE;
}

/* One step, of a receiver's question with stream NULL: 0 = answered, see redial->dial; -EAGAIN = later or failed. */
int redial_step(struct anynet_comm *comm, struct anynet_stream *stream, struct redial *redial,
		uint64_t now_ms);

/* It was answered, and that does not help: the next pair, after a pause once all have been tried. redial_failed: it has
 * failed, which is remembered. */
void redial_next(struct redial *redial, uint64_t now_ms);
void redial_failed(struct anynet_comm *comm, struct redial *redial, int err, uint64_t now_ms);

#endif
