/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP stream: frames on one socket. The sending side is in tcp_tx.c, the receiving side in tcp_rx.c. */
#ifndef ANYNET_TCP_STREAM_H
#define ANYNET_TCP_STREAM_H

#include "message/message.h"

#define TCP_TX_FRAMES     16          /* in one sendmsg */
#define TCP_LOG_FRAMES    64          /* sent and not acknowledged, to begin with */
#define TCP_LOG_MAX       (1u << 20)  /* … and at most */
#define TCP_STAGING_BYTES 16384       /* receive staging of a receive comm's stream */
#define TCP_CONTROL_BYTES 512         /* of a send comm's stream, and control bytes to send */
#define TCP_DIRECT_BYTES  2048        /* this much payload missing: read it into place */
#define TCP_LARGE_BYTES   (16u << 10) /* after such a frame only the next header is read ahead */
#define TCP_RX_TURN       (4u << 20)  /* received at most in one call, to serve others, too */

/* Sent at most in one call, likewise. 512 KiB to 4 MiB measure alike; below, large messages take
 * longer (512 KiB half-RTT: 65 us, 114 us with 256 KiB). */
#define TCP_TX_TURN (1u << 20)

/* A frame of the stream that may have to be retransmitted. */
struct tcp_log_frame {
	struct frame_id id;
	uint32_t crc; /* of its payload, if frames carry checksums */
};

/* What has come in: bytes [head, tail) of `buf` are read and not consumed. */
struct tcp_rx {
	uint8_t *buf;
	uint32_t bytes, head, tail;
	struct anynet_wire_frame frame; /* the DATA frame whose payload is coming in */
	struct recv_msg *msg;
	uint8_t *dst;    /* where its next byte goes */
	uint32_t left;   /* payload bytes still to come */
	uint32_t crc;    /* bytes of checksum behind them */
	uint32_t sum;    /* in GPU memory: of the payload so far, if there is one behind it */
	uint32_t skip;   /* tail of the last frame, still to be read */
	uint32_t last;   /* payload bytes of the last frame */
	bool open;       /* `frame` is begun and not consumed */
	bool on_gpu;     /* its payload goes to GPU memory */
	bool quiet;      /* the socket was empty when last asked */
	uint64_t frames; /* consumed in all, over all connections */
	uint32_t part; /* message offset up to which the next one is in place; 0 = its beginning */
};

/* What goes out. Frames are numbered over all connections: [first, next) are out and may be asked for again,
 * [next, end) wait; `gone` bytes of frame `next` are out. */
struct tcp_log {
	struct tcp_log_frame *frames;
	uint32_t room; /* entries, a power of two; number & (room - 1) finds one */
	uint32_t gone;
	uint64_t first, next, end;
};

/* The last sample of the rate: the kernel's counts, and sent.bytes at which the next one is due. */
struct tcp_rate {
	uint64_t at, busy_us, acked;
};

struct tcp_zerocopy {
	bool works;          /* the kernel really avoids the copy, as far as known */
	uint32_t sent, done; /* MSG_ZEROCOPY calls made, notifications read */
};

/* Control frames of a receive comm, on their way out. */
struct tcp_control {
	uint8_t data[TCP_CONTROL_BYTES];
	uint32_t bytes, gone;
	bool broken; /* the sender is gone: nobody to tell; what came is still read */
};

struct tcp_stream {
	struct anynet_stream base; /* first */
	struct tcp_rx rx;
	struct tcp_log log;
	bool shut; /* no more data comes from us: said to the kernel */
	struct tcp_rate rate;
	struct tcp_zerocopy zerocopy;
	struct tcp_gpu *gpu; /* tcp_gpu.c; NULL = no payload in GPU memory so far */
	struct tcp_control control;
};

static inline struct tcp_stream *to_tcp(struct anynet_stream *stream)
{
	return (struct tcp_stream *)stream;
}

/* Of zeroed memory. 0 or -ENOMEM. */
int tcp_stream_init(struct tcp_stream *stream, struct anynet_comm *comm, int fd, uint16_t index);

