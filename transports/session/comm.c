/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive comms: creation, the states of their streams, failure. */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/socket.h"
#include "session/pairs.h"
#include "session/progress.h"

#define ENTER_YIELDS    20

/* NULL = no memory; `comm` is freed then. */
static struct anynet_comm *with_session(struct anynet_comm *comm, unsigned stream_count)
{
	struct session *session = calloc(1, sizeof(*session));
	struct anynet_stream **streams = calloc(stream_count, sizeof(*streams));

	if (!comm || !session || !streams) {
		free(session);
		free(streams);
		if (comm)
			(comm->is_send ? send_free : recv_free)(comm);
		return NULL;
	}
	session->slot = session->io_epfd = -1;
	comm->session = session;
	comm->streams = streams;
	comm->stream_count = (uint16_t)stream_count;
	comm->epfd = -1;
	comm->checksum = anynet_net.cfg->checksum;
	return comm;
}

struct anynet_comm *send_comm_create(const struct anynet_device *dev, unsigned stream_count)
{
	return with_session(send_create(dev), stream_count);
}

struct anynet_comm *recv_comm_create(const struct anynet_device *dev, unsigned stream_count,
				     uint32_t replay_bytes)
{
	return with_session(recv_create(dev, replay_bytes), stream_count);
}

/* Needs no counterpart when the connection is closed: that removes it from the set, and a stale event carries a token,
 * not a pointer. */
void comm_watch_by_threads(struct anynet_comm *comm, const struct anynet_stream *stream)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET,
				     .data.u64 = comm->session->slot_token };

	if (comm->session->io_epfd >= 0)
		epoll_ctl(comm->session->io_epfd, EPOLL_CTL_ADD, stream->path.fd, &event);
}

static int poll_add(struct anynet_comm *comm, struct anynet_stream *stream)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				     .data.ptr = stream };

	comm_watch_by_threads(comm, stream);
	if (comm->epfd < 0 || !epoll_ctl(comm->epfd, EPOLL_CTL_ADD, stream->path.fd, &event) ||
	    errno == EEXIST)
		return 0;
	return -errno;
}

static void poll_remove(struct anynet_comm *comm, struct anynet_stream *stream)
{
	if (comm->epfd >= 0 && stream_stands(stream))
		epoll_ctl(comm->epfd, EPOLL_CTL_DEL, stream->path.fd, NULL);
}

/* The stream leaves the epoll set before its socket is closed: if another process has a copy of the socket, the set
 * would keep it, with a pointer to the freed stream. */
void comm_end_stream(struct anynet_comm *comm, struct anynet_stream *stream)
{
	comm->streams[stream->index] = NULL;
	if (!stream_stands(stream))
		comm->down--;
	poll_remove(comm, stream);
	stream->ops->close(stream);
}

void comm_close_streams(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (stream)
			comm_end_stream(comm, stream);
	}
}

/* The connector may give up a stream before the answer to its hello arrives. That stream exists at the acceptor only:
 * it is never resumed, and what the acceptor sends on it is lost. */
void comm_keep_streams(struct anynet_comm *comm)
{
	uint64_t standing = recv_streams_standing(comm);

	for (unsigned i = 1; standing && i < comm->stream_count; i++)
		if (comm->streams[i] && !(standing >> i & 1))
			comm_end_stream(comm, comm->streams[i]);
}

int comm_add_stream(struct anynet_comm *comm, int fd, uint16_t index, uint32_t epoch,
		    struct anynet_wire_pair pair, struct ib_qp *qp)
{
	struct anynet_stream *stream = comm_is_ib(comm)
					       ? ib_stream_create(comm, index, fd, pair, qp)
					       : tcp_stream_create(comm, index, fd, pair);

	if (!stream)
		return -ENOMEM;
	stream->epoch = epoch;
	stream->qp.cleared = anynet_net.cfg->first_number;
	stream->home = pair;
	pairs_note(&comm->session->paths, pair);
	stream->progress.narrow = PAIRS_NONE;
	comm->streams[index] = stream;
	return 0;
}

/* UINT8_MAX: none of the comm's. */
static struct anynet_wire_pair pair_at(const struct anynet_comm *comm, int fd)
{
	const struct comm_paths *paths = &comm->session->paths;
	struct sockaddr_storage local = { 0 }, peer = { 0 }, addr;
	socklen_t bytes = sizeof(local), peer_bytes = sizeof(peer);
	struct anynet_wire_pair pair = PAIRS_NONE;

