/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for libc's functions: sockets. */
#include "sim/calls.h"
#include "sim/netlink.h"
#include "sim/tcp.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

static struct sim_file *file_of(int fd)
{
	return process_file(process_self(), fd);
}

/* NULL: another kind of file. */
static struct tcp_socket *tcp_of(int fd)
{
	struct sim_file *file = file_of(fd);

	return file && file->kind == FILE_SOCKET ? (struct tcp_socket *)file : NULL;
}

static int not_a_socket(int fd)
{
	return file_of(fd) ? -ENOTSOCK : -EBADF;
}

/* In the trace: what was called, and what came of it. */
static int64_t noted(unsigned call, int fd, int64_t result)
{
	trace_note(call, (uint64_t)(unsigned)fd, (uint64_t)result);
	return result;
}

static int new_socket(int family, int type)
{
	struct sim_file *file;
	int err = process_call_fails(process_self(), CALL_SOCKET);

	if (err)
		return -err;
	if (family != AF_INET && family != AF_NETLINK)
		return -EAFNOSUPPORT;
	file = family == AF_NETLINK ? netlink_new() : &tcp_new()->file;
	file->nonblocking = (type & SOCK_NONBLOCK) != 0;
	return process_fd_new(process_self(), file);
}

int socket(int family, int type, int protocol)
{
	REAL(socket, int, int, int, int);
	if (!process_self())
		return real(family, type, protocol);
	sched_may_preempt();
	RETURN(int, noted(1, family, new_socket(family, type)));
}

/* --- addresses --- */

static int take_address(const struct sockaddr *addr, socklen_t bytes, uint32_t *ip, uint16_t *port)
{
	struct sockaddr_in in;

	if (bytes < sizeof(in))
		return -EINVAL;
	memcpy(&in, addr, sizeof(in));
	if (in.sin_family != AF_INET)
		return -EAFNOSUPPORT;
	*ip = ntohl(in.sin_addr.s_addr);
	*port = ntohs(in.sin_port);
	return 0;
}

static void put_address(struct sockaddr *addr, socklen_t *bytes, uint32_t ip, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip) };
	socklen_t room = *bytes;

	*bytes = sizeof(in);
	memcpy(addr, &in, room < sizeof(in) ? room : sizeof(in));
}

static uint16_t free_port(struct sim_host *host, uint32_t address)
{
	do
		host->next_port = host->next_port == 65535 ? 32768 : host->next_port + 1;
	while (tcp_port_in_use(address, (uint16_t)host->next_port));
	return (uint16_t)host->next_port;
}

static int bind_tcp(struct tcp_socket *tcp, const struct sockaddr *addr, socklen_t bytes)
{
	struct sim_host *host = process_self()->host;
	int ret, err = process_call_fails(process_self(), CALL_BIND);

	if (err)
		return -err;
	ret = take_address(addr, bytes, &tcp->address, &tcp->port);
	if (ret)
		return ret;
	if (net_nic_of(host, tcp->address) < 0)
		return -EADDRNOTAVAIL;
	if (tcp->port && tcp_port_in_use(tcp->address, tcp->port))
		return -EADDRINUSE;
	return 0;
}

int bind(int fd, __CONST_SOCKADDR_ARG addr, socklen_t bytes)
{
	struct sim_file *file;

	REAL(bind, int, int, const struct sockaddr *, socklen_t);
	if (!process_self())
		return real(fd, addr.__sockaddr__, bytes);
	file = file_of(fd);
	if (file && file->kind == FILE_NETLINK)
		RETURN(int, netlink_bind(file, ((const struct sockaddr_nl *)(const void *)addr.__sockaddr__)->nl_groups));
	if (!tcp_of(fd))
		RETURN(int, not_a_socket(fd));
	RETURN(int, noted(2, fd, bind_tcp(tcp_of(fd), addr.__sockaddr__, bytes)));
}

int listen(int fd, int backlog)
{
	struct tcp_socket *tcp;

	REAL(listen, int, int, int);
	if (!process_self())
		return real(fd, backlog);
	tcp = tcp_of(fd);
	if (!tcp)
		RETURN(int, not_a_socket(fd));
	if (!tcp->port)
		tcp->port = free_port(process_self()->host, tcp->address);
	RETURN(int, noted(3, fd, tcp_listen(tcp)));
}

