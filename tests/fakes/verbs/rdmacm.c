/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake's connection manager: librdmacm's functions, between ids of one process, for queue pairs that are not its
 * own. Questions to the network are answered at once, by an event. A request to a destination where packets vanish
 * vanishes, too; functions fail by `fault call` with their names.
 */
#include "fake.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REQUEST_DATA   56 /* bytes of private data in every request */
#define FIRST_PORT     40000
#define REJECT_NOBODY  8 /* IB CM: invalid service id, consumer defined */
#define REJECT_BY_PEER 28
#define FIRST_PSN      0x555000

struct fake_cm_channel {
	struct rdma_event_channel channel; /* first */
	struct notice notice;
	STAILQ_HEAD(, fake_cm_event) events;
};

struct fake_id {
	struct rdma_cm_id id; /* first */
	LIST_ENTRY(fake_id) next;
	struct ibv_context context; /* id.verbs: one of its own */
	struct fake_device *device;
	int gid; /* of the address it is bound to */
	bool listens, connected;
	struct fake_id *peer;
	uint32_t qpn, psn;
	uint32_t fetched; /* events that are not acked */
};

struct fake_cm_event {
	struct rdma_cm_event event; /* first */
	STAILQ_ENTRY(fake_cm_event) next;
	struct fake_id *told; /* the id that acks it */
	uint8_t data[REQUEST_DATA];
};

static LIST_HEAD(, fake_id) ids;
static uint32_t next_number;

static struct fake_cm_channel *channel_of(struct rdma_event_channel *channel)
{
	return (struct fake_cm_channel *)(void *)channel;
}

static struct fake_id *id_of(struct rdma_cm_id *id)
{
	return (struct fake_id *)(void *)id;
}

static int call_end(int err)
{
	fake_unlock();
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* --- channels and events --- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fake_cm_channel *channel = calloc(1, sizeof(*channel));

	fake_lock();
	errno = describe() ? EINVAL : fault_call("rdma_create_event_channel", NULL);
	fake_unlock();
	if (!channel || errno) {
		free(channel);
		return NULL;
	}
	STAILQ_INIT(&channel->events);
	channel->notice.fd = channel->channel.fd = eventfd(0, EFD_CLOEXEC);
	return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
}

static struct fake_cm_event *tell(struct fake_id *told, enum rdma_cm_event_type type, int status)
{
	struct fake_cm_channel *channel = channel_of(told->id.channel);
	struct fake_cm_event *event = calloc(1, sizeof(*event));

	if (!event)
		abort();
	event->told = told;
	event->event = (struct rdma_cm_event){ .id = &told->id, .event = type, .status = status };
	STAILQ_INSERT_TAIL(&channel->events, event, next);
	notice_set(&channel->notice, true);
	return event;
}

int rdma_get_cm_event(struct rdma_event_channel *rdma_channel, struct rdma_cm_event **out)
{
	struct fake_cm_channel *channel = channel_of(rdma_channel);
	struct fake_cm_event *event;

	if (notice_await(&channel->notice))
		return -1;
	event = STAILQ_FIRST(&channel->events);
	STAILQ_REMOVE_HEAD(&channel->events, next);
	notice_set(&channel->notice, !STAILQ_EMPTY(&channel->events));
	event->told->fetched++;
	fake_unlock();
	*out = &event->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *rdma_event)
{
	struct fake_cm_event *event = (struct fake_cm_event *)(void *)rdma_event;

	fake_lock();
	event->told->fetched--;
	fake_acked();
	fake_unlock();
	free(event);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	return event == RDMA_CM_EVENT_REJECTED ? "rejected" : "something else";
}

/* --- ids --- */

static struct fake_id *id_new(struct rdma_event_channel *channel, void *context)
{
	struct fake_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = channel;
	id->id.context = context;
	id->psn = FIRST_PSN + ++next_number;
	LIST_INSERT_HEAD(&ids, id, next);
	fake.counts.cm_ids++;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		   enum rdma_port_space space)
{
	struct fake_id *id = NULL;
	int err = call_begin("rdma_create_id", NULL);

	(void)space;
	if (!err) {
		id = id_new(channel, context);
		err = id ? 0 : ENOMEM;
	}
	if (id)
		*out = &id->id;
	return call_end(err);
}

