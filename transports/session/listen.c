/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of the accept engine, and NCCL's listen, accept and closeListen; see listen.h. */
#include "session/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "session/listen_internal.h"
#include "session/listen_sockets.h"
#include "session/registry.h"
#include "wire/secret.h"

/* `lock` guards this and the state of listen_sockets.c, endpoint.c and handshake.c. */
static struct {
	pthread_mutex_t lock;
	LIST_HEAD(, anynet_listener) listeners; /* also those whose endpoint a comm has taken over */
	int holders; /* send comms, and connects in progress */
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER };

void listen_hold(const struct anynet_device *const *set, int count, struct anynet_wire_addr *addrs)
{
	pthread_mutex_lock(&engine.lock);
	engine.holders++;
	sockets_listen(set, count, false, addrs);
	pthread_mutex_unlock(&engine.lock);
}

void listen_drop(void)
{
	pthread_mutex_lock(&engine.lock);
	engine.holders--;
	pthread_mutex_unlock(&engine.lock);
}

/* --- turns --- */

/* Has READY arrived on stream 0? Then the sender's connect has returned this comm, and its streams are complete. If
 * several connects are in progress for one NCCL connection, only one of them sends READY. 0; -EAGAIN: not yet;
 * -ECONNRESET: the comm has failed or is closed. */
static int sender_ready(struct anynet_listener *listener)
{
	struct anynet_comm *comm = listener->comm;

	if (recv_comm_ready(comm))
		return 0;
	comm_enter(comm);
	comm_attend(comm);
	comm_turn(comm);
	comm_leave(comm);
	if (recv_comm_ready(comm))
		return 0;
	return comm_error(comm) || comm->peer_closed ? -ECONNRESET : -EAGAIN;
}

bool listen_in_use(void)
{
	bool used;

	pthread_mutex_lock(&engine.lock);
	used = sockets_epoll_fd() >= 0;
	pthread_mutex_unlock(&engine.lock);
	return used;
}

void listen_turn(void)
{
	if (pthread_mutex_trylock(&engine.lock))
		return;
	if (sockets_epoll_fd() >= 0)
		handshake_turn(os_now_ms());
	pthread_mutex_unlock(&engine.lock);
}

/* NCCL may never call accept again, so this frees half-built comms that are over. */
void listen_look(void)
{
	struct anynet_listener *listener;

	if (pthread_mutex_trylock(&engine.lock))
		return;
	LIST_FOREACH (listener, &engine.listeners, link)
		if (listener->comm && sender_ready(listener) == -ECONNRESET)
			endpoint_drop_half_built(listener);
	pthread_mutex_unlock(&engine.lock);
}

void listen_watch(int epfd, uint32_t data)
{
	pthread_mutex_lock(&engine.lock);
	sockets_watch(epfd, data);
	pthread_mutex_unlock(&engine.lock);
}

void listen_drop_half_built(const void *owner)
{
	struct anynet_listener *listener;

	pthread_mutex_lock(&engine.lock);
	LIST_FOREACH (listener, &engine.listeners, link)
		if (listener->comm && listener->owner == owner)
			endpoint_drop_half_built(listener);
	pthread_mutex_unlock(&engine.lock);
}

void listen_trim(void)
{
	pthread_mutex_lock(&engine.lock);
	if (!endpoints_used() && LIST_EMPTY(&engine.listeners) && !engine.holders) {
		handshake_abort_all();
		sockets_close();
		endpoints_free();
	}
	pthread_mutex_unlock(&engine.lock);
}

/* --- listen, accept, close --- */

/* listen_sockets.c logs its own errors. */
static ANYNET_COLD int not_opened(const struct anynet_device *dev, int err)
{
	if (err == -ENOMEM)
		anynet_warn("out of memory: cannot listen on dev %s", dev->name);
	return err;
}

int listen_start(const struct anynet_device *dev, const void *owner, void *handle,
		 struct anynet_listener **out)
{
	const struct anynet_device *set[ANYNET_HANDLE_ADDRS];
	struct anynet_wire_addr addrs[ANYNET_HANDLE_ADDRS];
	struct anynet_listener *listener;
	struct anynet_wire_handle wire;
	int count, ret;

