/* SPDX-License-Identifier: Apache-2.0 */
/* What both kinds of comm share: rails, turns, errors, memory registration, test and close. */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/socket.h"
#include "session/listen.h"
#include "session/pairs.h"
#include "session/progress.h"
#include "session/recovery.h"
#include "session/watch.h"

#define EVENTS_PER_TURN 16
#define ENTER_YIELDS    20

/* NULL: no memory, and `comm` is the caller's to free. */
static struct anynet_comm *init(struct anynet_comm *comm, unsigned rail_count)
{
	struct session *session = comm ? calloc(1, sizeof(*session)) : NULL;

	if (!session)
		return NULL;
	session->recorder = recorder_create();
	comm->rails = calloc(rail_count, sizeof(*comm->rails));
	if (!comm->rails || !session->recorder) {
		free(comm->rails);
		free(session->recorder);
		free(session);
		return NULL;
	}
	session->slot = session->io_epfd = -1;
	comm->session = session;
	comm->rail_count = (uint16_t)rail_count;
	comm->epfd = -1;
	comm->checksum = anynet_net.cfg->checksum;
	return comm;
}

struct anynet_comm *send_comm_create(const struct anynet_device *dev, unsigned rail_count)
{
	struct anynet_comm *comm = send_create(dev);

	if (comm && !init(comm, rail_count)) {
		send_free(comm);
		return NULL;
	}
	return comm;
}

struct anynet_comm *recv_comm_create(const struct anynet_device *dev, unsigned rail_count,
				     uint32_t replay_bytes)
{
	struct anynet_comm *comm = recv_create(dev, replay_bytes);

	if (comm && !init(comm, rail_count)) {
		recv_free(comm);
		return NULL;
	}
	return comm;
}

/* A connection that is closed leaves the set by itself: only we hold it. */
void comm_watch_by_threads(struct anynet_comm *comm, const struct anynet_rail *rail)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET,
				     .data.u64 = comm->session->io_token };

	if (comm->session->io_epfd >= 0)
		epoll_ctl(comm->session->io_epfd, EPOLL_CTL_ADD, rail->fd, &event);
}

static int watch_rail(struct anynet_comm *comm, struct anynet_rail *rail)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				     .data.ptr = rail };

	comm_watch_by_threads(comm, rail);
	if (comm->epfd < 0 || !epoll_ctl(comm->epfd, EPOLL_CTL_ADD, rail->fd, &event) ||
	    errno == EEXIST)
		return 0;
	return -errno;
}

static void unwatch_rail(struct anynet_comm *comm, struct anynet_rail *rail)
{
	if (comm->epfd >= 0 && rail_stands(rail))
		epoll_ctl(comm->epfd, EPOLL_CTL_DEL, rail->fd, NULL);
}

/* For good. Out of the set first: who else holds the socket would keep it, and the freed rail, in there. */
static void close_rail(struct anynet_comm *comm, struct anynet_rail *rail)
{
	comm->rails[rail->index] = NULL;
	unwatch_rail(comm, rail);
	rail->ops->close(rail);
}

void comm_close_rails(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count; i++) {
		struct anynet_rail *rail = comm->rails[i];

		if (rail)
			close_rail(comm, rail);
	}
}

/* The connector may give up a rail before the answer to its hello arrives. That rail exists at the acceptor only: it is
 * never resumed, and what the acceptor sends on it is lost. */
void comm_keep_rails(struct anynet_comm *comm, uint64_t standing)
{
	for (unsigned i = 1; standing && i < comm->rail_count; i++)
		if (comm->rails[i] && !(standing >> i & 1))
			close_rail(comm, comm->rails[i]);
}

unsigned comm_pending(const struct anynet_comm *comm)
{
	return comm->is_send ? send_pending(comm) : recv_pending(comm);
}

int comm_add_rail(struct anynet_comm *comm, int fd, uint16_t index, uint32_t epoch,
		  struct anynet_wire_rail pair, struct ib_link *link)
{
	struct anynet_rail *rail = comm_is_ib(comm) ? ib_rail_create(comm, fd, index, link)
						    : tcp_rail_create(comm, fd, index);

