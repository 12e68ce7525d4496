/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a comm: its streams, turns, errors and end. struct session holds what messages and paths do not need;
 * message/comm.h has the rest of a comm. */
#ifndef ANYNET_SESSION_COMM_H
#define ANYNET_SESSION_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <nccl_net/wire.h>

#include "device/nics.h"
#include "message/message.h"
#include "session/recorder.h"

/* What a comm needs to dial its peer again and to be recognised by it. Only `carried` changes after set-up. */
struct comm_paths {
	uint16_t version; /* wire version of all its connections */
	uint64_t comm_id;
	uint64_t comm_hash; /* NCCL's communicator hash; 0 = not known */
	int traffic_class;  /* NCCL's; -1 = unset */
	uint32_t endpoint;  /* number of the acceptor's endpoint, which has `token` */
	uint8_t token[ANYNET_TOKEN_BYTES];
	uint8_t own_count, peer_count;
	const struct anynet_device *dev;                     /* the comm's device */
	const struct anynet_device *own[ANYNET_HELLO_ADDRS]; /* NICs of this side, those of `dev` first */
	/* Where each side listens, own_addrs in the order of `own`. Port 0: not on this NIC. */
	struct anynet_wire_addr own_addrs[ANYNET_HELLO_ADDRS], peer[ANYNET_HELLO_ADDRS];
	/* Which pairs have carried a stream (pairs_note): for each NIC of `own` a bit for each address of `peer`. */
	uint8_t carried[ANYNET_HELLO_ADDRS];
};

/* For the statistics: what happened to a comm. stats.c keeps the fields from `counted` on between its rounds. */
struct comm_tally {
	uint32_t breaks, recoveries; /* connections that broke, and that were replaced after that */
	uint32_t stalls;             /* stalls that were warned of */
	uint32_t counted;            /* count of requests in the last round, modulo 2^32 */
	uint64_t requests;
	uint64_t mark, mark_ms; /* `requests` in an earlier round, which are not all done; its time */
	uint64_t id, opened_ms; /* id 0: stats.c has not seen the comm yet */
};

struct recovery;
struct stream_mail;

/* The session's part of a comm. With the comm's lock, except for atomic fields. */
struct session {
	bool peer_lost;          /* with comm->peer_closed: recovery gave up, the peer did not close */
	bool listening;          /* send comm: keeps the listening sockets open (listen_hold) */
	bool unread;             /* received frames wait for receives (comm_take_rest) */
	_Atomic bool closing;    /* closed by NCCL, and draining (drain.c) */
	_Atomic bool gpu_direct; /* GPU memory has been registered on its NIC */
	_Atomic bool carrier_event; /* a carrier has changed: check the links of its NICs */
	_Atomic bool probed;        /* sender: the peer has sent a PROBE */
	int slot;                /* index in the registry; -1 = not registered */
	int io_epfd;             /* epoll set of the I/O threads that serve it; -1 = none do */
	uint64_t slot_token;     /* names it to registry_hold; the epoll data of its streams */
	unsigned rtt_us;         /* largest round trip of its streams when it was opened */
	_Atomic(struct stream_mail *) mail; /* connections with RESUME or QP, newest first */
	struct comm_paths paths;
	uint64_t drain_until_ms; /* 0 = not closed */
	LIST_HEAD(, anynet_mr) borrowed;
	struct recovery *recovery; /* reconnects in progress; NULL = none */
	struct comm_watch {        /* watch.c */
		uint64_t progress; /* progress count at the last check */
		uint64_t acked; /* sender: bytes acknowledged, in steps of STREAM_PROGRESS_BYTES or more */
		uint64_t since_ms;  /* pending requests have not progressed since then; 0 = none are pending */
		uint64_t looked_ms; /* last check by watch_comm */
		uint64_t pinged_ms; /* last heartbeat */
		uint64_t glanced;    /* progress count at the last watch_glance */
		uint64_t glanced_ms; /* its time */
		uint64_t pause_ms;   /* until the next one */
		_Atomic bool out;   /* something is not acknowledged, and nothing moves: the next glance is to be soon */
		bool warned;        /* this stall has been warned of */
	} watch;
	struct comm_tally tally;
	struct recorder recorder; /* its latest events */
};

