/* SPDX-License-Identifier: Apache-2.0 */
/* Part of recovery: redial one stream, over one pair of addresses after the other. With the comm's lock. */
#ifndef ANYNET_REDIAL_H
#define ANYNET_REDIAL_H

#include "session/dial.h"
#include "session/pairs.h"

/* Pauses between rounds over all pairs. */
#define REDIAL_MIN_MS 10
#define REDIAL_MAX_MS 250 /* so that a path that came back is found within a second */

/* The dial of one stream (sender), or of a PROBE (receiver). */
struct redial {
	enum redial_aim aim;
	bool said; /* a RESUME has been sent: the receiver may have switched to its connection */
	struct dial dial;
	struct anynet_wire_pair pair; /* being dialled */
	unsigned pairs;               /* pairs in a round */
	unsigned tries;
	uint32_t epoch; /* of the latest hello */
	uint64_t next_ms, limit_ms, pause_ms;
	uint64_t unanswered_ms; /* until then the peer's host had acknowledged a hello that its process did not answer */
};

struct attempt {
	struct anynet_wire_pair pair;
	int err;
};

struct recovery {
	uint64_t since_ms;   /* no stream works since then; 0 = one does, or the comm waits for nothing */
	uint64_t back_ms;    /* a stream works again since then; 0 = not all were broken */
	uint64_t refused_ms; /* first of `refusals`, which are in a row */
	bool told;           /* receiver: a PROBE has been answered since no stream works */
	unsigned refusals;
	char refusal[320]; /* who has refused last, and why, for the log; "" = nobody */
	unsigned attempt_count;
	struct attempt attempts[PAIRS_MAX]; /* latest failure on each pair */
	unsigned streams;
	struct redial redials[];
};

/* The comm's recovery, which begins if there is none; NULL = no memory. */
struct recovery *recovery_get(struct anynet_comm *comm);

/* Ends the recovery, if there is one. */
void recovery_free(struct anynet_comm *comm);

/* Does the stream need a new connection, and not just a better one? */
static inline bool redial_is_urgent(const struct redial *redial)
{
	return redial->aim == REDIAL_AGAIN || redial->aim == REDIAL_ELSEWHERE;
}

/* Dial with this aim, from the first pair and the shortest pause on; the first dial is due at `next_ms`. A dial in
 * progress goes on. */
void redial_begin(struct redial *redial, enum redial_aim aim, uint64_t next_ms);

/* Close the dial, and make no other one. */
void redial_end(struct redial *redial);

/* A link has changed: the next dial is due at once, and pauses are short again. A connection that is still being
 * established may wait for a retransmission: close it. */
void redial_hurry(struct redial *redial);

/* One step of dialling; `stream` NULL: of a PROBE. 0 = answered, redial->dial has the answer; -EAGAIN = not yet, or
 * failed and scheduled again. */
int redial_step(struct anynet_comm *comm, struct anynet_stream *stream, struct redial *redial,
		uint64_t now_ms);

/* Fill `text` with the addresses that were dialled in this recovery, and why in vain, for a log line: "; tried …", or "". */
void redial_describe(const struct anynet_comm *comm, char *text, size_t bytes);

/* redial_next: the dial did not help. Close it and schedule the next pair, after a pause if all have been tried.
 * redial_failed: the same, and record the error. */
void redial_next(struct redial *redial, uint64_t now_ms);
void redial_failed(struct anynet_comm *comm, struct redial *redial, int err, uint64_t now_ms);

#endif
