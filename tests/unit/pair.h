/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comms of the message layer over socket pairs: a sender and a receiver joined by rails, or one of
 * them with the test as its peer, frame by frame. Nothing here blocks; what does not come about within
 * a bounded number of turns fails.
 */
#ifndef TESTS_UNIT_PAIR_H
#define TESTS_UNIT_PAIR_H

#include "local_net.h"

#define PAIR_RAILS_MAX 4

struct pair {
	struct anynet_comm *send, *recv; /* one may be NULL: then the test is that side */
	int fds[PAIR_RAILS_MAX];         /* the test's ends; -1 = none */
	unsigned rails;
};

void pair_open(struct pair *pair, unsigned rails);
void pair_open_recv(struct pair *pair, unsigned rails); /* the test sends */
void pair_open_send(struct pair *pair, unsigned rails); /* the test receives */
void pair_close(struct pair *pair);
void pair_hang_up(struct pair *pair, unsigned rail);

/* Single buffers, no registration; the request must be taken. */
struct anynet_request *pair_isend(struct pair *pair, const void *data, size_t bytes, int tag);
struct anynet_request *pair_irecv(struct pair *pair, void *data, size_t bytes, int tag);

/* One test call; must not fail. */
bool pair_done(struct anynet_request *req, int *sizes);

/* One call of test each, over and over, until all are done; sizes of single receives, may be NULL. */
void pair_finish(struct anynet_request *const *reqs, int count, int *sizes);

/* The same call of test so often that whatever is going to happen has happened: is not done. */
void pair_idle(struct anynet_request *req);

/* --- frames, for a test that is one of the sides --- */

/* A whole message in one DATA frame, in slot seq % ANYNET_WIRE_SLOTS. */
struct anynet_wire_frame frame_data(uint32_t seq, uint32_t tag, uint8_t flags, size_t bytes);

/* Header and, of a DATA frame, header.length bytes of payload, and the tail if it has one. */
void frame_put(int fd, const struct anynet_wire_frame *frame, const void *payload);

/* The next frame of a sender or a receiver, its tail taken away; false = none is there. A payload
 * larger than `room` fails. */
bool frame_get(int fd, struct anynet_wire_frame *frame, void *payload, size_t room);

/* The same, without the doubts that the clock brings while another rail is broken. */
bool word_get(int fd, struct anynet_wire_frame *frame, void *payload, size_t room);

#endif
