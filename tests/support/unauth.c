/* SPDX-License-Identifier: Apache-2.0 */
#include "unauth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void unauth_target(const void *handle, struct target *target)
{
	const struct anynet_wire_addr *addr = &target->handle.addrs[0];

	memcpy(&target->handle, handle, sizeof(target->handle));
	check(target->handle.magic == ANYNET_HANDLE_MAGIC);
	check_int(addr->family, 4);
	target->addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(addr->port) };
	memcpy(&target->addr.sin_addr, addr->ip, 4);
}

static void bind_to(int fd, unsigned from)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int one = 1;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
	check_ok(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one)));
	check_ok(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)));
}

int unauth_dial(const struct target *target, unsigned from)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check_that(fd >= 0, "socket: %s", strerror(errno));
	if (from)
		bind_to(fd, from);
	check_that(!connect(fd, (const struct sockaddr *)&target->addr, sizeof(target->addr)),
		   "connect to the listener: %s", strerror(errno));
	return fd;
}

void unauth_say(int fd, const void *data, size_t bytes)
{
	ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)n;
}

struct anynet_wire_hello unauth_hello(const struct target *target)
{
	struct anynet_wire_hello hello = {
		.magic = ANYNET_HELLO_MAGIC,
		.version = ANYNET_WIRE_VERSION,
		.type = ANYNET_HELLO,
		.kind = ANYNET_KIND_COMM,
		.bytes = sizeof(hello),
		.endpoint = target->handle.endpoint,
		.comm_id = 0x5742,
		.streams = 1,
		.pid = 1,
		.transports = 1,
		.replay_bytes = 65536,
		.chunk_bytes = 65536,
		.speed_mbps = 10000,
		.host = "unauth",
		.device = "lo",
	};
	memcpy(hello.token, target->handle.token, sizeof(hello.token));
	return hello;
}

ssize_t unauth_hear(int fd, void *data, size_t bytes, int ms)
{
	struct deadline deadline = deadline_in(ms, "an answer");
	size_t got = 0;

	while (got < bytes) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		if (poll(&ready, 1, deadline_left_ms(&deadline)) <= 0) {
			if (deadline_passed(&deadline))
				return -1;
			continue;
		}
		ssize_t n = recv(fd, (char *)data + got, bytes - got, MSG_DONTWAIT);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

bool unauth_is_shut_out(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return !n || (n < 0 && errno != EAGAIN);
}
