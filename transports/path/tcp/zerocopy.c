/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MSG_ZEROCOPY, used where the kernel really avoids the copy. Each notification says whether the data was copied after
 * all (loopback, veth, NICs without scatter-gather). The first copy turns MSG_ZEROCOPY off for the connection, unless
 * the setting forces it. Sends complete by the receiver's ACK, so notifications are only counted.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h>

#include "path/tcp/tcp_stream.h"

void tcp_zerocopy_init(struct tcp_stream *stream)
{
	int one = 1, choice = anynet_net.cfg->zerocopy;

	if (choice == ANYNET_SWITCH_OFF || send_keeps((struct send_comm *)stream->base.comm))
		return;
	if (choice == ANYNET_SWITCH_AUTO && stream->base.comm->dev->copies_in_kernel)
		return;
	stream->zerocopy.works =
		!setsockopt(stream->base.path.fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one));
}

static void take_notification(struct tcp_stream *stream, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct sock_extended_err err;

		if (c->cmsg_len < CMSG_LEN(sizeof(err)))
			continue;
		memcpy(&err, CMSG_DATA(c), sizeof(err));
		if (err.ee_errno || err.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
			continue;
		/* Of a range of calls; ranges may be out of order. */
		stream->zerocopy.done += err.ee_data - err.ee_info + 1;
		if (err.ee_code & SO_EE_CODE_ZEROCOPY_COPIED &&
		    anynet_net.cfg->zerocopy != ANYNET_SWITCH_ON)
			stream->zerocopy.works = false;
	}
}

void tcp_zerocopy_reap(struct tcp_stream *stream)
{
	char control[128];

	for (;;) {
		struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };

		if (recvmsg(stream->base.path.fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		take_notification(stream, &msg);
	}
}
