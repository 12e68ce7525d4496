/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verbs device without a network: the product's queue pairs, with the fuzzer in the place of the wire
 * and of the peer's NIC. What an adapter would never do the stub does not do either (a SEND without a
 * posted receive, a write to memory that is not registered for it), and what a user may never ask of an
 * adapter ends the process: an overrun of a queue, memory that is not registered or not there.
 */
#ifndef TESTS_FUZZ_STUB_VERBS_H
#define TESTS_FUZZ_STUB_VERBS_H

#include <nccl_net/config.h>

#include "fuzz/input.h"
#include "transports/device/verbs.h"

#define STUB_NAME "stub0" /* of the verbs device, which has two InfiniBand ports */

/* Offer port 1 of it under this name; once. */
void stub_offer(const struct anynet_config *cfg, const char *name);

/* As rdma_cm_id.verbs has it. */
struct ibv_context *stub_context(void);

/* Called with every request that is posted to a send queue. NULL = not. */
extern void (*stub_on_post)(const struct ibv_qp *qp, const struct ibv_send_wr *wr);

/* So many registrations, and posted requests, from now on fail with ENOMEM. */
extern unsigned stub_refused_mrs, stub_refused_posts;

/* The peer has said of requests that are not done that they are: their memory may be given back before the
 * adapter reads it, which is an error of the queue pair then and not of ours. */
extern bool stub_peer_lies;

/* Queue pairs that go to ERR do not flush their receives. */
extern bool stub_never_flushes;

/* Queue pairs, completion queues, registrations that are there; and the queue pairs, the oldest first, NULL
 * behind the last one. */
unsigned stub_objects(void);
struct ibv_qp *stub_qp(unsigned index);

/* --- what the peer's NIC does. False: there is no such queue pair in RTR or RTS, or no receive posted --- */

bool stub_send(struct ibv_qp *qp, const void *bytes, uint32_t count, const uint32_t *imm);
bool stub_write_imm(struct ibv_qp *qp, uint32_t imm, uint32_t written);

/* RDMA WRITE. False as well if nothing that allows it is registered there; the queue pair fails then. */
bool stub_write(struct ibv_qp *qp, uint64_t addr, uint32_t rkey, const void *bytes, uint32_t count);

/* --- what our own does --- */

/* The oldest `count` requests of the send queue are done; with another status than SUCCESS the first of
 * them fails, and the queue pair with it. */
void stub_complete(struct ibv_qp *qp, unsigned count, enum ibv_wc_status status);

/* What arrives from now on is not told before the queue pair is in ERR. */
void stub_hold_back(struct ibv_qp *qp);

/* The queue pair, or the device, has failed: an async event, which the product reads by itself. */
void stub_event(struct ibv_qp *qp, enum ibv_event_type type);
void stub_port_event(int port, enum ibv_event_type type);
void stub_forget_events(void);

#endif
