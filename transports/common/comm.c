/* SPDX-License-Identifier: Apache-2.0 */
/* What both kinds of comm share: rails, turns, errors, memory registration, test and close. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "comm_internal.h"
#include "listen.h"

#define EVENTS_PER_TURN 16

int comm_init(struct anynet_comm *comm, bool is_send, const struct anynet_device *dev,
	      unsigned rail_count)
{
	comm->rails = calloc(rail_count, sizeof(*comm->rails));
	if (!comm->rails)
		return -ENOMEM;
	comm->is_send = is_send;
	comm->dev = dev;
	comm->rail_count = (uint16_t)rail_count;
	comm->epfd = -1;
	comm->io_slot = -1;
	pthread_mutex_init(&comm->lock, NULL);
	return 0;
}

void comm_close_rails(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count; i++) {
		struct anynet_rail *rail = comm->rails[i];

		comm->rails[i] = NULL;
		if (rail)
			rail->ops->close(rail);
	}
}

void comm_fini(struct anynet_comm *comm)
{
	comm_close_rails(comm);
	if (comm->epfd >= 0)
		close(comm->epfd);
	pthread_mutex_destroy(&comm->lock);
	free(comm->rails);
}

int comm_add_rail(struct anynet_comm *comm, int fd, uint16_t index, uint32_t epoch)
{
	struct anynet_rail *rail = tcp_rail_create(comm, fd, index, epoch);

	if (!rail)
		return -ENOMEM;
	comm->rails[index] = rail;
	return 0;
}

void comm_unpark(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i])
			comm->rails[i]->parked = false;
}

int comm_open(struct anynet_comm *comm)
{
	if (comm->rail_count > 1) {
		comm->epfd = epoll_create1(EPOLL_CLOEXEC);
		if (comm->epfd < 0)
			return -errno;
		for (unsigned i = 0; i < comm->rail_count; i++) {
			struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP |
							       EPOLLET,
						     .data.ptr = comm->rails[i] };

			if (comm->rails[i] &&
			    epoll_ctl(comm->epfd, EPOLL_CTL_ADD, comm->rails[i]->fd, &event))
				return -errno;
		}
	}
	io_threads_add(comm); /* without them the caller does it all */
	return 0;
}

void comm_fail(struct anynet_comm *comm, const struct anynet_rail *rail, int err, const char *fmt,
	       ...)
{
	const struct anynet_peer *peer = &comm->peer;
	unsigned pending = comm->is_send ? send_pending(comm) : recv_pending(comm);
	char text[256], path[160] = "";
	int none = 0;
	va_list args;

	if (!atomic_compare_exchange_strong(&comm->error, &none, err))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (rail)
		snprintf(path, sizeof(path), " rail %u of %u (%s)", rail->index, comm->rail_count,
			 rail->path);
	anynet_warn("%s peer %s pid %u addr %s dev %s%s: %s (%s); %u pending requests fail",
		    comm->is_send ? "send to" : "receive from", peer->host, peer->pid, peer->addr,
		    comm->dev->name, path, text, strerror(-err), pending);
}

/* --- turns --- */

static void poll_rails(struct anynet_comm *comm)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(comm->epfd, events, EVENTS_PER_TURN, 0);

	for (int i = 0; i < n; i++) {
		struct anynet_rail *rail = events[i].data.ptr;

		if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			rail->readable = true;
		/* No further event tells of the end if it came with the last bytes. */
		if (events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
			rail->ended = true;
		if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
			rail->writable = true;
	}
}

static void drop_rail(struct anynet_comm *comm, struct anynet_rail *rail)
{
	comm->rails[rail->index] = NULL;
	rail->ops->close(rail);
}

static bool any_rail(const struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i])
			return true;
	return false;
}

/*
 * A rail call failed. If the peer closed on purpose, or nothing was waiting for it, that is no error
 * until something is asked of it again. Otherwise the comm is over. Rails are closed here, above the
 * rail's own code, never inside it. Returns the comm's error.
 */
