/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair: one end of an RC queue pair, with its completion queue and the memory that the NIC reads and
 * writes on its own. It carries the frames of one stream, between two ends that found each other by the
 * stream's TCP connection (docs/ib.md). Used by whoever has the stream's comm to himself.
 */
#ifndef ANYNET_IB_QP_H
#define ANYNET_IB_QP_H

#include <nccl_net/util.h>
#include <nccl_net/wire.h>

#include "device/ib_nic.h"
#include "memory/ib_mr.h"
#include "path/ib/ib_setup.h"

#define IB_SLOTS         32  /* frames that a receiving end takes before it has consumed one */
#define IB_SLOT_BYTES    512 /* header included: small messages travel in the frame */
#define IB_CONTROL_SLOTS 16  /* the same at a sending end, for CTS and acknowledgements */
#define IB_CONTROL_BYTES 128
#define IB_IMM_SIZE_MAX  0xffffffu /* the size is told in 24 bits */
#define IB_SQ_WRS        128
#define IB_INBOUND       (IB_SLOTS * 2)
#define IB_INLINE_WANTED 220
#define IB_PROOF_BYTES   4096 /* a packet of the largest MTU */

enum ib_qp_state {
	IB_QP_NEW,    /* the other end is not known */
	IB_QP_JOINED, /* connected; whether packets get through is not known, see ib_prove.c */
	IB_QP_UP,     /* they do */
	IB_QP_BROKEN, /* error, see `err` */
};

/* A frame that has come and is not consumed. */
struct ib_inbound {
	uint16_t slot;
	bool written; /* by RDMA WRITE WITH IMM, whose value is `imm`; else it lies in the slot */
	uint32_t imm, bytes;
};

/* Work requests with a completion to come, in their order. */
struct ib_signal {
	uint64_t frame; /* of the stream; all up to it have arrived then */
	uint32_t wrs;   /* posted in all, this one included */
};

/* What a queue pair has to know of the way to its peer. */
struct ib_path {
	struct ibv_ah_attr ah;
	enum ibv_mtu mtu;
	uint32_t qpn;                /* the peer's */
	uint32_t send_psn, recv_psn; /* of the first packets */
	uint16_t pkey_index;
};

struct ib_cm; /* ib_cm.c */

/* What the connector's proof waits for. */
enum ib_proof {
	IB_PROOF_WRITE,
	IB_PROOF_READ,
	IB_PROOF_SEND,
};

/* Registered memory: slots; a sending end's CTS ring before them, behind them `proof` and `copies`. */
struct ib_qp_memory {
	struct ibv_mr *mr;
	uint8_t *start;
	size_t bytes;
	struct anynet_wire_cts_ring *cts_ring;
	uint8_t *slots;
	uint8_t *proof;  /* sending end: IB_PROOF_BYTES */
	uint8_t *copies; /* IB_COPY_BYTES for each request, if inline_bytes is 0 */
	uint32_t slot_count, slot_bytes;
};

/* What a request may have. */
struct ib_qp_limits {
	uint32_t inline_bytes; /* IB_COPY_BYTES at least, or 0 */
	uint32_t packet_bytes; /* MTU of the path */
	uint32_t sges;         /* pieces of memory that it may be gathered from: 1 or 2 */
	uint32_t whole_max;    /* larger messages than this are no single WRITE WITH IMM */
};

/* The port that it uses, as it was when the queue pair was made. */
struct ib_qp_port {
	struct gid gid;
	struct ibv_port_attr attr;
	unsigned losses; /* carrier_losses() */
};

struct ib_qp_fault {
	int err;                 /* -errno, with IB_QP_BROKEN */
	uint32_t status, vendor; /* of the first completion with an error */
	_Atomic bool failed;     /* an async event said so; from another thread */
};

/* Requests posted in all, and done in all, as far as known. */
struct ib_send_queue {
	uint32_t posted, done, unsignalled;
	bool signal_all; /* it shares a ring: what is not known to have arrived holds up the others */
	struct ib_signal signals[IB_SQ_WRS];
	uint32_t head, tail; /* of `signals` */
};

struct ib_credits {
	uint32_t posted; /* sending end: frames, which the peer's slots are needed for */
	/* Receiving end: slots posted again, and as the peer knows; sending end: the most that the CTS ring said. */
	uint32_t consumed;
	uint32_t told;
};

struct ib_receive_queue {
	uint32_t posted; /* slots that have no completion */
	struct ib_inbound inbound[IB_INBOUND];
	uint32_t head, tail; /* of `inbound` */
};

/* Of its stream's comm, given back when the stream drops it. */
struct ib_qp_ring {
	struct ib_mr *mr;
	struct ib_mr_cache *cache; /* it is from */
};

struct ib_qp {
	struct ib_qp *next; /* among those that a stream has behind it */
	struct ib_nic *nic;
	struct ibv_cq *cq;
	struct ibv_qp *ibv;
	enum ib_qp_state state;
	bool is_send;
	enum ib_proof proving;
	uint32_t psn;
	struct ib_qp_limits limits;
	struct ib_qp_memory memory;
	struct ib_send_queue sq;
	struct ib_credits credits;
	struct ib_receive_queue rq;
	struct ib_qp_fault fault;
	struct ib_qp_ring ring;
	struct anynet_wire_qp peer; /* from joining on */
	struct anynet_wire_service service;
	bool wants_cm;    /* the connector has asked for the RDMA connection manager … */
	struct ib_cm *cm; /* … and uses it; NULL: the queue pair is connected by the hello */
	struct ib_qp_port port;
};