	if (!rail)
		return -ENOMEM;
	rail->epoch = epoch;
	rail->granted = anynet_net.cfg->first_number;
	rail->home = rail->pair = pair;
	rail->progress.narrow = PAIRS_NONE;
	comm->rails[index] = rail;
	return 0;
}

const struct anynet_device *comm_device_at(const struct anynet_comm *comm, int fd)
{
	struct sockaddr_storage local = { 0 };
	socklen_t bytes = sizeof(local);

	getsockname(fd, (struct sockaddr *)&local, &bytes);
	for (unsigned i = 0; i < comm->session->paths.own_count; i++)
		if (socket_same_ip(&comm->session->paths.own[i]->addr, &local) &&
		    comm->session->paths.own_addrs[i].port == socket_port(fd))
			return comm->session->paths.own[i];
	return NULL;
}

void comm_enter(struct anynet_comm *comm)
{
	struct timespec moment = { .tv_nsec = 20000 };

	for (unsigned tries = 0; !comm_try_enter(comm); tries++)
		if (tries > ENTER_YIELDS || sched_yield())
			nanosleep(&moment, NULL);
}

/* Links are looked at, without system calls, and the connections beside them with them. */
static bool any_link(const struct anynet_comm *comm)
{
	for (unsigned i = 0; comm_is_ib(comm) && i < comm->rail_count; i++)
		if (comm->rails[i] && comm->rails[i]->linked)
			return true;
	return false;
}

static unsigned rails_standing(const struct anynet_comm *comm)
{
	unsigned count = 0;

	for (unsigned i = 0; i < comm->rail_count; i++)
		count += comm->rails[i] != NULL;
	return count;
}

int comm_open(struct anynet_comm *comm)
{
	int ret;

	if (comm->rail_count > 1 && comm->epfd < 0 && !any_link(comm)) {
		comm->epfd = fd_note(epoll_create1(EPOLL_CLOEXEC));
		if (comm->epfd < 0)
			return comm->epfd;
	}
	for (unsigned i = 0; i < comm->rail_count; i++) {
		struct anynet_rail *rail = comm->rails[i];

		if (!rail_stands(rail))
			continue;
		ret = watch_rail(comm, rail);
		if (ret)
			return ret;
		progress_begin(rail, rail->ops->frames(rail), 0);
		if (rail->seen.rtt_us > comm->session->rtt_us)
			comm->session->rtt_us = rail->seen.rtt_us;
	}
	recorder_note(comm, comm->rails[0], ANYNET_EVENT_OPENED, 0, rails_standing(comm),
		      comm_first_path(comm));
	return 0;
}

void comm_fail(struct anynet_comm *comm, const struct anynet_rail *rail, int err, const char *fmt,
	       ...)
{
	const struct anynet_peer *peer = &comm->peer;
	unsigned pending = comm_pending(comm);
	char text[800], path[160] = "";
	int none = 0;
	va_list args;

	if (comm_error(comm) || atomic_exchange(&comm->session->failing, true))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (rail)
		snprintf(path, sizeof(path), " path %u of %u (%s)", rail->index, comm->rail_count,
			 rail->path);
	anynet_warn("%s peer %s pid %u addr %s dev %s%s: %s (%s); %u pending requests fail",
		    comm->is_send ? "send to" : "receive from", peer->host, peer->pid, peer->addr,
		    comm->dev->name, path, text, error_text(-err), pending);
	recorder_note(comm, rail, ANYNET_EVENT_FAILED, err, pending, text);
	/* Whoever sees the error finds its reason in the log. */
	atomic_compare_exchange_strong(&comm->error, &none, err);
	recorder_tell(comm); /* to a file, which may be on a disk that does not answer */
}

/* --- rails that end --- */

void comm_rail_change(struct anynet_comm *comm, struct anynet_rail *rail, enum rail_state to, const char *why)
{
	enum rail_state from = rail->state;

	assert(from != to && (from != RAIL_DOWN || to == RAIL_UP));
	rail->state = to;
	comm->down = (uint16_t)(comm->down + (to == RAIL_DOWN) - (from == RAIL_DOWN));
	if (to == RAIL_SUSPECT)
		recorder_note(comm, rail, ANYNET_EVENT_SUSPECT, 0, 0, why);
	else if (from == RAIL_SUSPECT && to == RAIL_UP)
		recorder_note(comm, rail, ANYNET_EVENT_TRUSTED, 0, 0, NULL);
}

