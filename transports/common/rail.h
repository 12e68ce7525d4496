/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail: one path under a comm. The message layer (comm.c, send.c, recv.c) knows what has to move;
 * a rail knows how. This header is the contract between them, both ways.
 */
#ifndef ANYNET_RAIL_H
#define ANYNET_RAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/wire.h>

struct anynet_comm;
struct anynet_rail;
struct send_comm;
struct send_msg;
struct recv_comm;
struct recv_msg;

/*
 * All calls come with the comm to themselves (its one caller, or under its lock when I/O threads
 * serve it) and never block.
 */
struct anynet_rail_ops {
	/* Take in what has arrived and give it to the comm; returns when nothing is left, when a
	 * request completed, or after a bounded amount. 0, or -errno if the rail broke. */
	int (*receive)(struct anynet_rail *rail);

	/* Pull frames from the comm and send what there is room for. 0, or -errno. */
	int (*transmit)(struct anynet_rail *rail);

	/* Bytes handed to the path that the peer's kernel has not acknowledged. */
	size_t (*backlog)(struct anynet_rail *rail);

	/* The comm is about to be closed on purpose: let what was sent arrive. True if it may take
	 * longer; then ask again. False: close now. */
	bool (*linger)(struct anynet_rail *rail);

	/* End the path and free the rail. Nothing reads or writes user memory afterwards. */
	void (*close)(struct anynet_rail *rail);
};

struct anynet_rail {
	const struct anynet_rail_ops *ops;
	struct anynet_comm *comm;
	int fd; /* for polling; -1 = always ask */
	uint16_t index;
	uint32_t epoch;
	bool readable, writable; /* by the last events; set when in doubt */
	bool ended;              /* the peer's end is shut: read until that is seen */
	bool parked;             /* the frame at its head waits for a posted receive */
	bool bye_due;            /* send comm: BYE is to be sent once all else is out */
	bool bye;                /* receive comm: BYE has come, the end of the stream is no error */
	uint64_t bytes_sent;     /* payload, for balancing and statistics */
	double rate;             /* bytes per ms as last estimated; 0 = not known */
	char path[112];          /* "10.0.0.1:4711 -> 10.0.0.2:9000" for messages */
};

/* A frame to send, made by the comm. */
struct rail_frame {
	struct anynet_wire_frame header;
	const uint8_t *payload; /* header.length bytes */
	bool framed;          /* the same header lies before and the tail behind them: one piece */
	struct send_msg *msg; /* DATA: tell send_written when the last byte is out; else NULL */
};

/* --- what a rail asks of a send comm (send.c) --- */

/* The next frame for this rail; false = nothing to send now. */
bool send_next(struct send_comm *comm, struct anynet_rail *rail, struct rail_frame *frame);

/* The last byte of a chunk of this message has been handed to the path. */
void send_written(struct send_comm *comm, struct send_msg *msg);

/* An ACK, GRANT … came in. `payload` holds header->length bytes. 0 or -EPROTO. */
int send_control(struct send_comm *comm, const struct anynet_wire_frame *header,
		 const uint8_t *payload);

/* --- what a rail asks of a receive comm (recv.c) --- */

#define RAIL_CONTROL_BYTES 64 /* largest control frame of a receive comm: header and ack bitmap */

/* The next control frame, header and payload in one; 0 = none now. */
size_t recv_next_control(struct recv_comm *comm, uint8_t frame[RAIL_CONTROL_BYTES]);

/*
 * A DATA frame is at the head of the rail: where do its bytes go? *dst is NULL when there is nothing
 * to place. -EAGAIN: no receive is posted for it yet, leave it there; else -errno ends the comm.
 */
int recv_place(struct recv_comm *comm, const struct anynet_wire_frame *header,
	       struct recv_msg **msg, uint8_t **dst);

/* The frame's payload is in place. */
void recv_placed(struct recv_comm *comm, struct recv_msg *msg, size_t bytes);

/* RTS, READY or BYE. 0, -EAGAIN or -errno as for recv_place. */
int recv_control(struct recv_comm *comm, struct anynet_rail *rail,
		 const struct anynet_wire_frame *header);

/* Counts completed requests: a rail that sees it change during receive may stop for now. */
unsigned recv_completions(const struct recv_comm *comm);

/* --- rails that exist --- */

/* A TCP rail over a connected socket, which it owns from then on. NULL = no memory. */
struct anynet_rail *tcp_rail_create(struct anynet_comm *comm, int fd, uint16_t index,
				    uint32_t epoch);

#endif