static int connect_tcp(struct tcp_socket *tcp, const struct sockaddr *addr, socklen_t bytes)
{
	struct sim_host *host = process_self()->host;
	int ret, err = process_call_fails(process_self(), CALL_CONNECT);

	if (err)
		return -err;
	ret = take_address(addr, bytes, &tcp->peer_address, &tcp->peer_port);
	if (ret)
		return ret;
	if (tcp->peer_address >> 24 != 10 || (tcp->peer_address >> 16 & 0xff) >= host->nics)
		return -ENETUNREACH;
	if (!tcp->address)
		tcp->address = net_address(host->index, tcp->peer_address >> 16 & 0xff);
	if (!tcp->port)
		tcp->port = free_port(host, tcp->address);
	return tcp_connect(tcp);
}

int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t bytes)
{
	REAL(connect, int, int, const struct sockaddr *, socklen_t);
	if (!process_self())
		return real(fd, addr.__sockaddr__, bytes);
	sched_may_preempt();
	if (!tcp_of(fd))
		RETURN(int, not_a_socket(fd));
	RETURN(int, noted(4, fd, connect_tcp(tcp_of(fd), addr.__sockaddr__, bytes)));
}

static int accept_tcp(int fd, struct sockaddr *addr, socklen_t *bytes, int flags)
{
	struct tcp_socket *tcp = tcp_of(fd), *child;
	int new_fd, err = process_call_fails(process_self(), CALL_ACCEPT);

	if (!tcp)
		return not_a_socket(fd);
	if (tcp->state != TCP_LISTENS)
		return -EINVAL;
	if (TAILQ_EMPTY(&tcp->accepted))
		return -EAGAIN;
	if (err)
		return -err;
	child = tcp_take_accepted(tcp);
	child->file.nonblocking = (flags & SOCK_NONBLOCK) != 0;
	put_address(addr, bytes, child->peer_address, child->peer_port);
	new_fd = process_fd_new(process_self(), &child->file);
	return new_fd;
}

int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *bytes, int flags)
{
	REAL(accept4, int, int, struct sockaddr *, socklen_t *, int);
	if (!process_self())
		return real(fd, addr.__sockaddr__, bytes, flags);
	RETURN(int, noted(5, fd, accept_tcp(fd, addr.__sockaddr__, bytes, flags)));
}

int getsockname(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	REAL(getsockname, int, int, struct sockaddr *, socklen_t *);
	if (!process_self())
		return real(fd, addr.__sockaddr__, bytes);
	if (!tcp_of(fd))
		RETURN(int, not_a_socket(fd));
	put_address(addr.__sockaddr__, bytes, tcp_of(fd)->address, tcp_of(fd)->port);
	return 0;
}

int getpeername(int fd, __SOCKADDR_ARG addr, socklen_t *bytes)
{
	REAL(getpeername, int, int, struct sockaddr *, socklen_t *);
	if (!process_self())
		return real(fd, addr.__sockaddr__, bytes);
	if (!tcp_of(fd))
		RETURN(int, not_a_socket(fd));
	if (tcp_of(fd)->state != TCP_OPEN)
		RETURN(int, -ENOTCONN);
	put_address(addr.__sockaddr__, bytes, tcp_of(fd)->peer_address, tcp_of(fd)->peer_port);
	return 0;
}

/* --- data --- */

/* An empty queue takes that much in any case. */
#define SEND_LEAST 2048

static size_t shorten(const struct tcp_socket *tcp, size_t bytes, bool out)
{
	size_t part = process_shorten(process_self(), bytes), least = bytes < SEND_LEAST ? bytes : SEND_LEAST;

	return out && !tcp_unsent(tcp) && part < least ? least : part;
}

/* Part of it as if the rest had come, or room for it been made, a moment later. */
static ssize_t move_one(struct tcp_socket *tcp, void *data, size_t bytes, bool out)
{
	size_t part = shorten(tcp, bytes, out);
	ssize_t n = out ? tcp_write(tcp, data, part) : tcp_read(tcp, data, part);

	if (part < bytes && n == (ssize_t)part)
		file_notify(&tcp->file, out ? EPOLLOUT : EPOLLIN);
	return n;
}

