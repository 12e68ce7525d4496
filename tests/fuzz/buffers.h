/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives as NCCL makes them. Every buffer is freed as soon as NCCL could free it, so that
 * a late read or write, or a long one, is a sanitizer's error.
 */
#ifndef TESTS_FUZZ_BUFFERS_H
#define TESTS_FUZZ_BUFFERS_H

#include "input.h"
#include "unit/local_net.h"

#define BLANK_BYTE 0xee /* what a receive's buffer is full of */

enum buffer_kind {
	BUFFER_NONE, /* NULL: for no bytes */
	BUFFER_PLAIN,
	BUFFER_REGISTERED,
};

struct buffer {
	uint8_t *data;
	size_t bytes;
	struct anynet_mr *mr;
};

struct sent {
	struct anynet_request *req; /* NULL = none in progress */
	struct buffer buffer;
};

struct posted {
	struct anynet_request *req; /* NULL = free */
	int n;
	struct buffer buffers[ANYNET_RECVS_MAX];
	int tags[ANYNET_RECVS_MAX];
};

void buffer_make(struct anynet_comm *comm, struct buffer *buffer, enum buffer_kind kind,
		 size_t bytes);
void buffer_free(struct anynet_comm *comm, struct buffer *buffer);

/* Returns anynet_isend's result. The buffer is freed if there is no request then. */
int sent_post(struct anynet_comm *comm, struct sent *sent, int tag);

/* False: not done yet, or failed. */
bool sent_test(struct anynet_comm *comm, struct sent *sent);

/* NCCL takes the buffer back although its send is not done. It is freed if the comm has failed. */
void sent_take_back(struct anynet_comm *comm, struct sent *sent);

/* NCCL closes a comm that it has taken everything back from. As anynet_close, but that what still has to reach
 * the peer gets a few turns instead of time: there is no background thread. */
void sent_close(struct anynet_comm *comm);

/* A free one of ANYNET_REQUESTS; NULL if there is none. */
struct posted *posted_free_one(struct posted *all);

/* One buffer more for the group. */
void posted_add(struct anynet_comm *comm, struct posted *posted, enum buffer_kind kind,
		size_t bytes, int tag);

/* Returns anynet_irecv's result. */
int posted_post(struct anynet_comm *comm, struct posted *posted);

/* False: not done yet, or failed. got: the size of each message; nothing was written behind it. */
bool posted_test(struct anynet_comm *comm, struct posted *posted, int *got);

/* Nothing of it comes from memory of ours that nobody had written to, which AddressSanitizer has filled: if
 * the peer has not sent NEVER_BYTE, it is not there. `got` as from posted_test. */
#define NEVER_BYTE 0xbe
void posted_check_written(const struct posted *posted, const int *got);

/* Its buffers are freed. */
void posted_blank(struct anynet_comm *comm, struct posted *posted);

/* As sent_take_back. */
void posted_take_back(struct anynet_comm *comm, struct posted *posted);

/* NCCL takes back what all the receives still have, and closes the comm. */
void posted_close(struct anynet_comm *comm, struct posted *all);

#endif
