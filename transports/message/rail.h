/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail: a stream of frames of a comm, and the connection that carries it now. The message layer knows what has to
 * move; a path knows how. This header is the contract between them, both ways.
 */
#ifndef ANYNET_RAIL_H
#define ANYNET_RAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/wire.h>

struct anynet_comm;
struct anynet_device;
struct anynet_mr;
struct anynet_rail;
struct ib_link;
struct send_comm;
struct send_msg;
struct recv_comm;
struct recv_msg;
struct rail_signs;

enum rail_moved {
	RAIL_IDLE,  /* there was nothing to carry */
	RAIL_MOVED, /* something has arrived, or the peer's host has taken it in */
	RAIL_STUCK, /* there was something to carry, and none of it has arrived as it should */
};

/*
 * All calls come with the comm to themselves (its one caller, or under its lock when I/O threads
 * serve it) and wait for nobody: with a link for at most 30 ms for what its queue pair is to flush, and
 * as long as calls of libibverbs take.
 */
struct anynet_rail_ops {
	/* Take in what has arrived and give it to the comm; returns when nothing is left, when a
	 * request completed, or after a bounded amount. 0, or -errno if the rail broke. */
	int (*receive)(struct anynet_rail *rail);

	/* Pull frames from the comm and send what there is room for. 0, or -errno. */
	int (*transmit)(struct anynet_rail *rail);

	/* Bytes handed to the path that the peer's kernel has not acknowledged. */
	size_t (*backlog)(struct anynet_rail *rail);

	/* What the path tells about itself; false = nothing. */
	bool (*signs)(struct anynet_rail *rail, struct rail_signs *signs);

	/* Frames of its stream that have been sent or consumed. */
	uint64_t (*frames)(const struct anynet_rail *rail);

	/* What has become of the stream over this connection so far (progress.h). */
	enum rail_moved (*moved)(struct anynet_rail *rail);

	/* If nothing is under way, send a heartbeat, so that signs will tell. */
	void (*ping)(struct anynet_rail *rail);

	/* End the connection; nothing reads or writes user memory through it afterwards. What the
	 * stream needs to go on over another one stays. */
	void (*sever)(struct anynet_rail *rail);

	/* A severed rail of a receive comm: frames consumed in all, payload bytes of the next one
	 * that are in place. */
	void (*position)(struct anynet_rail *rail, uint64_t *frames, uint32_t *part);

	/* Go on over rail->fd from the receiver's position (which a receive comm's rail knows).
	 * -EPROTO: that cannot be its position. */
	int (*resume)(struct anynet_rail *rail, uint64_t frames, uint32_t part);

	/* The comm is about to be closed on purpose: let what was sent arrive. 0: it has, close now;
	 * -EAGAIN: not yet, ask again; else the rail has broken. */
	int (*drain)(struct anynet_rail *rail);

	/* Send comm: may the bytes of this message go without asking first? NULL: always. */
	bool (*granted)(struct anynet_rail *rail, const struct send_msg *msg);

	/* End the path and free the rail. Nothing reads or writes user memory afterwards. */
	void (*close)(struct anynet_rail *rail);
};

/* So much at least has to be acknowledged, unless all is, to count as progress: more than heartbeats, and a packet or
 * two. */
#define RAIL_PROGRESS_BYTES 4096

/* How a path is doing. */
struct rail_signs {
	bool waiting;      /* something was sent that the peer's host has not acknowledged */
	unsigned tries;    /* sent again in a row without an answer */
	unsigned quiet_ms; /* since anything was last heard from the peer's host */
	unsigned rtt_us, rtt_var_us;
	bool lost;      /* its NIC has said so */
	uint64_t acked; /* bytes of this connection that the peer's host has acknowledged */
	/* Of its connection, for the stats page; 0 = not known. */
	unsigned resent; /* packets sent again by the kernel */
	uint64_t rate;   /* the kernel's delivery rate, bytes per s */
};

/* Of a rail, over its connections: progress.c. */
struct rail_progress {
	uint64_t frames; /* the receiver's position when the connection began … */
	uint32_t part;
	uint64_t acked; /* … and what was acknowledged of it by then */
	uint64_t began_ms;
	unsigned same;     /* connections in a row that began at the position of the one before */
	unsigned vain;     /* … that stood and moved nothing … */
	uint64_t since_ms; /* … since when nothing has moved, as far as is known */
	unsigned narrowed; /* connections made with small packets */
	unsigned links_vain;   /* links in a row that were used and brought nearly nothing */
	unsigned links_failed; /* … that did not come to that */
	struct anynet_wire_rail
		narrow; /* the pair of the last of them; none = its `from` is UINT8_MAX */
};

enum rail_state {
	RAIL_DOWN,   /* without a connection */
	RAIL_UP,
	RAIL_SUSPECT /* it stands, and its path gives no sign: nothing new is given to it */
};

/* The stream of frames of one path. It outlives connections: a new one goes on where the receiver
 * says that the last one ended (docs/wire.md). */
