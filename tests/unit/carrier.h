/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two comms whose streams end in the test: it transfers the bytes between them, loses or changes them, cuts
 * connections, and reconnects them with RESUME messages (docs/wire.md). No threads: everything happens in the calls
 * below and in those of the comms.
 */
#ifndef TESTS_UNIT_CARRIER_H
#define TESTS_UNIT_CARRIER_H

#include "pair.h"

#define CARRIER_NEVER      UINT64_MAX
#define CARRIER_TAPE_BYTES 8192

enum carrier_way {
	TO_RECEIVER,
	TO_SENDER,
	CARRIER_WAYS,
};

/* The connection of one stream. Each new one starts with counts of 0. */
struct carrier_stream {
	int ends[CARRIER_WAYS];           /* output end of this direction; -1 = cut */
	uint64_t passed[CARRIER_WAYS];    /* bytes */
	uint64_t left[CARRIER_WAYS];      /* that may still pass; the others stay */
	uint64_t flip[CARRIER_WAYS];      /* the byte at this position is changed in transit */
	uint8_t tape[CARRIER_TAPE_BYTES]; /* bytes transferred to the receiver */
	size_t tape_bytes;
};

struct carrier {
	struct pair pair; /* its fds are not used */
	struct carrier_stream streams[PAIR_STREAMS_MAX];
};

void carrier_open(struct carrier *carrier, unsigned streams);
void carrier_close(struct carrier *carrier); /* may be called twice */

/* Transfers what is available, as far as it may pass. Returns the number of bytes. */
size_t carrier_carry(struct carrier *carrier);

/* Polls the sender, transfers, polls the receiver, transfers. Returns the number of bytes. */
size_t carrier_turn(struct carrier *carrier);

/* Repeats that until nothing is transferred. */
void carrier_settle(struct carrier *carrier);

/* Ends a stream's connection: for both, or so that only the sender can notice. Bytes not transferred are lost. */
void carrier_cut(struct carrier *carrier, unsigned stream);
void carrier_cut_sender(struct carrier *carrier, unsigned stream);

/* Lets the sender notice. */
void carrier_noticed(struct carrier *carrier, unsigned stream);

/* Transfers the sender's next RESUME to the receiver, and its answer, which must be OK, back. carrier_hello() stops at
 * the answer: carrier_welcome() delivers it to the sender, another hello discards it. */
void carrier_hello(struct carrier *carrier, unsigned stream, struct anynet_wire_hello *welcome);
void carrier_welcome(struct carrier *carrier, unsigned stream,
		     const struct anynet_wire_hello *welcome);

/* Cut, notice, hello, welcome. */
void carrier_mend(struct carrier *carrier, unsigned stream);

/* --- for a test that plays one side (pair_open_recv, pair_open_send) --- */

/* Sends RESUME for stream `stream` of a receive comm. Returns the test's end of the new connection, or -1 if it was
 * refused and closed. *welcome is the answer. */
int resume_recv(struct pair *pair, unsigned stream, uint32_t epoch,
		struct anynet_wire_hello *welcome);

/* Resumes a stream of the pair's receive comm, which must accept: pair->fds[stream] is the new end. */
void resume_recv_ok(struct pair *pair, unsigned stream, struct anynet_wire_hello *welcome);

/* Gives a send comm, whose stream is severed first if necessary, a new connection with this position: pair->fds[stream]
 * is the new end. */
void resume_send(struct pair *pair, unsigned stream, uint64_t frames, uint32_t part);

/* `count` ports on which the pair's send comm can dial its peer, the first of them for its streams. The test closes
 * listeners[]. */
void resume_listen(struct pair *pair, int *listeners, unsigned count);

#endif
