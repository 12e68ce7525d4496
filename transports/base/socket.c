/* SPDX-License-Identifier: Apache-2.0 */
/* TCP helpers; see socket.h. */
#include "base/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <nccl_net/subnet.h>
#include <nccl_net/util.h>

#include "base/fd.h"
#include "base/libc_text.h"

/* Many connections may wait until NCCL accepts them. The kernel limits this to somaxconn. */
#define LISTEN_BACKLOG 16384

bool socket_same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct anynet_wire_addr wa, wb;

	return socket_to_wire(a, 0, 0, &wa) && socket_to_wire(b, 0, 0, &wb) &&
	       !memcmp(&wa, &wb, sizeof(wa));
}

size_t socket_addr_bytes(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

static void set_port(struct sockaddr_storage *addr, int port)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons((uint16_t)port);
}

static int get_port(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static int open_stream(int family)
{
	return fd_note(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/* Sets the options of every TCP connection: no delay, keepalive, buffers, congestion control. Before connect or listen,
 * because buffer sizes must be set before the connection is established. Errors are ignored: the kernel's default is good
 * enough to continue. */
static void tune(int fd, const struct anynet_config *cfg)
{
	int idle_s = (int)anynet_max((size_t)cfg->peer_timeout_ms / 3000, 1), probes = 3, one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	if (cfg->sndbuf_bytes > 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &cfg->sndbuf_bytes, sizeof(int));
	if (cfg->rcvbuf_bytes > 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &cfg->rcvbuf_bytes, sizeof(int));
	if (cfg->congestion[0])
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cfg->congestion,
			   (socklen_t)strlen(cfg->congestion));
}

static int listen_at(struct sockaddr_storage *local, int port, const struct anynet_config *cfg)
{
	int one = 1, ret = 0;
	int fd = open_stream(local->ss_family);

	if (fd < 0)
		return fd;
	tune(fd, cfg);
	/* Accepted sockets send only small control frames, which a live host always takes. A sender's socket must not
	 * have this option: the kernel also counts the time in which a slow receiver's window is closed. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &cfg->peer_timeout_ms, sizeof(int));
	/* Connections in TIME_WAIT must not block a fixed port. */
	if (port)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	set_port(local, port);
	if (bind(fd, (struct sockaddr *)local, (socklen_t)socket_addr_bytes(local)) ||
	    listen(fd, LISTEN_BACKLOG))
		ret = -errno;
	if (ret) {
		fd_close(&fd);
		return ret;
	}
	return fd;
}

int socket_listen(const struct sockaddr_storage *addr, const struct anynet_config *cfg)
{
	unsigned ports = (unsigned)(cfg->port_max - cfg->port_min + 1), start = 0;
	struct sockaddr_storage local = *addr;
	int err = -EADDRINUSE;

	if (!cfg->port_max)
		return listen_at(&local, 0, cfg);
	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
		start = (unsigned)getpid();
	for (unsigned i = 0; i < ports; i++) {
		int fd = listen_at(&local, cfg->port_min + (int)((start + i) % ports), cfg);

		if (fd != -EADDRINUSE && fd != -EACCES)
			return fd;
		if (fd == -EACCES) /* below net.ipv4.ip_unprivileged_port_start */
			err = fd;
	}
	return err;
}

/* Within a host no queue can build up, so congestion control that paces by estimated bandwidth only costs timers.
 * 512 KiB messages over loopback on one comm: 8.2 GB/s with Cubic, 7.2 with Reno, 3.7 with BBR as the system's default.
 * Every kernel has and allows Reno. Call it before connect: the pacing that BBR enables stays on when BBR is
 * replaced. */
static void avoid_pacing(int fd)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", strlen("cubic")))
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

int socket_connect(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		   const struct anynet_config *cfg, bool same_host, int segment_bytes)
{
	struct sockaddr_storage local = *from;
	int one = 1, ret = 0;
	int fd = open_stream(to->ss_family);

	if (fd < 0)
		return fd;
	tune(fd, cfg);
	if (same_host && !cfg->congestion[0])
		avoid_pacing(fd);
	if (segment_bytes)
		setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes));
	if (local.ss_family == to->ss_family) {
		/* The kernel then chooses the port at connect, so that connections to different peers can share it. */
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
		set_port(&local, 0);
		if (bind(fd, (struct sockaddr *)&local, (socklen_t)socket_addr_bytes(&local)))
			ret = -errno;
	}
	if (!ret && connect(fd, (const struct sockaddr *)to, (socklen_t)socket_addr_bytes(to)) &&
	    errno != EINPROGRESS)
		ret = -errno;
	if (ret) {
		fd_close(&fd);
		return ret;
	}
	return fd;
}

int socket_accept(int listen_fd, struct sockaddr_storage *from)
{
	socklen_t len = sizeof(*from);

	memset(from, 0, sizeof(*from));
	return fd_note(accept4(listen_fd, (struct sockaddr *)from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int socket_unsent(int fd)
{
	int bytes = 0;

	return ioctl(fd, SIOCOUTQ, &bytes) ? -errno : bytes;
}

int socket_port(int fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len))
		return -errno;
	return get_port(&addr);
}

int socket_recv_some(int fd, void *data, size_t bytes, size_t *done)
{
	while (*done < bytes) {
		ssize_t n = recv(fd, (char *)data + *done, bytes - *done, MSG_DONTWAIT);

		if (n == 0)
			return -ENODATA;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		*done += (size_t)n;
	}
	return 0;
}

int socket_send_some(int fd, const void *data, size_t bytes, size_t *done)
{
	while (*done < bytes) {
		ssize_t n = send(fd, (const char *)data + *done, bytes - *done,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		*done += (size_t)n;
	}
	return 0;
}

void socket_send_whole(int fd, const void *data, size_t bytes)
{
	ssize_t n = send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n > 0 && (size_t)n < bytes)
		shutdown(fd, SHUT_RDWR);
}

const char *socket_error(int err)
{
	return err == -ENODATA ? "closed without an answer" : error_text(-err);
}

bool socket_to_wire(const struct sockaddr_storage *addr, uint16_t port, uint8_t device,
		    struct anynet_wire_addr *wire)
{
	*wire = (struct anynet_wire_addr){ .device = device, .port = port };
	if (addr->ss_family == AF_INET) {
		wire->family = 4;
		memcpy(wire->ip, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	} else if (addr->ss_family == AF_INET6) {
		wire->family = 6;
		memcpy(wire->ip, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
	} else {
		return false;
	}
	return true;
}

bool socket_from_wire(const struct anynet_wire_addr *wire, unsigned scope_id,
		      struct sockaddr_storage *addr)
{
	memset(addr, 0, sizeof(*addr));
	if (!wire->port)
		return false;
	if (wire->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)addr;

		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, wire->ip, 4);
	} else if (wire->family == 6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, wire->ip, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			in6->sin6_scope_id = scope_id;
	} else {
		return false;
	}
	set_port(addr, wire->port);
	return true;
}

const char *socket_text(const struct sockaddr_storage *addr, char buf[SOCKET_TEXT_BYTES])
{
	bool v6 = addr->ss_family == AF_INET6;
	char ip[INET6_ADDRSTRLEN];

	snprintf(buf, SOCKET_TEXT_BYTES, "%s%s%s:%d", v6 ? "[" : "", subnet_ip_text(addr, ip),
		 v6 ? "]" : "", get_port(addr));
	return buf;
}
