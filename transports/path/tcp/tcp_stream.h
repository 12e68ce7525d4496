/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP stream: frames on one socket. tcp_tx.c sends, tcp_rx.c receives. */
#ifndef ANYNET_TCP_STREAM_H
#define ANYNET_TCP_STREAM_H

#include "message/message.h"

#define TCP_TX_FRAMES     16          /* max frames in one sendmsg */
#define TCP_LOG_FRAMES    64          /* initial size of the log, in frames */
#define TCP_LOG_MAX       (1u << 20)  /* max size of the log, in frames */
#define TCP_STAGING_BYTES 16384       /* receive staging buffer of a receive comm's stream */
#define TCP_CONTROL_BYTES 512         /* staging of a send comm's stream; control output */
#define TCP_DIRECT_BYTES  2048        /* missing payload from this size on is read into place */
#define TCP_LARGE_BYTES   (16u << 10) /* after it, only the next header is read ahead */
#define TCP_RX_TURN       (4u << 20)  /* max bytes received in one call; others need a turn, too */

/* Max bytes sent in one call, for the same reason. 512 KiB to 4 MiB perform alike. Below that, large messages are
 * slower (half-RTT of 512 KiB: 65 us; 114 us with a turn of 256 KiB). */
#define TCP_TX_TURN (1u << 20)

/* Log entry: a frame that is queued, or sent and possibly to be retransmitted. */
struct tcp_log_frame {
	struct frame_id id;
	uint32_t crc; /* CRC32C of its payload, if frames carry checksums */
};

struct tcp_stream {
	struct anynet_stream base; /* first */

	/* Receiving. Bytes [rx_head, rx_tail) of rx_buf have been read and not consumed. */
	uint8_t *rx_buf;
	uint32_t rx_bytes, rx_head, rx_tail;
	struct anynet_wire_frame rx_frame; /* the DATA frame being received */
	struct recv_msg *rx_msg;
	uint8_t *rx_dst;    /* destination of its next payload byte */
	uint32_t rx_left;   /* missing payload bytes */
	uint32_t rx_crc;    /* bytes of checksum behind the payload; 0 = none */
	uint32_t rx_sum;    /* CRC32C of the payload so far; only with rx_on_gpu and rx_crc */
	uint32_t rx_skip;   /* unread tail bytes of the previous frame */
	uint32_t rx_last;   /* payload bytes of the latest DATA frame */
	bool rx_open;       /* rx_frame has begun and is not consumed */
	bool rx_on_gpu;     /* its payload goes to GPU memory */
	bool rx_quiet;      /* the last read found the socket empty */
	uint64_t rx_frames; /* frames consumed, over all connections */
	/* Offset in its message up to which the next frame is already in place; 0 = nothing is */
	uint32_t rx_part;

	/* Sending. Frames are numbered over all connections. Frames [log_first, tx_next) have been sent and may have to
	 * be retransmitted. Frames [tx_next, log_end) are queued; tx_gone bytes of frame tx_next have been sent. */
	struct tcp_log_frame *log;
	uint32_t log_room; /* entries, a power of two; frame n has entry n & (log_room - 1) */
	uint32_t tx_gone;
	uint64_t log_first, tx_next, log_end;
	bool shut;                         /* shutdown(SHUT_WR) has been called */
	uint64_t rate_at;                  /* bytes_sent at which the rate is sampled next */
	uint64_t rate_busy_us, rate_acked; /* the kernel's counters at the last sample */
	bool zerocopy;                     /* large payload uses MSG_ZEROCOPY */
	uint32_t zc_sent, zc_done;         /* MSG_ZEROCOPY calls made, notifications read */

	struct tcp_gpu *gpu; /* tcp_gpu.c; NULL = no payload in GPU memory so far */

	/* Receive comm: control frames to send, of which control_gone bytes have been sent. */
	uint8_t control[TCP_CONTROL_BYTES];
	uint32_t control_bytes, control_gone;
	bool control_broken; /* sending to the peer has failed; data is still received */
};

static inline struct tcp_stream *to_tcp(struct anynet_stream *stream)
{
	return (struct tcp_stream *)stream;
}

/* Initialises a zeroed stream over the connected socket `fd`. 0 or -ENOMEM. */
int tcp_stream_init(struct tcp_stream *stream, struct anynet_comm *comm, int fd, uint16_t index);

int tcp_receive_data(struct anynet_stream *stream);    /* receive comm */
int tcp_receive_control(struct anynet_stream *stream); /* send comm */
void tcp_receive_severed(struct tcp_stream *stream);   /* both: the connection has ended */
uint32_t tcp_kept_bytes(
	const struct tcp_stream *stream);            /* of rx_frame, if the connection ended now */
