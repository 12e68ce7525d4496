/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP rail: frames on one socket. The sending side is in tcp_tx.c, the receiving side in tcp_rx.c. */
#ifndef ANYNET_TCP_RAIL_H
#define ANYNET_TCP_RAIL_H

#include "comm_internal.h"

#define TCP_TX_FRAMES     16          /* queued behind each other in one sendmsg */
#define TCP_STAGING_BYTES 16384       /* receive staging of a receive comm's rail */
#define TCP_CONTROL_BYTES 512         /* of a send comm's rail, and control bytes to send */
#define TCP_DIRECT_BYTES  2048        /* this much payload missing: read it into place */
#define TCP_LARGE_BYTES   (16u << 10) /* after such a frame only the next header is read ahead */
#define TCP_RX_TURN       (4u << 20)  /* received at most in one call, to serve others, too */

/* Sent at most in one call, likewise. 512 KiB to 4 MiB measure alike; below, large messages take
 * longer (512 KiB half-RTT: 65 us, 114 us with 256 KiB). */
#define TCP_TX_TURN (1u << 20)

/* A frame being sent. */
struct tcp_tx_frame {
	struct anynet_wire_frame header;
	const uint8_t *payload; /* NULL: header only */
	struct send_msg *msg;
	uint32_t bytes; /* payload, and tail if it has one */
	bool framed;    /* the header lies before the payload in memory */
};

struct tcp_rail {
	struct anynet_rail base; /* first */

	/* Receiving: bytes [rx_head, rx_tail) of rx_buf are read and not consumed. */
	uint8_t *rx_buf;
	uint32_t rx_bytes, rx_head, rx_tail;
	struct anynet_wire_frame rx_frame; /* the DATA frame whose payload is coming in */
	struct recv_msg *rx_msg;
	uint8_t *rx_dst;  /* where its next byte goes */
	uint32_t rx_left; /* payload bytes still to come */
	uint32_t rx_skip; /* tail of the last frame, still to be read */
	uint32_t rx_last; /* payload bytes of the last frame */
	bool rx_quiet;    /* the socket was empty when last asked */

	/* Sending: frames [tx_head, tx_tail) of tx, modulo; tx_gone bytes of the first are out. */
	struct tcp_tx_frame *tx;
	uint32_t tx_head, tx_tail, tx_gone;
	bool shut;                         /* no more data comes from us: said to the kernel */
	uint64_t rate_at;                  /* bytes_sent at which the rate is looked at again */
	uint64_t rate_busy_us, rate_acked; /* the kernel's counts when the last sample was taken */
	bool zerocopy;                     /* the kernel really avoids the copy, as far as known */
	uint32_t zc_sent, zc_done;         /* MSG_ZEROCOPY calls made, notifications read */

	/* Control frames of a receive comm. */
	uint8_t control[TCP_CONTROL_BYTES];
	uint32_t control_bytes, control_gone;
	bool control_broken; /* the sender is gone: nobody to tell; what came is still read */
};

static inline struct tcp_rail *to_tcp(struct anynet_rail *rail)
{
	return (struct tcp_rail *)rail;
}

int tcp_receive_data(struct anynet_rail *rail);    /* of a receive comm */
int tcp_receive_control(struct anynet_rail *rail); /* of a send comm */
int tcp_transmit_data(struct anynet_rail *rail);
int tcp_transmit_control(struct anynet_rail *rail);

/* tcp_rate.c: keep base.rate up to date; cheap, and only needed when rails share messages. */
void tcp_rate_refresh(struct tcp_rail *rail);

/* zerocopy.c: notifications of MSG_ZEROCOPY from the socket's error queue. */
void tcp_zerocopy_init(struct tcp_rail *rail);
void tcp_zerocopy_reap(struct tcp_rail *rail);

#endif