static void destroy(struct fake_id *id);

/* Discards its events; connection requests that it has made in vain are removed with it. */
static void purge(struct fake_id *id)
{
	struct fake_cm_channel *channel = channel_of(id->id.channel);
	struct fake_cm_event *event = STAILQ_FIRST(&channel->events), *next;

	for (; event; event = next) {
		next = STAILQ_NEXT(event, next);
		if (event->told != id)
			continue;
		STAILQ_REMOVE(&channel->events, event, fake_cm_event, next);
		if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			destroy(id_of(event->event.id));
		free(event);
	}
	notice_set(&channel->notice, !STAILQ_EMPTY(&channel->events));
}

static void destroy(struct fake_id *id)
{
	purge(id);
	while (id->fetched)
		fake_wait_acks();
	if (id->peer) {
		id->peer->peer = NULL;
		tell(id->peer, id->connected ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED,
		     0);
	}
	LIST_REMOVE(id, next);
	fake.counts.cm_ids--;
	free(id);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	fake_lock();
	destroy(id_of(id));
	fake_unlock();
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t bytes)
{
	(void)id, (void)level, (void)option, (void)value, (void)bytes;
	return 0;
}

/* --- addresses --- */

static union ibv_gid gid_of(const struct sockaddr *addr)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	if (addr->sa_family == AF_INET6)
		memcpy(gid.raw, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, 16);
	else
		memcpy(gid.raw + 12, &((const struct sockaddr_in *)(const void *)addr)->sin_addr,
		       4);
	return gid;
}

/* The port is at the same offset in both families. */
static in_port_t *port_of(struct sockaddr_storage *addr)
{
	return &((struct sockaddr_in *)(void *)addr)->sin_port;
}

static void keep(struct sockaddr_storage *to, const struct sockaddr *addr)
{
	memcpy(to, addr,
	       addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6));
}