static ANYNET_COLD int rail_broke(struct anynet_comm *comm, struct anynet_rail *rail, int err)
{
	unsigned pending = comm->is_send ? send_pending(comm) : recv_pending(comm);

	if (!comm_error(comm) && (rail->bye || !pending)) {
		bool said_bye = rail->bye;

		drop_rail(comm, rail);
		if (any_rail(comm) && said_bye)
			return 0;
		comm->peer_closed = true;
		if (pending)
			comm_fail(
				comm, NULL, err,
				"the peer closed the connection without sending what is waited for");
	} else if (!comm_error(comm)) {
		comm_fail(comm, rail, err, "%s",
			  err == -ECONNRESET
				  ? "the peer closed the connection; if its process is gone, "
				    "look at its log first"
				  : "the connection broke");
	}
	if (comm_error(comm) || comm->peer_closed)
		comm_close_rails(comm);
	return comm_error(comm);
}

int comm_transmit(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count; i++) {
		struct anynet_rail *rail = comm->rails[i];
		int ret;

		if (!rail || !rail->writable)
			continue;
		ret = rail->ops->transmit(rail);
		if (anynet_unlikely(ret))
			return rail_broke(comm, rail, ret);
	}
	return comm_error(comm);
}

int comm_turn(struct anynet_comm *comm)
{
	if (comm->epfd >= 0)
		poll_rails(comm);
	for (unsigned i = 0; i < comm->rail_count; i++) {
		struct anynet_rail *rail = comm->rails[i];
		int ret;

		if (!rail || !rail->readable || rail->parked)
			continue;
		ret = rail->ops->receive(rail);
		if (anynet_unlikely(ret))
			return rail_broke(comm, rail, ret);
	}
	return comm->is_send ? comm_transmit(comm) : comm_error(comm);
}

/* --- memory --- */

int anynet_reg_mr(struct anynet_comm *comm, void *addr, size_t bytes, int type,
		  struct anynet_mr **out)
{
	struct anynet_mr *mr;

	*out = NULL;
	if (!(type & comm->dev->ptr_support))
		return -EOPNOTSUPP;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->addr = addr;
	mr->bytes = bytes;
	mr->type = type;
	*out = mr;
	return 0;
}

int anynet_reg_mr_dmabuf(struct anynet_comm *comm, void *addr, size_t bytes, int type,
			 uint64_t offset, int fd, struct anynet_mr **out)
{
	(void)offset;
	(void)fd;
	if (type == ANYNET_PTR_HOST)
		return anynet_reg_mr(comm, addr, bytes, type, out);
	*out = NULL;
	return -EOPNOTSUPP;
}

void anynet_dereg_mr(struct anynet_comm *comm, struct anynet_mr *mr)
{
	if (!mr)
		return;
	if (atomic_load_explicit(&mr->in_flight, memory_order_acquire)) {
		/* NCCL is aborting: end the comm, so that nothing touches the buffer any more. */
		int none = 0;

		comm_enter(comm);
		if (atomic_compare_exchange_strong(&comm->error, &none, -ECANCELED))
			anynet_info(
				"%s peer %s dev %s: memory deregistered with requests in flight, they "
				"are cancelled",
				comm->is_send ? "send to" : "receive from", comm->peer.host,
				comm->dev->name);
		comm_close_rails(comm);
		comm_leave(comm);
	}
	free(mr);
}

int anynet_iflush(struct anynet_comm *comm, int n, void *const *data, const int *bytes,
		  struct anynet_mr *const *mrs, struct anynet_request **req)
{
	/* Only for GPU memory that a NIC wrote to (net-api.md §3.6); rails of today write with the
	 * CPU. */
	(void)n;
	(void)data;
	(void)bytes;
	(void)mrs;
	*req = NULL;
	return comm_error(comm);
}

int anynet_test(struct anynet_request *req, int *done, int *sizes)
{
	*done = 0;
	return req->comm->is_send ? send_test(req, done, sizes) : recv_test(req, done, sizes);
}

void anynet_net_trim(void)
{
	connect_trim(true);
	linger_trim();
	listen_trim();
}

void anynet_close(struct anynet_comm *comm)
{
	if (!comm)
		return;
	io_threads_remove(comm);
	if (comm->is_send) {
		linger_comm(comm);
	} else {
		listen_forget(comm);
		recv_comm_destroy(comm);
	}
	connect_trim(false);
	listen_trim();
}
