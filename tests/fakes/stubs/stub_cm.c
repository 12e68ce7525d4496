/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_cm.h. */
#include <endian.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transports/device/rdmacm.h"

#include "stub_cm.h"
#include "stub_internal.h"

#define IDS_MAX    64
#define EVENTS_MAX 32

struct stub_id {
	struct rdma_cm_id id; /* first */
	bool listens;
	enum rdma_cm_event_type next; /* result of its last call … */
	bool waits;                   /* … if there was one */
};

struct stub_event {
	struct rdma_cm_event event; /* first */
	uint8_t *data;              /* private data, of exactly that size */
};

static struct {
	struct rdma_event_channel channel;
	struct stub_id *ids[IDS_MAX]; /* the oldest first */
	unsigned id_count;
	struct stub_event *events[EVENTS_MAX];
	unsigned event_count;
} cm;

uint32_t stub_cm_qpn;
int stub_cm_refuses;

__typeof__(rdmacm_open) __wrap_rdmacm_open;

static int result(void)
{
	errno = stub_cm_refuses;
	return stub_cm_refuses ? -1 : 0;
}

static struct stub_id *of(struct rdma_cm_id *id)
{
	return (struct stub_id *)id;
}

/* --- events --- */

static struct rdma_event_channel *create_event_channel(void)
{
	cm.channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
	must(cm.channel.fd >= 0);
	return &cm.channel;
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
}

static void put_event(const struct rdma_cm_event *event)
{
	struct stub_event *put = stub_make(sizeof(*put));
	uint64_t one = 1;

	put->event = *event;
	put->data = malloc(event->param.conn.private_data_len);
	must(put->data || !event->param.conn.private_data_len);
	if (event->param.conn.private_data_len)
		memcpy(put->data, event->param.conn.private_data,
		       event->param.conn.private_data_len);
	put->event.param.conn.private_data = put->data;
	cm.events[cm.event_count++] = put;
	must(write(cm.channel.fd, &one, sizeof(one)) == sizeof(one));
}

static int ack_cm_event(struct rdma_cm_event *event)
{
	free(((struct stub_event *)event)->data);
	return stub_unmake(event);
}

static struct stub_event *take_event(unsigned index)
{
	struct stub_event *event = cm.events[index];
	uint64_t one;

	must(read(cm.channel.fd, &one, sizeof(one)) == sizeof(one));
	cm.event_count--;
	memmove(&cm.events[index], &cm.events[index + 1],
		(cm.event_count - index) * sizeof(cm.events[0]));
	return event;
}

static int get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	if (!cm.event_count) {
		errno = EAGAIN;
		return -1;
	}
	*event = &take_event(0)->event;
	return 0;
}

static const char *event_str(enum rdma_cm_event_type type)
{
	(void)type;
	return "an event";
}

/* --- ids --- */

static struct rdma_cm_id *make_id(void *context)
{
	struct stub_id *id = stub_make(sizeof(*id));

	must(cm.id_count < IDS_MAX);
	id->id.channel = &cm.channel;
	id->id.context = context;
	cm.ids[cm.id_count++] = id;
	return &id->id;
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		     enum rdma_port_space space)
{
	(void)channel;
	(void)space;
	if (result())
		return -1;
	*id = make_id(context);
	return 0;
}

static int destroy_id(struct rdma_cm_id *id);

/* Unread events of an id are discarded with it, and so are requests to a listener. */
static void forget_events_of(const struct rdma_cm_id *id)
{
	for (unsigned i = cm.event_count; i-- > 0;) {
		struct rdma_cm_event *event = i < cm.event_count ? &cm.events[i]->event : NULL;
		struct rdma_cm_id *asking;

		if (!event || (event->id != id && event->listen_id != id))
			continue;
		asking = event->listen_id == id ? event->id : NULL;
		ack_cm_event(&take_event(i)->event);
		if (asking)
			destroy_id(asking);
	}
}

