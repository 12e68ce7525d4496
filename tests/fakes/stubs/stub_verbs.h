/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verbs device without a network: the product's queue pairs, with the fuzzer in the place of the wire and of the
 * peer's NIC. The stub does nothing that an adapter would never do (a SEND without a posted receive, a write to memory
 * that is not registered for it). Requests that are invalid for an adapter end the process: a queue overrun, memory
 * that is not registered or does not exist.
 */
#ifndef TESTS_FUZZ_STUB_VERBS_H
#define TESTS_FUZZ_STUB_VERBS_H

#include <nccl_net/config.h>

#include "fuzz/input.h"
#include "transports/device/verbs.h"

#define STUB_NAME "stub0" /* of the verbs device, which has two InfiniBand ports */

/* Offer port 1 of it; once. */
void stub_offer(void);

/* The value of rdma_cm_id.verbs. */
struct ibv_context *stub_context(void);

/* Called with every request posted to a send queue. NULL = not called. */
extern void (*stub_on_post)(const struct ibv_qp *qp, const struct ibv_send_wr *wr);

/* From now on this many registrations, and posted requests, fail with ENOMEM; registrations with stub_mr_error. */
extern unsigned stub_refused_mrs, stub_refused_posts;
extern int stub_mr_error;

/* The peer has reported unfinished requests as done: their memory may be freed before the adapter reads it. This is
 * then an error of the queue pair and not of the product. */
extern bool stub_peer_lies;

/* Queue pairs that go to ERR do not flush their receives. */
extern bool stub_never_flushes;

/* Numbers of queue pairs, completion queues and registrations; and the queue pairs, oldest first, then NULL. */
unsigned stub_objects(void);
struct ibv_qp *stub_qp(unsigned index);

/* --- what the peer's NIC does. False: there is no such queue pair in RTR or RTS, or no receive posted --- */

bool stub_send(struct ibv_qp *qp, const void *bytes, uint32_t count, const uint32_t *imm);
bool stub_write_imm(struct ibv_qp *qp, uint32_t imm, uint32_t written);

/* RDMA WRITE. False as well if no registration allows it; the queue pair fails then. */
bool stub_write(struct ibv_qp *qp, uint64_t addr, uint32_t rkey, const void *bytes, uint32_t count);

/* --- actions of the own NIC --- */

/* Completes the oldest `count` requests of the send queue; with a status other than SUCCESS the first of them fails,
 * and the queue pair with it. */
void stub_complete(struct ibv_qp *qp, unsigned count, enum ibv_wc_status status);

/* What comes from now on is not reported before the queue pair is in ERR. */
void stub_hold_back(struct ibv_qp *qp);

/* The queue pair, or the device, has failed: an async event, which the product reads by itself. */
void stub_event(struct ibv_qp *qp, enum ibv_event_type type);
void stub_port_event(int port, enum ibv_event_type type);
void stub_forget_events(void);

#endif
