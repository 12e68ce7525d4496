/* SPDX-License-Identifier: Apache-2.0 */
#include "narrow.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int narrow_fd = -1;
static size_t room_left;

void narrow_socket(int fd, size_t room)
{
	narrow_fd = fd;
	room_left = room;
}

size_t narrow_room(void)
{
	return room_left;
}

static ssize_t send_some(int fd, const void *data, size_t bytes, int flags)
{
	ssize_t n;

	if (fd == narrow_fd && !room_left) {
		errno = EAGAIN;
		return -1;
	}
	if (fd == narrow_fd && bytes > room_left)
		bytes = room_left;
	n = syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
	if (fd == narrow_fd && n > 0)
		room_left -= (size_t)n;
	return n;
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	return send_some(fd, data, bytes, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	static char all[1 << 20];
	size_t bytes = 0;

	if (fd != narrow_fd)
		return syscall(SYS_sendmsg, fd, msg, flags);
	for (size_t i = 0; i < msg->msg_iovlen && bytes < sizeof(all); i++) {
		size_t piece = msg->msg_iov[i].iov_len;

		if (piece > sizeof(all) - bytes)
			piece = sizeof(all) - bytes;
		memcpy(all + bytes, msg->msg_iov[i].iov_base, piece);
		bytes += piece;
	}
	return send_some(fd, all, bytes, flags);
}