struct anynet_rail {
	const struct anynet_rail_ops *ops;
	struct anynet_comm *comm;
	enum rail_state state; /* changed by comm_rail_change (session/comm.h) only */
	int fd;                /* -1 = no connection */
	uint16_t index;
	uint32_t epoch;
	const struct anynet_device
		*dev;                 /* NIC that the connection goes through; NULL = not known */
	unsigned losses;              /* that NIC's link_losses() when the connection was made */
	struct anynet_wire_rail home; /* the NICs it was planned for */
	struct anynet_wire_rail pair; /* those it joins now */
	bool readable, writable;      /* by the last events; set when in doubt */
	bool ended;                   /* the peer's end is shut: read until that is seen */
	bool parked;                  /* the frame at its head waits for a posted receive */
	uint64_t silent_ms; /* since when what was sent is not acknowledged, as far as known; 0 = all is */
	uint8_t alarms;     /* how often it gave none for too long of late, and when last */
	uint64_t alarmed_ms;
	uint64_t doubted_ms; /* when the peer last said that its path is in doubt; 0 = never */
	bool doubted;        /* … and that is still to be looked at */
	bool linked;         /* frames go by a link … */
	const uint32_t *frames; /* … whose peer says here whether small messages may come in them; NULL = none */
	bool gathers;        /* … if so, also those whose payload does not lie behind its header */
	int link_err;        /* of an IB device: the -errno that ended its last link; 0 = none … */
	uint64_t link_frames; /* … after so many frames had arrived by it */
	bool bye_due;        /* BYE is to be sent once all else is out */
	bool bye;            /* the peer's BYE has come, the end of the stream is no error */
	int broke_by;        /* without connection: the -errno that ended the last one … */
	uint64_t broke_ms;   /* … and when */
	uint64_t bytes_sent; /* payload, for balancing and statistics */
	double rate;         /* bytes per ms as last estimated; 0 = not known */
	uint32_t granted;    /* receive comm: all before are told on it, or over */
	struct ib_link *next_link; /* that resume takes over; of a receive comm also one that is being proven. NULL = none */
	uint32_t link_epoch;       /* receive comm: of the last link that was to be proven */
	char path[112];            /* "10.0.0.1:4711 -> 10.0.0.2:9000" for messages */

	struct rail_progress progress;
	uint32_t breaks;        /* connections that broke */
	struct rail_signs seen; /* when it was last looked at */
};

/* Names a frame of a rail's stream, so that it can be made again. */
struct frame_id {
	uint32_t seq;    /* DATA, RTS: of the message */
	uint32_t length; /* DATA: of the payload … */
	uint32_t at;     /* … and its offset in the message, in units of ANYNET_PART_ALIGN */
	uint16_t slot;
	uint8_t type; /* enum anynet_frame_type */
};

/* A frame to send, made by the comm. */
struct rail_frame {
	struct anynet_wire_frame header;
	const uint8_t *payload; /* header.length bytes */
	bool framed; /* the same header lies before and the tail behind them: one piece */
	bool on_gpu; /* the payload lies in GPU memory */
};

/* --- what a rail asks of a send comm (send.c) --- */

/* The next frame for this rail; false = nothing to send now. */
bool send_next(struct send_comm *comm, struct anynet_rail *rail, struct frame_id *id);

/* Header and payload of a frame. Valid until its message is acknowledged. */
void send_frame(const struct send_comm *comm, const struct frame_id *id, struct rail_frame *frame);

/* The last byte of a chunk has been handed to the path. */
void send_written(struct send_comm *comm, const struct frame_id *id);

/* Of a new comm, whose first connection has had this round trip (0 = not known): are its sends to be done before
 * they are acknowledged? Then nothing may be sent by reference. */
void send_keep_start(struct send_comm *comm, uint32_t rtt_us);
bool send_keeps(const struct send_comm *comm);

/* For rails with `granted`: messages whose grant has come go on. */
void send_look_for_grants(struct send_comm *comm, struct anynet_rail *rail);

/* The receiver tells places that it has not told yet only when it is asked; and is that so, or does the
 * sender use several tags? */
void send_ask_all(struct send_comm *comm);
bool send_may_ask(const struct send_comm *comm);

/* The path itself says that the frame has arrived: no ACK will. Each frame at most once. */
void send_arrived(struct send_comm *comm, const struct frame_id *id);

/* Of a frame that a path without such knowledge had begun, only the rest comes by one with it. */
void send_begun(struct send_comm *comm, const struct frame_id *id);

/* It will be sent once more, whole or in part. */
void send_rewound(struct send_comm *comm, const struct frame_id *id);

/* Has the message of this DATA or RTS frame been acknowledged? */
bool send_frame_over(const struct send_comm *comm, const struct frame_id *id);

/* An ACK, GRANT … came in on this rail. `payload` holds header->length bytes. 0 or -EPROTO. */
int send_control(struct send_comm *comm, struct anynet_rail *rail,
		 const struct anynet_wire_frame *header, const uint8_t *payload);

/* --- what a rail asks of a receive comm (recv.c) --- */

#define RAIL_CONTROL_BYTES 96 /* largest control frame of a receive comm: header and a grant */