int tcp_receive_data(struct anynet_stream *stream);    /* of a receive comm */
int tcp_receive_control(struct anynet_stream *stream); /* of a send comm */
void tcp_receive_severed(struct tcp_stream *stream);   /* of either: the connection has ended */
uint32_t tcp_kept_bytes(
	const struct tcp_stream *stream); /* of a frame that has begun, if it ended now */
int tcp_transmit_data(struct anynet_stream *stream);
int tcp_transmit_control(struct anynet_stream *stream);

/* tcp_log.c: what was sent on the stream and may have to be retransmitted. */
int tcp_log_init(struct tcp_stream *stream);
bool tcp_log_has_room(struct tcp_stream *stream); /* for one more; makes it if it can */
int tcp_log_rewind(struct tcp_stream *stream, struct stream_position to);

static inline struct tcp_log_frame *tcp_log_at(struct tcp_stream *stream, uint64_t number)
{
	return &stream->log.frames[number & (stream->log.room - 1)];
}

/* tcp_info.c: what the kernel knows. Keep base.rate up to date: cheap, and only needed when streams
 * share messages. */
void tcp_rate_refresh(struct tcp_stream *stream);
/* The least round trip that the kernel has seen; 0 = none. */
uint32_t tcp_round_trip_us(int fd);
bool tcp_signs(struct anynet_stream *stream, struct stream_signs *signs);

uint64_t tcp_frames(const struct anynet_stream *stream);
enum stream_moved tcp_moved(struct anynet_stream *stream);

/*
 * tcp_gpu.c: payload in GPU memory, which is copied through host memory. An error is noted.
 */

/* Before the first such frame of the stream. 0 or -errno. */
int tcp_gpu_begin(struct tcp_stream *stream);

/* Has it bounces? Then its turns come whatever the socket says: copies end, and others may want them. */
bool tcp_gpu_is_busy(const struct tcp_stream *stream);

/* Sending: start copying what is queued, as far as there are bounces. 0 or -errno. */
int tcp_gpu_copy_ahead(struct tcp_stream *stream);

/* Payload of a queued frame that has been copied, from this offset in it, as much as lies together; NULL =
 * none yet. */
const uint8_t *tcp_gpu_copied(struct tcp_stream *stream, uint64_t frame, uint32_t from,
			      size_t *bytes);

/* Of a frame whose payload has been copied to its end. */
uint32_t tcp_gpu_checksum(struct tcp_stream *stream, uint64_t frame);

/* All before frame log.next is out, and so much of its payload. Not called yet for it and those behind. */
void tcp_gpu_sent(struct tcp_stream *stream, uint32_t payload_gone);

/* The socket takes no more for now: if others lack bounces they may have ours. */
void tcp_gpu_yield(struct tcp_stream *stream);

/* Begin again with frame log.next. NCCL's memory is not read when this returns. */
void tcp_gpu_rewind(struct tcp_stream *stream);

/* Receiving: room for the next payload bytes of the frame that is coming in; NULL = none for now. */
uint8_t *tcp_gpu_room(struct tcp_stream *stream, size_t *bytes);

/* That much of it has been filled. 0 or -errno. */
int tcp_gpu_filled(struct tcp_stream *stream, size_t bytes);

/* Nothing comes for now: room that nothing has been put into is others'. */
void tcp_gpu_wait(struct tcp_stream *stream);

/* A frame's payload is all there: it counts as placed when it has been copied. 0 or -errno. */
int tcp_gpu_end_frame(struct tcp_stream *stream, struct recv_msg *msg, uint32_t length);

/* What has been copied is placed; the second waits for all. 0 or -errno. */
int tcp_gpu_take_placed(struct tcp_stream *stream);
void tcp_gpu_place_all(struct tcp_stream *stream);

/* The stream is over. Nothing reads or writes GPU memory when this returns. */
void tcp_gpu_end(struct tcp_stream *stream);

/* zerocopy.c: notifications of MSG_ZEROCOPY from the socket's error queue. */
void tcp_zerocopy_init(struct tcp_stream *stream);
void tcp_zerocopy_reap(struct tcp_stream *stream);

#endif
