/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of every byte that leaves the process: the handle, which NCCL's bootstrap carries; the hello, which both
 * ends send when a connection opens; the frames of a stream, over TCP or a queue pair; and the CTS ring of a queue
 * pair. docs/wire.md describes the protocol. Integers are little-endian. Reserved bytes are zero when sent and ignored
 * when received. Any change of meaning or layout raises ANYNET_WIRE_VERSION. Two ends use the highest version that both
 * speak.
 */
#ifndef ANYNET_WIRE_H
#define ANYNET_WIRE_H

#include <assert.h>
#include <stdint.h>

#define ANYNET_WIRE_VERSION 7 /* newest version that this release speaks */
#define ANYNET_WIRE_OLDEST  7 /* oldest version that this release speaks */
#define ANYNET_HANDLE_MAGIC 0x3148544e594e41ffull /* ff "ANYNTH1" */
#define ANYNET_HELLO_MAGIC  0x314f4c454e4e41ffull /* ff "ANNELO1" */
#define ANYNET_TOKEN_BYTES  16
#define ANYNET_STREAMS_MAX  64 /* of a comm; NCCL's limit for threads × sockets */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	      "the wire structs are written as they lie in memory");

/* An IP address and TCP port. A list ends at a family other than 4 and 6. */
struct anynet_wire_addr {
	uint8_t family; /* 4 or 6 */
	uint8_t device; /* index of the NIC in its process's device list */
	uint16_t port;
	uint8_t ip[16]; /* network byte order; IPv4 in the first four bytes */
};
static_assert(sizeof(struct anynet_wire_addr) == 20, "wire");

#define ANYNET_HANDLE_ADDRS 3

/* Written by listen, read by connect. The first 96 bytes are the same in all versions, so that two ends without a
 * common version can report that. `local` is zero on the wire; the connecting process stores there which connect in
 * progress it belongs to: an index into its own table and a generation, never a pointer. */
struct anynet_wire_handle {
	uint64_t magic;
	uint16_t version;   /* newest version that the listener speaks */
	uint8_t transports; /* 1 << enum anynet_transport_kind; here only the bit of TCP is set */
	uint8_t oldest;     /* oldest version that the listener speaks */
	uint32_t endpoint; /* number of the listener in its process */
	uint8_t token[ANYNET_TOKEN_BYTES];
	struct anynet_wire_addr addrs[ANYNET_HANDLE_ADDRS]; /* in the order in which to try them */
	uint32_t pid;
	uint8_t reserved1[16];
	uint64_t local[2];
};
static_assert(sizeof(struct anynet_wire_handle) == 128, "net-api.md §1.5");

enum anynet_hello_type {
	ANYNET_HELLO = 1,     /* connector → acceptor */
	ANYNET_WELCOME = 2,   /* acceptor → connector */
	ANYNET_CHALLENGE = 3, /* acceptor → connector: after HELLO, if both have a secret */
	ANYNET_RESPONSE = 4,  /* connector → acceptor: after CHALLENGE; WELCOME follows */
};

enum anynet_hello_kind {
	ANYNET_KIND_COMM = 1,   /* opens a comm; this connection becomes its stream 0 */
	ANYNET_KIND_STREAM = 2, /* a further stream of a comm */
	/* A new connection for a stream; `epoch` is larger than any before */
	ANYNET_KIND_RESUME = 3,
	ANYNET_KIND_PROBE = 4,	/* acceptor → connector: does the send comm comm_id still exist? */
	ANYNET_KIND_QP = 5, /* a queue pair for a stream, which is tested while the stream's path stays
				 * in use; a RESUME with the same `qp` then moves the stream to it */
};

enum anynet_hello_status {
	ANYNET_STATUS_OK = 0,
	ANYNET_STATUS_VERSION = 1, /* no common wire version */
	ANYNET_STATUS_TRANSPORT = 2, /* no common transport */
	ANYNET_STATUS_STALE = 3, /* no such stream is expected, or the epoch is not larger than its last */
	ANYNET_STATUS_BUSY = 4,	     /* out of file descriptors or memory; try again */
	ANYNET_STATUS_AUTH = 5,	     /* secrets differ, one side has none, or no proof came */
	ANYNET_STATUS_GONE = 6,	     /* the comm is closed or has failed */
	ANYNET_STATUS_COUNT,
};

/* anynet_wire_hello.features */
#define ANYNET_FEATURE_SECRET 0x01 /* the sender has a secret: `proof` and, in HELLO and CHALLENGE, `nonce` are set */
#define ANYNET_FEATURE_CHECKSUM 0x02 /* frames must carry checksums */

#define ANYNET_NONCE_BYTES 32
#define ANYNET_PROOF_BYTES 32

#define ANYNET_HELLO_ADDRS 8

/* The pair of NICs of a stream: indices into the connector's and the acceptor's `addrs`. */
struct anynet_wire_pair {
	uint8_t from, to;
};

