/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of an RC queue pair, with its completion queue and the plugin's memory that the NIC reads and writes. It
 * carries the frames of one stream. The two ends exchange their addresses over a TCP connection (docs/ib.md). Unless
 * stated otherwise, the caller has exclusive access to the stream's comm.
 */
#ifndef ANYNET_IB_QP_H
#define ANYNET_IB_QP_H

#include <nccl_net/util.h>
#include <nccl_net/wire.h>

#include "device/ib_nic.h"
#include "path/ib/ib_setup.h"

#define IB_SLOTS         32  /* receiving end: posted receives, one frame each */
#define IB_SLOT_BYTES    512 /* receiving end: largest frame, header included */
#define IB_CONTROL_SLOTS 16  /* sending end: posted receives, for CTS and ACKs */
#define IB_CONTROL_BYTES 128
#define IB_IMM_SIZE_MAX  0xffffffu /* the immediate has 24 bits for the size */
#define IB_SQ_WRS        128
#define IB_INBOUND       (IB_SLOTS * 2)
#define IB_INLINE_WANTED 220
#define IB_PROOF_BYTES   4096 /* a packet of the largest MTU */
#define IB_RNR_FOR_EVER  7    /* only control frames lack flow control */

enum ib_qp_state {
	IB_QP_NEW,    /* not connected */
	IB_QP_JOINED, /* connected or, at the acceptor, left to the RDMA CM; not proven */
	IB_QP_UP,     /* packets get through */
	IB_QP_BROKEN, /* failed or fenced, see `err` */
};

/* A received frame that is not consumed. */
struct ib_inbound {
	uint16_t slot;
	bool written; /* by RDMA WRITE WITH IMM, with the immediate `imm`; else the frame lies in the slot */
	uint32_t imm, bytes;
};

/* A signalled work request in flight. */
struct ib_signal {
	uint64_t frame; /* completion: all frames before this one have arrived; 0 = none */
	uint32_t wrs;   /* value of sq.posted including it */
};

struct ib_cm; /* ib_cm.c */

/* Step of the connector's proof that is in progress. */
enum ib_proof {
	IB_PROOF_WRITE,
	IB_PROOF_READ,
	IB_PROOF_SEND,
};

/* Registered as `mr`: cts_ring (sending end), slots, proof (sending end), copies, in this order. */
struct ib_qp_memory {
	struct ibv_mr *mr;
	uint8_t *start;
	size_t bytes;
	struct anynet_wire_cts_ring *cts_ring;
	uint8_t *slots;
	uint8_t *proof;  /* sending end: IB_PROOF_BYTES */
	uint8_t *copies; /* IB_COPY_BYTES for each entry of the send queue, if inline_bytes is 0 */
	uint32_t slot_count, slot_bytes;
};

/* Limits of a send request. */
struct ib_qp_limits {
	uint32_t inline_bytes; /* max inline data: IB_COPY_BYTES or more; 0 = none */
	uint32_t packet_bytes; /* path MTU in bytes */
	uint32_t sges;         /* max scatter/gather entries: 1 or 2 */
	uint32_t whole_max;    /* largest message, in bytes, that is sent as one WRITE WITH IMM */
};

/* The port, as it was when the queue pair was made. */
struct ib_qp_port {
	struct gid gid;
	struct ibv_port_attr attr;
	unsigned losses; /* carrier_losses() */
};

struct ib_qp_fault {
	int err;                 /* -errno; 0 = not broken */
	uint32_t status, vendor; /* of the first failed completion that was not flushed */
	_Atomic bool failed;     /* an async event reported a failure; set by another thread */
};

struct ib_send_queue {
	/* Work requests posted, known to be done, and posted since the last signalled one. */
	uint32_t posted, done, unsignalled;
	uint64_t frame;  /* frames of the stream before this number have been posted; 0 = none */
	bool signal_all; /* several streams share the replay ring: an unconfirmed frame delays the others */
	struct ib_signal signals[IB_SQ_WRS];
	uint32_t head, tail; /* of `signals` */
};