static ssize_t move(struct tcp_socket *tcp, const struct iovec *iov, size_t count, bool out)
{
	ssize_t total = 0;
	int err = process_call_fails(process_self(), out ? CALL_SEND : CALL_RECV);

	if (err)
		return -err;
	for (size_t i = 0; i < count; i++) {
		ssize_t n;

		if (!iov[i].iov_len)
			continue;
		n = move_one(tcp, iov[i].iov_base, iov[i].iov_len, out);
		if (n < 0 && total)
			break;
		if (n <= 0)
			return n < 0 ? n : total;
		total += n;
		if ((size_t)n < iov[i].iov_len)
			break;
	}
	return total;
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	struct iovec iov = { (void *)(uintptr_t)data, bytes };

	REAL(send, ssize_t, int, const void *, size_t, int);
	if (!process_self())
		return real(fd, data, bytes, flags);
	sched_may_preempt();
	if (!tcp_of(fd))
		RETURN(ssize_t, not_a_socket(fd));
	RETURN(ssize_t, noted(6, fd, move(tcp_of(fd), &iov, 1, true)));
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	REAL(sendmsg, ssize_t, int, const struct msghdr *, int);
	if (!process_self())
		return real(fd, msg, flags);
	sched_may_preempt();
	if (!tcp_of(fd))
		RETURN(ssize_t, not_a_socket(fd));
	RETURN(ssize_t, noted(7, fd, move(tcp_of(fd), msg->msg_iov, msg->msg_iovlen, true)));
}

ssize_t sendto(int fd, const void *data, size_t bytes, int flags, __CONST_SOCKADDR_ARG to, socklen_t to_bytes)
{
	REAL(sendto, ssize_t, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	if (!process_self())
		return real(fd, data, bytes, flags, to.__sockaddr__, to_bytes);
	if (!file_of(fd) || file_of(fd)->kind != FILE_NETLINK)
		RETURN(ssize_t, -EBADF);
	RETURN(ssize_t, netlink_ask(file_of(fd), data, bytes));
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	struct iovec iov = { data, bytes };
	struct sim_file *file;

	REAL(recv, ssize_t, int, void *, size_t, int);
	if (!process_self())
		return real(fd, data, bytes, flags);
	sched_may_preempt();
	file = file_of(fd);
	if (file && file->kind == FILE_NETLINK)
		RETURN(ssize_t, file->ops->read(file, data, bytes));
	if (!tcp_of(fd))
		RETURN(ssize_t, not_a_socket(fd));
	RETURN(ssize_t, noted(8, fd, move(tcp_of(fd), &iov, 1, false)));
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	REAL(recvmsg, ssize_t, int, struct msghdr *, int);
	if (!process_self())
		return real(fd, msg, flags);
	sched_may_preempt();
	if (!tcp_of(fd))
		RETURN(ssize_t, not_a_socket(fd));
	if (flags & MSG_ERRQUEUE)
		RETURN(ssize_t, -EAGAIN);
	RETURN(ssize_t, noted(9, fd, move(tcp_of(fd), msg->msg_iov, msg->msg_iovlen, false)));
}

int shutdown(int fd, int how)
{
	REAL(shutdown, int, int, int);
	if (!process_self())
		return real(fd, how);
	if (!tcp_of(fd))
		RETURN(int, not_a_socket(fd));
	RETURN(int, noted(10, fd, tcp_shutdown(tcp_of(fd), how != SHUT_WR, how != SHUT_RD)));
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	REAL(ioctl, int, int, unsigned long, ...);
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!process_self())
		return real(fd, request, arg);
	if (request != SIOCOUTQ || !tcp_of(fd))
		RETURN(int, -ENOTTY);
	*(int *)arg = tcp_unsent(tcp_of(fd));
	return 0;
}

/* --- options --- */

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
	default: /* SO_ZEROCOPY: as a kernel without it */
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
		tcp->user_timeout_ms = number;
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
	info->tcpi_rtt = (uint32_t)(tcp->srtt_ns / SIM_US);
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
