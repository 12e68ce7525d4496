/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, the endpoints that handles point to, and the listening sockets; see listen.h. */
#include "listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "guard.h"
#include "heal.h"
#include "listen_internal.h"
#include "registry.h"
#include "secret.h"
#include "socket.h"

#define ENDPOINTS_MAX (1 << 20)

/* Everything here is guarded by `lock`. */
static struct {
	pthread_mutex_t lock;
	int epfd; /* listening sockets and handshakes; 0 = not open */
	struct {
		int fd; /* 0 = not open */
		uint16_t port;
	} sockets[ANYNET_DEVICES_MAX];
	struct endpoint *endpoints;
	int endpoint_count, endpoint_used;
	int listeners;       /* with or without an endpoint of their own */
	int holders;         /* send comms, and connects in progress */
	unsigned generation; /* of epfd */
	int free_head;       /* -1 = none */
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER, .free_head = -1 };

int listen_socket_fd(unsigned index)
{
	return engine.sockets[index].fd;
}

/* --- listening sockets --- */

static int open_epoll(void)
{
	int fd;

	if (engine.epfd)
		return 0;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	engine.epfd = fd;
	engine.generation++;
	return 0;
}

static int open_socket(const struct anynet_device *dev)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	struct epoll_event event = { .events = EPOLLIN,
				     .data.u64 = LISTEN_EVENT_SOCKET(dev->index) };
	char text[SOCKET_TEXT_BYTES];
	int fd, port, ret;

	if (engine.sockets[dev->index].fd)
		return 0;
	ret = open_epoll();
	if (ret)
		return ret;
	fd = socket_listen(&dev->addr, cfg);
	port = fd < 0 ? fd : socket_port(fd);
	if (port >= 0 && epoll_ctl(engine.epfd, EPOLL_CTL_ADD, fd, &event))
		port = -errno;
	if (port < 0) {
		if (cfg->port_max)
			anynet_warn("dev %s addr %s: cannot listen on any port of %d-%d: %s",
				    dev->name, socket_text(&dev->addr, text, sizeof(text)),
				    cfg->port_min, cfg->port_max, strerror(-port));
		else
			anynet_warn("dev %s addr %s: cannot listen: %s", dev->name,
				    socket_text(&dev->addr, text, sizeof(text)), strerror(-port));
		if (fd >= 0)
			close(fd);
		return port;
	}
	engine.sockets[dev->index].fd = fd;
	engine.sockets[dev->index].port = (uint16_t)port;
	return 0;
}

static int addrs_locked(const struct anynet_device *const *set, int count,
			struct anynet_wire_addr *addrs)
{
	int n = 0;

	for (int i = 0; i < count; i++) {
		int ret = open_socket(set[i]);

		if (ret && !i)
			return ret;
		if (!ret && socket_to_wire(&set[i]->addr, engine.sockets[set[i]->index].port,
					   (uint8_t)set[i]->index, &addrs[n]))
			n++;
	}
	return n ? n : -EAFNOSUPPORT;
}

int listen_addrs(const struct anynet_device *const *set, int count, struct anynet_wire_addr *addrs)
{
	int ret;

	pthread_mutex_lock(&engine.lock);
	ret = addrs_locked(set, count, addrs);
	pthread_mutex_unlock(&engine.lock);
	return ret;
}

void listen_hold(const struct anynet_device *const *set, int count, struct anynet_wire_addr *addrs)
{
	pthread_mutex_lock(&engine.lock);
	engine.holders++;
	for (int i = 0; i < count; i++) {
		bool open = !open_socket(set[i]);

		socket_to_wire(&set[i]->addr, open ? engine.sockets[set[i]->index].port : 0,
			       (uint8_t)set[i]->index, &addrs[i]);
	}
	pthread_mutex_unlock(&engine.lock);
}

void listen_drop(void)
{
	pthread_mutex_lock(&engine.lock);
	engine.holders--;
	pthread_mutex_unlock(&engine.lock);
}