int tcp_transmit_data(struct anynet_stream *stream); /* send comm */
int tcp_transmit_control(struct anynet_stream *stream); /* receive comm */

/* tcp_log.c: the log of queued and unacknowledged frames. */
int tcp_log_init(struct tcp_stream *stream);      /* 0 or -ENOMEM */
bool tcp_log_has_room(struct tcp_stream *stream); /* for one frame; makes room if it can */

/* Goes back to frame `frames`, whose message is in place up to offset `part` (0 = the whole frame is missing). 0, or
 * -EPROTO: the receiver cannot be at this position. */
int tcp_log_rewind(struct tcp_stream *stream, uint64_t frames, uint32_t part);

static inline struct tcp_log_frame *tcp_log_at(struct tcp_stream *stream, uint64_t number)
{
	return &stream->log[number & (stream->log_room - 1)];
}

/* tcp_info.c: the kernel's view of a connection. */

/* Updates base.rate. Cheap; needed only when several streams share messages. */
void tcp_rate_refresh(struct tcp_stream *stream);
/* The kernel's minimum round trip in microseconds; 0 = not known. */
uint32_t tcp_round_trip_us(int fd);
bool tcp_signs(struct anynet_stream *stream, struct stream_signs *signs);

uint64_t tcp_frames(const struct anynet_stream *stream);
enum stream_moved tcp_moved(struct anynet_stream *stream);

/*
 * tcp_gpu.c: payload in GPU memory, copied through bounces in host memory (gpu.h). Functions that fail have noted the
 * comm's fault.
 */

/* Allocates stream->gpu if it does not exist. Call before the first frame in GPU memory. 0 or -errno. */
int tcp_gpu_begin(struct tcp_stream *stream);

/* Does the stream hold bounces? If so it needs turns without socket events: a copy may finish, or another stream may
 * need a bounce. */
bool tcp_gpu_is_busy(const struct tcp_stream *stream);

/* Sending: starts copies of queued payload while bounces are free. 0 or -errno. */
int tcp_gpu_copy_ahead(struct tcp_stream *stream);

/* Sending: copied payload of queued frame `frame` at offset `from`, with the number of contiguous bytes in *bytes.
 * NULL = not copied yet. */
const uint8_t *tcp_gpu_copied(struct tcp_stream *stream, uint64_t frame, uint32_t from,
			      size_t *bytes);

/* Sending: CRC32C of the payload of `frame`, which must have been copied to its end. */
uint32_t tcp_gpu_checksum(struct tcp_stream *stream, uint64_t frame);

/* Sending: frees the bounces of all frames before tx_next and of the first payload_gone bytes of frame tx_next, which
 * the socket has taken. */
void tcp_gpu_sent(struct tcp_stream *stream, uint32_t payload_gone);

/* Sending: the socket is full. Gives all bounces back if the pool is short; their payload is copied again later. */
void tcp_gpu_yield(struct tcp_stream *stream);

/* Gives all bounces back; copying restarts at frame tx_next. NCCL's memory is not read after this returns. */
void tcp_gpu_rewind(struct tcp_stream *stream);

/* Receiving: free room in a bounce for the next payload bytes of rx_frame, *bytes long; NULL = no bounce is free. */
uint8_t *tcp_gpu_room(struct tcp_stream *stream, size_t *bytes);

/* Receiving: `bytes` have been written to that room. 0 or -errno. */
int tcp_gpu_filled(struct tcp_stream *stream, size_t bytes);

/* Receiving: the socket is empty. Gives the open bounce back if it is empty, too. */
void tcp_gpu_wait(struct tcp_stream *stream);

/* Receiving: the frame's payload is complete. It is reported as placed when its last copy is done. 0 or -errno. */
int tcp_gpu_end_frame(struct tcp_stream *stream, struct recv_msg *msg, uint32_t length);

/* Receiving: report frames whose copies are done as placed. The first does not wait: 0 or -errno. The second waits for
 * all copies. */
int tcp_gpu_take_placed(struct tcp_stream *stream);
void tcp_gpu_place_all(struct tcp_stream *stream);

/* Frees stream->gpu. Nothing reads or writes GPU memory after this returns. */
void tcp_gpu_end(struct tcp_stream *stream);

/* zerocopy.c: notifications of MSG_ZEROCOPY from the socket's error queue. */
void tcp_zerocopy_init(struct tcp_stream *stream);
void tcp_zerocopy_reap(struct tcp_stream *stream);

#endif