static int destroy_id(struct rdma_cm_id *id)
{
	unsigned i = 0;

	forget_events_of(id);
	while (cm.ids[i] != of(id))
		must(++i < cm.id_count);
	cm.id_count--;
	memmove(&cm.ids[i], &cm.ids[i + 1], (cm.id_count - i) * sizeof(cm.ids[0]));
	return stub_unmake(id);
}

static int set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t bytes)
{
	(void)id;
	(void)level;
	(void)option;
	(void)value;
	(void)bytes;
	return 0;
}

/* It is on the device's port. */
static void bind_id(struct rdma_cm_id *id)
{
	id->verbs = stub_context();
	id->port_num = 1;
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)addr;
	bind_id(id);
	return result();
}

static int listen_id(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	of(id)->listens = true;
	return result();
}

static __be16 get_src_port(struct rdma_cm_id *id)
{
	(void)id;
	return htobe16(9000);
}

static int ask(struct rdma_cm_id *id, enum rdma_cm_event_type answer)
{
	of(id)->next = answer;
	of(id)->waits = true;
	return result();
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
			int timeout_ms)
{
	(void)from;
	(void)to;
	(void)timeout_ms;
	return ask(id, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	return ask(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int connect_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	must(param->private_data_len && param->private_data);
	return ask(id, RDMA_CM_EVENT_CONNECT_RESPONSE);
}

static int establish(struct rdma_cm_id *id)
{
	of(id)->waits = false;
	return result();
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)param;
	return ask(id, RDMA_CM_EVENT_ESTABLISHED);
}

static int reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	(void)id;
	(void)data;
	(void)bytes;
	return 0;
}

static int init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	*mask = 0;
	attr->path_mtu = IBV_MTU_4096;
	attr->dest_qp_num = stub_cm_qpn;
	return result();
}

int __wrap_rdmacm_open(const char *file, struct rdmacm *rdmacm, char *why, size_t why_bytes)
{
	(void)file;
	(void)why;
	(void)why_bytes;
	*rdmacm = (struct rdmacm){
		.create_event_channel = create_event_channel,
		.destroy_event_channel = destroy_event_channel,
		.get_cm_event = get_cm_event,
		.ack_cm_event = ack_cm_event,
		.event_str = event_str,
		.create_id = create_id,
		.destroy_id = destroy_id,
		.set_option = set_option,
		.bind_addr = bind_addr,
		.listen = listen_id,
		.get_src_port = get_src_port,
		.accept = accept_id,
		.reject = reject,
		.resolve_addr = resolve_addr,
		.resolve_route = resolve_route,
		.connect = connect_id,
		.establish = establish,
		.init_qp_attr = init_qp_attr,
	};
	return 0;
}

/* --- the script's --- */

bool stub_cm_event(enum rdma_cm_event_type type)
{
	for (unsigned i = cm.id_count; i-- > 0;) {
		struct stub_id *id = cm.ids[i];
		struct rdma_cm_event event = { .id = &id->id, .event = type, .status = -ETIMEDOUT };

		if (!id->waits || cm.event_count == EVENTS_MAX)
			continue;
		if (type == RDMA_CM_EVENT_ADDR_RESOLVED) {
			event.event = id->next;
			event.status = 0;
			id->waits = false;
			bind_id(&id->id);
		} else if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			event.event = RDMA_CM_EVENT_REJECTED; /* nobody listens by this id */
		}
		put_event(&event);
		return true;
	}
	return false;
}

bool stub_cm_request(const void *data, uint8_t bytes)
{
	for (unsigned i = cm.id_count; i-- > 0;) {
		struct rdma_cm_event event = {
			.listen_id = &cm.ids[i]->id,
			.event = RDMA_CM_EVENT_CONNECT_REQUEST,
			.param.conn = { .private_data = data, .private_data_len = bytes },
		};

		if (!cm.ids[i]->listens || cm.event_count == EVENTS_MAX ||
		    cm.id_count >= IDS_MAX / 2) /* the rest is for the plugin */
			continue;
		event.id = make_id(cm.ids[i]->id.context);
		bind_id(event.id);
		put_event(&event);
		return true;
	}
	return false;
}
