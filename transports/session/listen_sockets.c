/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets; see listen_sockets.h. */
#include "session/listen_sockets.h"

#include <errno.h>
#include <sys/epoll.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/net.h"
#include "base/socket.h"

struct listening_socket {
	int fd;
	uint16_t port;
	bool told; /* one line has said that it cannot be opened */
};

static struct {
	int epfd; /* sockets and handshakes; -1 = not open, `sockets` is not valid then */
	struct listening_socket sockets[ANYNET_DEVICES_MAX];
} listening = { .epfd = -1 };

int sockets_fd(unsigned index)
{
	return listening.sockets[index].fd;
}

int sockets_epoll_fd(void)
{
	return listening.epfd;
}

static int open_epoll(void)
{
	if (listening.epfd >= 0)
		return 0;
	listening.epfd = fd_note(epoll_create1(EPOLL_CLOEXEC));
	if (listening.epfd < 0)
		return listening.epfd;
	for (int i = 0; i < ANYNET_DEVICES_MAX; i++)
		listening.sockets[i] = (struct listening_socket){ .fd = -1 };
	return 0;
}

static int open_socket(const struct anynet_device *dev)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	struct epoll_event event = { .events = EPOLLIN,
				     .data.u64 = LISTEN_EVENT_SOCKET(dev->index) };
	int fd = -1, port, ret;

	ret = open_epoll();
	if (!ret && listening.sockets[dev->index].fd >= 0)
		return 0;
	if (!ret)
		ret = fd = socket_listen(&dev->addr, cfg);
	port = ret < 0 ? ret : socket_port(fd);
	if (port >= 0 && epoll_ctl(listening.epfd, EPOLL_CTL_ADD, fd, &event))
		port = -errno;
	if (port < 0) {
		fd_close(&fd);
		return port;
	}
	listening.sockets[dev->index] =
		(struct listening_socket){ .fd = fd, .port = (uint16_t)port };
	return 0;
}

static ANYNET_COLD void warn(const struct anynet_device *dev, int err)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	char text[SOCKET_TEXT_BYTES];

	if (cfg->port_max && listening.epfd >= 0)
		anynet_warn(
			"dev %s addr %s: cannot listen on any port of %d-%d: %s; NCCL gets an error; "
			"widen ANYNET_PORT_RANGE",
			dev->name, socket_text(&dev->addr, text), cfg->port_min, cfg->port_max,
			error_text(-err));
	else
		anynet_warn("dev %s addr %s: cannot listen: %s; NCCL gets an error", dev->name,
			    socket_text(&dev->addr, text), error_text(-err));
}

/* Once for each NIC: it is tried again for each connection. */
static ANYNET_COLD void note(const struct anynet_device *dev, int err)
{
	char text[SOCKET_TEXT_BYTES];
	bool told = listening.epfd >= 0 && listening.sockets[dev->index].told;

	if (!told)
		anynet_info("dev %s addr %s: cannot listen: %s; nothing connects to it", dev->name,
			    socket_text(&dev->addr, text), error_text(-err));
	if (listening.epfd >= 0)
		listening.sockets[dev->index].told = true;
}

int sockets_listen(const struct anynet_device *const *set, int count, bool is_needed,
		   struct anynet_wire_addr *addrs)
{
	int first = 0, opened = 0;

	for (int i = 0; i < count; i++) {
		int ret = open_socket(set[i]);

		if (!i)
			first = ret;
		if (ret)
			note(set[i], ret);
		opened += !ret;
		socket_to_wire(&set[i]->addr, ret ? 0 : listening.sockets[set[i]->index].port,
			       (uint8_t)set[i]->index, &addrs[i]);
	}
	if (!opened && is_needed)
		warn(set[0], first);
	return opened ? 0 : first;
}

void sockets_watch(int epfd, uint32_t data)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u32 = data };

	/* A set that has been opened since the last call is not in `epfd` yet. */
	if (listening.epfd >= 0 && epoll_ctl(epfd, EPOLL_CTL_MOD, listening.epfd, &event))
		epoll_ctl(epfd, EPOLL_CTL_ADD, listening.epfd, &event);
}

void sockets_close(void)
{
	for (int i = 0; listening.epfd >= 0 && i < ANYNET_DEVICES_MAX; i++)
		fd_hang_up(&listening.sockets[i].fd, listening.epfd);
	fd_close(&listening.epfd);
}
