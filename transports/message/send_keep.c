/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large sends over a path with a long round trip. A send is done when its message is acknowledged, a round trip after it left, and
 * NCCL has no more than IN_FLIGHT_BYTES in flight on a connection: where bandwidth x delay is more than that, the path
 * would idle. There a message that the kernel has taken is copied, and its send is done; from then on frames that have
 * to be retransmitted come from the copy. A message for which there is no room waits for its acknowledgement.
 */
#include <string.h>

#include "message/send_internal.h"

#define IN_FLIGHT_BYTES (8 * 128 * 1024) /* point-to-point: NCCL's steps, NCCL_P2P_NET_CHUNKSIZE */
#define MBPS_MOST       32000            /* of one comm: its thread copies and sends no more */

/* What the two kernels may hold of a stream, so that who sends waits for his own kernel and not for acknowledgements: a send
 * buffer grows to 4 MiB (tcp_wmem), and as much may wait to be read. Pages that are not needed are never touched. */
#define KEEP_BYTES ((size_t)8 << 20)

/* 0: NCCL has bandwidth x delay in flight by itself. */
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

	/* MSG_ZEROCOPY sends from NCCL's buffer whenever the kernel likes. */
	if (!bytes || comm_is_ib(&comm->base) || cfg->zerocopy == ANYNET_SWITCH_ON)
		return;
	if (replay_init(&comm->kept, bytes))
		comm->kept = (struct replay_ring){ .memory = NULL }; /* done without */
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
