/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: state only, no I/O. The session posts sends and receives and asks whether they are done. Paths pull the
 * frames of sends and place those of receives (stream.h). The caller has the comm's lock. Faults are noted in the comm
 * (comm.h) and returned as -errno.
 */
#ifndef ANYNET_MESSAGE_H
#define ANYNET_MESSAGE_H

#include "message/comm.h"

/* Create a comm without streams. `replay_bytes`: size of the peer's replay ring. NULL = no memory. */
struct anynet_comm *send_create(const struct anynet_device *dev);
struct anynet_comm *recv_create(const struct anynet_device *dev, uint32_t replay_bytes);
void send_free(struct anynet_comm *comm);
void recv_free(struct anynet_comm *comm);

/* Post a send. 1: it is the only request not reported done; 0: there are others; -EAGAIN: no slot is free, or no room
 * in the ring for a copy; -EADDRNOTAVAIL: its memory must be registered; or another -errno. *req is set with 0 and 1.
 */
int send_post(struct anynet_comm *comm, const struct anynet_send *send, struct anynet_request **req);

/* Is there a slot for a send of `bytes`, and room for its copy if it is to be copied? Else ACKs that free them may be in the
 * sockets. */
bool send_has_room(struct anynet_comm *comm, size_t bytes);

/* Report a send that is done. `sizes` may be NULL. NCCL no longer uses the request. */
void send_report(struct anynet_request *req, int *sizes);

/* Post a receive, as anynet_irecv does. 0; -EAGAIN: all requests are in use; -EADDRNOTAVAIL: its memory must be
 * registered; or another -errno. */
int recv_post(struct anynet_comm *comm, const struct anynet_recv *recv, struct anynet_request **req);

/* Are control frames due? The caller then lets the streams transmit, because posted receives and held CTS are reported
 * only once. */
bool recv_has_to_tell(struct anynet_comm *comm);

/* As send_report. True: nothing is posted any more and the sender waits for an ACK or a CTS, so transmit now. */
bool recv_report(struct anynet_request *req, int *sizes);

/* Begin a flush (recv_flush.c). 0 or -errno. *req is left unchanged if there is nothing to wait for. recv_flush_done
 * returns 1: the flush is done and its request free; 0: not yet; or -errno. */
int recv_flush(struct anynet_comm *comm, int n, void *const *data, struct anynet_mr *const *mrs,
	       struct anynet_request **req);
int recv_flush_done(struct anynet_request *req);

/* What a comm of either kind can be asked about its requests. */
struct message_ops {
	/* Does a request in flight use this memory? */
	bool (*uses)(const struct anynet_comm *comm, const struct anynet_mr *mr);
	/* Totals: requests posted, modulo 2^32 and from cfg->first_number on; payload bytes sent or placed. */
	uint32_t (*requests)(const struct anynet_comm *comm);
	uint64_t (*bytes)(const struct anynet_comm *comm);
	/* A count that shows progress: messages acknowledged, or payload that has come. */
	uint64_t (*progress)(const struct anynet_comm *comm);
	/* The pending requests, for a log line: "3 sends, the oldest of 1048576 bytes, tag 7 (not fully sent)". */
	void (*describe)(const struct anynet_comm *comm, char *text, size_t bytes);
};

extern const struct message_ops send_ops, recv_ops;

static inline const struct message_ops *message_ops(const struct anynet_comm *comm)
{
	return comm->is_send ? &send_ops : &recv_ops;
}

/* Send comm: has there been no room for the latest send? */
bool send_refused(const struct anynet_comm *comm);

/* Does NCCL wait for this comm: for a request, or for room for one? */
static inline bool comm_is_waited_for(const struct anynet_comm *comm)
{
	return comm_pending(comm) || (comm->is_send && send_refused(comm));
}

/* Send comm, ten times a second: assume a somewhat higher rate of streams that send nothing while others do. */
void send_age_rates(struct anynet_comm *comm);

/* Send comm: is it certain that READY has arrived, or has it not been asked for? */
bool send_comm_ready(const struct anynet_comm *comm);

/* Send comm: are all messages acknowledged, and is it certain that READY has arrived? */
bool send_confirmed(const struct anynet_comm *comm);

/* Send comm: must streams retransmit bytes of a send that is done? NCCL may not call `test` any more, so the background
 * thread has to take the turns. */
bool send_owes(const struct anynet_comm *comm);

/* Receive comm: queue the ACKs and CTS last sent on stream `index` once more, because the sender may not have them. */
void recv_tell_again(struct anynet_comm *comm, unsigned index);

/* Receive comm, stream `index` has no connection: may the sender lack an ACK or CTS that is due, or was sent on it? */
bool recv_owes(const struct anynet_comm *comm, unsigned index);

/* Receive comm: queue SUSPECT for stream `index`, to be sent on another stream; or cancel it. */
void recv_suspect(struct anynet_comm *comm, unsigned index, bool suspect);

/* Receive comm: queue the last ACK, and BYE on every stream. */
void recv_bye(struct anynet_comm *comm);

/* Receive comm: has READY come? */
bool recv_comm_ready(const struct anynet_comm *comm);
/* Receive comm: the connected streams that READY has named, bit i = stream i. 0: the sender's release does not say. */
uint64_t recv_streams_standing(const struct anynet_comm *comm);
/* Send comm: queue READY, the first frame, when all streams have been added; or BYE, the last frame of each stream. */
void send_ready(struct anynet_comm *comm);
void send_bye(struct anynet_comm *comm);

#endif
