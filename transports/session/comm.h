/* SPDX-License-Identifier: Apache-2.0 */
/* A comm's life: what is known of it beyond messages and paths, its streams, turns and errors. */
#ifndef ANYNET_SESSION_COMM_H
#define ANYNET_SESSION_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <nccl_net/wire.h>

#include "device/nics.h"
#include "message/message.h"
#include "session/recorder.h"

/* What the two ends of a comm need to find each other again. */
struct comm_paths {
	uint16_t version; /* of the wire, for all its connections */
	uint64_t comm_id;
	uint64_t comm_hash; /* NCCL's, 0 = not known … */
	int traffic_class;  /* … -1 = unset */
	uint32_t endpoint;  /* the acceptor's, and its token */
	uint8_t token[ANYNET_TOKEN_BYTES];
	uint8_t own_count, peer_count;
	const struct anynet_device *dev;                     /* the comm's … */
	const struct anynet_device *own[ANYNET_HELLO_ADDRS]; /* … and our NICs, its own first */
	/* Where each side listens; port 0: nowhere on this NIC. */
	struct anynet_wire_addr own_addrs[ANYNET_HELLO_ADDRS], peer[ANYNET_HELLO_ADDRS];
};

/* For the stats page: what happened to a comm, and what stats.c remembers of it between two looks. */
struct comm_tally {
	uint32_t breaks, recoveries; /* connections that broke, that were replaced */
	uint32_t stalls;             /* that were warned about */
	uint32_t counted;            /* requests when last looked, and in all: */
	uint64_t requests;
	uint64_t mark, mark_ms; /* requests at a look in the past; not all of them are done */
	uint64_t id, opened_ms; /* 0 = not looked at yet */
};

struct recovery;
struct stream_mail;

/* Of one comm. */
struct session {
	bool peer_lost;          /* comm->peer_closed, but it did not say so */
	bool listening;          /* send comm: holds the listening sockets (listen_hold) */
	bool tcp_only_told;      /* comm_tell_tcp_only has been called */
	bool unread;             /* comm_take_rest has left some */
	bool ended;              /* closed, and over: whoever has set this destroys it */
	_Atomic bool closing;    /* closed by NCCL, but not everything has reached the peer (drain.c) */
	_Atomic bool failing;    /* comm->error is being set, or was: the first error counts */
	_Atomic bool gpu_direct; /* GPU memory has been registered on its NIC */
	_Atomic bool carrier_event; /* look at the links of its NICs now */
	_Atomic bool probed;        /* sender: the peer has asked, for want of a stream */
	int slot;                /* in the registry; -1 = not there */
	int io_epfd;             /* of the I/O threads that serve it; -1 = none do … */
	uint64_t io_token;       /* … by this name */
	unsigned rtt_us;         /* of its slowest stream when it was opened */
	_Atomic(struct stream_mail *) mail; /* connections that resume a stream; newest first */
	struct comm_paths paths;
	uint64_t drain_until_ms;
	LIST_HEAD(, anynet_mr) borrowed;
	struct recovery *recovery; /* what is being done about broken streams; NULL = nothing */
	struct comm_watch {        /* watch.c */
		uint64_t progress; /* sum of progress counts when last looked */
		uint64_t acked; /* sender: bytes that the peer's host has acknowledged, when last looked */
		uint64_t since_ms;  /* since when it has not changed while something waits; 0 = not */
		uint64_t looked_ms; /* when that was */
		uint64_t pinged_ms; /* last heartbeat */
		uint64_t glanced;   /* progress at the last glance; the next one is due … */
		uint64_t glance_ms; /* … then */
		uint64_t pause_ms;  /* between glances */
		bool warned;        /* of this stall */
	} watch;
	struct comm_tally tally;
	struct recorder *recorder; /* what happened to it */
};

/* --- comm.c --- */

/* A comm of either kind with room for so many streams, none there yet. NULL = no memory. Not to be freed while it is in the
 * registry. */
struct anynet_comm *send_comm_create(const struct anynet_device *dev, unsigned stream_count);
struct anynet_comm *recv_comm_create(const struct anynet_device *dev, unsigned stream_count,
				     uint32_t replay_bytes);
void send_comm_destroy(struct anynet_comm *comm);
void recv_comm_destroy(struct anynet_comm *comm);

/* Give a comm its stream `index` over a connected socket, which it owns on success, and so it does `qp`
 * (NULL = none). `pair`: the NICs it joins, in the comm's paths. */
int comm_add_stream(struct anynet_comm *comm, int fd, uint16_t index, uint32_t epoch,
		    struct anynet_wire_pair pair, struct ib_qp *qp);

/* Before comm_open: close the streams that the sender does without (recv_streams_standing). */
void comm_keep_streams(struct anynet_comm *comm, uint64_t standing);

/* The one place where a stream's state changes. `why`: it becomes suspect; for the history. */
void comm_stream_change(struct anynet_comm *comm, struct anynet_stream *stream,
			enum stream_state to, const char *why);

/* End a stream's connection abruptly, because of `err` (0: it is being replaced). Its stream goes on
 * when it is resumed. */
