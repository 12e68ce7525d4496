/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining after close. Sends reported done may still be in the plugin's or the kernel's buffers, because the receiver
 * is slow or a stream is broken; so may a receiver's last acknowledgements. The comm stays, without NCCL, until the
 * peer's kernel has everything, for at most ANYNET_PEER_TIMEOUT. The background thread turns it, also at exit of the
 * process (service/background.c, EXIT_DRAIN_MS): a closed socket answers the receiver's ACK with a reset.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/fd.h"
#include "message/stream_log.h"
#include "session/recovery.h"
#include "session/redial.h"

/* A stream without a connection: may something sent on it still be missing at the peer? */
static bool owes(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	if (comm->is_send)
		return !send_confirmed(comm);
	/* What has come by a queue pair needs no ACK: the answer to RESUME may be the first that the sender hears of it. */
	return recv_owes(comm, stream->index) || stream->qp.nic;
}

static bool must_drain(struct anynet_comm *comm)
{
	bool wait = false;

	for (unsigned i = 0; i < comm->stream_count && !comm_error(comm) && !comm->peer_closed;
	     i++) {
		struct anynet_stream *stream = comm->streams[i];
		int ret = stream_stands(stream) ? stream->ops->drain(stream) : 0;

		if (ret && ret != -EAGAIN)
			comm_stream_broke(comm, stream, ret);
		stream = comm->streams[i];
		/* A receiver that gets a RESUME closes the old connection, and does not read what is left in it. */
		wait |= ret == -EAGAIN ||
			(stream && !stream_stands(stream) && owes(comm, stream)) ||
			(stream && recovery_announced(comm, stream));
	}
	return wait;
}

bool drain_over(struct anynet_comm *comm)
{
	comm_transmit(comm);
	return comm_error(comm) || comm->peer_closed || os_now_ms() >= comm->session->drain_until_ms ||
	       !must_drain(comm);
}

bool drain_has_unsent(struct anynet_comm *comm)
{
	bool unsent = false;

	if (!comm->is_send || comm_error(comm) || comm_pending(comm) || comm->peer_closed)
		return false;
	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream)
			continue;
		if (!stream_stands(stream)) {
			unsent |= stream_log_owes(stream);
		} else if (recovery_announced(comm, stream)) {
			unsent = true; /* see must_drain */
		} else if (stream->log.next != stream->log.end || stream->ops->backlog(stream)) {
			unsent = true;
			/* What is posted last may be unsignalled; the heartbeat is not. */
			if (stream->qp.carries)
				stream->ops->ping(stream);
		}
	}
	return unsent;
}

bool drain_start(struct anynet_comm *comm)
{
	/* With requests in flight NCCL is aborting, and may have freed their buffers. */
	if (comm_error(comm) || comm_pending(comm) || comm->peer_closed)
		return false;
	(comm->is_send ? send_bye : recv_bye)(comm);
	comm->session->drain_until_ms = os_now_ms() + (uint64_t)anynet_net.cfg->peer_timeout_ms;
	return !drain_over(comm);
}

/* --- its end --- */

void comm_destroy(struct anynet_comm *comm)
{
	recovery_free(comm);
	recovery_drop_posted(comm);
	comm_close_streams(comm);
	while (!LIST_EMPTY(&comm->session->borrowed))
		mr_return(LIST_FIRST(&comm->session->borrowed));
	fd_close(&comm->epfd);
	free(comm->streams);
	free(comm->session);
	(comm->is_send ? send_free : recv_free)(comm);
}
