/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives as NCCL makes them. Every buffer is freed as soon as NCCL could free it, so a late or long access
 * is a sanitizer error.
 */
#ifndef TESTS_FUZZ_BUFFERS_H
#define TESTS_FUZZ_BUFFERS_H

#include "input.h"
#include "unit/local_net.h"

#define BLANK_BYTE 0xee /* initial contents of a receive's buffer */

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
	struct anynet_request *req; /* NULL = none in flight */
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

/* Returns the result of anynet_isend. The buffer is freed if it returned no request. */
int sent_post(struct anynet_comm *comm, struct sent *sent, int tag);

/* False: not done yet, or failed. */
bool sent_test(struct anynet_comm *comm, struct sent *sent);

/* NCCL reuses the buffer although its send is not done. It is freed if the comm has failed. */
void sent_take_back(struct anynet_comm *comm, struct sent *sent);

/* NCCL closes a comm without requests in flight. Like anynet_close, except that frames still to be sent get a few
 * iterations instead of time: there is no background thread. */
void sent_close(struct anynet_comm *comm);

/* A free one of ANYNET_REQUESTS; NULL if there is none. */
struct posted *posted_free_one(struct posted *all);

/* Adds a buffer to the group. */
void posted_add(struct anynet_comm *comm, struct posted *posted, enum buffer_kind kind,
		size_t bytes, int tag);

/* Returns the result of anynet_irecv. */
int posted_post(struct anynet_comm *comm, struct posted *posted);

/* False: not done yet, or failed. got: the size of each message; checks that nothing was written behind it. */
bool posted_test(struct anynet_comm *comm, struct posted *posted, int *got);

/* Checks that no data comes from uninitialised memory of the product, which AddressSanitizer has filled: if the peer
 * has not sent NEVER_BYTE, it must not occur. `got` as from posted_test. */
#define NEVER_BYTE 0xbe
void posted_check_written(const struct posted *posted, const int *got);

/* Frees its buffers. */
void posted_blank(struct anynet_comm *comm, struct posted *posted);

/* As sent_take_back. */
void posted_take_back(struct anynet_comm *comm, struct posted *posted);

/* NCCL takes back the buffers of all receives, and closes the comm. */
void posted_close(struct anynet_comm *comm, struct posted *all);

#endif