/* --- comm.c --- */

/* Create a comm with room for `stream_count` streams and none yet; NULL = no memory. comm_destroy frees it.
 * `replay_bytes`: size of the sender's replay ring. */
struct anynet_comm *send_comm_create(const struct anynet_device *dev, unsigned stream_count);
struct anynet_comm *recv_comm_create(const struct anynet_device *dev, unsigned stream_count,
				     uint32_t replay_bytes);

/* At set-up: create stream `index` over the connected socket `fd`, with the joined queue pair `qp` (NULL = none). On
 * success the stream owns both. `pair`: the NICs it joins, in the comm's paths. 0 or -ENOMEM. */
int comm_add_stream(struct anynet_comm *comm, int fd, uint16_t index, uint32_t epoch,
		    struct anynet_wire_pair pair, struct ib_qp *qp);

/* Receive comm, before comm_open: close the streams that READY does not name, because the sender has given them
 * up. A READY that names none keeps all. */
void comm_keep_streams(struct anynet_comm *comm);

/* Change a stream's state. Nothing else does. A receiver tells the sender of a SUSPECT one. `why`: the cause of
 * STREAM_SUSPECT, for the recorder; else NULL. */
void comm_stream_change(struct anynet_comm *comm, struct anynet_stream *stream,
			enum stream_state to, const char *why);

/* Close a stream's connection at once. The stream stays, and comm_stream_back continues it. `err`: the -errno that
 * broke the connection; 0 = it is being replaced. */
void comm_sever(struct anynet_comm *comm, struct anynet_stream *stream, int err);

/* Close a stream for good and free it. */
void comm_end_stream(struct anynet_comm *comm, struct anynet_stream *stream);

/* How many streams it still has. */
unsigned comm_streams(const struct anynet_comm *comm);

/* The NICs that the accepted connection `fd` joins, in the comm's paths; `otherwise` if one of them is not there. */
struct anynet_wire_pair comm_pair_at(const struct anynet_comm *comm, int fd,
				     struct anynet_wire_pair otherwise);

/* The NIC of this side at which the accepted connection `fd` arrived; NULL = none of the comm's. */
const struct anynet_device *comm_device_at(const struct anynet_comm *comm, int fd);

/* Has NCCL closed the comm? It drains, and nothing is posted any more. */
static inline bool comm_is_closed(const struct anynet_comm *comm)
{
	return comm->session->drain_until_ms;
}

/* Continue a severed stream over `fd` from the receiver's position. The stream owns `fd`, even if this fails. An
 * impossible position fails the comm. */
void comm_stream_back(struct anynet_comm *comm, struct anynet_stream *stream, int fd,
		      uint32_t epoch, struct anynet_wire_pair pair, struct stream_position from);

/* End of set-up: no stream is added any more. Prepare polling. 0 or -errno; it may be called again after an error. */
int comm_open(struct anynet_comm *comm);

/* Log that NCCL gets the comm, and what differs between the two processes. With the comm's lock, if others know it. */
void comm_tell_opened(const struct anynet_comm *comm);

/* Add the stream's connection to the epoll set of the I/O threads, if they serve the comm (io_epfd). */
void comm_watch_by_threads(struct anynet_comm *comm, const struct anynet_stream *stream);

/* End the comm: log one WARN with peer, stream (NULL = none), cause and number of pending requests, then the recorder's
 * events. From then on every request fails with `err`. Only the first call has an effect. It does not close the
 * streams: that is up to the caller. With the comm's lock. */
void comm_fail(struct anynet_comm *comm, const struct anynet_stream *stream, int err,
	       const char *fmt, ...) ANYNET_PRINTF(4, 5) ANYNET_COLD;

/* Close and free all streams; the peer sees their connections end. Not from a stream's code. */
void comm_close_streams(struct anynet_comm *comm);

