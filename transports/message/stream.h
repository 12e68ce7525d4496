/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream: an ordered sequence of frames of a comm, and the path that carries it now. The message layer knows what has
 * to move; a path knows how. This header is the contract between them, both ways.
 */
#ifndef ANYNET_STREAM_H
#define ANYNET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/wire.h>

struct anynet_comm;
struct anynet_device;
struct anynet_mr;
struct anynet_stream;
struct ib_qp;
struct send_comm;
struct send_msg;
struct recv_comm;
struct recv_msg;
struct stream_signs;

enum stream_moved {
	STREAM_IDLE,  /* there was nothing to carry */
	STREAM_MOVED, /* something has arrived, or the peer's host has taken it in */
	STREAM_STUCK, /* there was something to carry, and none of it has arrived as it should */
};

/* How far a receiver has come in a stream: frames consumed in all, and how far the payload of the next one is in
 * place, as an offset in its message; 0 = nothing is. */
struct stream_position {
	uint64_t frames;
	uint32_t part;
};

/*
 * All calls come with the comm to themselves (its one caller, or under its lock when I/O threads
 * serve it) and wait for nobody: with a queue pair for at most 30 ms for what its queue pair is to flush, and
 * as long as calls of libibverbs take.
 */
struct anynet_stream_ops {
	/* Take in what has arrived and give it to the comm; returns when nothing is left, when a
	 * request completed, or after a bounded amount. 0, or -errno if the stream broke. */
	int (*receive)(struct anynet_stream *stream);

	/* Pull frames from the comm and send what there is room for. 0, or -errno. */
	int (*transmit)(struct anynet_stream *stream);

	/* Bytes handed to the path that the peer's kernel has not acknowledged. */
	size_t (*backlog)(struct anynet_stream *stream);

	/* What the path tells about itself; false = nothing. */
	bool (*signs)(struct anynet_stream *stream, struct stream_signs *signs);

	/* Frames of its stream that have been sent or consumed. */
	uint64_t (*frames)(const struct anynet_stream *stream);

	/* What has become of the stream over this connection so far (progress.h). */
	enum stream_moved (*moved)(struct anynet_stream *stream);

	/* If nothing is in flight, send a heartbeat, so that signs will tell. */
	void (*ping)(struct anynet_stream *stream);

	/* End the connection; nothing reads or writes user memory through it afterwards. What the
	 * stream needs to go on over another one stays. */
	void (*sever)(struct anynet_stream *stream);

	/* Of a severed stream of a receive comm. */
	struct stream_position (*position)(struct anynet_stream *stream);

	/* Go on over stream->fd from the receiver's position (which a receive comm's stream knows).
	 * -EPROTO: that cannot be its position. */
	int (*resume)(struct anynet_stream *stream, struct stream_position from);

	/* The comm is about to be closed on purpose: let what was sent arrive. 0: it has, close now;
	 * -EAGAIN: not yet, ask again; else the stream has broken. */
	int (*drain)(struct anynet_stream *stream);

	/* Send comm: may the bytes of this message go without asking first? NULL: always. */
	bool (*cleared)(struct anynet_stream *stream, const struct send_msg *msg);

	/* End the path and free the stream. Nothing reads or writes user memory afterwards. */
	void (*close)(struct anynet_stream *stream);
};

/* So much at least has to be acknowledged, unless all is, to count as progress: more than heartbeats, and a packet or
 * two. */
#define STREAM_PROGRESS_BYTES 4096

/* How a path is doing. */
struct stream_signs {
	bool waiting;      /* something was sent that the peer's host has not acknowledged */
	unsigned tries;    /* retransmitted in a row without an answer */
	unsigned quiet_ms; /* since anything was last heard from the peer's host */
	unsigned rtt_us, rtt_var_us;
	bool lost;      /* its NIC has said so */
	uint64_t acked; /* bytes of this connection that the peer's host has acknowledged */
	/* Of its connection, for the stats page; 0 = not known. */
	unsigned resent; /* packets retransmitted by the kernel */
	uint64_t rate;   /* the kernel's delivery rate, bytes per s */
	uint64_t busy_us; /* with data in flight or to send */
};

/* Of a stream, over its connections: progress.c. */
struct stream_progress {
	struct stream_position from; /* when the connection began … */
	uint64_t acked; /* … and what was acknowledged of it by then */
	uint64_t began_ms;
	unsigned same;       /* connections in a row that began at the position of the one before */
	unsigned vain;       /* … that stood and moved nothing … */
	uint64_t since_ms;   /* … since when nothing has moved, as far as is known */
	unsigned narrowed;   /* connections made with small packets */
	unsigned qps_vain;   /* queue pairs in a row that were used and brought nearly nothing */
	unsigned qps_failed; /* … that did not come to that */
	/* The pair of the last of them; none = its `from` is UINT8_MAX */
	struct anynet_wire_pair narrow;
};