void listen_turn(void)
{
	if (pthread_mutex_trylock(&engine.lock))
		return;
	if (engine.epfd)
		handshake_turn(engine.epfd, net_now_ms());
	pthread_mutex_unlock(&engine.lock);
}

void listen_watch(int epfd, uint32_t data, unsigned *generation)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = data };

	pthread_mutex_lock(&engine.lock);
	if (engine.epfd && engine.generation != *generation &&
	    !epoll_ctl(epfd, EPOLL_CTL_ADD, engine.epfd, &event))
		*generation = engine.generation;
	pthread_mutex_unlock(&engine.lock);
}

/* The peer went away or stalled before the comm stood: be ready for its next try. */
static void drop_half_built(struct anynet_listener *listener)
{
	struct endpoint *endpoint = &engine.endpoints[listener->endpoint];

	anynet_chat(
		"dev %s peer %s pid %u addr %s: gave up before the connection stood, still listening",
		listener->dev->name, listener->comm->peer.host, listener->comm->peer.pid,
		listener->comm->peer.addr);
	recv_comm_destroy(listener->comm);
	listener->comm = endpoint->comm = NULL;
}

/* NCCL has ended its last communicator: it will not accept any more. */
void listen_drop_half_built(void)
{
	pthread_mutex_lock(&engine.lock);
	for (int i = 0; i < engine.endpoint_count; i++)
		if (engine.endpoints[i].used && engine.endpoints[i].listener &&
		    engine.endpoints[i].comm)
			drop_half_built(engine.endpoints[i].listener);
	pthread_mutex_unlock(&engine.lock);
}

static void trim_locked(void)
{
	if (engine.endpoint_used || engine.listeners || engine.holders)
		return;
	handshake_abort_all();
	for (int i = 0; i < ANYNET_DEVICES_MAX; i++) {
		if (engine.sockets[i].fd)
			close(engine.sockets[i].fd);
		engine.sockets[i].fd = 0;
	}
	if (engine.epfd)
		close(engine.epfd);
	engine.epfd = 0;
	free(engine.endpoints);
	engine.endpoints = NULL;
	engine.endpoint_count = 0;
	engine.free_head = -1;
}

void listen_trim(void)
{
	pthread_mutex_lock(&engine.lock);
	trim_locked();
	pthread_mutex_unlock(&engine.lock);
}

/* --- endpoints --- */

static int grow_endpoints(void)
{
	int old = engine.endpoint_count, count = old ? old * 2 : 64;
	struct endpoint *grown;

	if (count > ENDPOINTS_MAX)
		return -ENOMEM;
	grown = realloc(engine.endpoints, (size_t)count * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + old, 0, (size_t)(count - old) * sizeof(*grown));
	for (int i = old; i < count; i++)
		grown[i].next_free = i + 1 < count ? i + 1 : -1;
	engine.endpoints = grown;
	engine.endpoint_count = count;
	engine.free_head = old;
	return 0;
}

static struct endpoint *endpoint_take(struct anynet_listener *listener)
{
	struct endpoint *endpoint;

	if (engine.free_head < 0 && grow_endpoints())
		return NULL;
	endpoint = &engine.endpoints[engine.free_head];
	listener->endpoint = (uint32_t)engine.free_head;
	engine.free_head = endpoint->next_free;
	engine.endpoint_used++;
	engine.listeners++;
	*endpoint = (struct endpoint){ .used = true, .listener = listener };
	net_random(endpoint->token, sizeof(endpoint->token));
	return endpoint;
}

static void endpoint_release(uint32_t number)
{
	struct endpoint *endpoint = &engine.endpoints[number];

	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->next_free = engine.free_head;
	engine.free_head = (int)number;
	engine.endpoint_used--;
}

struct endpoint *endpoint_find(uint32_t number, const uint8_t token[ANYNET_TOKEN_BYTES])
{
	struct endpoint *endpoint;