/* One end of a queue pair (docs/ib.md). */
struct anynet_wire_qp {
	uint8_t kind; /* 0 = no queue pair, 1 InfiniBand, 2 RoCE v1, 3 RoCE v2 */
	uint8_t mtu;  /* largest of the port, enum ibv_mtu */
	uint16_t lid;
	uint32_t qpn;
	uint32_t psn;	/* of the first packet from this end */
	uint32_t rkey;  /* of the memory at `addr` */
	uint64_t addr;	/* connector: its CTS ring; acceptor: its slots */
	uint8_t gid[16];
	uint32_t slots;	     /* receives that this end keeps posted, one for each frame */
	uint32_t slot_bytes; /* largest frame, header included */
};
static_assert(sizeof(struct anynet_wire_qp) == 48, "wire");

/* Further attributes of a queue pair. HELLO: what the connector requests; WELCOME: what the acceptor uses. */
struct anynet_wire_service {
	uint8_t sl, tc;	  /* service level and traffic class of its packets */
	uint8_t adaptive; /* 1: adaptive routing; large messages are sent as a WRITE and a SEND */
	uint8_t has_ece;  /* 1: the fields below are a struct ibv_ece */
	uint32_t ece_vendor, ece_options, ece_mask;
};
static_assert(sizeof(struct anynet_wire_service) == 16, "wire");

#define ANYNET_CM_NONCE_BYTES 16

/* Connecting the queue pair by the RDMA connection manager, if both ends want that (docs/ib.md). */
struct anynet_wire_cm {
	struct anynet_wire_addr addr; /* WELCOME: IP address and RDMA port where the acceptor listens */
	uint8_t nonce[ANYNET_CM_NONCE_BYTES]; /* WELCOME: the private data of the request begins with it */
	uint32_t wanted;		      /* HELLO: 1 = the connector wants the manager */
};
static_assert(sizeof(struct anynet_wire_cm) == 40, "wire");

/* HELLO, WELCOME, CHALLENGE and RESPONSE. The first 48 bytes are the same in all versions, so that two ends without a
 * common version can report that. */
struct anynet_wire_hello {
	uint64_t magic;
	uint16_t version; /* of this connection, chosen by its connector */
	uint8_t type;	/* enum anynet_hello_type */
	uint8_t kind;	/* enum anynet_hello_kind */
	uint32_t bytes; /* of this message */
	uint32_t endpoint;
	uint32_t status; /* WELCOME: enum anynet_hello_status */
	uint8_t token[ANYNET_TOKEN_BYTES];
	uint64_t comm_id; /* random, chosen by the connector; identifies the comm in all later hellos */

	uint16_t stream;  /* index of this connection's stream */
	uint16_t streams; /* HELLO: streams wanted for each pair of NICs, or of an IB device in all;
			 * WELCOME: entries used in `plan` */
	uint32_t epoch;   /* of this stream: 0 at first, larger at each attempt to resume */
	uint32_t pid;
	uint32_t nccl_version;	 /* NCCL_VERSION_CODE of the NCCL in the process; 0 = not found */
	uint32_t plugin_version; /* major << 16 | minor << 8 | patch */
	uint32_t transports;	 /* 1 << enum anynet_transport_kind for each transport that the sender offers */
	uint32_t features;	 /* ANYNET_FEATURE_… */
	uint32_t replay_bytes;   /* HELLO: the sender's replay ring; acks come at a quarter of it */
	uint32_t chunk_bytes;    /* for information: largest chunk with several streams */
	uint32_t max_recvs;      /* largest group this side may post; see hello_warn */
	uint64_t comm_hash;	 /* NCCL's, 0 = not known */
	uint32_t speed_mbps;	 /* for information: of the device */
	uint32_t part;	     /* WELCOME to RESUME: message offset up to which the next frame is in place */
	uint64_t frames;     /* WELCOME to RESUME: frames of the stream consumed in all */
	uint8_t nonce[ANYNET_NONCE_BYTES]; /* HELLO and CHALLENGE: random */
	uint8_t proof[ANYNET_PROOF_BYTES]; /* HMAC-SHA256 of this message and those before it */
	struct anynet_wire_qp qp;          /* the sender's end, for this stream; kind 0 = none */
	struct anynet_wire_addr addrs[ANYNET_HELLO_ADDRS]; /* the sender's NICs, the comm's own first */
	/* WELCOME: pair of NICs of each stream. HELLO: plan[0].from of `addrs`, from the first on, may have streams; 0 = all */
	struct anynet_wire_pair plan[ANYNET_STREAMS_MAX];
	char host[64];	  /* texts: printable ASCII, NUL-terminated */
	char device[64];
	char reason[224]; /* why refused, why there is no queue pair, or why not by the RDMA CM */
	struct anynet_wire_service service; /* of `qp` */
	struct anynet_wire_cm cm;	    /* of `qp` */
};
static_assert(sizeof(struct anynet_wire_hello) == 920, "wire");