/* Counts of frames. */
struct ib_credits {
	uint32_t posted;        /* sending end: posted requests that take one of the peer's slots */
	uint32_t peer_consumed; /* sending end: frames that the peer has consumed, by the CTS ring */
	uint32_t consumed;      /* frames consumed here */
	uint32_t told;          /* receiving end: latest count written to the peer's CTS ring */
};

struct ib_receive_queue {
	uint32_t posted; /* receives without a completion */
	struct ib_inbound inbound[IB_INBOUND];
	uint32_t head, tail; /* of `inbound` */
};

struct ib_qp {
	struct ib_qp *next; /* in the stream's list `rest`, or in the list of retired queue pairs */
	struct ib_nic *nic;
	struct ibv_cq *cq;
	struct ibv_qp *ibv;
	enum ib_qp_state state; /* changed by ib_qp_change only */
	bool is_send;
	enum ib_proof proving;
	uint32_t psn; /* PSN of the first packet sent, if the hello connects it */
	struct ib_qp_limits limits;
	struct ib_qp_memory memory;
	struct ib_send_queue sq;
	struct ib_credits credits;
	struct ib_receive_queue rq;
	struct ib_qp_fault fault;
	struct ibv_mr *ring; /* send comm: its replay ring, until the stream drops the queue pair */
	struct anynet_wire_qp peer; /* set by ib_qp_join, ib_qp_accept */
	struct anynet_wire_service service;
	bool wants_cm;    /* connector: the hello asks for the RDMA CM */
	struct ib_cm *cm; /* state of the RDMA CM; NULL = it is not used */
	struct ib_qp_port port;
};

/* The value of cts->check. A CTS that is only partly visible has a different one: a NIC, or the kernel (software RoCE),
 * may write its bytes in any order. */
static inline uint32_t ib_cts_check(const struct anynet_wire_cts *cts)
{
	uint64_t sum = cts->addr * 0x9e3779b97f4a7c15u;

	sum = (sum ^ sum >> 29 ^ cts->size) * 0xbf58476d1ce4e5b9u;
	sum = (sum ^ sum >> 32 ^ ((uint64_t)cts->rkey << 32 | cts->tag)) * 0x94d049bb133111ebu;
	sum = (sum ^ sum >> 31 ^ cts->seq) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(sum >> 32);
}

/* Changes the state. Nothing else does. */
void ib_qp_change(struct ib_qp *qp, enum ib_qp_state to);

/* It is given up. If nothing has shown that packets get through, the port is read again: no event tells of another MTU. */
void ib_qp_given_up(const struct ib_qp *qp);

/* Has the send queue room for `wrs` more work requests? */
static inline bool ib_qp_has_room(const struct ib_qp *qp, uint32_t wrs)
{
	return qp->sq.posted - qp->sq.done + wrs <= IB_SQ_WRS;
}

/* Sending end: known number of free slots of the peer. Reads the CTS ring only if it would be 0. With adaptive routing
 * the peer's writes may arrive out of order: a count below the known one, or above credits.posted, is ignored. */
static inline uint32_t ib_qp_credits(struct ib_qp *qp)
{
	uint32_t taken = qp->credits.posted - qp->credits.peer_consumed, told;

	if (anynet_likely(taken < qp->peer.slots))
		return qp->peer.slots - taken;
	told = __atomic_load_n(&qp->memory.cts_ring->consumed, __ATOMIC_ACQUIRE);
	if (told - qp->credits.peer_consumed > taken)
		return 0;
	taken = qp->credits.posted - told;
	qp->credits.peer_consumed = told;
	return taken < qp->peer.slots ? qp->peer.slots - taken : 0;
}

/* Posts the chain of `wrs` requests from `first` to `last`; the caller has checked for room. `frame`: frames of the
 * stream before this number have been sent with it; 0 = it carries none. 0, or -errno: the queue pair is broken. */