/* The next control frame for this rail, header and payload in one; 0 = none now. */
size_t recv_next_control(struct recv_comm *comm, struct anynet_rail *rail,
			 uint8_t frame[RAIL_CONTROL_BYTES]);

/*
 * A DATA frame is at the head of the rail: where do its bytes go? *dst is NULL when there is nothing
 * to place. -EAGAIN: no receive is posted for it yet, leave it there; else -errno ends the comm.
 */
int recv_place(struct recv_comm *comm, const struct anynet_wire_frame *header,
	       struct recv_msg **msg, uint8_t **dst);

/* Do the bytes of a message go to GPU memory? Until its last frame is placed. */
bool recv_is_on_gpu(const struct recv_msg *msg);

/* Does the GPU look for flags there meanwhile? */
bool recv_is_polled(const struct recv_msg *msg);

/* Copy payload to its place, from memory of ours. */
void recv_put(struct recv_comm *comm, const struct recv_msg *msg, uint8_t *to, const uint8_t *from,
	      size_t bytes);

/* The frame's payload is in place. recv_arrived: by a path that tells the sender itself. */
void recv_placed(struct recv_comm *comm, struct recv_msg *msg, size_t bytes);
void recv_arrived(struct recv_comm *comm, struct recv_msg *msg, size_t bytes);

/* May small messages come in frames, so far? Not into GPU memory, where only NICs write without CUDA. */
bool recv_takes_frames(const struct recv_comm *comm);

/* The next posted receive that the sender has not been told of on this rail: everything but rkey is filled.
 * False = none. Those of no more than `eager` bytes are left out where such messages come in frames. */
bool recv_next_grant(struct recv_comm *comm, struct anynet_rail *rail, size_t eager,
		     struct anynet_wire_grant *grant, struct anynet_mr **mr);

/* Can grants wait, as the sender has several places for what it sends next? Then they go together, with
 * fewer requests, when it has used some. */
bool recv_holds_grants(struct recv_comm *comm, const struct anynet_rail *rail);

/* Are there receives that are not granted unasked, and has the sender been told of all others? */
bool recv_must_be_asked(const struct recv_comm *comm, const struct anynet_rail *rail);

/* The path is new: it has been told of none. */
void recv_grant_again(const struct recv_comm *comm, struct anynet_rail *rail);

/* The same for the message in a slot that is to be granted; NULL = it has no registered buffer. */
struct anynet_mr *recv_grant_of(struct recv_comm *comm, unsigned slot,
				struct anynet_wire_grant *grant);

/* Of a frame that was begun only `part` of `length` bytes stay in place; the rest comes again. */
void recv_unplace(struct recv_comm *comm, struct recv_msg *msg, size_t length, size_t part);

/* ASK: the sender wants the grant of a message that it may have begun, on the rail that asks; LOOK: a
 * message waits for one that comes unasked. Likewise. */
int recv_asked(struct recv_comm *comm, const struct anynet_rail *rail,
	       const struct anynet_wire_frame *header);
int recv_looked(struct recv_comm *comm, const struct anynet_wire_frame *header);

/* RTS, READY, BYE or PING. 0, -EAGAIN or -errno as for recv_place. */
int recv_control(struct recv_comm *comm, struct anynet_rail *rail,
		 const struct anynet_wire_frame *header);

/* Counts completed requests: a rail that sees it change during receive may stop for now. */
unsigned recv_completions(const struct recv_comm *comm);

/* --- rails that exist --- */

/* A TCP rail over a connected socket, which it owns from then on. NULL = no memory. */
struct anynet_rail *tcp_rail_create(struct anynet_comm *comm, int fd, uint16_t index);

/* The same for an IB device's comm, with a link that is joined, which it owns as well; NULL: by TCP
 * alone. */
struct anynet_rail *ib_rail_create(struct anynet_comm *comm, int fd, uint16_t index,
				   struct ib_link *link);
/* Of an IB device's comm: did it ever have a link? */
bool ib_rail_had_link(const struct anynet_rail *rail);

/* Of a receive comm: take in what the links that it has left had brought, as far as something is posted for it. False:
 * nothing is left of that. */
bool ib_rail_take_rest(struct anynet_rail *rail);

/* Has it a connection; and one that gives signs of life? NULL: it has not. */
static inline bool rail_stands(const struct anynet_rail *rail)
{
	return rail && rail->state != RAIL_DOWN;
}

static inline bool rail_works(const struct anynet_rail *rail)
{
	return rail && rail->state == RAIL_UP;
}

/* Was it found to give no sign, and has not given one since? A lost carrier alone is no such thing. */
static inline bool rail_is_silent(const struct anynet_rail *rail)
{
	return rail->silent_ms && rail->alarmed_ms >= rail->silent_ms;
}

/* By a link: may a small message go in a frame, without a grant? */
static inline bool rail_takes_frames(const struct anynet_rail *rail)
{
	return rail && rail->frames && __atomic_load_n(rail->frames, __ATOMIC_ACQUIRE);
}

/* Lines about what happens again and again: the first, the second, the fourth … time. */
static inline bool rail_is_news(uint32_t times)
{
	return !(times & (times - 1));
}

#endif
