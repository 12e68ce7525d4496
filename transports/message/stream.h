/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream: an ordered sequence of frames of a comm, and the path that carries it now. The message layer decides what
 * is sent and where received bytes go; a path moves them. This header is the contract between the two, both ways.
 * Unless stated otherwise, the caller has exclusive access to the comm.
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
struct log_frame;
struct send_comm;
struct send_msg;
struct recv_comm;
struct recv_msg;
struct stream_signs;

enum stream_moved {
	STREAM_IDLE,  /* there was nothing to carry */
	STREAM_MOVED, /* data has arrived, or the peer's host has acknowledged it */
	STREAM_STUCK, /* there was data to carry, and it has not got through */
};

/* How far a receiver has come in a stream. */
struct stream_position {
	uint64_t frames; /* frames consumed in all */
	uint32_t part;   /* message offset up to which the payload of the next frame is in place; 0 = none of it */
};

/*
 * Operations of a path. They do not wait for the network. Two things may take longer: ending a queue pair, which polls
 * for its flushed completions for up to 30 ms, and calls of libibverbs.
 */
struct anynet_stream_ops {
	/* Take in what has arrived and give it to the comm. Returns when nothing is left, when a request has
	 * completed, or after a bounded amount. 0, or -errno: the stream has broken. */
	int (*receive)(struct anynet_stream *stream);

	/* Pull frames from the comm and send what there is room for. 0 or -errno. */
	int (*transmit)(struct anynet_stream *stream);

	/* Send comm: bytes handed to the path that the peer's host has not acknowledged. SIZE_MAX: a queue pair without
	 * room. */
	size_t (*backlog)(struct anynet_stream *stream);

	/* State of the path. False = not known. */
	bool (*signs)(struct anynet_stream *stream, struct stream_signs *signs);

	/* Has this connection moved the stream forward (progress.h)? */
	enum stream_moved (*moved)(struct anynet_stream *stream);

	/* Receive comm: bytes of a begun frame's payload, which may be all of a large message, that stay if the path breaks now. */
	size_t (*begun)(const struct anynet_stream *stream);

	/* Send a heartbeat if nothing is in flight, so that a later `signs` shows whether the peer's host lives. */
	void (*ping)(struct anynet_stream *stream);

	/* End the path. Nothing reads or writes user memory through it afterwards. The stream keeps what it needs to
	 * resume over another one. */
	void (*sever)(struct anynet_stream *stream);

	/* Receive comm, severed stream: the position from which the sender is to resume. */
	struct stream_position (*position)(struct anynet_stream *stream);

	/* Severed stream: continue over the connection `fd` between these NICs, which the stream owns even if this fails.
	 * `from`: the receiver's position, which only a send comm's stream uses. 0, -EPROTO: the receiver cannot be at
	 * this position, or another -errno. */
	int (*resume)(struct anynet_stream *stream, int fd, struct anynet_wire_pair pair,
		      struct stream_position from);

	/* The comm is being closed: see that what was sent arrives. 0: it has; -EAGAIN: not yet, call again; another
	 * -errno: the stream has broken. */
	int (*drain)(struct anynet_stream *stream);

	/* Send comm of an IB device, no other has it: may the payload of this message be sent now, without another CTS? */
	bool (*cleared)(struct anynet_stream *stream, const struct send_msg *msg);

	/* End the path and free the stream. Nothing reads or writes user memory afterwards. */
	void (*close)(struct anynet_stream *stream);
};

/* Min bytes acknowledged that count as progress while more is to be sent: above heartbeats and a packet or two. */
#define STREAM_PROGRESS_BYTES 4096

/* State of a path. TCP fills all but `lost` and `qp`, from TCP_INFO; a queue pair fills only these two. */
struct stream_signs {
	bool waiting;      /* the peer's host has not acknowledged everything that was sent */
	unsigned tries;    /* retransmissions or window probes in a row without an answer */
	unsigned quiet_ms; /* since the last packet from the peer's host */
	unsigned sent_ms;  /* since data was last sent */
	unsigned rtt_us, rtt_var_us;
	bool lost;      /* the port has gone down since the queue pair was made */
	uint64_t acked; /* bytes of this connection that the peer's host has acknowledged */
	/* For statistics; 0 = not known. */
	unsigned resent;  /* packets retransmitted by the kernel */
	uint64_t rate;    /* the kernel's delivery rate, bytes per s */
	uint64_t busy_us; /* time with data in flight or to send */
	struct {
		/* For statistics: bytes of large frames that have arrived; the time in which any were in flight */
		uint64_t acked, busy_us;
		unsigned rtt_us; /* until one is known to have arrived */
	} qp;
};

