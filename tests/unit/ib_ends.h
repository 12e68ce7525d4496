/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links and comms of an InfiniBand device whose other end is the test, on fuzz/stub_verbs.h: what the
 * product posts is done when the test says so, and what the peer's adapter does the test does.
 */
#ifndef TESTS_UNIT_IB_ENDS_H
#define TESTS_UNIT_IB_ENDS_H

#include "fakes/stubs/stub_verbs.h"
#include "pair.h"
#include "transports/path/ib/ib_setup.h"
#include "transports/path/ib/ib_stream.h"

#define PEER_QPN  0x99
#define PEER_PSN  0x123456
#define PEER_ADDR 0x600000000000u /* of a connector's CTS ring … */
#define PEER_RKEY 0x77            /* … by this key */

/* The nic of local_dev, with default settings and its port as the stub has it. */
struct ib_nic *ib_ends_start(void);

/* What the peer says of its end: the connector's with `is_send`. */
struct anynet_wire_hello ib_peer(bool is_send);

/* Our ends, joined with that peer; the connector's is proven if `up`, and small messages may come in frames. */
struct ib_qp *ib_connector(bool up);
struct ib_qp *ib_acceptor(void);

/* The peer says that they may, or not. */
void ib_takes_frames(struct ib_qp *qp, bool takes);

/* A comm with `streams` streams, of which the first `linked` have a queue pair; pair->fds are their TCP connections. */
void ib_open_send(struct pair *pair, unsigned streams, unsigned by_qp);
void ib_open_recv(struct pair *pair, unsigned streams, unsigned by_qp);
struct ib_stream *ib_stream_of(const struct anynet_comm *comm, unsigned index);

/* The queue pair that carries that stream's frames. */
struct ib_qp *ib_qp_of(const struct anynet_comm *comm, unsigned stream);

/* A frame by the queue pair, with `bytes` behind its header. */
void ib_bring(struct ib_qp *qp, const struct anynet_wire_frame *header, const void *payload,
	      size_t bytes);

/* All that is posted is done, and known to be. */
void ib_complete(struct ib_qp *qp);

void ib_turn(struct anynet_comm *comm);

/* What was posted to any queue pair since ib_note_posted(); the first so many. */
#define IB_POSTED_MAX 64

struct ib_posted {
	const struct ibv_qp *qp;
	enum ibv_wr_opcode opcode;
	struct anynet_wire_frame frame; /* of a SEND */
	uint64_t addr, local;
	uint32_t rkey, imm, bytes;
};

extern struct ib_posted ib_posted[IB_POSTED_MAX];
extern unsigned ib_posted_count;

void ib_note_posted(void);

#endif
