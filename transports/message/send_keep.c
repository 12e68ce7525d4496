/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large sends over a path with a long round trip. A large send is normally done when its ACK has come, and NCCL has at
 * most IN_FLIGHT_BYTES in flight on a connection. If bandwidth x delay exceeds that, the path would idle. Such a comm
 * copies a large message when the kernel has taken all of it, and the send is done; retransmissions read the copy. A
 * message for which there is no room waits for its ACK.
 */
#include <string.h>

#include "message/send_internal.h"

#define IN_FLIGHT_BYTES (8 * 128 * 1024) /* point-to-point: NCCL's steps x NCCL_P2P_NET_CHUNKSIZE */
#define MBPS_MOST       32000            /* max that one thread copies and sends */

/* What the two kernels may hold of a stream: a send buffer grows to 4 MiB (tcp_wmem), and the receiver's kernel may
 * hold as much. With this room a sender waits for its own kernel and not for ACKs. Unused pages take no memory. */
#define KEEP_BYTES ((size_t)8 << 20)

/* Bytes for copies; 0 = NCCL's own bytes in flight cover bandwidth x delay. */
static size_t room_for(const struct anynet_device *dev, uint32_t rtt_us)
{
	size_t mbps = anynet_min((size_t)anynet_member(dev, 0)->speed_mbps, MBPS_MOST);

	return mbps * rtt_us / 8 > IN_FLIGHT_BYTES ? KEEP_BYTES : 0;
}

void send_keep_start(struct send_comm *comm, uint32_t rtt_us)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	size_t bytes = cfg->keep_bytes == ANYNET_AUTO ? room_for(comm->base.dev, rtt_us)
						      : (size_t)cfg->keep_bytes;

	/* With MSG_ZEROCOPY the kernel reads NCCL's buffer at any later time. */
	if (!bytes || comm_is_ib(&comm->base) || cfg->zerocopy == ANYNET_SWITCH_ON)
		return;
	replay_init(&comm->kept, bytes); /* no memory: it works without copies */
}

bool send_keeps(const struct send_comm *comm)
{
	return comm->kept.memory;
}

void send_keep(struct send_comm *comm, struct send_msg *msg)
{
	struct replay_record *record;

	if (msg->kept || msg->on_gpu || msg->acked)
		return;
	record = replay_take(&comm->kept, msg->bytes);
	if (!record)
		return;
	if (msg->bytes) /* else NCCL's buffer may be NULL */
		memcpy((uint8_t *)record + REPLAY_RECORD_BYTES, msg->data, msg->bytes);
	msg->data = (uint8_t *)record + REPLAY_RECORD_BYTES;
	msg->kept = record;
	send_complete(comm, msg);
}