/* Progress of a stream over its connections (progress.c). */
struct stream_progress {
	struct stream_position from; /* position at which the present connection began */
	uint64_t acked;              /* signs.acked at that time */
	uint64_t began_ms;           /* when the connection began */
	unsigned same;               /* connections in a row that began at `from`; idle ones are not counted */
	unsigned vain;               /* connections in a row that moved nothing although there was data */
	uint64_t since_ms;           /* nothing is known to have moved since then; idle time is left out */
	unsigned narrowed;           /* connections made with small packets, in all */
	unsigned lapses;             /* times in a row that its best path broke soon after it had been taken */
	unsigned qps_failed;         /* attempts in a row that gave no proven queue pair */
	/* The NICs between which full-size packets seem to be lost; none = its `from` is UINT8_MAX */
	struct anynet_wire_pair narrow;
	/* Connections that fell silent: those between the NICs `narrow` since data moved there, and those between other
	 * NICs, if nothing has moved in between */
	unsigned silences;
};

enum stream_state {
	STREAM_DOWN, /* no connection */
	STREAM_UP,
	STREAM_SUSPECT /* connected, but the path shows no sign of life: it gets no new frames */
};

/* Stream of an IB device: state of its queue pairs. */
struct stream_qp {
	bool carries; /* a queue pair carries the frames */
	const struct anynet_device
		*nic; /* of the queue pair, or of the last one; NULL = there has been none */
	/* Send comm, with a queue pair: the peer writes here whether small messages may come in frames; else NULL */
	const uint32_t *frames;
	bool fetches;     /* send comm: the adapter of the last queue pair gathers nothing */
	uint32_t cleared; /* receive comm: receives before this number need no further CTS on this stream */
	int err;          /* the -errno that ended the last queue pair; 0 = none, or progress_lapse has seen it */
	uint64_t brought; /* frames that had arrived by that queue pair */
	/* The queue pair that `resume` uses. Receive comm: may still be unproven. NULL = none */
	struct ib_qp *next;
	uint32_t epoch; /* receive comm: epoch of the last QP hello */
};

/* Payload sent, for balancing and statistics. */
struct stream_sent {
	uint64_t bytes;
	uint64_t aged_at; /* `bytes` when send_age_rates ran last */
	double rate;      /* estimated bytes per ms; 0 = not known */
	bool raised;      /* the estimate was raised since it was measured */
};

struct stream_bye {
	bool due;  /* BYE is to be sent behind everything else */
	bool came; /* the peer has sent BYE: the end of the stream is no error */
};

/* The NIC that the connection uses. */
struct stream_nic {
	const struct anynet_device *dev; /* NULL = not known */
	unsigned losses;                 /* carrier_losses() when the connection was made */
};

/* Signs of life of the path, as watch.c has found them. */
struct path_health {
	/* When the path fell silent: something sent is unacknowledged since then. 0 = it is not silent */
	uint64_t silent_ms;
	uint64_t suspected_ms;    /* when the peer last reported the path as suspect; 0 = it has not */
	bool suspected;           /* the peer's report is not handled yet */
	bool lost;                /* when the path began, something had been lost on the one before */
	struct stream_signs seen; /* as last read */
	uint64_t counted;         /* bytes acknowledged that have counted as progress */
};

/* What carries the stream: a TCP connection, and a queue pair beside it (stream_qp). The path code begins it with the
 * stream or in `resume`, and ends it in `sever`. After that, the last three fields keep their values until
 * the next path begins. */
struct stream_path {
	int fd;                  /* -1 = no connection */
	bool readable, writable; /* by the last epoll events; true if not known */
	bool ended;              /* the connection has ended or broken: read on until recv() shows it */
	bool parked;             /* the frame at its head waits for a posted receive */
	bool failed; /* it has failed beside a queue pair that works, and goes on alone */
	struct path_health health;
	struct stream_nic nic;
	struct anynet_wire_pair pair; /* the NICs that it joins */
	char text[112];               /* "10.0.0.1:4711 -> 10.0.0.2:9000", for log lines */
};

/* Alarms for lack of acknowledgements. */
struct stream_alarms {
	uint8_t count; /* recent false ones: each doubles the silence that raises the next one */
	bool open;     /* one has been raised, and it is not known yet whether it was false */
	uint64_t ms;   /* time of the last one */
};

/* Connections that broke. */
struct stream_breaks {
	int err;     /* the -errno that ended the last connection; 0 = resumed, or it was replaced unbroken */
	uint64_t ms; /* time of the last break */
	uint32_t count;
};

/* What is needed to make a frame again for retransmission. */
struct frame_id {
	uint32_t seq;    /* DATA, RTS: number of the message */
	uint32_t length; /* DATA: payload bytes */
	uint32_t at;     /* DATA: offset of the payload in the message, in units of ANYNET_PART_ALIGN */
	uint16_t slot;
	uint8_t type; /* enum anynet_frame_type */
};

