/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and hellos: filling them, and checking every field of what came from outside. No sockets
 * here, so that the fuzzers reach all of it. Layouts: include/nccl_net/wire.h. */
#ifndef ANYNET_HELLO_H
#define ANYNET_HELLO_H

#include <nccl_net/device.h>
#include <nccl_net/wire.h>

/* A comm of an IB device: the replay ring is memory that is pinned; larger messages are written to
 * where the receiver says, in pieces. */
#define IB_REPLAY_BYTES (24u << 10)
#define IB_EAGER_BYTES  480
#define IB_FRAME_BYTES  (4u << 20)

/* Who is at the other end. */
struct anynet_peer {
	char host[64];
	char device[64];
	char addr[64]; /* of stream 0 */
	uint32_t pid;
	uint32_t nccl_version;
};

/* A handle for listener `endpoint`, reachable at those of `addrs` that have a port (the first
 * ANYNET_HANDLE_ADDRS). */
void handle_fill(struct anynet_wire_handle *handle, uint32_t endpoint,
		 const uint8_t token[ANYNET_TOKEN_BYTES], const struct anynet_wire_addr *addrs,
		 int addr_count);

/* The wire versions that this process speaks. */
uint16_t wire_oldest(void);
uint16_t wire_newest(void);

/* The version to speak with the handle's listener: the highest that both speak. If there is none it is the one of ours
 * that is nearest, and the listener refuses it. */
uint16_t handle_version(const struct anynet_wire_handle *handle);

/* 0, or -EINVAL with a sentence in why. */
int handle_check(const struct anynet_wire_handle *handle, char *why, size_t bytes);

/* What every hello of this process says; the caller adds version, type, kind and the comm's fields. */
void hello_fill(struct anynet_wire_hello *hello, const struct anynet_device *dev,
		const struct anynet_wire_addr *addrs, int addr_count);

/* Make a filled hello the WELCOME to `hello`, in its version if that is spoken here, status OK. */
void hello_answer(struct anynet_wire_hello *answer, const struct anynet_wire_hello *hello);

/*
 * Check a hello of `type` as it came from the network and make its texts safe to print. 0;
 * -EPROTO: not ours at all; -EPROTONOSUPPORT: ours, of a version not spoken here (only the first 48 bytes
 * mean anything then).
 */
int hello_check(struct anynet_wire_hello *hello, enum anynet_hello_type type);

/* What an answer repeats of its hello. */
struct hello_question {
	uint64_t comm_id;
	uint32_t endpoint, epoch;
	uint16_t version, stream;
	uint8_t kind;
};

struct hello_question hello_question(const struct anynet_wire_hello *hello);

/* Check a WELCOME or CHALLENGE: as hello_check; -EPROTO as well if it is the answer to another question. */
int hello_check_answer(struct anynet_wire_hello *answer, enum anynet_hello_type type,
		       const struct hello_question *question);

/* Make the texts safe to print, as hello_check does. */
void hello_make_printable(struct anynet_wire_hello *hello);

/* Do the first `got` bytes already show a hello of a version not spoken here, whose length is unknown? */
bool hello_is_foreign(const struct anynet_wire_hello *hello, size_t got);

int hello_addr_count(const struct anynet_wire_hello *hello);

/* Who the other side is, for messages. */
void hello_peer(const struct anynet_wire_hello *hello, struct anynet_peer *peer);

/* Can a comm of ours with this peer ever have links? */
bool hello_may_use_qps(const struct anynet_wire_hello *peer);

/* Data goes over TCP, with an IB device at one end at least: both ends say so, in the same words. */
void hello_say_no_qp(const struct anynet_wire_hello *peer, const char *why);

/* A queue pair is connected as if the RDMA connection manager were not wanted, which it is by one end. */
void hello_say_no_cm(const struct anynet_wire_hello *peer, const char *why);

/* One WARN if the NCCL versions of the two processes are known and differ. */
void hello_warn_nccl(const struct anynet_peer *peer);

/* Equal? In a time that does not depend on where they differ. */
bool token_equal(const uint8_t a[ANYNET_TOKEN_BYTES], const uint8_t b[ANYNET_TOKEN_BYTES]);

/* Where the NICs of one end are. */
struct nic_addrs {
	const struct anynet_wire_addr *addrs;
	int count;
};

/*
 * Which NIC pairs carry the streams of a comm: the connector's NIC i with the acceptor's NIC that shares
 * the longest address prefix with it, each used once, `per_nic` streams on each pair, interleaved. The
 * first pair is the comm's own devices. Writes at most `max` entries and returns how many.
 */
int stream_plan(struct nic_addrs from, struct nic_addrs to, int per_nic,
		struct anynet_wire_pair *plan, int max);

/*
 * The plan between two IB devices, which takes a step at each end: the acceptor, with `ports` ports of
 * its own, says the other end of each stream, round its ports (`from` is 0: it does not know them); the
 * connector goes round its own. So port i is joined with port i, and all ports of the larger one are
 * used. Writes at most `max` entries and returns how many.
 */
int stream_plan_ports(int ports, int streams, struct anynet_wire_pair *plan, int max);
void stream_plan_own_ports(int ports, struct anynet_wire_pair *plan, int streams);

/* Do the streams of a plan join several pairs of NICs? */
bool stream_plan_spreads(const struct anynet_wire_pair *plan, int streams);

#endif