enum stream_state {
	STREAM_DOWN, /* without a connection */
	STREAM_UP,
	STREAM_SUSPECT /* it stands, and its path gives no sign: nothing new is given to it */
};

/* Of an IB device's stream: what is known of its queue pairs. */
struct stream_qp {
	bool carries; /* frames go by one … */
	/* … whose peer says here whether small messages may come in them; NULL = none */
	const uint32_t *frames;
	bool gathers;     /* … if so, also those whose payload does not lie behind its header */
	uint32_t cleared; /* receive comm: all before are told on it, or over */
	int err;          /* the -errno that ended the last one; 0 = none … */
	uint64_t brought; /* … after so many frames had arrived by it */
	/* That resume takes over; of a receive comm also one that is being proven. NULL = none */
	struct ib_qp *next;
	uint32_t epoch; /* receive comm: of the last one that was to be proven */
};

/* Payload, for balancing and statistics. */
struct stream_sent {
	uint64_t bytes;
	uint64_t aged_at; /* `bytes` when send_age_rates ran last */
	double rate;      /* estimated bytes per ms; 0 = not known */
	bool raised;      /* the estimate was raised since it was measured */
};

struct stream_bye {
	bool due;  /* it is to be sent once all else is out */
	bool came; /* the peer's has, the end of the stream is no error */
};

/* The NIC that its connection goes through; NULL = not known. */
struct stream_nic {
	const struct anynet_device *dev;
	unsigned losses; /* its carrier_losses() when the connection was made */
};

/* Its path's signs of life. */
struct stream_health {
	/* Since when what was sent is not acknowledged, as far as known; 0 = all is */
	uint64_t silent_ms;
	uint8_t alarms; /* how often it gave none for too long of late, and when last */
	uint64_t alarmed_ms;
	uint64_t suspected_ms;    /* when the peer last said that it is suspect; 0 = never */
	bool suspected;           /* … and that is still to be looked at */
	struct stream_signs seen; /* when it was last looked at */
	uint64_t counted;         /* bytes acknowledged, as far as they have counted as progress */
};

/* Connections that broke. */
struct stream_breaks {
	int err;     /* without connection: the -errno that ended the last one … */
	uint64_t ms; /* … and when */
	uint32_t count;
};

/* It outlives connections: a new one goes on where the receiver says that the last one ended (docs/wire.md). */
struct anynet_stream {
	const struct anynet_stream_ops *ops;
	struct anynet_comm *comm;
	enum stream_state state; /* changed by comm_stream_change (session/comm.h) only */
	int fd;                  /* -1 = no connection */
	uint16_t index;
	bool readable, writable; /* by the last events; set when that is not known */
	bool ended;              /* the peer's end is shut: read until that is seen */
	bool parked;             /* the frame at its head waits for a posted receive */
	struct stream_bye bye;
	struct stream_qp qp;
	struct stream_sent sent;
	uint32_t epoch;
	struct anynet_wire_pair home; /* the NICs it was planned for */
	struct anynet_wire_pair pair; /* those it joins now */
	struct stream_nic nic;
	struct stream_health health;
	struct stream_breaks breaks;
	struct stream_progress progress;
	char path[112]; /* "10.0.0.1:4711 -> 10.0.0.2:9000" for messages */
};

/* Names a frame of a stream, so that it can be made again. */
struct frame_id {
	uint32_t seq;    /* DATA, RTS: of the message */
	uint32_t length; /* DATA: of the payload … */
	uint32_t at;     /* … and its offset in the message, in units of ANYNET_PART_ALIGN */
	uint16_t slot;
	uint8_t type; /* enum anynet_frame_type */
};

/* A frame to send, made by the comm. */
struct stream_frame {
	struct anynet_wire_frame header;
	const uint8_t *payload; /* header.length bytes */
	bool framed; /* the same header lies before and the tail behind them: one piece */
	bool on_gpu; /* the payload lies in GPU memory */
};

/* --- what a stream asks of a send comm (send.c) --- */

/* The next frame for this stream; false = nothing to send now. */
bool send_next(struct send_comm *comm, struct anynet_stream *stream, struct frame_id *id);

/* Header and payload of a frame. Valid until its message is acknowledged. */
void send_frame(const struct send_comm *comm, const struct frame_id *id,
		struct stream_frame *frame);

/* The last byte of a chunk has been handed to the path. */
void send_written(struct send_comm *comm, const struct frame_id *id);

/* Of a new comm, whose first connection has had this round trip (0 = not known): are its sends to be done before
 * they are acknowledged? Then nothing may be sent by reference. */
void send_keep_start(struct send_comm *comm, uint32_t rtt_us);
bool send_keeps(const struct send_comm *comm);