/* Send comm (stream_log.h). Frames are numbered over all paths. Frames [first, next) have been sent and may have to be
 * sent again; by a queue pair, those before `arrived` have arrived. Frames [next, end) are queued. */
struct stream_log {
	struct log_frame *frames;
	uint32_t room; /* entries, a power of two; frame n has entry n & (room - 1) */
	uint32_t gone; /* TCP: bytes of frame `next` that have been sent */
	uint64_t first, next, end;
	uint64_t arrived;
};

/* A stream outlives its connections: the next one resumes at the receiver's position (docs/wire.md). */
struct anynet_stream {
	const struct anynet_stream_ops *ops;
	struct anynet_comm *comm;
	enum stream_state state; /* changed by comm_stream_change (session/comm.h) only */
	uint16_t index;
	struct stream_path path;
	struct stream_bye bye;
	struct stream_qp qp;
	struct stream_log log;     /* send comm */
	struct stream_position at; /* receive comm */
	struct stream_sent sent;
	uint32_t epoch;
	struct anynet_wire_pair home; /* the NICs of the plan */
	struct stream_alarms alarms;
	struct stream_breaks breaks;
	struct stream_progress progress;
};

#define HEADER_BYTES sizeof(struct anynet_wire_frame)

/* A frame to send. */
struct stream_frame {
	struct anynet_wire_frame header;
	const uint8_t *payload; /* header.length bytes */
	bool framed;            /* memory holds the whole frame: the header before the payload, the tail behind it */
	bool on_gpu;            /* the payload is in GPU memory */
};

/* --- what a stream asks of a send comm (send_streams.c, send_keep.c) --- */

/* The next frame for this stream; false = nothing to send now. */
bool send_next(struct send_comm *comm, struct anynet_stream *stream, struct frame_id *id);

/* Fills *frame. Its payload stays valid until the message is acknowledged. */
void send_frame(const struct send_comm *comm, const struct frame_id *id,
		struct stream_frame *frame);

/* Reports that the path has taken the frame, over TCP perhaps without its tail byte. */
void send_written(struct send_comm *comm, const struct frame_id *id);

/* Decides for a new comm whether its large sends are copied and then done before their ACK (send_keep.c). `rtt_us`:
 * round trip of its first connection; 0 = not known. */
void send_keep_start(struct send_comm *comm, uint32_t rtt_us);
/* The decision. True: the path must not use MSG_ZEROCOPY, because the kernel would read NCCL's buffer after the send
 * is done. */
bool send_keeps(const struct send_comm *comm);

/* Streams with `cleared`: queues the messages whose CTS has come. */
void send_look_for_cts(struct send_comm *comm, struct anynet_stream *stream);

/* ASK_ALL has come, or a second tag is used: messages get no CTS unasked any more. Those that wait for one are
 * queued, and they and large ones in the queue ask for it. */
void send_ask_all(struct send_comm *comm);

/* Reports that the frame has arrived, from a path that knows this itself and therefore gets no ACK. At most once for
 * each frame. */
void send_arrived(struct send_comm *comm, const struct frame_id *id);

/* Reports a frame of which one part is in place already and only the rest is sent again. Such a message counts one
 * unsure chunk more, so that send_arrived alone cannot complete it: the receiver sends an ACK for it. */
void send_begun(struct send_comm *comm, const struct frame_id *id);

/* Reports that the frame will be retransmitted, whole or in part. */
void send_rewound(struct send_comm *comm, const struct frame_id *id);

/* Has the message of this DATA or RTS frame been acknowledged? */
bool send_frame_over(const struct send_comm *comm, const struct frame_id *id);

/* Handles a control frame (ACK, CTS, SUSPECT, PING, BYE) from this stream. `payload` has header->length bytes. 0 or
 * -EPROTO. */
int send_control(struct send_comm *comm, struct anynet_stream *stream,
		 const struct anynet_wire_frame *header, const uint8_t *payload);

/* --- what a stream asks of a receive comm (recv_match.c, recv_placed.c, recv_tell.c) --- */

#define STREAM_CONTROL_BYTES 96 /* largest control frame of a receive comm: header and a CTS */

/* Writes the next control frame for this stream, header and payload. Its bytes; 0 = none now. */
size_t recv_next_control(struct recv_comm *comm, struct anynet_stream *stream,
			 uint8_t frame[STREAM_CONTROL_BYTES]);

/*
 * Finds the place for the payload of the DATA frame at the head of the stream. *dst is NULL if it has none. 0, -EAGAIN:
 * no receive is posted for it yet, so the frame stays at the head; any other -errno ends the comm.
 */
int recv_place(struct recv_comm *comm, const struct anynet_wire_frame *header,
	       struct recv_msg **msg, uint8_t **dst);

