/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for libc functions: sockets. */
#include "sim/calls.h"
#include "sim/faults.h"
#include "sim/netlink.h"
#include "sim/tcp.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
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

/* NULL: not a TCP socket. */
static struct tcp_socket *tcp_of(int fd)
{
	struct sim_file *file = file_of(fd);

	return file && file->kind == FILE_SOCKET ? (struct tcp_socket *)file : NULL;
}

static int not_a_socket(int fd)
{
	return file_of(fd) ? -ENOTSOCK : -EBADF;
}

/* Adds the call and its result to the trace. */
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

/* An empty send queue always accepts this much. */
#define SEND_LEAST   2048
#define HOLD_BACK_NS (10 * SIM_MS)

static size_t shorten(const struct tcp_socket *tcp, size_t bytes, bool out)
{
	size_t part = process_shorten(process_self(), bytes), least = bytes < SEND_LEAST ? bytes : SEND_LEAST;

	return out && !tcp_unsent(tcp) && part < least ? least : part;
}

/* The bytes that one call moves. Fewer than possible looks as if data had arrived, or room had become free, a moment
 * later. */
static ssize_t move(struct tcp_socket *tcp, const struct iovec *iov, size_t count, bool out)
{
	size_t wanted = 0, part, total = 0;
	int err = process_call_fails(process_self(), out ? CALL_SEND : CALL_RECV);

	if (err)
		return -err;
	for (size_t i = 0; i < count; i++)
		wanted += iov[i].iov_len;
	part = shorten(tcp, wanted, out);
	for (size_t i = 0; i < count && total < part; i++) {
		size_t bytes = iov[i].iov_len < part - total ? iov[i].iov_len : part - total;
		ssize_t n;

		if (!bytes)
			continue;
		n = out ? tcp_write(tcp, iov[i].iov_base, bytes) : tcp_read(tcp, iov[i].iov_base, bytes);
		if (n <= 0)
			return total ? (ssize_t)total : n;
		total += (size_t)n;
		if ((size_t)n < bytes)
			return (ssize_t)total;
	}
	if (part < wanted && out) {
		tcp_hold_back(tcp, random_below(&sched_random, HOLD_BACK_NS));
		faults_aim(EVENT_SHORT, process_self());
	} else if (part < wanted)
		file_notify(&tcp->file, EPOLLIN);
	return (ssize_t)total;
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
	if (flags & MSG_PEEK)
		RETURN(ssize_t, noted(11, fd, tcp_peek(tcp_of(fd), data, bytes)));
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
