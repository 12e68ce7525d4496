/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of a comm: receive, transmit, and the work that comm->attention announces. */
#include <sys/epoll.h>

#include "session/recovery.h"
#include "session/redial.h"
#include "session/watch.h"

#define EVENTS_PER_TURN 16
#define GLANCE_TURNS    16 /* turns between two calls of watch_glance, which needs the time */

static void poll_streams(struct anynet_comm *comm)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(comm->epfd, events, EVENTS_PER_TURN, 0);

	for (int i = 0; i < n; i++) {
		struct anynet_stream *stream = events[i].data.ptr;

		if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			stream->path.readable = true;
		/* The set is edge-triggered: if the end came with the last bytes, no further event reports it. EPOLLERR alone
		 * is a notification of MSG_ZEROCOPY. */
		if (events[i].events & (EPOLLHUP | EPOLLRDHUP))
			stream->path.ended = true;
		if (events[i].events & (EPOLLOUT | EPOLLHUP))
			stream->path.writable = true;
	}
}

void comm_attend(struct anynet_comm *comm)
{
	uint64_t now;

	atomic_store(&comm->attention, false);
	if (atomic_load(&comm->session->mail))
		recovery_take_posted(comm);
	if (comm_error(comm) || comm->peer_closed) {
		/* The peer learns of it by the end of each connection, also of one that it has just taken for a stream. */
		recovery_free(comm);
		comm_close_streams(comm);
		atomic_store(&comm->session->watch.out, false);
		return;
	}
	now = os_now_ms();
	if (now - comm->session->watch.looked_ms >= WATCH_MS / 2 || /* the thread that asks each WATCH_MS may come early */
	    atomic_load(&comm->session->carrier_event) || atomic_load(&comm->session->probed))
		watch_comm(comm, now);
	else
		watch_glance(comm, true, now);
	if (!comm->is_send && !comm_error(comm))
		comm_transmit(comm); /* control frames such as SUSPECT */
	if (!comm->is_send && comm->down)
		comm_take_rest(comm);
	if (comm->session->recovery && !comm_error(comm) && !comm->peer_closed)
		recovery_step(comm, now);
	if (!comm_error(comm) && comm->is_send && send_owes(comm))
		atomic_store(&comm->attention, true);
}

void comm_poke(struct anynet_comm *comm)
{
	atomic_store(&comm->attention, true);
	if (!comm_try_enter(comm))
		return; /* the thread that has the lock sees `attention`, or else the background thread */
	comm_attend(comm);
	comm_leave(comm);
}

int comm_transmit(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];
		int ret;

		if (!stream || !stream->path.writable)
			continue;
		ret = stream->ops->transmit(stream);
		if (anynet_unlikely(ret) && (ret = comm_stream_broke(comm, stream, ret)))
			return ret;
	}
	return comm_state(comm);
}

/* Recovery goes on without a background thread, too, which takes its steps ten times a second. */
static void look_around(struct anynet_comm *comm, uint64_t now)
{
	if (comm->session->recovery && now >= comm->session->watch.looked_ms + 2 * WATCH_MS)
		atomic_store(&comm->attention, true);
	watch_glance(comm, false, now);
}

int comm_turn(struct anynet_comm *comm)
{
	int ret;

	if (anynet_unlikely(atomic_load_explicit(&comm->attention, memory_order_relaxed)))
		comm_attend(comm);
	if (comm->epfd >= 0)
		poll_streams(comm);
	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream || !stream->path.readable || stream->path.parked)
			continue;
		ret = stream->ops->receive(stream);
		if (anynet_unlikely(ret) && (ret = comm_stream_broke(comm, stream, ret)))
			return ret;
	}
	if (anynet_unlikely(!(++comm->turns % GLANCE_TURNS)))
		look_around(comm, os_now_ms());
	ret = comm_state(comm);
	return ret || !comm->is_send ? ret : comm_transmit(comm);
}
