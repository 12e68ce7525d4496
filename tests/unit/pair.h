/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comms of the message layer over socket pairs: a sender and a receiver joined by streams, or one of them with the test
 * as its peer, frame by frame. Nothing here blocks; what does not happen within a limited number of polls fails.
 */
#ifndef TESTS_UNIT_PAIR_H
#define TESTS_UNIT_PAIR_H

#include "local_net.h"

#define PAIR_STREAMS_MAX 4
#define PAIR_LARGE     (LOCAL_RING_BYTES * 3) /* several chunks, never copied */

struct pair {
	struct anynet_comm *send, *recv; /* one may be NULL: the test plays that side */
	int fds[PAIR_STREAMS_MAX];       /* the test's ends; -1 = none */
	unsigned streams;
};

/* For a test: a pattern to send, and room for received data. */
extern uint8_t pair_out[PAIR_LARGE], pair_in[PAIR_LARGE];

/* Setup functions for cmocka, with recovery off or on, and teardown; the test's prestate is its pair, open or not. */
int pair_setup(void **state);
int pair_setup_recovery(void **state);
int pair_teardown(void **state);

void pair_open(struct pair *pair, unsigned streams);
void pair_open_recv(struct pair *pair, unsigned streams); /* the test sends */
void pair_open_send(struct pair *pair, unsigned streams); /* the test receives */
void pair_close(struct pair *pair);                     /* may be called twice */
void pair_hang_up(struct pair *pair, unsigned stream);

/* Single buffers, no registration; checks that there is a request. */
struct anynet_request *pair_isend(struct pair *pair, const void *data, size_t bytes, int tag);
struct anynet_request *pair_irecv(struct pair *pair, void *data, size_t bytes, int tag);

/* A copied message, sent and completed. */
void pair_send(struct pair *pair, const void *data, size_t bytes);

/* One test call, which must not fail. */
bool pair_done(struct anynet_request *req, int *sizes);

/* Tests each in rotation until all are done; sizes of single receives, may be NULL. */
void pair_finish(struct anynet_request *const *reqs, int count, int *sizes);

/* Tests it often enough for everything possible to happen: it is not done. */
void pair_idle(struct anynet_request *req);

/* It is not done, and soon fails with this -errno. */
void pair_fails(struct anynet_request *req, int err);

/* There was one WARN, and it contains `text`. */
void warned_once(const char *text);

/* --- frames, for a test that plays one side --- */

/* A whole message in one DATA frame, in slot seq % ANYNET_WIRE_SLOTS. */
struct anynet_wire_frame frame_data(uint32_t seq, uint32_t tag, uint8_t flags, size_t bytes);

/* Header and, of a DATA frame, header.length bytes of payload, and the tail if it has one. */
void frame_put(int fd, const struct anynet_wire_frame *frame, const void *payload);

/* An acknowledgement of these slots. */
void frame_put_ack(int fd, const uint16_t *slots, size_t count);

/* The next frame of a sender or a receiver, its tail removed; false = there is none. A payload larger than `room`
 * fails. */
bool frame_get(int fd, struct anynet_wire_frame *frame, void *payload, size_t room);

/* The same, without the SUSPECT frames that are sent in time while another stream is broken. */
bool word_get(int fd, struct anynet_wire_frame *frame, void *payload, size_t room);

/* The next frame on this stream has to be that one, with bytes of pair_out if it is DATA. */
struct anynet_wire_frame pair_expect(const struct pair *pair, unsigned stream,
				     enum anynet_frame_type type, uint32_t seq);

#endif