enum anynet_frame_type {
	ANYNET_FRAME_DATA = 1,	/* a chunk; `length` payload bytes follow */
	ANYNET_FRAME_RTS = 2,   /* sender: announces a message that waits for a CTS */
	/* Sender, first frame on stream 0: connect has returned the comm. length = 0, size = number of established
	 * streams, offset = bit set of them */
	ANYNET_FRAME_READY = 3,
	ANYNET_FRAME_BYE = 4,	/* either side closes; from the sender, seq = messages sent in all; from the
				 * receiver, by a queue pair, offset = frames of the stream that have come */
	ANYNET_FRAME_PING = 5,	/* either side: heartbeat, which the peer's kernel acknowledges. seq =
				 * ANYNET_PING_JOIN: the RDMA CM has failed, connect the queue pair as
				 * HELLO and WELCOME describe it */
	ANYNET_FRAME_ACK = 6, /* receiver: `length` = 32 bytes of bitmap: bit i acknowledges the message
				 * in slot i, once, which frees the slot. length = 0: acknowledges
				 * message `seq` in `slot` again, on a resumed stream */
	ANYNET_FRAME_CTS = 7, /* receiver: the message in `slot` may be sent; on a queue pair with
				 * `length` = 40 bytes, struct anynet_wire_cts */
	/* Receiver: stream `slot` of epoch `seq` is broken, or its path is suspect: use another path */
	ANYNET_FRAME_SUSPECT = 8,
	ANYNET_FRAME_ASK = 9, /* sender, on a queue pair: where may message `seq` in `slot` be written?
				 * The answer is a CTS */
	ANYNET_FRAME_ASK_ALL = 10, /* receiver, on a queue pair: receives that are not in the CTS ring
				 * yet get a CTS only if the sender asks */
	ANYNET_FRAME_LOOK = 11, /* sender, on a queue pair: message `seq` waits for its CTS; check that
				 * its receive is large enough. No answer */
};

#define ANYNET_FLAG_MULTI   0x01 /* the comm has used several tags: match in order of seq */
#define ANYNET_FLAG_ACK	    0x02 /* the sender waits for this message's ack */
#define ANYNET_FLAG_CRC	    0x04 /* the upper half of `size` is a CRC32C of the header and, in a control
				  * frame, of the payload; DATA has one of its payload in 4 bytes behind it */
#define ANYNET_FLAG_TAIL    0x08 /* one zero byte ends the frame (docs/wire.md, "The tail byte") */

#define ANYNET_PING_JOIN 1

#define ANYNET_TAIL_BYTES 1
#define ANYNET_CRC_BYTES  4
#define ANYNET_PART_ALIGN 128 /* chunk offsets and `part` are multiples of this (net-api.md §3.5) */
#define ANYNET_WIRE_SLOTS 256
#define ANYNET_ACK_BYTES  (ANYNET_WIRE_SLOTS / 8)

/* The header of every frame, in both directions. */
struct anynet_wire_frame {
	uint8_t type; /* enum anynet_frame_type */
	uint8_t flags;
	uint16_t slot;	 /* of the message among the unacknowledged ones, < ANYNET_WIRE_SLOTS */
	uint32_t tag;	 /* of the message, as NCCL gave it */
	uint32_t seq;	 /* message number in the comm, modulo 2^32; ACK: messages seen in all */
	uint32_t length; /* payload bytes that follow */
	uint64_t offset; /* of the payload in the message */
	uint64_t size;	 /* of the whole message */
};
static_assert(sizeof(struct anynet_wire_frame) == 32, "wire");

/*
 * The buffer to which a message may be written. In the connector's CTS ring it is that of receive `seq` of a comm with
 * one tag, at index seq % ANYNET_CTS_RING_ENTRIES, and valid when `mark` and `check` are right. In a CTS frame it is
 * that of the frame's message.
 */
struct anynet_wire_cts {
	uint64_t addr;
	uint64_t size; /* of the buffer */
	uint32_t rkey;
	uint32_t tag;
	uint32_t check; /* ib_cts_check: the bytes may become visible in any order */
	uint32_t reserved;
	uint32_t seq;
	uint32_t mark; /* seq + 1 */
};
static_assert(sizeof(struct anynet_wire_cts) == 40, "wire");

#define ANYNET_CTS_RING_ENTRIES 64

/* The connector's memory that the acceptor writes by RDMA WRITE. */
struct anynet_wire_cts_ring {
	struct anynet_wire_cts cts[ANYNET_CTS_RING_ENTRIES];
	uint32_t consumed; /* frames that the acceptor has consumed on this queue pair in all, modulo 2^32 */
	/* 1: small messages may be sent in a DATA frame. 0: every message that has bytes needs a CTS, because the
	 * acceptor receives into GPU memory, or does not know yet */
	uint32_t frames;
	uint32_t reserved[14];
};
static_assert(sizeof(struct anynet_wire_cts_ring) == 2624, "wire");

#endif
