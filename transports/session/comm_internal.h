/* SPDX-License-Identifier: Apache-2.0 */
/* What send and receive comms share, and the pieces of the message layer that know it. */
#ifndef ANYNET_COMM_INTERNAL_H
#define ANYNET_COMM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <nccl_net/comm.h>
#include <nccl_net/util.h>
#include <nccl_net/wire.h>

#include "base/net.h"
#include "base/os.h"
#include "device/nics.h"
#include "memory/gpu.h"
#include "memory/ib_memory.h"
#include "memory/mr.h"
#include "path/rail.h"
#include "session/recorder.h"
#include "wire/hello.h"

/* What the two ends of a comm need to find each other again. */
struct comm_paths {
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
	uint32_t breaks, heals; /* connections that broke, that were replaced */
	uint32_t again;         /* frames to be sent again */
	uint32_t stalls;        /* that were warned about */
	uint32_t counted;       /* requests when last looked, and in all: */
	uint64_t requests;
	uint64_t mark, mark_ms; /* requests at a look in the past; not all of them are done */
	uint64_t id, opened_ms; /* 0 = not looked at yet */
};

struct heal;
struct rail_mail;

/* One direction of traffic to one peer. Embedded first in send_comm and recv_comm. */
struct anynet_comm {
	bool is_send;
	bool peer_closed; /* the peer's end is shut, and nothing waited for it */
	bool peer_lost;   /* peer_closed, but it did not say so */
	bool listening;   /* send comm: holds the listening sockets (listen_hold) */
	bool checksum;    /* frames carry checksums: either side wants it */
	bool spread;      /* send comm of an IB device: its rails are of several pairs of ports */
	/* Of an IB device: no queue pairs for it, since the peer has none, or memory cannot be registered. */
	_Atomic bool unlinked;
	_Atomic bool
		closing;   /* closed by NCCL, but not everything has reached the peer (linger.c) */
	_Atomic int error; /* 0, or the -errno that ended the comm */
	_Atomic bool failing;    /* it is being set, or was: the first error counts */
	struct gpu *gpu;         /* that memory of its requests is on; NULL = none is */
	_Atomic bool gpu_direct; /* GPU memory has been registered on its NIC */
	uint16_t rail_count;
	uint16_t down;              /* rails that stood once and have no connection */
	struct anynet_rail **rails; /* rail_count entries, NULL = never stood, or ended by BYE */
	const struct anynet_device *dev;
	/* The lock of all of it, but `error`, `attention`, `mail`, … A flag and no mutex, because data
	 * calls only ever try it: one locked instruction (mutex: 9 % of small messages' time). */
	_Atomic bool busy;
	int epfd;          /* tells which of several rails are ready; -1 with one rail */
	bool ended;        /* closed, and over: whoever has set this destroys it */
	int slot;          /* in the registry; -1 = not there */
	int io_epfd;       /* of the I/O threads that serve it; -1 = none do … */
	uint64_t io_token; /* … by this name */
	unsigned rtt_us;   /* of its slowest rail when it was opened */
	/* Something waits for comm_attend: set by anybody, seen at the next turn. */
	_Atomic bool attention;
	_Atomic bool link_event;          /* look at the links of its NICs now */
	_Atomic bool probed;              /* sender: the peer has asked, for want of a rail */
	_Atomic(struct rail_mail *) mail; /* connections that resume a rail; newest first */
	struct comm_paths paths;
	struct anynet_peer peer;
	uint64_t linger_until_ms;
	LIST_HEAD(, anynet_mr) borrowed;
	struct heal *heal;  /* heal.c: what is being done about broken rails; NULL = nothing */
	struct comm_watch { /* watch.c */
		uint64_t progress; /* sum of progress counts when last looked */
		uint64_t
			acked; /* sender: bytes that the peer's host has acknowledged, when last looked */
		uint64_t
			since_ms; /* since when it has not changed while something waits; 0 = not */
		uint64_t looked_ms; /* when that was */
		uint64_t pinged_ms; /* last heartbeat */
		bool warned;        /* of this stall */
	} watch;
	struct comm_tally tally;
	struct recorder *recorder; /* what happened to it */
};

/* Embedded first in send_msg and recv_req: what NCCL holds as void *request. */
struct anynet_request {
	struct anynet_comm *comm;
	_Atomic bool done; /* release by whoever completes it, acquire in test */
	bool is_flush;
};

/* --- comm.c --- */

/* Close everything and free the comm, of either kind. Not if it is in the registry. */
void comm_destroy(struct anynet_comm *comm);

/* Set up or take down the shared part. rail_count rails, none there yet. */
int comm_init(struct anynet_comm *comm, bool is_send, const struct anynet_device *dev,
	      unsigned rail_count);
void comm_fini(struct anynet_comm *comm);

/* Give a comm its rail `index` over a connected socket, which it owns on success, and so it does `link`
 * (NULL = none). `pair`: the NICs it joins, in the comm's paths. */
int comm_add_rail(struct anynet_comm *comm, int fd, uint16_t index, uint32_t epoch,
		  struct anynet_wire_rail pair, struct ib_link *link);

/* End a rail's connection abruptly, because of `err` (0: it is being replaced). Its stream goes on
 * when it is resumed. */
void comm_sever(struct anynet_comm *comm, struct anynet_rail *rail, int err);

/* The rail is over for good. */
void comm_end_rail(struct anynet_comm *comm, struct anynet_rail *rail);
bool comm_has_rails(const struct anynet_comm *comm);

/* The NIC of ours that this connection was made to; NULL = none of the comm's. */
const struct anynet_device *comm_device_at(const struct anynet_comm *comm, int fd);