/* Take the comm's lock if it is free. For calls that must not wait: a thread that has the lock does their work. */
static inline bool comm_try_enter(struct anynet_comm *comm)
{
	return !atomic_exchange_explicit(&comm->busy, true, memory_order_acquire);
}

/* Wait for the comm's lock. Others hold it for well under a millisecond, or for as long as libibverbs takes to create a
 * queue pair or to register memory. */
void comm_enter(struct anynet_comm *comm);

static inline void comm_leave(struct anynet_comm *comm)
{
	atomic_store_explicit(&comm->busy, false, memory_order_release);
}

/* --- turn.c --- */

/* Do the work that comm->attention announces: answer connections with RESUME or QP, check the comm's health if that
 * is due, take a step of recovery. With the comm's lock. May free streams and fail the comm. */
void comm_attend(struct anynet_comm *comm);

/* Set comm->attention, and call comm_attend at once if no other thread has the comm's lock. Any thread, without that
 * lock. */
void comm_poke(struct anynet_comm *comm);

/* One turn over all streams: receive, then, on a send comm, transmit. Returns 0 or the comm's error. */
int comm_turn(struct anynet_comm *comm);

/* Only transmit, on a comm of either kind. Returns 0 or the comm's error. */
int comm_transmit(struct anynet_comm *comm);

/* --- breaks.c --- */

/* A stream's connection has ended with `err` (-errno): reconnect the stream, end it, or fail the comm. Closes all
 * streams if the comm has failed or the peer has closed it. May free the stream, so it must not be called from the
 * stream's code. Returns the comm's error. */
int comm_stream_broke(struct anynet_comm *comm, struct anynet_stream *stream, int err) ANYNET_COLD;

/*
 * Receive comm of an IB device: take in frames that the former queue pairs of broken streams have received, as far as
 * receives are posted. The sender may have sent everything and closed since; its BYE then ends the comm without an
 * error. While frames still wait for receives that NCCL may post, session->unread is set, and recovery must not give up.
 * If a receive is posted, they wait for what another stream has to bring, and it may.
 */
void comm_take_rest(struct anynet_comm *comm);

/* Act on what messages and paths have noted (comm->noted): log it, suspect streams, fail the comm. Returns the comm's
 * error. */
int comm_settle(struct anynet_comm *comm) ANYNET_COLD;

/* The comm's error, after settling what has been noted; 0 = none. Call it before a request is reported done: one whose
 * payload could not be copied is marked done, too. */
static inline int comm_state(struct anynet_comm *comm)
{
	return anynet_unlikely(comm->noted) ? comm_settle(comm) : comm_error(comm);
}

/* Log, at this level, and record that the comm has become tcp_only, and why. ANYNET_LOG_NONE: record only, because it has
 * been logged. */
void comm_tell_tcp_only(struct anynet_comm *comm, int level) ANYNET_COLD;

/* --- reg_mr.c --- */

/* Register host memory for one request that NCCL posted without a registration. mr_drop frees it. With the comm's lock.
 * May break streams. 0 or -errno. */
int comm_borrow_mr(struct anynet_comm *comm, const void *addr, size_t bytes, struct anynet_mr **mr);

/* Fail the comm with -ECANCELED and close its streams: nothing accesses its requests' memory afterwards. With the
 * comm's lock. False: it had failed before. */
bool comm_cancel(struct anynet_comm *comm);

/* --- drain.c: what sends reported done still has to reach the peer after close --- */

/* NCCL closes the comm: queue BYE and start to drain. True: call drain_over until it returns true. False: nothing is
 * left to deliver, destroy the comm now. */
bool drain_start(struct anynet_comm *comm);

/* One step of draining, with the comm's lock. True: the comm may be destroyed. */
bool drain_over(struct anynet_comm *comm);

/* With the comm's lock, at exit: does a comm that NCCL has not closed hold sends, all reported done, that the peer's host may not
 * have? If only a queue pair knows, it is asked by a heartbeat: call again. */
bool drain_has_unsent(struct anynet_comm *comm);

/* Close what is open and free the comm. Not while it is in the registry. */
void comm_destroy(struct anynet_comm *comm);

#endif
