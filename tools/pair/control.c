/* SPDX-License-Identifier: Apache-2.0 */
/* Opens control connections; see control.h. */
#include "control.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

#define CONNECT_MS 5000

static int connect_to(const struct addrinfo *to)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
	int one = 1, mss = PAIR_CONTROL_MSS;
	socklen_t len = sizeof(error);
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, to->ai_addr, to->ai_addrlen) && errno != EINPROGRESS)
		error = errno;
	else if (poll(&pfd, 1, CONNECT_MS) <= 0)
		error = ETIMEDOUT;
	else
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (!error)
		return fd;
	close(fd);
	return -error;
}

int control_open(const char *host, int port, char *why)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char service[16];
	int ret, fd = -ENOENT;

	snprintf(service, sizeof(service), "%d", port);
	ret = getaddrinfo(host, service, &hints, &found);
	if (ret) {
		snprintf(why, CONTROL_TEXT, "'%.255s': %s", host, gai_strerror(ret));
		return -ENOENT;
	}
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = connect_to(a);
	freeaddrinfo(found);
	if (fd < 0)
		snprintf(why, CONTROL_TEXT, "%.255s port %d: %s", host, port,
			 fd == -ETIMEDOUT ? "no answer; a firewall may drop the packets"
					  : strerror(-fd));
	return fd;
}