/* Does the payload of the message go to GPU memory? Valid until its last frame is placed. */
bool recv_is_on_gpu(const struct recv_msg *msg);

/* Does the GPU poll the buffer for flags while it is filled? */
bool recv_is_polled(const struct recv_msg *msg);

/* Copies payload from the plugin's memory to its place. */
void recv_put(struct recv_comm *comm, const struct recv_msg *msg, uint8_t *to, const uint8_t *from,
	      size_t bytes);

/* Reports that the frame's payload is in place. recv_arrived: the path tells the sender itself, no ACK is needed. */
void recv_placed(struct recv_comm *comm, struct recv_msg *msg, size_t bytes);
void recv_arrived(struct recv_comm *comm, struct recv_msg *msg, size_t bytes);

/* May small messages come in frames? Not if a receive is in GPU memory, where placing them would need CUDA, and not
 * before the first receive if the device supports GPU memory. */
bool recv_takes_frames(const struct recv_comm *comm);

/* Takes the next posted receive that needs a CTS on this stream and fills all of *cts but rkey and check. False = none.
 * Receives of up to IB_EAGER_BYTES are skipped if such messages come in frames. */
bool recv_next_cts(struct recv_comm *comm, struct anynet_stream *stream,
		   struct anynet_wire_cts *cts, struct anynet_mr **mr);

/* Can the next CTS wait because the sender has enough unused ones? Then several go in one WRITE later, which
 * recv_has_to_tell reports as due. */
bool recv_holds_cts(struct recv_comm *comm, const struct anynet_stream *stream);

/* Does the comm give further CTS only on request (ASK_ALL), and are all others sent on this stream? */
bool recv_must_be_asked(const struct recv_comm *comm, const struct anynet_stream *stream);

/* Makes recv_next_cts start again at the oldest receive, for a new queue pair. */
void recv_cts_again(const struct recv_comm *comm, struct anynet_stream *stream);

/* As recv_next_cts, for the matched message in this slot. NULL = its buffer is not registered. */
struct anynet_mr *recv_cts_of(struct recv_comm *comm, unsigned slot, struct anynet_wire_cts *cts);

/* Takes back a frame of `length` bytes that recv_place has begun, except its first `part` bytes, which are in place.
 * The rest is retransmitted. */
void recv_unplace(struct recv_comm *comm, struct recv_msg *msg, size_t length, size_t part);

/* ASK: the sender requests the CTS of a message, which it may have begun, on this stream. LOOK: a message waits for its
 * CTS in the CTS ring; this checks the size of its receive and, if it is posted, gives its CTS again. 0, -EAGAIN or -errno as for
 * recv_place. */
int recv_asked(struct recv_comm *comm, struct anynet_stream *stream,
	       const struct anynet_wire_frame *header);
int recv_looked(struct recv_comm *comm, struct anynet_stream *stream,
		const struct anynet_wire_frame *header);

/* Handles RTS, READY, BYE or PING. 0, -EAGAIN or -errno as for recv_place. */
int recv_control(struct recv_comm *comm, struct anynet_stream *stream,
		 const struct anynet_wire_frame *header);

/* --- streams that exist --- */

/* A TCP stream over a connected socket between these NICs, which the stream owns afterwards. NULL = no memory. */
struct anynet_stream *tcp_stream_create(struct anynet_comm *comm, uint16_t index, int fd,
					struct anynet_wire_pair pair);

/* The same for a comm of an IB device. `qp`: a joined queue pair, which the stream owns as well; NULL = TCP only. */
struct anynet_stream *ib_stream_create(struct anynet_comm *comm, uint16_t index, int fd,
				       struct anynet_wire_pair pair, struct ib_qp *qp);

/* Receive comm of an IB device: consumes the frames of fenced queue pairs for which receives are posted. False = none
 * are left. */
bool ib_stream_take_rest(struct anynet_stream *stream);

/* Has the stream a connection? And one that is not suspect? NULL is allowed: false. */
static inline bool stream_stands(const struct anynet_stream *stream)
{
	return stream && stream->state != STREAM_DOWN;
}

static inline bool stream_works(const struct anynet_stream *stream)
{
	return stream && stream->state == STREAM_UP;
}

/* Send comm: may a small message go in a frame of the queue pair, without a CTS? False without a queue pair. */
static inline bool stream_takes_frames(const struct anynet_stream *stream)
{
	return stream && stream->qp.frames && __atomic_load_n(stream->qp.frames, __ATOMIC_ACQUIRE);
}

/* Is event number `times` (from 1) worth a log line? True for powers of two: 1, 2, 4, 8 and so on. */
static inline bool stream_is_news(uint32_t times)
{
	return !(times & (times - 1));
}

#endif
