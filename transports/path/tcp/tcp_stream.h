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

struct tcp_stream {
	struct anynet_stream base; /* first */

	/* Receiving: bytes [rx_head, rx_tail) of rx_buf are read and not consumed. */
	uint8_t *rx_buf;
	uint32_t rx_bytes, rx_head, rx_tail;
	struct anynet_wire_frame rx_frame; /* the DATA frame whose payload is coming in */
	struct recv_msg *rx_msg;
	uint8_t *rx_dst;    /* where its next byte goes */
	uint32_t rx_left;   /* payload bytes still to come */
	uint32_t rx_crc;    /* bytes of checksum behind them */
	uint32_t rx_sum;    /* in GPU memory: of the payload so far, if there is one behind it */
	uint32_t rx_skip;   /* tail of the last frame, still to be read */
	uint32_t rx_last;   /* payload bytes of the last frame */
	bool rx_open;       /* rx_frame is begun and not consumed */
	bool rx_on_gpu;     /* its payload goes to GPU memory */
	bool rx_quiet;      /* the socket was empty when last asked */
	uint64_t rx_frames; /* consumed in all, over all connections */
	/* Message offset up to which the next one is in place; 0 = its beginning */
	uint32_t rx_part;

	/* Sending: frames are numbered over all connections. [log_first, tx_next) are out and may be
	 * asked for again, [tx_next, log_end) wait; tx_gone bytes of frame tx_next are out. */
	struct tcp_log_frame *log;
	uint32_t log_room; /* entries, a power of two; number & (log_room - 1) finds one */
	uint32_t tx_gone;
	uint64_t log_first, tx_next, log_end;
	bool shut;                         /* no more data comes from us: said to the kernel */
	uint64_t rate_at;                  /* bytes_sent at which the rate is looked at again */
	uint64_t rate_busy_us, rate_acked; /* the kernel's counts when the last sample was taken */
	bool zerocopy;                     /* the kernel really avoids the copy, as far as known */
	uint32_t zc_sent, zc_done;         /* MSG_ZEROCOPY calls made, notifications read */

	struct tcp_gpu *gpu; /* tcp_gpu.c; NULL = no payload in GPU memory so far */

	/* Control frames of a receive comm. */
	uint8_t control[TCP_CONTROL_BYTES];
	uint32_t control_bytes, control_gone;
	bool control_broken; /* the sender is gone: nobody to tell; what came is still read */
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
	return &stream->log[number & (stream->log_room - 1)];
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

/* All before frame tx_next is out, and so much of its payload. Not called yet for it and those behind. */
void tcp_gpu_sent(struct tcp_stream *stream, uint32_t payload_gone);

/* The socket takes no more for now: if others lack bounces they may have ours. */
void tcp_gpu_yield(struct tcp_stream *stream);

/* Begin again with frame tx_next. NCCL's memory is not read when this returns. */
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
