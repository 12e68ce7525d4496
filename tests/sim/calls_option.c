/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for libc functions: socket options, and the kernel's information about a connection. */
#include "sim/calls.h"
#include "sim/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

static struct sim_file *file_of(int fd)
{
	return process_file(process_self(), fd);
}

static struct tcp_socket *tcp_of(int fd)
{
	struct sim_file *file = file_of(fd);

	return file && file->kind == FILE_SOCKET ? (struct tcp_socket *)file : NULL;
}

static int not_a_socket(int fd)
{
	return file_of(fd) ? -ENOTSOCK : -EBADF;
}

static int set_socket_option(struct tcp_socket *tcp, int name, const void *value)
{
	struct linger linger;
	int number;

	memcpy(&number, value, sizeof(number));
	switch (name) {
	case SO_KEEPALIVE:
		tcp->keepalive = number != 0;
		tcp_set_keepalive(tcp);
		return 0;
	case SO_SNDBUF:
		tcp->sndbuf = (unsigned)(number < 2304 ? 4608 : 2 * number);
		return 0;
	case SO_RCVBUF:
		tcp->rcvbuf = (unsigned)(number < 1152 ? 2304 : 2 * number);
		return 0;
	case SO_LINGER:
		memcpy(&linger, value, sizeof(linger));
		tcp->linger_now = linger.l_onoff && !linger.l_linger;
		return 0;
	case SO_REUSEADDR:
		return 0;
	default: /* SO_ZEROCOPY: like a kernel without it */
		return -ENOPROTOOPT;
	}
}

static int set_tcp_option(struct tcp_socket *tcp, int name, const void *value)
{
	unsigned number;

	memcpy(&number, value, sizeof(number));
	switch (name) {
	case TCP_KEEPIDLE:
		tcp->keep_idle_s = number;
		tcp_set_keepalive(tcp);
		return 0;
	case TCP_KEEPINTVL:
		tcp->keep_interval_s = number;
		return 0;
	case TCP_KEEPCNT:
		tcp->keep_count = number;
		return 0;
	case TCP_USER_TIMEOUT:
		tcp->peer_timeout_ms = number;
		return 0;
	case TCP_MAXSEG:
		tcp->segment = number;
		return 0;
	case TCP_NODELAY:
	case TCP_CONGESTION:
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	int err;

	REAL(setsockopt, int, int, int, int, const void *, socklen_t);
	if (!process_self())
		return real(fd, level, name, value, bytes);
	if (file_of(fd) && file_of(fd)->kind == FILE_NETLINK)
		return 0;
	if (!tcp_of(fd))
		RETURN(int, not_a_socket(fd));
	err = process_call_fails(process_self(), CALL_SETSOCKOPT);
	if (err)
		RETURN(int, -err);
	if (level == SOL_SOCKET)
		RETURN(int, set_socket_option(tcp_of(fd), name, value));
	if (level == IPPROTO_TCP)
		RETURN(int, set_tcp_option(tcp_of(fd), name, value));
	return 0; /* IP_BIND_ADDRESS_NO_PORT */
}

static uint32_t ms_since(uint64_t ns)
{
	return (uint32_t)((sim_now - ns) / SIM_MS);
}

static void fill_info(const struct tcp_socket *tcp, struct tcp_info *info)
{
	uint64_t busy = tcp->busy_ns + (tcp->busy_since_ns ? sim_now + 1 - tcp->busy_since_ns : 0);

	memset(info, 0, sizeof(*info));
	info->tcpi_retransmits = (uint8_t)tcp->retransmits;
	info->tcpi_probes = (uint8_t)tcp->probes;
	info->tcpi_backoff = (uint8_t)tcp->backoff;
	info->tcpi_unacked = (uint32_t)((tcp->nxt - tcp->una + tcp->segment - 1) / tcp->segment);
	info->tcpi_last_data_recv = ms_since(tcp->heard_ns);
	info->tcpi_last_ack_recv = ms_since(tcp->acked_ns);
	info->tcpi_last_data_sent = ms_since(tcp->sent_ns);
	info->tcpi_rtt = (uint32_t)(tcp->srtt_ns / SIM_US);
	info->tcpi_rttvar = (uint32_t)(tcp->rtt_var_ns / SIM_US);
	info->tcpi_min_rtt = tcp->min_rtt_ns == SIM_NEVER ? UINT32_MAX : (uint32_t)(tcp->min_rtt_ns / SIM_US);
	info->tcpi_total_retrans = tcp->resent;
	info->tcpi_bytes_acked = tcp->una;
	info->tcpi_busy_time = busy / SIM_US;
	info->tcpi_delivery_rate = busy ? tcp->una * SIM_S / (busy + 1) : 0;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	struct tcp_info info;

	REAL(getsockopt, int, int, int, int, void *, socklen_t *);
	if (!process_self())
		return real(fd, level, name, value, bytes);
	if (!tcp_of(fd))
		RETURN(int, not_a_socket(fd));
	if (level == SOL_SOCKET && name == SO_ERROR) {
		int error = tcp_of(fd)->error;

		tcp_of(fd)->error = 0;
		memcpy(value, &error, sizeof(error));
		return 0;
	}
	if (level != IPPROTO_TCP || name != TCP_INFO)
		RETURN(int, -ENOPROTOOPT);
	fill_info(tcp_of(fd), &info);
	*bytes = *bytes < sizeof(info) ? *bytes : (socklen_t)sizeof(info);
	memcpy(value, &info, *bytes);
	return 0;
}
