/* SPDX-License-Identifier: Apache-2.0 */
/* A comm's turns: what streams bring is taken in, what is queued goes out, and what waits for attention gets it. */
#include <sys/epoll.h>

#include "session/recovery.h"
#include "session/watch.h"

#define EVENTS_PER_TURN 16
#define GLANCE_TURNS    16 /* with none in between to look at the clock */

static void poll_streams(struct anynet_comm *comm)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(comm->epfd, events, EVENTS_PER_TURN, 0);

	for (int i = 0; i < n; i++) {
		struct anynet_stream *stream = events[i].data.ptr;

		if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			stream->readable = true;
		/* No further event tells of the end if it came with the last bytes. */
		if (events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			stream->ended = true;
		if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
			stream->writable = true;
	}
}

void comm_attend(struct anynet_comm *comm)
{
	uint64_t now;

	atomic_store(&comm->attention, false);
	if (atomic_load(&comm->session->mail))
		recovery_take_posted(comm);
	if (comm_error(comm) || comm->peer_closed)
		return;
	now = os_now_ms();
	if (now - comm->session->watch.looked_ms >= WATCH_MS ||
	    atomic_load(&comm->session->carrier_event) || atomic_load(&comm->session->probed))
		watch_comm(comm, now);
	if (!comm->is_send && !comm_error(comm))
		comm_transmit(comm); /* what there is to be told about it */
	if (!comm->is_send && comm->down)
		comm_take_rest(comm);
	if (comm->session->recovery && !comm_error(comm) && !comm->peer_closed)
		recovery_step(comm, now);
	if (comm->is_send && !comm_error(comm) && send_owes(comm))
		atomic_store(&comm->attention, true);
}

void comm_poke(struct anynet_comm *comm)
{
	atomic_store(&comm->attention, true);
	if (!comm_try_enter(comm))
		return; /* who is at work on it will see; the background thread comes by, too */
	comm_attend(comm);
	comm_leave(comm);
}

int comm_transmit(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];
		int ret;

		if (!stream || !stream->writable)
			continue;
		ret = stream->ops->transmit(stream);
		if (anynet_unlikely(ret) && (ret = comm_stream_broke(comm, stream, ret)))
			return ret;
	}
	return comm_state(comm);
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

		if (!stream || !stream->readable || stream->parked)
			continue;
		ret = stream->ops->receive(stream);
		if (anynet_unlikely(ret) && (ret = comm_stream_broke(comm, stream, ret)))
			return ret;
	}
	if (anynet_unlikely(!(++comm->turns % GLANCE_TURNS)))
		watch_glance(comm, os_now_ms());
	ret = comm_state(comm);
	return ret || !comm->is_send ? ret : comm_transmit(comm);
}
