/* SPDX-License-Identifier: Apache-2.0 */
#include "local_net.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

struct anynet_config local_cfg;
struct anynet_device local_dev;

void local_net_start(void)
{
	struct sockaddr_in *addr = (struct sockaddr_in *)&local_dev.addr;

	local_cfg = (struct anynet_config){
		.socket_family = AF_UNSPEC,
		.streams_per_nic = 1,
		.stripe = ANYNET_SWITCH_OFF,
		.eager_bytes = LOCAL_EAGER_BYTES,
		.replay_bytes = LOCAL_RING_BYTES,
		.chunk_bytes = LOCAL_CHUNK_BYTES,
		.zerocopy = ANYNET_SWITCH_OFF,
		.sndbuf_bytes = ANYNET_AUTO,
		.rcvbuf_bytes = ANYNET_AUTO,
		.peer_timeout_ms = 30000,
		.recovery_timeout_ms = 0,
		.connect_timeout_ms = 20000,
		.handshake_timeout_ms = 20000,
		.max_recvs = ANYNET_RECVS_MAX,
	};
	local_dev = (struct anynet_device){
		.transport = ANYNET_TRANSPORT_TCP,
		.name = "lo",
		.ifname = "lo",
		.speed_mbps = 10000,
		.max_recvs = ANYNET_RECVS_MAX,
		.ptr_support = ANYNET_PTR_HOST,
		.ifindex = 1,
		.copies_in_kernel = true,
	};
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	anynet_net_start(&local_cfg, &local_dev, 1);
}

int local_stream(struct anynet_comm *comm, unsigned index)
{
	return local_stream_by(comm, index, NULL);
}

int local_stream_by(struct anynet_comm *comm, unsigned index, struct ib_qp *link)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) ||
	    comm_add_stream(comm, fds[0], (uint16_t)index, 0, (struct anynet_wire_pair){ 0, 0 },
			    link))
		abort();
	return fds[1];
}
