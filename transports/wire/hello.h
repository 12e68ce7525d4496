/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and hellos: fills them, and checks every field of received ones. No sockets here, so that the fuzzers reach
 * all of it. Layouts: include/nccl_net/wire.h. */
#ifndef ANYNET_HELLO_H
#define ANYNET_HELLO_H

#include <nccl_net/device.h>
#include <nccl_net/wire.h>

/* Sizes of a comm on an IB device: replay ring (pinned memory), largest copied message, and largest piece of a larger
 * message. Larger messages are written into the receiver's buffer. */
#define IB_REPLAY_BYTES (24u << 10)
#define IB_EAGER_BYTES  480
#define IB_FRAME_BYTES  (4u << 20)

/* The peer of a comm, for messages. */
struct anynet_peer {
	char host[64];
	char device[64];
	char addr[64]; /* of stream 0 */
	uint32_t pid;
	uint32_t nccl_version;
	uint32_t max_recvs;
};

/* Fill the handle of listener `endpoint`. It gets the first ANYNET_HANDLE_ADDRS of `addrs` that have a port. */
void handle_fill(struct anynet_wire_handle *handle, uint32_t endpoint,
		 const uint8_t token[ANYNET_TOKEN_BYTES], const struct anynet_wire_addr *addrs,
		 int addr_count);

/* The oldest and the newest wire version that this process speaks. */
uint16_t wire_oldest(void);
uint16_t wire_newest(void);

/* The version to use with the handle's listener: the highest that both ends speak. Without a common version, the
 * nearest one of this process, which the listener refuses. */
uint16_t handle_version(const struct anynet_wire_handle *handle);

/* Check a handle from the peer. 0, or -EINVAL with the reason in `why`. */
int handle_check(const struct anynet_wire_handle *handle, char *why, size_t bytes);

/* Fill the fields that all hellos of this process have in common. The version is the newest; the caller sets type, kind
 * and the comm's fields. */
void hello_fill(struct anynet_wire_hello *hello, const struct anynet_device *dev,
		const struct anynet_wire_addr *addrs, int addr_count);

/* Turn a filled hello into the WELCOME to `hello`, with status OK. It has the version of `hello` if this process speaks
 * that, otherwise the newest. */
void hello_answer(struct anynet_wire_hello *answer, const struct anynet_wire_hello *hello);

/*
 * Check a received hello of `type` and make its texts printable. 0; -EPROTO: not a valid hello; -EPROTONOSUPPORT: its
 * version is not spoken here, so only its first 48 bytes have a meaning.
 */
int hello_check(struct anynet_wire_hello *hello, enum anynet_hello_type type);

/* The fields that an answer must repeat from its hello. */
struct hello_question {
	uint64_t comm_id;
	uint32_t endpoint, epoch;
	uint16_t version, stream;
	uint8_t kind;
};

struct hello_question hello_question(const struct anynet_wire_hello *hello);

/* Check a WELCOME or CHALLENGE like hello_check. -EPROTO also if it does not answer the hello of `question`. */
int hello_check_answer(struct anynet_wire_hello *answer, enum anynet_hello_type type,
		       const struct hello_question *question);

/* Replace all bytes of the texts that are not printable ASCII by '?' and end the texts in NUL. */
void hello_make_printable(struct anynet_wire_hello *hello);

/* Do the first `got` bytes show a hello in a version that is not spoken here? The length of such a hello is not
 * known. */
bool hello_is_foreign(const struct anynet_wire_hello *hello, size_t got);

int hello_addr_count(const struct anynet_wire_hello *hello);

/* HELLO of kind COMM: over how many of its addresses, from the first on, the connector lets streams be spread. */
int hello_spread(const struct anynet_wire_hello *hello);

/* Copy what describes the sender of `hello`. */
void hello_peer(const struct anynet_wire_hello *hello, struct anynet_peer *peer);

/* May a comm on an IB device use queue pairs with this peer? Not without an IB device there, nor with checksums. */
bool hello_may_use_qps(const struct anynet_wire_hello *peer);

/* Log that data uses TCP although at least one end has an IB device. Both ends log the same reason. */
void hello_say_no_qp(const struct anynet_wire_hello *peer, const char *why);

/* Log that a queue pair is connected without the RDMA connection manager although one end wanted that. */
void hello_say_no_cm(const struct anynet_wire_hello *peer, const char *why);

/* WARN, once per process, of what differs between the two processes and makes NCCL fail: its version, if known, and
 * whether ranks of a host share connections, which NCCL decides by max_recvs > 1. */
void hello_warn(const struct anynet_peer *peer, const struct anynet_device *dev);

/* Compares secrets, in a time that does not depend on them. */
bool constant_time_equal(const void *a, const void *b, size_t bytes);

/* Where the NICs of one end are. */
struct nic_addrs {
	const struct anynet_wire_addr *addrs;
	int count;
};

/*
 * Plan which pairs of NICs carry the streams of a comm. Pair 0 is the comm's own devices. Every further NIC of the
 * connector is paired with the unused NIC of the acceptor that shares the longest address prefix with it. Each pair
 * gets `per_nic` streams; the plan lists the pairs in turn. Writes at most `max` entries and returns their number.
 */
int stream_plan(struct nic_addrs from, struct nic_addrs to, int per_nic,
		struct anynet_wire_pair *plan, int max);

/*
 * The plan between two IB devices, made in two steps. The acceptor assigns its `ports` ports to the streams in turn,
 * and leaves `from` 0, because it does not know the connector's ports. The connector then assigns its own in turn. So
 * port i is paired with port i, and all ports of the device with more ports are used. stream_plan_ports writes at most
 * `max` entries and returns their number.
 */
int stream_plan_ports(int ports, int streams, struct anynet_wire_pair *plan, int max);
void stream_plan_own_ports(int ports, struct anynet_wire_pair *plan, int streams);

/* Does the plan use more than one pair of NICs? */
bool stream_plan_spreads(const struct anynet_wire_pair *plan, int streams);

#endif