	if (number >= (uint32_t)engine.endpoint_count)
		return NULL;
	endpoint = &engine.endpoints[number];
	return endpoint->used && token_equal(endpoint->token, token) ? endpoint : NULL;
}

static int refuse(struct anynet_wire_hello *answer, enum anynet_hello_status status, int err,
		  const char *why)
{
	answer->status = status;
	snprintf(answer->reason, sizeof(answer->reason), "%s", why);
	return err;
}

/* The first connection of a comm: make the comm, this is its rail 0. */
static int admit_comm(struct endpoint *endpoint, const struct anynet_wire_hello *hello, int fd,
		      struct anynet_wire_hello *answer)
{
	struct anynet_listener *listener = endpoint->listener;
	const struct anynet_device *set[ANYNET_HELLO_ADDRS];
	struct anynet_wire_addr addrs[ANYNET_HELLO_ADDRS];
	int count, per_nic = net_rails_per_nic(listener->dev);
	struct anynet_comm *comm;

	count = addrs_locked(set, net_stripe(listener->dev, set, ANYNET_HELLO_ADDRS), addrs);
	if (count < 0)
		return refuse(answer, ANYNET_STATUS_BUSY, count, "cannot listen");
	hello_fill(answer, listener->dev, addrs, count);
	per_nic = (int)anynet_max((size_t)per_nic, hello->rails);
	answer->rails = (uint16_t)rail_plan(hello->addrs, hello_addr_count(hello), addrs, count,
					    per_nic, answer->plan, ANYNET_RAILS_MAX);
	comm = recv_comm_create(listener->dev, answer->rails, hello->replay_bytes);
	if (!comm)
		return refuse(answer, ANYNET_STATUS_BUSY, -ENOMEM, "out of memory");
	if (comm_add_rail(comm, fd, 0, hello->epoch, answer->plan[0])) {
		recv_comm_destroy(comm);
		return refuse(answer, ANYNET_STATUS_BUSY, -ENOMEM, "out of memory");
	}
	comm->checksum |= hello->features & ANYNET_FEATURE_CHECKSUM;
	hello_peer(hello, &comm->peer);
	snprintf(comm->peer.addr, sizeof(comm->peer.addr), "%s",
		 strrchr(comm->rails[0]->path, ' ') + 1);
	endpoint->comm_id = hello->comm_id;
	comm->paths = (struct comm_paths){
		.comm_id = hello->comm_id,
		.comm_hash = hello->comm_hash,
		.endpoint = listener->endpoint,
		.own_count = (uint8_t)count,
		.peer_count = (uint8_t)hello_addr_count(hello),
	};
	memcpy(comm->paths.token, endpoint->token, sizeof(endpoint->token));
	memcpy(comm->paths.own, set, (size_t)count * sizeof(*set));
	memcpy(comm->paths.own_addrs, addrs, (size_t)count * sizeof(*addrs));
	memcpy(comm->paths.peer, hello->addrs, sizeof(hello->addrs));
	endpoint->comm = listener->comm = comm;
	listener->deadline_ms = net_now_ms() + (uint64_t)anynet_net.cfg->connect_timeout_ms;
	return 0;
}

static int admit_rail(struct endpoint *endpoint, const struct anynet_wire_hello *hello, int fd,
		      struct anynet_wire_hello *answer)
{
	struct anynet_comm *comm = endpoint->comm;

	hello_fill(answer, comm->dev, NULL, 0);
	if (!endpoint->listener || hello->rail >= comm->rail_count || comm->rails[hello->rail] ||
	    hello->epoch)
		return refuse(answer, ANYNET_STATUS_STALE, -ESTALE, "no such rail is awaited");
	if (comm_add_rail(comm, fd, hello->rail, hello->epoch,
			  (struct anynet_wire_rail){ UINT8_MAX, UINT8_MAX }))
		return refuse(answer, ANYNET_STATUS_BUSY, -ENOMEM, "out of memory");
	return 0;
}

