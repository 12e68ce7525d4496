/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP stream: frames on one socket. tcp_tx.c sends, tcp_rx.c receives. */
#ifndef ANYNET_TCP_STREAM_H
#define ANYNET_TCP_STREAM_H

#include "message/message.h"
#include "message/stream_log.h"

#define TCP_TX_FRAMES     16          /* max frames in one sendmsg */
#define TCP_GPU_PIECES    16          /* max bounces of a stream, see tcp_gpu.c */
#define TCP_STAGING_BYTES 16384       /* receive staging buffer of a receive comm's stream */
#define TCP_CONTROL_BYTES 512         /* staging of a send comm's stream; control output */
#define TCP_DIRECT_BYTES  2048        /* missing payload from this size on is read into place */
#define TCP_LARGE_BYTES   (16u << 10) /* after it, only the next header is read ahead */
#define TCP_RX_TURN       (4u << 20)  /* max bytes received in one call; others need a turn, too */

/* Max bytes sent in one call, for the same reason. 512 KiB to 4 MiB perform alike. Below that, large messages are
 * slower (half-RTT of 512 KiB: 65 us; 114 us with a turn of 256 KiB). */
#define TCP_TX_TURN (1u << 20)

/* Receiving. Bytes [head, tail) of `buf` have been read and not consumed. */
struct tcp_rx {
	uint8_t *buf;
	uint32_t bytes, head, tail;
	struct anynet_wire_frame frame; /* the DATA frame being received */
	struct recv_msg *msg;
	uint8_t *dst;    /* destination of its next payload byte */
	uint32_t left;   /* missing payload bytes */
	uint32_t crc;    /* bytes of checksum behind the payload; 0 = none */
	uint32_t sum;    /* CRC32C of the payload so far; only with on_gpu and crc */
	uint32_t skip;   /* unread tail bytes of the previous frame */
	uint32_t last;   /* payload bytes of the latest DATA frame */
	bool open;       /* `frame` has begun and is not consumed */
	bool on_gpu;     /* its payload goes to GPU memory */
	bool quiet;      /* the last read found the socket empty */
};

struct tcp_rate {
	uint64_t at;             /* sent.bytes at which the rate is sampled next */
	uint64_t busy_us, acked; /* the kernel's counters at the last sample */
};

struct tcp_zerocopy {
	bool works;          /* large payload uses MSG_ZEROCOPY */
	uint32_t sent, done; /* MSG_ZEROCOPY calls made, notifications read */
};

/* Receive comm: control frames to send, of which `gone` bytes have been sent. */
struct tcp_control {
	uint8_t data[TCP_CONTROL_BYTES];
	uint32_t bytes, gone;
	bool broken; /* sending to the peer has failed; data is still received */
};

struct tcp_stream {
	struct anynet_stream base; /* first */
	struct tcp_rx rx;
	bool shut; /* shutdown(SHUT_WR) has been called */
	struct tcp_rate rate;
	struct tcp_zerocopy zerocopy;
	struct tcp_gpu *gpu; /* tcp_gpu.c; NULL = no payload in GPU memory so far */
	bool tail_due;       /* send comm: the frame before log.next has been taken but for its tail byte */
	struct tcp_control control;
};

static inline struct tcp_stream *to_tcp(struct anynet_stream *stream)
{
	return (struct tcp_stream *)stream;
}

/* Initialises a zeroed stream over the connected socket `fd`. 0 or -ENOMEM. */
int tcp_stream_init(struct tcp_stream *stream, struct anynet_comm *comm, uint16_t index, int fd,
		    struct anynet_wire_pair pair);

/* Sends a PING by itself, for which the socket must have room. */
void tcp_say_ping(const struct tcp_stream *stream);

int tcp_receive_data(struct anynet_stream *stream);    /* receive comm */
int tcp_receive_control(struct anynet_stream *stream); /* send comm */
int tcp_transmit_data(struct anynet_stream *stream);   /* send comm */
int tcp_transmit_control(struct anynet_stream *stream); /* receive comm */

/* Receive comm: bytes of the begun frame's payload that stay in place if the connection ends now; and it has ended: take
 * back what does not stay. */
size_t tcp_begun(const struct anynet_stream *stream);
void tcp_unplace(struct tcp_stream *stream);

/* tcp_info.c: the kernel's view of a connection. */

/* Updates base.rate. Cheap; needed only when several streams share messages. */
void tcp_rate_refresh(struct tcp_stream *stream);
/* The kernel's minimum round trip in microseconds; 0 = not known. */
uint32_t tcp_round_trip_us(int fd);
bool tcp_signs(struct anynet_stream *stream, struct stream_signs *signs);

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

/* Sending: frees the bounces of all frames before log.next and of the first payload_gone bytes of frame log.next, which
 * the socket has taken. */
void tcp_gpu_sent(struct tcp_stream *stream, uint32_t payload_gone);

/* Sending: the socket is full. Gives all bounces back if the pool is short; their payload is copied again later. */
void tcp_gpu_yield(struct tcp_stream *stream);

/* Gives all bounces back; copying restarts at frame log.next. NCCL's memory is not read after this returns. */
void tcp_gpu_rewind(struct tcp_stream *stream);

/* Receiving: free room in a bounce for the next payload bytes of rx.frame, *bytes long; NULL = no bounce is free. */
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
