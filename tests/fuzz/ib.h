/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of fuzz_ib: a comm of an IB device whose queue pairs end in the input. */
#ifndef TESTS_FUZZ_IB_H
#define TESTS_FUZZ_IB_H

#include "buffers.h"
#include "fakes/stubs/stub_verbs.h"
#include "peer.h"
#include "transports/path/ib/ib_stream.h"

#define IB_STEPS_MAX 400
#define IB_STREAMS_MAX 2

/* of the first byte */
#define IB_SENDS     0x01 /* the comm is a send comm */
#define IB_TWO_STREAMS    0x02
#define IB_RECOVERIES     0x04
#define IB_BY_HAND   0x08 /* requests complete only when the script says so */
#define IB_ODD_LINKS 0x10 /* the script changes the peer's description of its queue pairs */
#define IB_ADAPTIVE  0x20
#define IB_LATE_SEQ  0x40 /* the comm has sent nearly 2^32 messages */
#define IB_BY_CM     0x80 /* a receive comm: the sender asks for the RDMA connection manager */

#define IB_CTS_RING_ADDR 0x600000000000u /* a receive comm's peer has its CTS ring there … */
#define IB_CTS_RING_RKEY 0x77            /* … with this key */

struct ib_run {
	struct input *in;
	struct anynet_comm *comm;
	uint8_t order;
	unsigned streams;
	int peers[IB_STREAMS_MAX]; /* the other ends of the TCP connections; -1 = closed */
	uint32_t epochs[IB_STREAMS_MAX];
	uint8_t cm_nonce
		[ANYNET_CM_NONCE_BYTES]; /* of the last queue pair that waits for the manager */
};

extern struct ib_run ib;

/* The stream's queue pair while it carries its frames; NULL = none. */
struct ib_qp *ib_qp_of(unsigned stream);
struct ibv_qp *ibv_qp_of(unsigned stream);

/* The peer's description of its queue pair, changed by the script with IB_ODD_LINKS. */
void ib_describe_peer(struct anynet_wire_hello *hello, bool is_send);

/* Completes all posted requests, unless the script does so. */
void ib_complete_all(void);

/* A SEND of these bytes, as many as fit into a slot. */
void ib_bring(unsigned stream, const void *bytes, size_t count);
void ib_bring_frame(unsigned stream, const struct anynet_wire_frame *header, const void *payload,
		    size_t bytes);

/* Bytes of the script. */
void ib_bring_garbage(unsigned stream);

/* Completions, errors, the connection manager, the TCP connection of the stream, time: selected by the byte `how`. */
void ib_complete_some(unsigned stream, uint8_t how);
void ib_trouble(unsigned stream, uint8_t how);
void ib_by_cm(uint8_t how);
void ib_over_tcp(unsigned stream, uint8_t how);
void ib_attend(uint8_t how);

/* The two halves. */
struct anynet_comm *ib_receiver_open(void);
void ib_receiver_step(uint8_t op, unsigned stream);
void ib_receiver_close(void);
struct anynet_comm *ib_sender_open(void);
void ib_sender_step(uint8_t op, unsigned stream);
void ib_sender_close(void);

/* The plugin's queue pair for one of libibverbs, whose context is `failed` of the former. */
static inline const struct ib_qp *stub_qp_of(const struct ibv_qp *qp)
{
	return (const struct ib_qp *)((const char *)qp->qp_context -
				      offsetof(struct ib_qp, fault.failed));
}

#endif