	*out = NULL;
	memset(handle, 0, ANYNET_HANDLE_BYTES);
	if (secret_problem()) {
		anynet_warn("listen on dev %s: %s", dev->name, secret_problem());
		return -EACCES;
	}
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return not_opened(dev, -ENOMEM);
	listener->dev = dev;
	listener->owner = owner;
	pthread_mutex_lock(&engine.lock);
	/* The handle has room for few addresses. Those of the first member suffice to connect stream 0. */
	count = nic_list(anynet_member(dev, 0), set, ANYNET_HANDLE_ADDRS);
	ret = sockets_listen(set, count, true, addrs);
	if (!ret)
		ret = endpoint_take(listener, &wire, addrs, count);
	if (!ret)
		LIST_INSERT_HEAD(&engine.listeners, listener, link);
	pthread_mutex_unlock(&engine.lock);
	if (ret) {
		free(listener);
		return not_opened(dev, ret);
	}
	memcpy(handle, &wire, sizeof(wire));
	*out = listener;
	return 0;
}

/* A shortage of descriptors or memory may pass, so it is an error only after ANYNET_CONNECT_TIMEOUT. True: not yet. */
static bool is_short(struct anynet_listener *listener, uint64_t now)
{
	if (!listener->deadline_ms)
		listener->deadline_ms = now + (uint64_t)anynet_net.cfg->connect_timeout_ms;
	return now < listener->deadline_ms;
}

/* No hello has come, maybe because this process cannot accept. A call that a seccomp filter refuses will fail later,
 * too: no need to wait. */
static int trouble(struct anynet_listener *listener, uint64_t now)
{
	int err = handshake_trouble();

	if (err == -EPERM || err == -EACCES || err == -ENOSYS)
		return err;
	if (!err)
		listener->deadline_ms = 0;
	return err && !is_short(listener, now) ? err : 0;
}

static int accept_locked(struct anynet_listener *listener, struct anynet_comm **out)
{
	uint64_t now = os_now_ms();
	int ret;

	handshake_turn(now);
	if (!listener->comm)
		return trouble(listener, now);
	ret = sender_ready(listener);
	if (ret == -EAGAIN)
		return 0; /* READY has not arrived */
	if (!ret) {
		comm_keep_streams(listener->comm);
		ret = comm_open(listener->comm);
	}
	if (ret && ret != -ECONNRESET && is_short(listener, now))
		return 0;
	if (ret) {
		endpoint_drop_half_built(listener);
		return ret == -ECONNRESET ? 0 : ret;
	}
	*out = endpoint_hand_over(listener);
	return 0;
}

static ANYNET_COLD void not_accepted(const struct anynet_listener *listener, int err)
{
	if (listener->deadline_ms && os_now_ms() >= listener->deadline_ms)
		anynet_warn(
			"accept on dev %s: connection not established within %d ms: %s; see the "
			"peer's log",
			listener->dev->name, anynet_net.cfg->connect_timeout_ms, error_text(-err));
	else
		anynet_warn("accept on dev %s: %s; NCCL gets an error", listener->dev->name,
			    error_text(-err));
}

int listen_accept(struct anynet_listener *listener, struct anynet_comm **out)
{
	int ret;

	*out = NULL;
	if (!listener)
		return -EINVAL;
	pthread_mutex_lock(&engine.lock);
	ret = accept_locked(listener, out);
	pthread_mutex_unlock(&engine.lock);
	if (*out && (ret = registry_add(*out))) {
		listen_destroy_comm(*out);
		*out = NULL;
	}
	if (ret)
		not_accepted(listener, ret);
	if (*out) {
		/* Another thread's turn of the engine may already resume, or end, one of its streams. */
		comm_enter(*out);
		comm_tell_opened(*out);
		comm_leave(*out);
	}
	return ret;
}

void anynet_close_listener(struct anynet_listener *listener)
{
	if (!listener)
		return;
	pthread_mutex_lock(&engine.lock);
	endpoint_close_listener(listener);
	LIST_REMOVE(listener, link);
	pthread_mutex_unlock(&engine.lock);
	free(listener);
}

void listen_destroy_comm(struct anynet_comm *comm)
{
	pthread_mutex_lock(&engine.lock);
	if (!comm->is_send)
		endpoint_release(comm->session->paths.endpoint);
	else
		engine.holders -= comm->session->listening;
	pthread_mutex_unlock(&engine.lock);
	comm_destroy(comm);
}