int ib_qp_post(struct ib_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr *last, uint32_t wrs,
	       uint64_t frame);

/* Sets up a request to send a copy of `data`, at most ib_qp_copy_max bytes: inline, or from qp->memory.copies if the adapter
 * takes no inline data. It must be posted next. At most one request of a chain. */
void ib_qp_copy(struct ib_qp *qp, struct ibv_send_wr *wr, const void *data, uint32_t bytes);
uint32_t ib_qp_copy_max(const struct ib_qp *qp);

/* Posts a copy of `data`: as a frame (SEND), or as a WRITE to `addr` in the peer's CTS ring. `last`: signalled. 0, or
 * -errno: the queue pair is broken. */
int ib_qp_say(struct ib_qp *qp, const void *data, uint32_t bytes, bool last);
int ib_qp_write(struct ib_qp *qp, const void *data, uint32_t bytes, uint64_t addr);

/* Takes completions. Received frames are queued as inbound. *arrived, unless NULL, is set to the number before which
 * all frames of the stream have arrived; it is unchanged if there is no news. 0 or qp->fault.err. */
int ib_qp_poll(struct ib_qp *qp, uint64_t *arrived);

/* The oldest inbound frame; NULL = none. */
static inline struct ib_inbound *ib_qp_inbound(struct ib_qp *qp)
{
	return qp->rq.head == qp->rq.tail ? NULL : &qp->rq.inbound[qp->rq.head % IB_INBOUND];
}

/* The oldest inbound frame is consumed: posts its slot again, unless the queue pair is broken, which the fence may have
 * destroyed. 0 or qp->fault.err. */
int ib_qp_consumed(struct ib_qp *qp);
/* Receiving end: writes the count of consumed frames to the peer, once half of the slots have been consumed since the
 * last time and the send queue has room. 0 or qp->fault.err. */
int ib_qp_tell(struct ib_qp *qp);
/* The same at once, whether or not it has changed: an older count may have arrived after the last one. The caller has
 * checked for room. */
int ib_qp_tell_again(struct ib_qp *qp);

/* Sending end: posts a PING frame, or a READ, which takes none of the peer's slots; signalled. 0 or qp->fault.err. */
int ib_qp_ping(struct ib_qp *qp);
int ib_qp_read(struct ib_qp *qp);

/* Posts a receive for each slot. 0 or -errno. */
int ib_qp_post_slots(struct ib_qp *qp);

/* Moves the queue pair from INIT to RTS; sets the path's numbers. 0 or -errno. */
int ib_qp_to_rts(struct ib_qp *qp, struct ib_path *path);

/* Moves the queue pair to ERR and takes the remaining completions, for up to 30 ms after the last one. After this
 * returns the NIC writes nothing through it. Frames that had arrived are queued as inbound; *arrived as in ib_qp_poll.
 * If it does not flush all of its receives, it is destroyed, and frames in those receives are lost. */
void ib_qp_fence(struct ib_qp *qp, uint64_t *arrived);

/* ib_service.c. Connector, in INIT: fills qp->service with its request. `traffic_class`: that of NCCL's communicator, -1 =
 * none. It is used for SL and TC if the settings leave them open, as in NCCL (net_ib@2.28). */
void ib_service_wish(struct ib_qp *qp, int traffic_class);
/* Both ends: adopts the peer's request or answer as far as possible, before the queue pair goes to RTR. */
void ib_service_join(struct ib_qp *qp, const struct anynet_wire_service *peer);
/* Acceptor, after RTR: completes qp->service, which is then its answer. */
void ib_service_answer(struct ib_qp *qp);

/* ib_chores.c: ib_qp_fence, and the RDMA CM does not touch the queue pair any more. */
void ib_qp_end(struct ib_qp *qp, uint64_t *arrived);
/* Destroys qp->ibv, if there is one. May take seconds. */
void ib_qp_destroy_qp(struct ib_qp *qp);

#endif