void endpoint_withdraw(uint32_t number)
{
	struct endpoint *endpoint = &engine.endpoints[number];

	if (endpoint->listener && endpoint->comm)
		drop_half_built(endpoint->listener);
}

struct wanted {
	const struct anynet_wire_hello *hello;
	bool found;
};

static void match_send_comm(struct anynet_comm *comm, void *arg)
{
	struct wanted *wanted = arg;

	if (!comm->is_send || comm_error(comm) || comm->paths.comm_id != wanted->hello->comm_id ||
	    !token_equal(comm->paths.token, wanted->hello->token))
		return;
	wanted->found = true;
	/* The peer sees none of its rails: it may have to be told that they are broken. */
	atomic_store(&comm->attention, true);
}

/* The sender must know that its receiver has closed, to give up. */
static int answer_gone(const struct anynet_wire_hello *hello, struct anynet_wire_hello *answer)
{
	hello_fill(answer, &anynet_net.devices[0], NULL, 0);
	hello_answer(answer, hello);
	answer->status = ANYNET_STATUS_GONE;
	return -EALREADY; /* answered; the connection is not needed any more */
}

/* A receiver without rails asks whether its sender still exists. */
static int answer_probe(const struct anynet_wire_hello *hello, struct anynet_wire_hello *answer)
{
	struct wanted wanted = { .hello = hello };

	registry_each(match_send_comm, &wanted);
	answer_gone(hello, answer);
	if (wanted.found || connect_knows(hello->comm_id, hello->token))
		answer->status = ANYNET_STATUS_OK;
	return -EALREADY;
}

/* A sender that tries again has given up what it had begun; another one has no place while the first
 * is connected. */
static bool begins_anew(const struct endpoint *endpoint, const struct anynet_wire_hello *hello)
{
	const struct anynet_rail *rail = endpoint->comm->rails[0];

	if (!rail) /* closed before it stood */
		return true;
	return endpoint->comm_id == hello->comm_id ? (int32_t)(hello->epoch - rail->epoch) > 0
						   : rail->fd < 0;
}

int endpoint_admit(const struct anynet_wire_hello *hello, int fd, const struct auth *auth,
		   struct anynet_wire_hello *answer)
{
	struct endpoint *endpoint;
	int ret;

	if (hello->kind == ANYNET_KIND_PROBE)
		return answer_probe(hello, answer);
	endpoint = endpoint_find(hello->endpoint, hello->token);
	if (hello->kind == ANYNET_KIND_RESUME) {
		if (!endpoint || !endpoint->comm || endpoint->comm_id != hello->comm_id)
			return answer_gone(hello, answer);
		return heal_post(endpoint->comm, fd, hello, auth) ? -ENOENT : -EINPROGRESS;
	}
	if (!endpoint)
		return -ENOENT;
	if (hello->kind == ANYNET_KIND_COMM && endpoint->listener) {
		if (endpoint->comm && begins_anew(endpoint, hello))
			drop_half_built(endpoint->listener);
		ret = endpoint->comm ? -ENOENT : admit_comm(endpoint, hello, fd, answer);
	} else if (hello->kind == ANYNET_KIND_RAIL && endpoint->comm &&
		   endpoint->comm_id == hello->comm_id) {
		ret = admit_rail(endpoint, hello, fd, answer);
	} else {
		ret = -ENOENT; /* a hello replayed */
	}
	if (ret != -ENOENT)
		hello_answer(answer, hello);
	return ret;
}

/* --- listen, accept, close --- */

