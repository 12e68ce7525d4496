/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm as messages and paths know it: one direction of traffic to one peer, over one or several streams. The session
 * (session/comm.h) creates and ends it. Code below the session only notes here what has gone wrong.
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

/* What messages and paths have noted. Only the first fault is kept; the session fails the comm with it. */
struct comm_fault {
	int err;                            /* -errno; 0 = none */
	const struct anynet_stream *stream; /* NULL = it concerns no single stream */
	char text[320];
};

/* Comm of an IB device: where it makes no queue pairs, because the peer has none or memory cannot be registered. */
struct comm_tcp {
	_Atomic bool only; /* nowhere: TCP carries all its data */
	char why[200];     /* reason of comm_use_tcp until it has been logged; "" = none */
	uint64_t nics;     /* not on these NICs: bit i = the one with index i */
};

struct comm_counts {
	uint32_t pending; /* requests that are not done, flushes excluded */
	uint32_t rewound; /* frames to be retransmitted, in all; modulo 2^32 */
};

/* First member of send_comm and recv_comm. The comm's lock protects everything that is not atomic. */
struct anynet_comm {
	bool is_send;
	/* The peer has closed it or is gone, and no request was pending: the next one fails, but for a receive that
	 * unexpected messages fill. Atomic: a PROBE is answered without the lock. */
	_Atomic bool peer_closed;
	bool checksum;    /* frames carry checksums, because one side wants them */
	bool spread;      /* send comm of an IB device: its streams use several pairs of ports */
	struct comm_tcp tcp;
	_Atomic int error; /* 0, or the -errno that ended the comm */
	/* The lock. A flag, because data calls only try it, which takes one locked instruction. A mutex took 9 % of the
	 * time of small messages. */
	_Atomic bool busy;
	_Atomic bool attention; /* comm_attend is due at the next turn; any thread may set it */
	bool noted;             /* comm_settle is due: a fault, a SUSPECT report or tcp.only has been noted */
	uint8_t turns;          /* modulo 256 */
	int epfd;               /* epoll set of the streams; -1 = none, with one stream */
	uint16_t stream_count;
	uint16_t down; /* streams that had a connection and have none now */
	/* stream_count entries; NULL = never connected, or ended by BYE */
	struct anynet_stream **streams;
	const struct anynet_device *dev;
	struct gpu *gpu; /* GPU whose memory its requests have used first; NULL = none */
	struct comm_counts counts;
	struct anynet_peer peer;
	struct comm_fault fault;
	struct session *session;
};

/* First member of send_msg, recv_req and recv_flush. NCCL holds a pointer to it as void *request. */
struct anynet_request {
	struct anynet_comm *comm;
	_Atomic bool done; /* stored with release on completion, loaded with acquire in anynet_test */
	bool is_flush;
};

/* Notes a fault. The caller then returns an error; if it cannot, the next comm_settle finds the fault. */
void comm_note_fault(struct anynet_comm *comm, const struct anynet_stream *stream, int err,
		     const char *fmt, ...) ANYNET_PRINTF(4, 5) ANYNET_COLD;

/* As comm_note_fault, for a failed copy of this GPU's memory. Returns the noted error, -EIO. */
int comm_note_gpu_fault(struct anynet_comm *comm, const struct anynet_stream *stream,
			const struct gpu *gpu) ANYNET_COLD;

/* Makes the comm use TCP only. The caller breaks the streams that have a queue pair. False = it did so before. */
bool comm_use_tcp(struct anynet_comm *comm, const char *why) ANYNET_COLD;

/* May the comm make queue pairs on this NIC? */
static inline bool comm_may_use_nic(const struct anynet_comm *comm, const struct anynet_device *nic)
{
	return !(comm->tcp.nics >> nic->index & 1);
}

/* Unparks all streams: the frames at their heads may have a place now. */
void comm_unpark(struct anynet_comm *comm);

static inline int comm_error(const struct anynet_comm *comm)
{
	return atomic_load_explicit(&comm->error, memory_order_acquire);
}

/* Frames of the stream that have been sent (send comm) or consumed (receive comm), over all paths. */
static inline uint64_t stream_frames(const struct anynet_stream *stream)
{
	return stream->comm->is_send ? stream->log.next : stream->at.frames;
}

/* Number of requests that are not done. */
static inline unsigned comm_pending(const struct anynet_comm *comm)
{
	return comm->counts.pending;
}

/* Is it a comm of an IB device? Then memory is registered, and receives get a CTS. */
static inline bool comm_is_ib(const struct anynet_comm *comm)
{
	return comm->dev->transport == ANYNET_TRANSPORT_IB;
}

/* For log lines: "send to" or "receive from" its peer. */
static inline const char *comm_direction(const struct anynet_comm *comm)
{
	return comm->is_send ? "send to" : "receive from";
}

/* A request uses GPU memory. Sets comm->gpu at the first one. */
static inline void comm_note_gpu(struct anynet_comm *comm, const struct anynet_mr *mr)
{
	if (!comm->gpu)
		comm->gpu = mr->gpu;
}

#endif
