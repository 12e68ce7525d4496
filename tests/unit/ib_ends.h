/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs and comms of an InfiniBand device with the test as the other end, on fuzz/stub_verbs.h: the test
 * completes requests, and plays the peer's adapter.
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
#define PEER_RKEY 0x77            /* … with this key */

/* The nic of local_dev, with default settings and the stub's port. */
struct ib_nic *ib_ends_start(void);

/* The peer's description of its end: of the connector with `is_send`. */
struct anynet_wire_hello ib_peer(bool is_send);

/* The ends of the product, joined with that peer; the connector's is proven if `up`, and small messages may come in
 * frames. */
struct ib_qp *ib_connector(bool up);
struct ib_qp *ib_acceptor(void);

/* The peer allows them, or not. */
void ib_takes_frames(struct ib_qp *qp, bool takes);

/* A comm with `streams` streams, the first `linked` of which have a queue pair; pair->fds are their TCP connections. */
void ib_open_send(struct pair *pair, unsigned streams, unsigned by_qp);
void ib_open_recv(struct pair *pair, unsigned streams, unsigned by_qp);
struct ib_stream *ib_stream_of(const struct anynet_comm *comm, unsigned index);

/* The queue pair that carries that stream's frames. */
struct ib_qp *ib_qp_of(const struct anynet_comm *comm, unsigned stream);

/* A frame over the queue pair, with `bytes` after its header. */
void ib_bring(struct ib_qp *qp, const struct anynet_wire_frame *header, const void *payload,
	      size_t bytes);

/* Completes all posted requests, and polls. */
void ib_complete(struct ib_qp *qp);

void ib_turn(struct anynet_comm *comm);

/* Requests posted to any queue pair since ib_note_posted(); the first ones. */
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
