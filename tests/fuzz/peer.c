/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "transports/wire/checksum.h"

size_t peer_send(int fd, const void *data, size_t bytes)
{
	ssize_t n;

	if (fd < 0 || !bytes)
		return 0;
	/* Not send, because the budget of fuzz_resume is for the comm. */
	n = sendto(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
	must(n >= 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
	return n < 0 ? 0 : (size_t)n;
}

void peer_garbage(int fd, struct input *in)
{
	uint8_t bytes[256], count = input_u8(in);

	peer_send(fd, bytes, input_take(in, bytes, count));
}

void peer_pair(int fds[2])
{
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
}

void peer_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

size_t control_image(struct anynet_wire_frame header, const void *payload, bool checksum,
		     uint8_t *image)
{
	if (header.length)
		memcpy(image + HEADER_BYTES, payload, header.length);
	if (checksum)
		checksum_header(&header, header.length ? payload : NULL);
	memcpy(image, &header, HEADER_BYTES);
	return HEADER_BYTES + header.length;
}

void peer_say(int *fd, struct anynet_wire_frame header, const void *payload, bool checksum,
	      size_t cut)
{
	uint8_t image[CONTROL_BYTES];
	size_t bytes = control_image(header, payload, checksum, image);

	if (*fd >= 0 && peer_send(*fd, image, bytes - anynet_min(cut, bytes)) != bytes)
		peer_close(fd);
}