void comm_end_rail(struct anynet_comm *comm, struct anynet_rail *rail)
{
	if (!rail_stands(rail))
		comm->down--;
	close_rail(comm, rail);
}

void comm_sever(struct anynet_comm *comm, struct anynet_rail *rail, int err)
{
	uint64_t now = os_now_ms();

	unwatch_rail(comm, rail);
	if (err)
		recorder_note(comm, rail, ANYNET_EVENT_BROKE, err, 0, NULL);
	progress_end(rail, now);
	rail->broke_by = err;
	rail->ops->sever(rail);
	progress_link_end(rail);
	rail->readable = rail->writable = rail->parked = rail->ended = false;
	rail->silent_ms = rail->doubted_ms = 0;
	comm_rail_change(comm, rail, RAIL_DOWN, NULL);
	if (!comm->is_send)
		recv_doubt(comm, rail->index, false);
	if (err) {
		rail->broke_ms = now;
		rail->breaks++;
		comm->session->tally.breaks++;
		if (rail_is_news(rail->breaks))
			anynet_info(
				"%s peer %s pid %u dev %s path %u of %u (%s) broke: %s; "
				"reconnecting (break %u)",
				comm->is_send ? "send to" : "receive from", comm->peer.host,
				comm->peer.pid, comm->dev->name, rail->index, comm->rail_count,
				rail->path, error_text(-err), rail->breaks);
	}
}

static void note_return(struct anynet_comm *comm, const struct anynet_rail *rail, uint32_t again)
{
	if (rail->broke_by)
		recorder_note(comm, rail, ANYNET_EVENT_BACK, 0, os_now_ms() - rail->broke_ms,
			      rail->path);
	else
		recorder_note(comm, rail, ANYNET_EVENT_MOVED, 0, 0, rail->path);
	if (again)
		recorder_note(comm, rail, ANYNET_EVENT_REPLAY, 0, again, NULL);
}

void comm_rail_back(struct anynet_comm *comm, struct anynet_rail *rail, int fd, uint32_t epoch,
		    struct anynet_wire_rail pair, uint64_t frames, uint32_t part)
{
	char seconds[SECONDS_TEXT_BYTES];
	uint32_t again = comm->rewound;
	int ret;

	rail->fd = fd;
	rail->epoch = epoch;
	rail->pair = pair;
	comm_rail_change(comm, rail, RAIL_UP, NULL);
	ret = rail->ops->resume(rail, frames, part);
	if (ret) {
		comm_fail(comm, rail, ret,
			  "the peer's position in the stream (frame %llu, offset %u) is impossible",
			  (unsigned long long)frames, part);
		comm_close_rails(comm);
		return;
	}
	ret = watch_rail(comm, rail);
	if (ret) { /* no memory: another connection is made when the comm is looked at */
		comm_sever(comm, rail, ret);
		return;
	}
	progress_begin(rail, frames, part);
	rail->readable = rail->writable = true;
	if (!comm->is_send) {
		recv_doubt(comm, rail->index, false);
		recv_tell_again(comm, rail->index);
	}
	comm->session->tally.recoveries += rail->broke_by != 0;
	note_return(comm, rail, comm->rewound - again);
	if (rail->broke_by && rail_is_news(rail->breaks))
		anynet_info("%s peer %s pid %u dev %s path %u of %u recovered after %s s: %s",
			    comm->is_send ? "send to" : "receive from", comm->peer.host,
			    comm->peer.pid, comm->dev->name, rail->index, comm->rail_count,
			    seconds_text(os_now_ms() - rail->broke_ms, 3, seconds), rail->path);
	rail->broke_by = 0;
}

bool comm_has_rails(const struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i])
			return true;
	return false;
}

int comm_refuse(struct anynet_comm *comm)
{
	comm_fail(comm, NULL, -ECONNRESET,
		  comm->session->peer_lost ? "the peer was lost while the connection was idle"
				  : "the peer closed the connection");
	return -ECONNRESET;
}
