/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what happens to a stream whose connection has ended, and to a comm with a noted fault. turn.c, watch.c and
 * drain.c notice it. What is sent again follows from the receiver's position: resume.c, message/stream_log.c
 * (stream_log_rewind).
 */
#include <errno.h>

#include <nccl_net/log.h>

#include "session/recovery.h"

void comm_tell_tcp_only(struct anynet_comm *comm, int level)
{
	recorder_note(comm, NULL, ANYNET_EVENT_TCP_ONLY, 0, 0, comm->tcp.why);
	if (level == ANYNET_LOG_WARN)
		anynet_warn("%s peer %s pid %u dev %s: continuing over TCP, which is slower: %s",
			    comm_direction(comm), comm->peer.host, comm->peer.pid, comm->dev->name,
			    comm->tcp.why);
	else if (level == ANYNET_LOG_INFO)
		anynet_info("%s peer %s pid %u dev %s: continuing over TCP: %s",
			    comm_direction(comm), comm->peer.host, comm->peer.pid, comm->dev->name,
			    comm->tcp.why);
	comm->tcp.why[0] = '\0';
}

/* Has the peer's side closed the connection? Any other error is one of the path, or of this host. */
static bool is_end(int err)
{
	return err == -ECONNRESET || err == -EPIPE;
}

/* The peer has closed the stream, or its connection while the comm was idle and recovery is off. This is an error only if
 * requests are pending, or when NCCL uses the comm again. Other streams may still have to drain. */
static void stream_ended(struct anynet_comm *comm, struct anynet_stream *stream)
{
	bool said_bye = stream->bye.came;

	comm_end_stream(comm, stream);
	if ((said_bye || comm_is_closed(comm)) && comm_streams(comm))
		return;
	comm->peer_closed = true;
	recorder_note(comm, NULL, ANYNET_EVENT_PEER_CLOSED, 0, 0, NULL);
	if (comm_pending(comm))
		comm_fail(comm, NULL, -ECONNRESET,
			  "the peer closed the connection before %s all data of pending requests",
			  comm->is_send ? "receiving" : "sending");
}

int comm_stream_broke(struct anynet_comm *comm, struct anynet_stream *stream, int err)
{
	/* The peer's last frames may be unread: errors, ACKs, BYE. */
	if (!comm_state(comm) && comm->is_send && !stream->bye.came)
		stream->ops->receive(stream);
	if (comm_state(comm)) {
		comm_close_streams(comm);
		return comm_error(comm);
	}
	if (stream->bye.came || (!recovery_wanted() && !comm_pending(comm) && is_end(err))) {
		stream_ended(comm, stream);
	} else if (recovery_wanted()) {
		comm_sever(comm, stream, err);
		recovery_stream(comm, stream, !is_end(err) && err != -EBADMSG);
	} else {
		comm_fail(comm, stream, err, "%s",
			  err == -ECONNRESET
				  ? "the peer closed the connection; if its process has ended, "
				    "look at its log first"
				  : "the connection broke");
	}
	if (comm_error(comm) || comm->peer_closed)
		comm_close_streams(comm);
	return comm_error(comm);
}

void comm_take_rest(struct anynet_comm *comm)
{
	comm->session->unread = false;
	for (unsigned i = 0; comm_is_ib(comm) && i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream || stream_stands(stream))
			continue;
		comm->session->unread |= ib_stream_take_rest(stream) && !comm_is_closed(comm) && !comm_pending(comm);
		if (comm->noted && comm_settle(comm))
			comm_close_streams(comm);
		else if (stream->bye.came)
			comm_stream_broke(comm, stream, -ECONNRESET);
		if (comm_error(comm) || comm->peer_closed)
			return;
	}
}

/* The receiver has sent SUSPECT: it may see a fault that this side cannot. */
static void take_suspect(struct anynet_comm *comm, struct anynet_stream *stream)
{
	stream->path.health.suspected = false;
	if (!stream_stands(stream) || !recovery_wanted())
		return;
	if (stream_works(stream))
		comm_stream_change(comm, stream, STREAM_SUSPECT, "reported by the peer");
	stream->path.health.suspected_ms = os_now_ms();
	recovery_stream(comm, stream, true);
}

int comm_settle(struct anynet_comm *comm)
{
	comm->noted = false;
	if (*comm->tcp.why)
		comm_tell_tcp_only(comm, ANYNET_LOG_WARN);
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (comm->streams[i] && comm->streams[i]->path.health.suspected)
			take_suspect(comm, comm->streams[i]);
	if (comm->fault.err)
		comm_fail(comm, comm->fault.stream, comm->fault.err, "%s", comm->fault.text);
	return comm_error(comm);
}
