/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two comms whose streams end in the test's hands: it carries the bytes from one to the other, and loses
 * them, changes them, cuts connections, and brings the two together again with the words of RESUME
 * (docs/wire.md). No threads: everything happens in the calls below and in the comms' own.
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

/* The connection of one stream. The counts start again with each new one. */
struct carrier_stream {
	int ends[CARRIER_WAYS];           /* where this way's bytes come out; -1 = cut */
	uint64_t passed[CARRIER_WAYS];    /* bytes */
	uint64_t left[CARRIER_WAYS];      /* that may still pass; the others stay where they are */
	uint64_t flip[CARRIER_WAYS];      /* the byte at this place is changed on its way */
	uint8_t tape[CARRIER_TAPE_BYTES]; /* what passed to the receiver */
	size_t tape_bytes;
};

struct carrier {
	struct pair pair; /* its fds are not used */
	struct carrier_stream streams[PAIR_STREAMS_MAX];
};

void carrier_open(struct carrier *carrier, unsigned streams);
void carrier_close(struct carrier *carrier); /* also twice */

/* Carry what there is, as far as it may pass. Returns how many bytes that was. */
size_t carrier_carry(struct carrier *carrier);

/* A turn of the sender, what it sent, a turn of the receiver, what it sent. Returns bytes carried. */
size_t carrier_turn(struct carrier *carrier);

/* As many turns as something is carried. */
void carrier_settle(struct carrier *carrier);

/* End a stream's connection: for both, or so that only the sender can notice. What was not carried is
 * lost. */
void carrier_cut(struct carrier *carrier, unsigned stream);
void carrier_cut_sender(struct carrier *carrier, unsigned stream);

/* The sender takes notice. */
void carrier_noticed(struct carrier *carrier, unsigned stream);

/* Bring the sender's next RESUME to the receiver, and its answer, which must be OK, back. The first one
 * only goes as far as the answer: carrier_welcome() takes it to the sender, another hello loses it. */
void carrier_hello(struct carrier *carrier, unsigned stream, struct anynet_wire_hello *welcome);
void carrier_welcome(struct carrier *carrier, unsigned stream,
		     const struct anynet_wire_hello *welcome);

/* Cut, notice, hello, welcome. */
void carrier_mend(struct carrier *carrier, unsigned stream);

/* --- for a test that is one of the two sides (pair_open_recv, pair_open_send) --- */

/* Say RESUME for stream `stream` of a receive comm. Returns the test's end of the new connection, or -1 if
 * it was refused, and closed. *welcome is the answer. */
int resume_recv(struct pair *pair, unsigned stream, uint32_t epoch,
		struct anynet_wire_hello *welcome);

/* Resume a stream of the pair's receive comm that must be willing: pair->fds[stream] is the new end. */
void resume_recv_ok(struct pair *pair, unsigned stream, struct anynet_wire_hello *welcome);

/* Give a send comm, whose stream is severed first if it is not, a new connection from this position:
 * pair->fds[stream] is the new end. */
void resume_send(struct pair *pair, unsigned stream, uint64_t frames, uint32_t part);

/* `count` ports where the pair's send comm can dial its peer, the first of them its streams' own.
 * listeners[] is for the test to close. */
void resume_listen(struct pair *pair, int *listeners, unsigned count);

#endif
