/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm as messages and paths know it: one direction of traffic to one peer, over one or several streams. Its life is
 * the session's (session/comm.h), which reads here what has gone wrong below it: nothing below ends a comm.
 */
#ifndef ANYNET_MESSAGE_COMM_H
#define ANYNET_MESSAGE_COMM_H

#include <stdatomic.h>

#include <nccl_net/comm.h>
#include <nccl_net/util.h>

#include "base/net.h"
#include "base/os.h"
#include "memory/gpu.h"
#include "memory/ib_memory.h"
#include "memory/mr.h"
#include "message/stream.h"
#include "wire/hello.h"

struct session;

/* What is wrong, for whoever turns the comm: the first fault counts, and ends it. */
struct comm_fault {
	int err; /* -errno; 0 = none */
	const struct anynet_stream *stream; /* NULL = not of one */
	char text[320];
	char tcp_only_why[200];
};

/* Embedded first in send_comm and recv_comm. With the comm's lock, but for what is atomic. */
struct anynet_comm {
	bool is_send;
	bool peer_closed; /* the peer's end is shut, and nothing waited for it */
	bool checksum;    /* frames carry checksums: either side wants it */
	bool spread;      /* send comm of an IB device: its streams are of several pairs of ports */
	/* Of an IB device: no queue pairs for it, since the peer has none, or memory cannot be registered. */
	_Atomic bool tcp_only;
	_Atomic int error; /* 0, or the -errno that ended the comm */
	/* The lock. A flag and no mutex, because data calls only ever try it: one locked instruction (mutex: 9 % of
	 * small messages' time). */
	_Atomic bool busy;
	_Atomic bool attention; /* something waits for comm_attend: set by anybody, seen at the next turn */
	bool noted;             /* for the session: a fault, a suspicion, that it is tcp_only */
	uint8_t turns; /* as a count that wraps */
	int epfd;      /* tells which of several streams are ready; -1 with one stream */
	uint16_t stream_count;
	uint16_t down; /* streams that stood once and have no connection */
	/* stream_count entries, NULL = never stood, or ended by BYE */
	struct anynet_stream **streams;
	const struct anynet_device *dev;
	struct gpu *gpu;  /* that memory of its requests is on; NULL = none is */
	uint32_t rewound; /* frames to be retransmitted, in all */
	struct anynet_peer peer;
	struct comm_fault fault;
	struct session *session;
};

/* Embedded first in send_msg and recv_req: what NCCL holds as void *request. */
struct anynet_request {
	struct anynet_comm *comm;
	_Atomic bool done; /* release by whoever completes it, acquire in test */
	bool is_flush;
};

/* Note a fault; the caller returns an error, or lets its caller find out. */
void comm_note_fault(struct anynet_comm *comm, const struct anynet_stream *stream, int err,
		     const char *fmt, ...) ANYNET_PRINTF(4, 5) ANYNET_COLD;

/* The same: memory of the GPU could not be copied. Returns the error. */
int comm_note_gpu_fault(struct anynet_comm *comm, const struct anynet_stream *stream) ANYNET_COLD;

/* From now on no stream has a queue pair. Those that have one are the caller's to break. False: it was so already. */
bool comm_use_tcp(struct anynet_comm *comm, const char *why) ANYNET_COLD;

/* Streams parked at a frame may have become able to go on. */
void comm_unpark(struct anynet_comm *comm);

static inline int comm_error(const struct anynet_comm *comm)
{
	return atomic_load_explicit(&comm->error, memory_order_acquire);
}

/* Is it an IB device's: memory is registered, receives get a CTS? */
static inline bool comm_is_ib(const struct anynet_comm *comm)
{
	return comm->dev->link == ANYNET_LINK_IB;
}

/* A request uses GPU memory: from now on the comm knows. */
static inline void comm_note_gpu(struct anynet_comm *comm, const struct anynet_mr *mr)
{
	if (anynet_unlikely(mr && mr->gpu && !comm->gpu))
		comm->gpu = mr->gpu;
}

#endif
