/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: pure state, without I/O. The session posts sends and receives and asks whether they are done; paths pull
 * the frames of the one and place those of the other (stream.h). All calls with the comm's lock; what goes wrong is
 * noted in the comm (comm.h) and returned as -errno.
 */
#ifndef ANYNET_MESSAGE_H
#define ANYNET_MESSAGE_H

#include "message/comm.h"

/* NULL = no memory. Without streams. */
struct anynet_comm *send_create(const struct anynet_device *dev);
struct anynet_comm *recv_create(const struct anynet_device *dev, uint32_t replay_bytes);
void send_free(struct anynet_comm *comm);
void recv_free(struct anynet_comm *comm);

/* Post a send. 1: no other waits to be done; 0: others do; -EAGAIN: no slot is free, or no room for a copy;
 * -EADDRNOTAVAIL: its memory has to be registered; or another -errno. *req only with 0 and 1. */
int send_post(struct anynet_comm *comm, const struct anynet_send *send, struct anynet_request **req);

/* Report one that is done: its request is free for reuse. */
void send_report(struct anynet_request *req, int *sizes);

/* Post a receive, as anynet_irecv has it. 0, -EAGAIN: all requests are in use, -EADDRNOTAVAIL: as above, or another
 * -errno. */
int recv_post(struct anynet_comm *comm, const struct anynet_recv *recv, struct anynet_request **req);

/* Is there something to tell the sender before the next look at what has come? Asked once. */
bool recv_has_to_tell(struct anynet_comm *comm);

/* As send_report. True: nothing is posted any more, and the sender waits for something. */
bool recv_report(struct anynet_request *req, int *sizes);

/* recv_flush.c: begin a flush, *req NULL: it is over already; ask whether one is: 1, 0, or -errno. */
int recv_flush(struct anynet_comm *comm, int n, void *const *data, struct anynet_mr *const *mrs,
	       struct anynet_request **req);
int recv_flush_done(struct anynet_request *req);

/* Does a request in flight use this memory? */
bool send_uses(const struct anynet_comm *comm, const struct anynet_mr *mr);
bool recv_uses(const struct anynet_comm *comm, const struct anynet_mr *mr);

/* How many requests are not done. */
unsigned send_pending(const struct anynet_comm *comm);
unsigned recv_pending(const struct anynet_comm *comm);

/* How many there have been, as a count that wraps; payload bytes sent or placed in all. */
uint32_t send_requests(const struct anynet_comm *comm);
uint32_t recv_requests(const struct anynet_comm *comm);
uint64_t send_bytes(const struct anynet_comm *comm);
uint64_t recv_bytes(const struct anynet_comm *comm);

/* Counts that change when something has arrived: messages acknowledged, bytes placed. */
uint64_t send_progress(const struct anynet_comm *comm);
uint64_t recv_progress(const struct anynet_comm *comm);

/* What the requests wait for, for a message: "3 sends, the first of 1048576 bytes, tag 7". */
void send_describe(const struct anynet_comm *comm, char *text, size_t bytes);
void recv_describe(const struct anynet_comm *comm, char *text, size_t bytes);

/* Send comm, ten times a second: assume a somewhat higher rate of streams that send nothing while others do. */
void send_age_rates(struct anynet_comm *comm);

/* Send comm: is it certain that the peer has READY, or was it never to be sent? */
bool send_comm_ready(const struct anynet_comm *comm);

/* Send comm: has the peer acknowledged every message, and has it READY? */
bool send_confirmed(const struct anynet_comm *comm);

/* Send comm: have streams still to take bytes of a send that was reported done, once more? NCCL need not ask for them. */
bool send_owes(const struct anynet_comm *comm);

/* Receive comm: tell on stream `index` again what the sender may have missed there. */
void recv_tell_again(struct anynet_comm *comm, unsigned index);

/* Receive comm: has something been told on stream `index` that the sender may not know? */
bool recv_told_on(const struct anynet_comm *comm, unsigned index);

/* Receive comm: the path of stream `index` is suspect, tell the sender over another stream; or it is not. */
void recv_suspect(struct anynet_comm *comm, unsigned index, bool suspect);

/* Receive comm: the words for closing on purpose. */
void recv_bye(struct anynet_comm *comm);

/* Receive comm: has the sender said that all its streams stand? */
bool recv_comm_ready(const struct anynet_comm *comm);
/* Which are they? Bit i = stream i. 0: its release does not say. */
uint64_t recv_streams_standing(const struct anynet_comm *comm);
/* Send comm: queue READY (first frame; all streams have been added) or BYE (last frame). */
void send_ready(struct anynet_comm *comm);
void send_bye(struct anynet_comm *comm);

#endif