/* Is it an IB device's: memory is registered, receives are granted? */
static inline bool comm_is_ib(const struct anynet_comm *comm)
{
	return comm->dev->link == ANYNET_LINK_IB;
}

/* For a message. */
static inline const char *comm_first_path(const struct anynet_comm *comm)
{
	return comm->rails[0] ? comm->rails[0]->path : "closed already";
}

/* A rail's connection has ended, for whatever reason: what becomes of the rail and the comm is decided
 * here. Not from inside the rail's code. Returns the comm's error. */
int comm_rail_broke(struct anynet_comm *comm, struct anynet_rail *rail, int err) ANYNET_COLD;

/* A severed rail goes on over `fd`, which it owns from now on, from the receiver's position. If that is
 * impossible the comm fails. */
void comm_rail_back(struct anynet_comm *comm, struct anynet_rail *rail, int fd, uint32_t epoch,
		    struct anynet_wire_rail pair, uint64_t frames, uint32_t part);

/* All rails that will come are there: arrange polling. */
int comm_open(struct anynet_comm *comm);

/* The I/O threads have begun to serve it (io_epfd): this connection, too. */
void comm_watch_by_threads(struct anynet_comm *comm, const struct anynet_rail *rail);

/* End the comm: one WARN (peer, rail, cause, requests), and every request fails with `err` from now
 * on. Only the first call counts. The caller returns an error; whoever drives the rails closes them. */
void comm_fail(struct anynet_comm *comm, const struct anynet_rail *rail, int err, const char *fmt,
	       ...) ANYNET_PRINTF(4, 5) ANYNET_COLD;

/* Something is asked of a comm whose peer has closed. Returns the error. */
int comm_refuse(struct anynet_comm *comm) ANYNET_COLD;

/* End every rail; the peer sees it. Not from inside a rail's code. */
void comm_close_rails(struct anynet_comm *comm);

/* Rails parked at a frame may have become able to go on. */
void comm_unpark(struct anynet_comm *comm);

/* What somebody left for this comm: connections that resume a rail, a look at how it is doing, steps
 * of healing. Called with the lock, from comm_turn and by the guardian. */
void comm_attend(struct anynet_comm *comm);

/* From any thread, without the lock: let it attend soon, at once if nobody is at work on it. */
void comm_poke(struct anynet_comm *comm);

/* Is anything asked of it that has not been done yet? */
unsigned comm_pending(const struct anynet_comm *comm);

/* One turn over all rails: take in, then send. Returns 0 or the comm's error. */
int comm_turn(struct anynet_comm *comm);

/* Only the sending half: what is queued and has room. */
int comm_transmit(struct anynet_comm *comm);

static inline int comm_error(const struct anynet_comm *comm)
{
	return atomic_load_explicit(&comm->error, memory_order_acquire);
}

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

/* --- memory.c --- */

/* From now on no rail has a link; `why` is a WARN. Those that have one are the caller's to break. */
void comm_unlink(struct anynet_comm *comm, const char *why) ANYNET_COLD;

/* A registration for memory that a request came without; mr_drop ends it. May break rails. 0 or -errno. */
int comm_borrow_mr(struct anynet_comm *comm, const void *addr, size_t bytes, struct anynet_mr **mr);

/* All requests end here: nothing touches their memory when it returns. False: it had failed before. */
bool comm_cancel(struct anynet_comm *comm);

/* A request uses GPU memory: from now on the comm knows. */
static inline void comm_note_gpu(struct anynet_comm *comm, const struct anynet_mr *mr)
{
	if (anynet_unlikely(mr && mr->gpu && !comm->gpu))
		comm->gpu = mr->gpu;
}

/* Memory of the GPU could not be copied: ends the comm. Returns the error. */
int comm_gpu_failed(struct anynet_comm *comm, const struct anynet_rail *rail) ANYNET_COLD;

/* --- send.c, recv.c: the two kinds of comm --- */

struct anynet_comm *send_comm_create(const struct anynet_device *dev, unsigned rail_count);
struct anynet_comm *recv_comm_create(const struct anynet_device *dev, unsigned rail_count,
				     uint32_t replay_bytes);
void send_comm_destroy(struct anynet_comm *comm);
void recv_comm_destroy(struct anynet_comm *comm);

int send_test(struct anynet_request *req, int *done, int *sizes);
int recv_test(struct anynet_request *req, int *done, int *sizes);

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

/* Send comm: has the peer acknowledged every message? */
bool send_confirmed(const struct anynet_comm *comm);

/* Receive comm: tell on rail `index` again what the sender may have missed there. */
void recv_tell_again(struct anynet_comm *comm, unsigned index);

/* Receive comm: has something been told on rail `index` that the sender may not know? */
bool recv_told_on(const struct anynet_comm *comm, unsigned index);

/* Receive comm: the path of rail `index` is in doubt, tell the sender over another rail; or it is not. */
void recv_doubt(struct anynet_comm *comm, unsigned index, bool doubt);

/* Receive comm: the words for closing on purpose. */
void recv_bye(struct anynet_comm *comm);

/* Receive comm: has the sender said that all its rails stand? */
bool recv_comm_ready(const struct anynet_comm *comm);
/* Send comm: queue READY (first frame) or BYE (last frame). */
void send_ready(struct anynet_comm *comm, unsigned rails);
void send_bye(struct anynet_comm *comm);

/* --- linger.c: what sends reported done still has to reach the peer after close --- */

/* NCCL has closed it: say so to the peer. False: nothing is left to be done, destroy it. */
bool linger_start(struct anynet_comm *comm);

/* A look at a closed comm, with its lock: may it be destroyed? */
bool linger_over(struct anynet_comm *comm);

#endif
