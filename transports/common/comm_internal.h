/* SPDX-License-Identifier: Apache-2.0 */
/* What send and receive comms share, and the pieces of the message layer that know it. */
#ifndef ANYNET_COMM_INTERNAL_H
#define ANYNET_COMM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <nccl_net/comm.h>
#include <nccl_net/util.h>
#include <nccl_net/wire.h>

#include "net.h"
#include "rail.h"

struct anynet_peer {
	char host[64];
	char device[64];
	char addr[64]; /* of rail 0 */
	uint32_t pid;
	uint32_t nccl_version;
};

/* One direction of traffic to one peer. Embedded first in send_comm and recv_comm. */
struct anynet_comm {
	bool is_send;
	bool threaded;     /* I/O threads serve it as well: every entry takes the lock */
	bool peer_closed;  /* the peer's end is shut, and nothing waited for it */
	_Atomic int error; /* 0, or the -errno that ended the comm */
	uint16_t rail_count;
	struct anynet_rail **rails; /* rail_count entries, NULL = not (or no longer) there */
	const struct anynet_device *dev;
	pthread_mutex_t lock;
	int epfd;          /* tells which of several rails are ready; -1 with one rail */
	int io_slot;       /* registration with the I/O threads; -1 = none */
	uint32_t endpoint; /* receive comm: its entry among the endpoints */
	uint64_t id;
	struct anynet_peer peer;
};

/* Embedded first in send_msg and recv_req: what NCCL holds as void *request. */
struct anynet_request {
	struct anynet_comm *comm;
	_Atomic bool done; /* release by whoever completes it, acquire in test */
};

/* Registered memory. TCP needs none; it is what deregMr's promise hangs on. */
struct anynet_mr {
	void *addr;
	size_t bytes;
	int type;
	/* Requests in flight that use it. Written by the comm's data thread only (its one caller, or
	 * whoever holds the lock), read by deregMr in another. */
	_Atomic unsigned in_flight;
};

static inline void mr_hold(struct anynet_mr *mr)
{
	if (mr)
		atomic_store_explicit(&mr->in_flight,
				      atomic_load_explicit(&mr->in_flight, memory_order_relaxed) +
					      1,
				      memory_order_relaxed);
}

static inline void mr_drop(struct anynet_mr *mr)
{
	if (mr)
		atomic_store_explicit(&mr->in_flight,
				      atomic_load_explicit(&mr->in_flight, memory_order_relaxed) -
					      1,
				      memory_order_release);
}

/* --- comm.c --- */

/* Set up or take down the shared part. rail_count rails, none there yet. */
int comm_init(struct anynet_comm *comm, bool is_send, const struct anynet_device *dev,
	      unsigned rail_count);
void comm_fini(struct anynet_comm *comm);

/* Give a comm its rail `index` over a connected socket, which it owns on success. */
int comm_add_rail(struct anynet_comm *comm, int fd, uint16_t index, uint32_t epoch);

/* All rails that will come are there: arrange polling, I/O threads. */
int comm_open(struct anynet_comm *comm);

/* End the comm: one WARN (peer, rail, cause, requests), and every request fails with `err` from now
 * on. Only the first call counts. The caller returns an error; whoever drives the rails closes them. */
void comm_fail(struct anynet_comm *comm, const struct anynet_rail *rail, int err, const char *fmt,
	       ...) ANYNET_PRINTF(4, 5) ANYNET_COLD;

/* End every rail; the peer sees it. Not from inside a rail's code. */
void comm_close_rails(struct anynet_comm *comm);

/* Rails parked at a frame may have become able to go on. */
void comm_unpark(struct anynet_comm *comm);

/* One turn over all rails: take in, then send. Returns 0 or the comm's error. */
int comm_turn(struct anynet_comm *comm);

/* Only the sending half: what is queued and has room. */
int comm_transmit(struct anynet_comm *comm);

static inline int comm_error(const struct anynet_comm *comm)
{
	return atomic_load_explicit(&comm->error, memory_order_acquire);
}

static inline void comm_enter(struct anynet_comm *comm)
{
	if (anynet_unlikely(comm->threaded))
		pthread_mutex_lock(&comm->lock);
}

static inline void comm_leave(struct anynet_comm *comm)
{
	if (anynet_unlikely(comm->threaded))
		pthread_mutex_unlock(&comm->lock);
}

/* --- send.c, recv.c: the two kinds of comm --- */

struct anynet_comm *send_comm_create(const struct anynet_device *dev, unsigned rail_count);
struct anynet_comm *recv_comm_create(const struct anynet_device *dev, unsigned rail_count,
				     uint32_t replay_bytes);
void send_comm_destroy(struct anynet_comm *comm);
void recv_comm_destroy(struct anynet_comm *comm);

int send_test(struct anynet_request *req, int *done, int *sizes);
int recv_test(struct anynet_request *req, int *done, int *sizes);

/* How many requests are not done. */
unsigned send_pending(const struct anynet_comm *comm);
unsigned recv_pending(const struct anynet_comm *comm);

/* Receive comm: has the sender said that all its rails stand? */
bool recv_comm_ready(const struct anynet_comm *comm);
/* Send comm: queue READY (first frame) or BYE (last frame). */
void send_ready(struct anynet_comm *comm, unsigned rails);
void send_bye(struct anynet_comm *comm);

/* --- io_threads.c --- */

int io_threads_add(struct anynet_comm *comm);     /* 0, or -errno: then the comm stays unthreaded */
void io_threads_remove(struct anynet_comm *comm); /* no thread touches it afterwards */

/* --- connect.c --- */

/* Free connects that NCCL abandoned: those past their deadline, or all that no call works on. */
void connect_trim(bool all);

/* --- linger.c: what sends reported done still has to reach the peer after close --- */

void linger_comm(struct anynet_comm *comm); /* takes it over */
void linger_trim(void);

#endif