	getsockname(fd, (struct sockaddr *)&local, &bytes);
	getpeername(fd, (struct sockaddr *)&peer, &peer_bytes);
	for (uint8_t i = paths->own_count; i--;)
		if (socket_same_ip(&paths->own[i]->addr, &local) &&
		    paths->own_addrs[i].port == socket_port(fd))
			pair.from = i;
	for (uint8_t i = paths->peer_count; i--;)
		if (socket_from_wire(&paths->peer[i], 0, &addr) && socket_same_ip(&addr, &peer))
			pair.to = i;
	return pair;
}

struct anynet_wire_pair comm_pair_at(const struct anynet_comm *comm, int fd,
				     struct anynet_wire_pair otherwise)
{
	struct anynet_wire_pair pair = pair_at(comm, fd);

	return pair.from == UINT8_MAX || pair.to == UINT8_MAX ? otherwise : pair;
}

const struct anynet_device *comm_device_at(const struct anynet_comm *comm, int fd)
{
	struct anynet_wire_pair pair = pair_at(comm, fd);

	return pair.from == UINT8_MAX ? NULL : comm->session->paths.own[pair.from];
}

void comm_enter(struct anynet_comm *comm)
{
	for (unsigned tries = 0; !comm_try_enter(comm); tries++)
		if (tries > ENTER_YIELDS || sched_yield())
			os_sleep_us(20);
}

/* Does a queue pair carry one of the streams? The comm then needs no epoll set: each turn polls the queue pairs,
 * without system calls, and their TCP connections along with them. */
static bool any_qp(const struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (comm->streams[i] && comm->streams[i]->qp.carries)
			return true;
	return false;
}

unsigned comm_streams(const struct anynet_comm *comm)
{
	unsigned count = 0;

	for (unsigned i = 0; i < comm->stream_count; i++)
		count += comm->streams[i] != NULL;
	return count;
}

/* Path of stream 0, for log lines. */
static const char *first_path(const struct anynet_comm *comm)
{
	return comm->streams[0] ? comm->streams[0]->path.text : "closed already";
}

int comm_open(struct anynet_comm *comm)
{
	int ret;

	if (comm->stream_count > 1 && comm->epfd < 0 && !any_qp(comm)) {
		comm->epfd = fd_note(epoll_create1(EPOLL_CLOEXEC));
		if (comm->epfd < 0)
			return comm->epfd;
	}
	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream_stands(stream))
			continue;
		ret = poll_add(comm, stream);
		if (ret)
			return ret;
		progress_begin(stream, (struct stream_position){ stream_frames(stream), 0 });
		if (stream->path.health.seen.rtt_us > comm->session->rtt_us)
			comm->session->rtt_us = stream->path.health.seen.rtt_us;
	}
	recorder_note(comm, comm->streams[0], ANYNET_EVENT_OPENED, 0, comm_streams(comm),
		      first_path(comm));
	return 0;
}

void comm_tell_opened(const struct anynet_comm *comm)
{
	unsigned count = comm_streams(comm);

	hello_warn(&comm->peer, comm->dev);
	anynet_chat("%s peer %s pid %u dev %s: %u path%s on dev %s, first %s", comm_direction(comm),
		    comm->peer.host, comm->peer.pid, comm->peer.device, count,
		    count == 1 ? "" : "s", comm->dev->name, first_path(comm));
}

void comm_fail(struct anynet_comm *comm, const struct anynet_stream *stream, int err,
	       const char *fmt, ...)
{
	const struct anynet_peer *peer = &comm->peer;
	unsigned pending = comm_pending(comm);
	char text[800], path[160] = "";
	va_list args;

	if (comm_error(comm))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (stream)
		snprintf(path, sizeof(path), " path %u of %u (%s)", stream->index,
			 comm->stream_count, stream->path.text);
	anynet_warn("%s peer %s pid %u addr %s dev %s%s: %s (%s); %u pending requests fail",
		    comm_direction(comm), peer->host, peer->pid, peer->addr, comm->dev->name, path,
		    text, error_text(-err), pending);
	recorder_note(comm, stream, ANYNET_EVENT_FAILED, err, pending, text);
	/* After the log line: a thread that sees the error must find its cause in the log. */
	atomic_store(&comm->error, err);
	recorder_tell(comm);
}

