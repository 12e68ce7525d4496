/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a comm with a stream of messages, driven as by NCCL's progress thread: a window of requests, the oldest
 * tested first. Sizes, tags and contents of message k follow from the seed, so both ends know them. Checked of a
 * receive: its size, every byte, the guards around the buffer, and that nothing is written behind its end, after it was
 * done, or after the close.
 */
#ifndef TESTS_FAULTS_STREAM_H
#define TESTS_FAULTS_STREAM_H

#include "job.h"

#include <support/buffer.h>

#define SLOTS (WINDOW + 4)

/* A send of one message, or a receive of one or, grouped, several. */
struct request {
	void *req;
	uint64_t first; /* message */
	int n;
};

struct stream {
	const struct job_plan *plan;
	struct shared *shared;
	struct job_state *job;
	struct stream_state *state;
	struct driver_net *net;
	unsigned index;
	bool is_send;
	void *listener, *comm;
	unsigned char handle[DRIVER_HANDLE_BYTES];
	uint64_t posted, tested; /* requests */
	uint64_t posted_messages, done_messages;
	struct request requests[WINDOW];
	struct buffer buffers[SLOTS * TAGS_MAX];
	size_t used[SLOTS * TAGS_MAX]; /* bytes of earlier messages, which have been blanked */
	void *mhandles[SLOTS * TAGS_MAX];
	unsigned buffer_count;
};

void stream_init(struct stream *stream, const struct job_plan *plan, struct shared *shared,
		 int side, unsigned index, struct driver_net *net);

/* The bytes that contents of messages are taken from: made once, before both jobs are forked. */
void stream_template(void);

/* One step of connecting; 1 = connected, 0 = not yet, -1 = failed (state->error). */
int stream_connect(struct stream *stream, void *ctx);

/* One iteration; true if something was posted or completed. An error is kept in state->error. */
bool stream_turn(struct stream *stream);

/* deregMr of everything, then close, each timed. Does nothing if nothing is open. */
void stream_close(struct stream *stream);

/* After the close: checks that nothing was written since, and frees the buffers. */
void stream_free(struct stream *stream);

#endif
