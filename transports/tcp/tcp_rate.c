/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a rail delivers, from the kernel's own estimate. A file of its own because <linux/tcp.h>,
 * which knows the newer fields of tcp_info, and <netinet/tcp.h> cannot be included together.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tcp_rail.h"

#define REFRESH_BYTES (256u << 10)
#define OLD_SHARE     0.75 /* of the estimate so far, against jitter */

void tcp_rate_refresh(struct tcp_rail *rail)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	double rate;

	if (rail->base.bytes_sent < rail->rate_at)
		return;
	rail->rate_at = rail->base.bytes_sent + REFRESH_BYTES;
	if (getsockopt(rail->base.fd, IPPROTO_TCP, TCP_INFO, &info, &len) ||
	    len < offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof(info.tcpi_delivery_rate))
		return;
	rate = (double)info.tcpi_delivery_rate / 1000;
	if (rate > 0)
		rail->base.rate = rail->base.rate > 0
					  ? OLD_SHARE * rail->base.rate + (1 - OLD_SHARE) * rate
					  : rate;
}