/* --- streams that end --- */

void comm_stream_change(struct anynet_comm *comm, struct anynet_stream *stream,
			enum stream_state to, const char *why)
{
	enum stream_state from = stream->state;

	assert(from != to && (from != STREAM_DOWN || to == STREAM_UP));
	stream->state = to;
	comm->down = (uint16_t)(comm->down + (to == STREAM_DOWN) - (from == STREAM_DOWN));
	if (to == STREAM_SUSPECT)
		recorder_note(comm, stream, ANYNET_EVENT_SUSPECT, 0, 0, why);
	else if (from == STREAM_SUSPECT && to == STREAM_UP)
		recorder_note(comm, stream, ANYNET_EVENT_TRUSTED, 0, 0, NULL);
	if (!comm->is_send)
		recv_suspect(comm, stream->index, to == STREAM_SUSPECT);
}

void comm_sever(struct anynet_comm *comm, struct anynet_stream *stream, int err)
{
	uint64_t now = os_now_ms();

	poll_remove(comm, stream);
	if (err)
		recorder_note(comm, stream, ANYNET_EVENT_BROKE, err, 0, NULL);
	progress_end(stream, now);
	stream->breaks.err = err;
	stream->ops->sever(stream);
	progress_lapse(stream, now);
	comm_stream_change(comm, stream, STREAM_DOWN, NULL);
	if (err) {
		stream->breaks.ms = now;
		stream->breaks.count++;
		comm->session->tally.breaks++;
		if (stream_is_news(stream->breaks.count))
			anynet_info("%s peer %s pid %u dev %s path %u of %u (%s) broke: %s; "
				    "reconnecting (break %u)",
				    comm_direction(comm), comm->peer.host, comm->peer.pid,
				    comm->dev->name, stream->index, comm->stream_count,
				    stream->path.text, error_text(-err), stream->breaks.count);
	}
}

static void note_return(struct anynet_comm *comm, const struct anynet_stream *stream,
			uint32_t again)
{
	if (stream->breaks.err)
		recorder_note(comm, stream, ANYNET_EVENT_BACK, 0, os_now_ms() - stream->breaks.ms,
			      stream->path.text);
	else
		recorder_note(comm, stream, ANYNET_EVENT_MOVED, 0, 0, stream->path.text);
	if (again)
		recorder_note(comm, stream, ANYNET_EVENT_REPLAY, 0, again, NULL);
}

void comm_stream_back(struct anynet_comm *comm, struct anynet_stream *stream, int fd,
		      uint32_t epoch, struct anynet_wire_pair pair, struct stream_position from)
{
	char seconds[SECONDS_TEXT_BYTES];
	uint32_t again = comm->counts.rewound;
	int ret;

	stream->epoch = epoch;
	pairs_note(&comm->session->paths, pair);
	comm_stream_change(comm, stream, STREAM_UP, NULL);
	ret = stream->ops->resume(stream, fd, pair, from);
	if (ret) {
		comm_fail(
			comm, stream, ret,
			"the peer's position in the stream (frame %llu, offset %u) is impossible, report it with the logs of both hosts",
			(unsigned long long)from.frames, from.part);
		comm_close_streams(comm);
		return;
	}
	ret = poll_add(comm, stream);
	if (ret) { /* no memory: watch_comm asks for another connection */
		comm_sever(comm, stream, ret);
		return;
	}
	progress_begin(stream, from);
	if (!comm->is_send)
		recv_tell_again(comm, stream->index);
	comm->session->tally.recoveries += stream->breaks.err != 0;
	note_return(comm, stream, comm->counts.rewound - again);
	stream->path.health.lost = comm->counts.rewound != again;
	if (stream->breaks.err && stream_is_news(stream->breaks.count))
		anynet_info("%s peer %s pid %u dev %s path %u of %u recovered after %s s: %s",
			    comm_direction(comm), comm->peer.host, comm->peer.pid, comm->dev->name,
			    stream->index, comm->stream_count,
			    seconds_text(os_now_ms() - stream->breaks.ms, 3, seconds),
			    stream->path.text);
	stream->breaks.err = 0;
}
