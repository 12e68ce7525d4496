/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every byte that leaves the process: the handle (carried by NCCL's bootstrap), the hello exchanged
 * when a connection opens, and the frames on a stream, over TCP or through a queue pair (with its CTS ring
 * of CTS). docs/wire.md tells the protocol; this file is the layout. All integers are little-endian;
 * every reserved byte is zero when sent and ignored when received. Any change of meaning or layout
 * raises ANYNET_WIRE_VERSION. Two ends use the highest version that both speak.
 */
#ifndef ANYNET_WIRE_H
#define ANYNET_WIRE_H

#include <assert.h>
#include <stdint.h>

#define ANYNET_WIRE_VERSION 7 /* the newest that this release speaks, */
#define ANYNET_WIRE_OLDEST  7 /* and the oldest */
#define ANYNET_HANDLE_MAGIC 0x3148544e594e41ffull /* ff "ANYNTH1" */
#define ANYNET_HELLO_MAGIC  0x314f4c454e4e41ffull /* ff "ANNELO1" */
#define ANYNET_TOKEN_BYTES  16
#define ANYNET_STREAMS_MAX  64 /* of one comm; NCCL's threads × sockets limit */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	      "the wire structs are written as they lie in memory");

/* An IP address and TCP port. family 0 ends a list. */
struct anynet_wire_addr {
	uint8_t family; /* 4 or 6 */
	uint8_t device; /* index of the NIC in its host's device list */
	uint16_t port;
	uint8_t ip[16]; /* IPv4 in the first four */
};
static_assert(sizeof(struct anynet_wire_addr) == 20, "wire");

#define ANYNET_HANDLE_ADDRS 3

/* What listen writes and connect reads. All up to `addrs` never changes: any two versions can find out that they have
 * none in common, and tell both ends. `local` is zero on the wire; the connecting process keeps
 * the identity of its connect in progress there (an index into its own table, never a pointer). */
struct anynet_wire_handle {
	uint64_t magic;
	uint16_t version;   /* the newest that the listener speaks */
	uint8_t transports; /* 1 << enum anynet_link; only TCP's is set here */
	uint8_t oldest;     /* and the oldest */
	uint32_t endpoint; /* which listener of the process */
	uint8_t token[ANYNET_TOKEN_BYTES];
	struct anynet_wire_addr addrs[ANYNET_HANDLE_ADDRS]; /* in the order they are to be tried */
	uint32_t pid;
	uint8_t reserved1[16];
	uint64_t local[2];
};
static_assert(sizeof(struct anynet_wire_handle) == 128, "net-api.md §1.5");

enum anynet_hello_type {
	ANYNET_HELLO = 1,     /* connector → acceptor */
	ANYNET_WELCOME = 2,   /* acceptor → connector */
	ANYNET_CHALLENGE = 3, /* acceptor → connector, between the two if both have a secret */
	ANYNET_RESPONSE = 4,  /* connector → acceptor, behind it */
};

enum anynet_hello_kind {
	ANYNET_KIND_COMM = 1,   /* opens a comm; this connection becomes its stream 0 */
	ANYNET_KIND_STREAM = 2, /* a further stream of a comm */
	/* A new connection for a stream; `epoch` is larger than all before */
	ANYNET_KIND_RESUME = 3,
	ANYNET_KIND_PROBE = 4,	/* acceptor → connector: does the send comm comm_id still exist? */
	ANYNET_KIND_LINK = 5, /* a queue pair for a stream, to be proven while another path carries
				 * that; a RESUME with the same `qp` takes it over */
};

enum anynet_hello_status {
	ANYNET_STATUS_OK = 0,
	ANYNET_STATUS_VERSION = 1, /* no common wire version */
	ANYNET_STATUS_TRANSPORT = 2, /* no common transport */
	ANYNET_STATUS_STALE = 3, /* no such stream, or its epoch is no newer; a larger one may do */
	ANYNET_STATUS_BUSY = 4,	     /* out of descriptors or memory; try again */
	ANYNET_STATUS_AUTH = 5,	     /* secrets differ, or one side has none */
	ANYNET_STATUS_GONE = 6,	     /* the comm is closed or has failed */
	ANYNET_STATUS_COUNT,
};

/* HELLO.features, and that of what belongs to its proof */
#define ANYNET_FEATURE_SECRET 0x01 /* `nonce` and `proof` are filled: the sender has a secret */
#define ANYNET_FEATURE_CHECKSUM 0x02 /* frames are to carry checksums */

#define ANYNET_NONCE_BYTES 32
#define ANYNET_PROOF_BYTES 32

#define ANYNET_HELLO_ADDRS 8

/* NIC pair of a stream: indices into the connector's and the acceptor's `addrs`. */
struct anynet_wire_pair {
	uint8_t from, to;
};

/* One end of a queue pair, for the other end to connect to (docs/ib.md). */
struct anynet_wire_qp {
	uint8_t kind; /* 0 = no queue pair, 1 InfiniBand, 2 RoCE v1, 3 RoCE v2 */
	uint8_t mtu;  /* largest, as enum ibv_mtu */
	uint16_t lid;
	uint32_t qpn;
	uint32_t psn;	/* of the first packet from this end */
	uint32_t rkey;  /* of the connector's CTS ring, of the acceptor's slots … */
	uint64_t addr;	/* … and where they are */
	uint8_t gid[16];
	uint32_t slots;	     /* frames that this end takes before it has consumed one */
	uint32_t slot_bytes; /* largest frame, header included */
};
static_assert(sizeof(struct anynet_wire_qp) == 48, "wire");

/* What both ends of a queue pair agree on besides: the connector's wish, and what became of it. */
struct anynet_wire_service {
	uint8_t sl, tc;	  /* service level and traffic class of its packets */
	uint8_t adaptive; /* 1: packets may take different paths; large writes are posted for that */
	uint8_t has_ece;  /* 1: the rest is struct ibv_ece */
	uint32_t ece_vendor, ece_options, ece_mask;
};
static_assert(sizeof(struct anynet_wire_service) == 16, "wire");

#define ANYNET_CM_NONCE_BYTES 16

/* The queue pair by the RDMA connection manager, if both ends want that (docs/ib.md). */
struct anynet_wire_cm {
	struct anynet_wire_addr addr; /* WELCOME: where the acceptor listens, with the RDMA port */
	uint8_t nonce[ANYNET_CM_NONCE_BYTES]; /* WELCOME: to be said there */
	uint32_t wanted;		      /* HELLO: 1 */
};
static_assert(sizeof(struct anynet_wire_cm) == 40, "wire");

/* Both HELLO and WELCOME. The first 48 bytes never change: they let any two versions refuse each
 * other with a text. */
struct anynet_wire_hello {
	uint64_t magic;
	uint16_t version; /* of this connection, chosen by its connector */
	uint8_t type;	/* enum anynet_hello_type */
	uint8_t kind;	/* enum anynet_hello_kind */
	uint32_t bytes; /* of the whole message */
	uint32_t endpoint;
	uint32_t status; /* WELCOME: enum anynet_hello_status */
	uint8_t token[ANYNET_TOKEN_BYTES];
	uint64_t comm_id; /* random, chosen by the connector; names the comm in STREAM and RESUME */

	uint16_t stream;  /* index of this connection's stream */
	uint16_t streams; /* HELLO: streams wanted per NIC pair, of an IB device in all; WELCOME:
			 * entries used in `plan` */
	uint32_t epoch;   /* of this stream: 0 at first, larger at each attempt to resume */
	uint32_t pid;
	uint32_t nccl_version;	 /* NCCL_VERSION_CODE of the NCCL in the process; 0 = not found */
	uint32_t plugin_version; /* major << 16 | minor << 8 | patch */
	uint32_t transports;	 /* 1 << enum anynet_link: what this side offers */
	uint32_t features;	 /* ANYNET_FEATURE_… */
	uint32_t replay_bytes;	 /* HELLO: the sender's replay ring; the receiver acks by it */
	uint32_t chunk_bytes;    /* HELLO: largest chunk with several streams */
	uint32_t max_recvs;	 /* WELCOME: largest group the receiver may post */
	uint64_t comm_hash;	 /* NCCL's, 0 = not known */
	uint32_t speed_mbps;	 /* of the device */
	uint32_t part;	     /* WELCOME to RESUME: payload bytes of frame `frames` in place */
	uint64_t frames;     /* WELCOME to RESUME: frames of the stream consumed in all */
	uint8_t nonce[ANYNET_NONCE_BYTES]; /* HELLO and CHALLENGE: random */
	uint8_t proof[ANYNET_PROOF_BYTES]; /* HMAC-SHA256 of this message and those before it */
	struct anynet_wire_qp qp;          /* for this stream; kind 0 = none */
	struct anynet_wire_addr addrs[ANYNET_HELLO_ADDRS]; /* this side's NICs, its own first */
	struct anynet_wire_pair plan[ANYNET_STREAMS_MAX];  /* WELCOME */
	char host[64];	  /* NUL-terminated texts, printable ASCII */
	char device[64];
	char reason[224]; /* why refused, or why there is no queue pair, or none by the RDMA CM */
	struct anynet_wire_service service; /* of qp */
	struct anynet_wire_cm cm;	    /* for it */
};
static_assert(sizeof(struct anynet_wire_hello) == 920, "wire");

enum anynet_frame_type {
	ANYNET_FRAME_DATA = 1,	/* a chunk; `length` payload bytes follow */
	ANYNET_FRAME_RTS = 2,   /* announces a message that waits for a CTS */
	/* Sender, stream 0, once: all streams stand; length = 0, size = count, offset = which, as
	 * bits */
	ANYNET_FRAME_READY = 3,
	ANYNET_FRAME_BYE = 4,	/* either side closes on purpose; sender: seq = messages sent in all */
	ANYNET_FRAME_PING = 5,	/* either side: nothing; its acknowledgement by the kernel counts. seq =
				 * ANYNET_PING_JOIN: the RDMA CM has failed, take the queue pairs' data
				 * in hello and WELCOME */
	ANYNET_FRAME_ACK = 6, /* receiver: in the bitmap of `length` = 32 bytes bit i says that the
				 * message in slot i is there; told once, the slot is free then.
				 * length = 0, told again on a resumed stream: `slot` and `seq` only */
	ANYNET_FRAME_CTS = 7, /* receiver: the message in `slot` may come; through a queue pair with
				 * `length` = 40 bytes, struct anynet_wire_cts */
	/* Receiver: stream `slot`, of epoch `seq`, is broken or its path suspect: use another
	 * connection */
	ANYNET_FRAME_SUSPECT = 8,
	ANYNET_FRAME_ASK = 9, /* sender, through a queue pair: where may message `seq` in `slot` be
				 * written? The answer is a CTS */
	ANYNET_FRAME_ASK_ALL = 10, /* receiver, through a queue pair: receives that are not in the
				 * CTS ring by now are cleared only if asked for */
	ANYNET_FRAME_LOOK = 11, /* sender, through a queue pair: message `seq` waits for its CTS. Is
				 * the receive too small? No answer */
};

#define ANYNET_FLAG_MULTI   0x01 /* the comm has used several tags: match in order of seq */
#define ANYNET_FLAG_ACK	    0x02 /* the sender waits for this message's ack */
#define ANYNET_FLAG_CRC	    0x04 /* CRC32C: of the header in the upper half of `size`, with a control
				  * frame's payload; of DATA's in 4 bytes behind it */
#define ANYNET_FLAG_TAIL    0x08 /* one zero byte follows it, last of all (docs/wire.md says why) */

#define ANYNET_PING_JOIN 1

#define ANYNET_TAIL_BYTES 1
#define ANYNET_CRC_BYTES  4
#define ANYNET_PART_ALIGN 128 /* chunks begin at multiples of this (net-api.md §3.5), parts too */
#define ANYNET_WIRE_SLOTS 256
#define ANYNET_ACK_BYTES  (ANYNET_WIRE_SLOTS / 8)

/* Precedes everything on an open stream, in both directions. */
struct anynet_wire_frame {
	uint8_t type; /* enum anynet_frame_type */
	uint8_t flags;
	uint16_t slot;	 /* of the message among those not acknowledged, < ANYNET_WIRE_SLOTS */
	uint32_t tag;	 /* of the message, as NCCL gave it */
	uint32_t seq;	 /* message number in the comm, modulo 2^32; ACK: messages seen in all */
	uint32_t length; /* payload bytes that follow */
	uint64_t offset; /* of the payload in the message */
	uint64_t size;	 /* of the whole message */
};
static_assert(sizeof(struct anynet_wire_frame) == 32, "wire");

/*
 * Where the bytes of a message may be written: receive number `seq` of a comm that has used one tag,
 * or the message of the CTS frame that this lies behind. In the CTS ring of the connector the receive's
 * number modulo ANYNET_CTS_RING_ENTRIES says where, and `mark` that it is there entirely.
 */
struct anynet_wire_cts {
	uint64_t addr;
	uint64_t size; /* of the buffer */
	uint32_t rkey;
	uint32_t tag;
	uint32_t check; /* of the rest (ib_qp.h): it may become visible in any order */
	uint32_t reserved;
	uint32_t seq;
	uint32_t mark; /* seq + 1 */
};
static_assert(sizeof(struct anynet_wire_cts) == 40, "wire");

#define ANYNET_CTS_RING_ENTRIES 64

/* What the acceptor writes to the connector of a queue pair without being asked. */
struct anynet_wire_cts_ring {
	struct anynet_wire_cts cts[ANYNET_CTS_RING_ENTRIES];
	uint32_t consumed; /* frames that the acceptor has taken from this queue pair in all */
	/* 1: small messages may come in the frame itself; 0: the acceptor receives into GPU
	 * memory, or does not know yet: every message that has bytes needs a CTS */
	uint32_t frames;
	uint32_t reserved[14];
};
static_assert(sizeof(struct anynet_wire_cts_ring) == 2624, "wire");

#endif