/* For streams with `cleared`: messages whose CTS has come go on. */
void send_look_for_cts(struct send_comm *comm, struct anynet_stream *stream);

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

/* An ACK, CTS … came in on this stream. `payload` holds header->length bytes. 0 or -EPROTO. */
int send_control(struct send_comm *comm, struct anynet_stream *stream,
		 const struct anynet_wire_frame *header, const uint8_t *payload);

/* --- what a stream asks of a receive comm (recv.c) --- */

#define STREAM_CONTROL_BYTES 96 /* largest control frame of a receive comm: header and a CTS */

/* The next control frame for this stream, header and payload in one; 0 = none now. */
size_t recv_next_control(struct recv_comm *comm, struct anynet_stream *stream,
			 uint8_t frame[STREAM_CONTROL_BYTES]);

/*
 * A DATA frame is at the head of the stream: where do its bytes go? *dst is NULL when there is nothing
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

/* The next posted receive that the sender has not been told of on this stream: everything but rkey is filled.
 * False = none. Those of no more than `eager` bytes are left out where such messages come in frames. */
bool recv_next_cts(struct recv_comm *comm, struct anynet_stream *stream, size_t eager,
		   struct anynet_wire_cts *cts, struct anynet_mr **mr);

/* Can CTS wait, as the sender has several places for what it sends next? Then they go together, with
 * fewer requests, when it has used some. */
bool recv_holds_cts(struct recv_comm *comm, const struct anynet_stream *stream);

/* Are there receives that are not cleared unasked, and has the sender been told of all others? */
bool recv_must_be_asked(const struct recv_comm *comm, const struct anynet_stream *stream);

/* The path is new: it has been told of none. */
void recv_cts_again(const struct recv_comm *comm, struct anynet_stream *stream);

/* The same for the message in a slot that is to be cleared; NULL = it has no registered buffer. */
struct anynet_mr *recv_cts_of(struct recv_comm *comm, unsigned slot, struct anynet_wire_cts *cts);

/* Of a frame that was begun only `part` of `length` bytes stay in place; the rest comes again. */
void recv_unplace(struct recv_comm *comm, struct recv_msg *msg, size_t length, size_t part);

/* ASK: the sender wants the CTS of a message that it may have begun, on the stream that asks; LOOK: a
 * message waits for one that comes unasked. Likewise. */
int recv_asked(struct recv_comm *comm, const struct anynet_stream *stream,
	       const struct anynet_wire_frame *header);
int recv_looked(struct recv_comm *comm, const struct anynet_wire_frame *header);

/* RTS, READY, BYE or PING. 0, -EAGAIN or -errno as for recv_place. */
int recv_control(struct recv_comm *comm, struct anynet_stream *stream,
		 const struct anynet_wire_frame *header);

/* Counts completed requests: a stream that sees it change during receive may stop for now. */
unsigned recv_completions(const struct recv_comm *comm);

/* --- streams that exist --- */

/* A TCP stream over a connected socket, which it owns from then on. NULL = no memory. */
struct anynet_stream *tcp_stream_create(struct anynet_comm *comm, int fd, uint16_t index);

/* The same for an IB device's comm, with a queue pair that is joined, which it owns as well; NULL: by TCP
 * alone. */
struct anynet_stream *ib_stream_create(struct anynet_comm *comm, int fd, uint16_t index,
				       struct ib_qp *qp);
/* Of an IB device's comm: did it ever have a queue pair? */
bool ib_stream_had_qp(const struct anynet_stream *stream);

/* Of a receive comm: take in what the queue pairs that it has left had brought, as far as something is posted for it. False:
 * nothing is left of that. */
bool ib_stream_take_rest(struct anynet_stream *stream);

/* Has it a connection; and one that gives signs of life? NULL: it has not. */
static inline bool stream_stands(const struct anynet_stream *stream)
{
	return stream && stream->state != STREAM_DOWN;
}

static inline bool stream_works(const struct anynet_stream *stream)
{
	return stream && stream->state == STREAM_UP;
}

/* Was it found to give no sign, and has not given one since? A lost carrier alone is no such thing. */
static inline bool stream_is_silent(const struct anynet_stream *stream)
{
	return stream->health.silent_ms && stream->health.alarmed_ms >= stream->health.silent_ms;
}

/* By a queue pair: may a small message go in a frame, without a CTS? */
static inline bool stream_takes_frames(const struct anynet_stream *stream)
{
	return stream && stream->qp.frames && __atomic_load_n(stream->qp.frames, __ATOMIC_ACQUIRE);
}

/* Lines about what happens again and again: the first, the second, the fourth … time. */
static inline bool stream_is_news(uint32_t times)
{
	return !(times & (times - 1));
}

#endif
