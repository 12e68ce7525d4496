/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that break at any byte and resume, without threads: a receive comm whose sender is the input (resume_recv.c),
 * a send comm whose receiver is (resume_send.c). The sockets of the comm take as many bytes as the input says (the
 * program is linked with --wrap).
 */
#include <errno.h>
#include <sys/socket.h>

#include "resume.h"

#define NOISE_STEP 131 /* between the starts of two messages */

size_t take_budget = SIZE_MAX, take_short;

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

/* How much of `bytes` a call takes; 0 = the socket is full. */
static size_t allowed(size_t bytes)
{
	if (take_short) {
		take_budget = bytes - anynet_min(bytes, take_short);
		take_short = 0;
	}
	if (!take_budget)
		errno = EAGAIN;
	return anynet_min(bytes, take_budget);
}

static ssize_t spend(ssize_t sent)
{
	if (sent > 0 && take_budget != SIZE_MAX)
		take_budget -= (size_t)sent;
	return sent;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	bytes = allowed(bytes);
	return bytes ? spend(__real_send(fd, data, bytes, flags)) : -1;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct iovec iov[64];
	struct msghdr part = *msg;
	size_t left = 0;

	must(msg->msg_iovlen <= ARRAY_SIZE(iov));
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		left += msg->msg_iov[i].iov_len;
	left = allowed(left);
	if (!left)
		return -1;
	part.msg_iov = iov;
	part.msg_iovlen = 0;
	for (size_t i = 0; i < msg->msg_iovlen && left; i++) {
		iov[i] = msg->msg_iov[i];
		iov[i].iov_len = anynet_min(iov[i].iov_len, left);
		left -= iov[i].iov_len;
		part.msg_iovlen++;
	}
	return spend(__real_sendmsg(fd, &part, flags));
}

void take_again(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (comm->streams[i] && comm->streams[i]->path.fd >= 0)
			comm->streams[i]->path.writable = true;
}

const uint8_t *pattern(uint32_t seq, size_t offset)
{
	static uint8_t noise[256 * NOISE_STEP + BYTES_MAX + 1];
	static bool made;

	for (uint32_t i = 0; !made && i < sizeof(noise); i++)
		noise[i] = (uint8_t)((i + 1) * 2654435761u >> 24);
	made = true;
	return noise + seq % 256 * NOISE_STEP + offset;
}

uint32_t choose_size(struct input *in)
{
	static const uint16_t sizes[] = { 0,    1,    127,  128,   1000,  1024,  1025,  2047,
					  2048, 4000, 4096, 12000, 16384, 20000, 33000, 40000 };
	uint8_t choice = input_u8(in);

	return choice & 0x10 ? input_u16(in) % BYTES_MAX : sizes[choice % ARRAY_SIZE(sizes)];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	uint8_t order = input_u8(&in);

	fuzz_net_start();
	take_budget = SIZE_MAX;
	take_short = 0;
	local_cfg.recovery_timeout_ms = 600000;
	local_cfg.checksum = order & CHECKSUMS;
	(order & SENDS ? resume_sending : resume_receiving)(&in, order);
	return 0;
}