void comm_sever(struct anynet_comm *comm, struct anynet_stream *stream, int err);

/* The stream is over for good. */
void comm_end_stream(struct anynet_comm *comm, struct anynet_stream *stream);
bool comm_has_streams(const struct anynet_comm *comm);

/* The NIC of ours that this connection was made to; NULL = none of the comm's. */
const struct anynet_device *comm_device_at(const struct anynet_comm *comm, int fd);

/* For a message. */
static inline const char *comm_first_path(const struct anynet_comm *comm)
{
	return comm->streams[0] ? comm->streams[0]->path : "closed already";
}

/* A stream's connection has ended, for whatever reason: what becomes of the stream and the comm is decided
 * here. Not from inside the stream's code. Returns the comm's error. */
int comm_stream_broke(struct anynet_comm *comm, struct anynet_stream *stream, int err) ANYNET_COLD;

/*
 * Of a receive comm: a queue pair that was left may have brought all that the sender, who has closed since, ever sent. What has
 * a receive by now is taken in, and with the sender's BYE the comm ends in order. As long as some of it waits for
 * receives, session->unread, the comm is not lost.
 */
void comm_take_rest(struct anynet_comm *comm);

/* A severed stream goes on over `fd`, which it owns from now on, from the receiver's position. If that is
 * impossible the comm fails. */
void comm_stream_back(struct anynet_comm *comm, struct anynet_stream *stream, int fd,
		      uint32_t epoch, struct anynet_wire_pair pair, struct stream_position from);

/* All streams that will come are there: arrange polling. */
int comm_open(struct anynet_comm *comm);

/* The I/O threads have begun to serve it (io_epfd): this connection, too. */
void comm_watch_by_threads(struct anynet_comm *comm, const struct anynet_stream *stream);

/* End the comm: one WARN (peer, stream, cause, requests), and every request fails with `err` from now
 * on. Only the first call counts. The caller returns an error; whoever drives the streams closes them. */
void comm_fail(struct anynet_comm *comm, const struct anynet_stream *stream, int err,
	       const char *fmt, ...) ANYNET_PRINTF(4, 5) ANYNET_COLD;

/* Something is asked of a comm whose peer has closed. Returns the error. */
int comm_refuse(struct anynet_comm *comm) ANYNET_COLD;

/* End every stream; the peer sees it. Not from inside a stream's code. */
void comm_close_streams(struct anynet_comm *comm);

/* What somebody left for this comm: connections that resume a stream, a look at how it is doing, steps
 * of recovery. Called with the lock, from comm_turn and by the background thread. */
void comm_attend(struct anynet_comm *comm);

/* From any thread, without the lock: let it attend soon, at once if nobody is at work on it. */
void comm_poke(struct anynet_comm *comm);

/* Is anything asked of it that has not been done yet? */
unsigned comm_pending(const struct anynet_comm *comm);

/* One turn over all streams: take in, then send. Returns 0 or the comm's error. */
int comm_turn(struct anynet_comm *comm);

/* Only the sending half: what is queued and has room. */
int comm_transmit(struct anynet_comm *comm);

/* For calls that must not wait: if somebody else is at work on the comm, the call is unnecessary. */
static inline bool comm_try_enter(struct anynet_comm *comm)
{
	return !atomic_exchange_explicit(&comm->busy, true, memory_order_acquire);
}

/* For calls that have to: others work on a comm for well under a millisecond, or as long as a call of
 * libibverbs takes that makes a queue pair or registers memory. */
void comm_enter(struct anynet_comm *comm);

static inline void comm_leave(struct anynet_comm *comm)
{
	atomic_store_explicit(&comm->busy, false, memory_order_release);
}

/* What has been noted below: it is told, and what follows from it is done. Returns the comm's error. */
int comm_settle(struct anynet_comm *comm) ANYNET_COLD;

/* 0 or what has ended the comm. What was noted counts before anything more is told to NCCL: a request whose bytes
 * could not be copied is done as well. */
static inline int comm_state(struct anynet_comm *comm)
{
	return anynet_unlikely(comm->noted) ? comm_settle(comm) : comm_error(comm);
}

/* --- memory.c --- */

/* It is tcp_only: one line of this level (ANYNET_LOG_NONE: the user has been told). Once. */
void comm_tell_tcp_only(struct anynet_comm *comm, int level) ANYNET_COLD;

/* A registration for memory that a request came without; mr_drop ends it. May break streams. 0 or -errno. */
int comm_borrow_mr(struct anynet_comm *comm, const void *addr, size_t bytes, struct anynet_mr **mr);

/* All requests end here: nothing touches their memory when it returns. False: it had failed before. */
bool comm_cancel(struct anynet_comm *comm);

/* --- drain.c: what sends reported done still has to reach the peer after close --- */

/* NCCL has closed it: say so to the peer. False: nothing is left to be done, destroy it. */
bool drain_start(struct anynet_comm *comm);

/* A look at a closed comm, with its lock: may it be destroyed? */
bool drain_over(struct anynet_comm *comm);

#endif