/* The first port with a GID of that address. */
static int bind_id(struct fake_id *id, const struct sockaddr *addr)
{
	union ibv_gid gid = gid_of(addr);

	keep(&id->id.route.addr.src_storage, addr);
	if (!*port_of(&id->id.route.addr.src_storage))
		*port_of(&id->id.route.addr.src_storage) =
			htobe16((uint16_t)(FIRST_PORT + ++next_number));
	for (int d = 0; d < fake.device_count; d++)
		for (int p = 0; p < fake.devices[d].port_count; p++)
			for (int g = 0; g < GID_TABLE; g++) {
				if (memcmp(&fake.devices[d].ports[p].gids[g].gid, &gid,
					   sizeof(gid)))
					continue;
				id->device = &fake.devices[d];
				id->gid = g;
				id->context.device = &id->device->device;
				id->id.verbs = &id->context;
				id->id.port_num = (uint8_t)(p + 1);
				return 0;
			}
	return ENODEV;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int err = call_begin("rdma_bind_addr", NULL);

	if (!err)
		err = bind_id(id_of(id), addr);
	return call_end(err);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	int err = call_begin("rdma_listen", NULL);

	(void)backlog;
	id_of(id)->listens = !err;
	return call_end(err);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return *port_of(&id->route.addr.src_storage);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		      int timeout_ms)
{
	int err = call_begin("rdma_resolve_addr", NULL);

	(void)timeout_ms;
	if (!err) {
		keep(&id->route.addr.dst_storage, to);
		tell(id_of(id),
		     bind_id(id_of(id), from) ? RDMA_CM_EVENT_ADDR_ERROR
					      : RDMA_CM_EVENT_ADDR_RESOLVED,
		     0);
	}
	return call_end(err);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	int err = call_begin("rdma_resolve_route", NULL);

	(void)timeout_ms;
	if (!err)
		tell(id_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return call_end(err);
}

/* --- connections --- */

static struct fake_port *port_of_id(const struct fake_id *id)
{
	return &id->device->ports[id->id.port_num - 1];
}

static struct fake_id *listener_at(struct rdma_cm_id *from)
{
	union ibv_gid gid = gid_of(&from->route.addr.dst_addr);
	struct fake_id *id;

	LIST_FOREACH(id, &ids, next)
	if (id->listens && !memcmp(&port_of_id(id)->gids[id->gid].gid, &gid, sizeof(gid)) &&
	    rdma_get_src_port(&id->id) == *port_of(&from->route.addr.dst_storage))
		return id;
	return NULL;
}

/* Do packets of this id arrive at that address? */
static bool is_lost(const struct fake_id *id, const struct sockaddr *addr)
{
	struct address to = { .gid = gid_of(addr),
			      .gid_type = port_of_id(id)->gids[id->gid].type,
			      .global = true };

	return vanishes(id->device, id->id.port_num, &to);
}

static void request(struct fake_id *from, struct fake_id *listener,
		    const struct rdma_conn_param *param)
{
	struct fake_id *id = id_new(listener->id.channel, listener->id.context);
	struct fake_cm_event *event;

	if (!id)
		abort();
	bind_id(id, &listener->id.route.addr.src_addr);
	id->peer = from;
	from->peer = id;
	event = tell(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	event->event.id = &id->id;
	event->event.listen_id = &listener->id;
	memcpy(event->data, param->private_data, param->private_data_len);
	event->event.param.conn = (struct rdma_conn_param){ .private_data = event->data,
							    .private_data_len = REQUEST_DATA,
							    .qp_num = param->qp_num };
}

int rdma_connect(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param)
{
	struct fake_id *id = id_of(rdma_id), *listener;
	int err;

	fake_lock();
	err = param->private_data_len > REQUEST_DATA ? EINVAL : fault_call("rdma_connect", NULL);
	id->qpn = param->qp_num;
	if (!err && !is_lost(id, &rdma_id->route.addr.dst_addr)) {
		listener = listener_at(rdma_id);
		if (listener)
			request(id, listener, param);
		else
			tell(id, RDMA_CM_EVENT_REJECTED, REJECT_NOBODY);
	}
	return call_end(err);
}

int rdma_accept(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param)
{
	struct fake_id *id = id_of(rdma_id);
	int err;

	fake_lock();
	err = id->peer ? fault_call("rdma_accept", NULL) : ENOTCONN;
	if (!err) {
		id->qpn = param->qp_num;
		id->connected = id->peer->connected = true;
		tell(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	}
	return call_end(err);
}

int rdma_establish(struct rdma_cm_id *rdma_id)
{
	struct fake_id *id = id_of(rdma_id);
	int err;

	fake_lock();
	err = id->peer && id->connected ? fault_call("rdma_establish", NULL) : EINVAL;
	if (!err) {
		tell(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0);
		fake.counts.cm_connections++;
	}
	return call_end(err);
}

int rdma_reject(struct rdma_cm_id *rdma_id, const void *data, uint8_t bytes)
{
	struct fake_id *id = id_of(rdma_id);

	(void)data, (void)bytes;
	fake_lock();
	if (id->peer) {
		tell(id->peer, RDMA_CM_EVENT_REJECTED, REJECT_BY_PEER);
		id->peer->peer = NULL;
		id->peer = NULL;
	}
	fake_unlock();
	return 0;
}

/* Each end sends the other the first PSN that it expects. */
static int fill(const struct fake_id *id, struct ibv_qp_attr *attr)
{
	const struct fake_port *port = port_of_id(id);

	attr->port_num = id->id.port_num;
	if (attr->qp_state == IBV_QPS_INIT)
		return 0;
	if (!id->peer || !id->peer->qpn)
		return EINVAL;
	attr->rq_psn = id->psn;
	attr->sq_psn = id->peer->psn;
	attr->dest_qp_num = id->peer->qpn;
	attr->path_mtu = (enum ibv_mtu)port->mtu;
	attr->ah_attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = id->id.port_num };
	attr->ah_attr.grh.dgid = port_of_id(id->peer)->gids[id->peer->gid].gid;
	attr->ah_attr.grh.sgid_index = (uint8_t)id->gid;
	attr->ah_attr.grh.hop_limit = 64;
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int err = call_begin("rdma_init_qp_attr", NULL);

	if (!err)
		err = fill(id_of(id), attr);
	*mask = IBV_QP_STATE;
	return call_end(err);
}