/* cts->check: a CTS whose bytes are not all there yet has another one. Whoever copies it, a NIC or the
 * kernel, need not begin at its beginning. */
static inline uint32_t ib_cts_check(const struct anynet_wire_cts *cts)
{
	uint64_t sum = cts->addr * 0x9e3779b97f4a7c15u;

	sum = (sum ^ sum >> 29 ^ cts->size) * 0xbf58476d1ce4e5b9u;
	sum = (sum ^ sum >> 32 ^ ((uint64_t)cts->rkey << 32 | cts->tag)) * 0x94d049bb133111ebu;
	sum = (sum ^ sum >> 31 ^ cts->seq) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(sum >> 32);
}

/* Room for `wrs` work requests more? */
static inline bool ib_qp_has_room(const struct ib_qp *qp, uint32_t wrs)
{
	return qp->sq.posted - qp->sq.done + wrs <= IB_SQ_WRS;
}

/* Free slots of the peer, as far as known; the CTS ring is read when there is none. With adaptive routing the peer's
 * writes may arrive out of order: a value below the known one, or above what was posted, is ignored. */
static inline uint32_t ib_qp_credits(struct ib_qp *qp)
{
	uint32_t taken = qp->credits.posted - qp->credits.consumed, told;

	if (anynet_likely(taken < qp->peer.slots))
		return qp->peer.slots - taken;
	told = __atomic_load_n(&qp->memory.cts_ring->consumed, __ATOMIC_ACQUIRE);
	if (told - qp->credits.consumed > taken)
		return 0;
	taken = qp->credits.posted - told;
	qp->credits.consumed = told;
	return taken < qp->peer.slots ? qp->peer.slots - taken : 0;
}

/* May small messages come in frames? Else each that has bytes waits for its CTS. */
static inline bool ib_qp_takes_frames(const struct ib_qp *qp)
{
	return __atomic_load_n(&qp->memory.cts_ring->frames, __ATOMIC_ACQUIRE);
}

/* Post a chain that ends in `last`, of `wrs` requests. `frame`: if the last one is signalled, the number
 * of the stream's frame that it ends. 0 or -errno. */
int ib_qp_post(struct ib_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr *last, uint32_t wrs,
	       uint64_t frame);

/* Have a request that is about to be posted send a copy of these bytes (ib_qp_copy_max at most): inline, or
 * out of the queue pair's own memory where the adapter takes no inline data. One in each chain. */
void ib_qp_copy(struct ib_qp *qp, struct ibv_send_wr *wr, const void *data, uint32_t bytes);
uint32_t ib_qp_copy_max(const struct ib_qp *qp);

/* A copy to the peer: as a frame, or to `addr` in its CTS ring. `last`: it has a completion. */
int ib_qp_say(struct ib_qp *qp, const void *data, uint32_t bytes, bool last);
int ib_qp_write(struct ib_qp *qp, const void *data, uint32_t bytes, uint64_t addr);

/* Take in completions: inbound are queued, *arrived (not NULL) is the last frame of the stream known to
 * have arrived, plus one. 0 or queue pair->err. */
int ib_qp_poll(struct ib_qp *qp, uint64_t *arrived);

static inline struct ib_inbound *ib_qp_inbound(struct ib_qp *qp)
{
	return qp->rq.head == qp->rq.tail ? NULL : &qp->rq.inbound[qp->rq.head % IB_INBOUND];
}

/* The first inbound is consumed: its slot is free again. The sending end is told of them from time to
 * time; ib_qp_tell does what for want of room was put off. 0 or queue pair->err. */
int ib_qp_consumed(struct ib_qp *qp);
int ib_qp_tell(struct ib_qp *qp);

/* A frame that says nothing, and has a completion. */
int ib_qp_ping(struct ib_qp *qp);

/* Post a receive for each slot; part of making one. */
int ib_qp_post_slots(struct ib_qp *qp);

/* Its queue pair from INIT to RTS, by this path (ib_rts.c); part of joining one. 0 or -errno. */
int ib_qp_to_rts(struct ib_qp *qp, const struct ib_path *path);

/* Nothing is written through it any more when it returns, 30 ms after the last completion at the latest; what had
 * arrived before is queued. A queue pair that does not flush all of its receives is destroyed, and with it what
 * they may have held. */
void ib_qp_fence(struct ib_qp *qp, uint64_t *arrived);

/* The same for a queue pair of a stream, which does without the RDMA connection manager from now on (ib_retire.c). */
void ib_qp_end(struct ib_qp *qp, uint64_t *arrived);
void ib_qp_destroy_qp(struct ib_qp *qp);

/* Free all that are retired; are there any? Any thread. */
void ib_qps_reap(void);
bool ib_qps_retired(void);

#endif