int anynet_listen(const struct anynet_device *dev, void *handle, struct anynet_listener **out)
{
	const struct anynet_device *set[ANYNET_HANDLE_ADDRS];
	struct anynet_wire_addr addrs[ANYNET_HANDLE_ADDRS];
	struct anynet_listener *listener;
	struct anynet_wire_handle wire;
	struct endpoint *endpoint;
	int count;

	*out = NULL;
	memset(handle, 0, ANYNET_HANDLE_BYTES);
	if (secret_problem()) {
		anynet_warn("listen on dev %s: %s", dev->name, secret_problem());
		return -EACCES;
	}
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	listener->dev = dev;
	pthread_mutex_lock(&engine.lock);
	count = addrs_locked(set, net_stripe(dev, set, ANYNET_HANDLE_ADDRS), addrs);
	endpoint = count > 0 ? endpoint_take(listener) : NULL;
	if (endpoint)
		handle_fill(&wire, listener->endpoint, endpoint->token, addrs, count);
	pthread_mutex_unlock(&engine.lock);
	if (!endpoint) {
		free(listener);
		return count < 0 ? count : -ENOMEM;
	}
	memcpy(handle, &wire, sizeof(wire));
	*out = listener;
	return 0;
}

/* Do all rails stand that are going to? The sender says so on rail 0 when there are several. */
static int rails_ready(struct anynet_listener *listener)
{
	struct anynet_comm *comm = listener->comm;

	if (comm->rail_count == 1 || recv_comm_ready(comm))
		return 0;
	comm_enter(comm);
	comm_attend(comm);
	comm_turn(comm);
	comm_leave(comm);
	if (comm_error(comm) || comm->peer_closed)
		return -ECONNRESET;
	return recv_comm_ready(comm) ? 0 : -EAGAIN;
}

static int accept_locked(struct anynet_listener *listener, struct anynet_comm **out)
{
	uint64_t now = net_now_ms();
	int ret;

	handshake_turn(engine.epfd, now);
	if (!listener->comm)
		return 0;
	ret = rails_ready(listener);
	if (!ret)
		ret = comm_open(listener->comm);
	/* Short of something (descriptors, memory), or of a rail: there is time until the deadline. */
	if (ret && ret != -ECONNRESET && now < listener->deadline_ms)
		return 0;
	if (ret) {
		drop_half_built(listener);
		return ret == -ECONNRESET ? 0 : ret == -EAGAIN ? -ETIMEDOUT : ret;
	}
	*out = listener->comm;
	listener->comm = NULL;
	engine.endpoints[listener->endpoint].listener = NULL;
	return 0;
}

int anynet_accept(struct anynet_listener *listener, struct anynet_comm **out)
{
	int ret;

	*out = NULL;
	if (!listener)
		return -EINVAL;
	pthread_mutex_lock(&engine.lock);
	ret = accept_locked(listener, out);
	pthread_mutex_unlock(&engine.lock);
	if (ret)
		anynet_warn("accept on dev %s: the connection did not stand within %d ms: %s",
			    listener->dev->name, anynet_net.cfg->connect_timeout_ms,
			    strerror(-ret));
	if (*out) {
		struct anynet_comm *comm = *out;

		comm_look_after(comm);
		hello_warn_nccl(&comm->peer);
		anynet_chat("receive from peer %s pid %u dev %s: %u rail%s on dev %s, first %s",
			    comm->peer.host, comm->peer.pid, comm->peer.device, comm->rail_count,
			    comm->rail_count > 1 ? "s" : "", comm->dev->name,
			    comm_first_path(comm));
	}
	return ret;
}

void anynet_close_listener(struct anynet_listener *listener)
{
	struct endpoint *endpoint;

	if (!listener)
		return;
	pthread_mutex_lock(&engine.lock);
	endpoint = &engine.endpoints[listener->endpoint];
	if (listener->comm)
		drop_half_built(listener);
	/* After a comm has come out of it the endpoint is the comm's. */
	if (endpoint->listener == listener)
		endpoint_release(listener->endpoint);
	engine.listeners--;
	pthread_mutex_unlock(&engine.lock);
	free(listener);
}

void listen_forget(struct anynet_comm *comm)
{
	pthread_mutex_lock(&engine.lock);
	endpoint_release(comm->paths.endpoint);
	pthread_mutex_unlock(&engine.lock);
}
