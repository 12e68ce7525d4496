/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's view of a connection (TCP_INFO). This is a separate file because <linux/tcp.h>, which has the newer
 * fields of tcp_info, cannot be included together with <netinet/tcp.h>.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "path/tcp/tcp_stream.h"

#define REFRESH_BYTES (128u << 10)
#define SAMPLE_US     20000 /* min sample; tcpi_busy_time advances in timer ticks */
#define OLD_SHARE     0.5   /* weight of the previous estimate */

/*
 * The rate is bytes acknowledged per time with data in flight, both counted by the kernel. The kernel's own delivery
 * rate is that of a burst: behind a token bucket it was 10 to 100 times the rate of the link.
 */
void tcp_rate_refresh(struct tcp_stream *stream)
{
	struct stream_signs signs = { 0 };
	uint64_t busy_us, acked;
	struct stream_sent *sent = &stream->base.sent;
	double rate;

	if (sent->bytes < stream->rate.at)
		return;
	stream->rate.at = sent->bytes + REFRESH_BYTES;
	if (!tcp_signs(&stream->base, &signs))
		return;
	busy_us = signs.busy_us - stream->rate.busy_us;
	acked = signs.acked - stream->rate.acked;
	if (busy_us < SAMPLE_US)
		return;
	rate = (double)acked * 1000 / (double)busy_us;
	if (sent->rate > 0 && !sent->raised)
		rate = OLD_SHARE * sent->rate + (1 - OLD_SHARE) * rate;
	sent->rate = rate;
	sent->raised = false;
	stream->rate.busy_us = signs.busy_us;
	stream->rate.acked = signs.acked;
}

uint32_t tcp_round_trip_us(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || info.tcpi_min_rtt == UINT32_MAX)
		return 0;
	return info.tcpi_min_rtt;
}

/* Counts window probes like retransmissions: while the receiver's window is zero, only probes are in flight, and a live
 * host answers them. */
bool tcp_signs(struct anynet_stream *base, struct stream_signs *signs)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (base->path.fd < 0 || getsockopt(base->path.fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	signs->waiting = info.tcpi_unacked || info.tcpi_probes;
	signs->tries = (unsigned)anynet_max(info.tcpi_retransmits, info.tcpi_probes);
	signs->quiet_ms = (unsigned)anynet_min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
	signs->sent_ms = info.tcpi_last_data_sent;
	signs->rtt_us = info.tcpi_rtt;
	signs->rtt_var_us = info.tcpi_rttvar;
	signs->resent = info.tcpi_total_retrans;
	signs->rate = info.tcpi_delivery_rate;
	signs->acked = info.tcpi_bytes_acked;
	signs->busy_us = info.tcpi_busy_time;
	return true;
}
