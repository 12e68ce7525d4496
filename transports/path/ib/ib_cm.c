/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs connected by the RDMA CM; see ib_cm.h. */
#include "path/ib/ib_cm.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/net.h"
#include "base/os.h"
#include "base/socket.h"
#include "path/ib/ib_cm_open.h"
#include "wire/hello.h"

#define RESOLVE_MS      2000 /* for the address, and again for the path; dial.c limits the sum */
#define AGAIN_MS        500  /* a lost request is repeated; the kernel would wait 4 s */
#define BACKLOG         8    /* the peer's request, and unauthenticated ones */
#define EVENTS_PER_TURN 64

enum ib_cm_state {
	IB_CM_WAITS,    /* for the peer; an acceptor stays in this state */
	IB_CM_ANSWERED, /* connector: the peer has accepted, the queue pair is still in INIT */
	IB_CM_FAILED,   /* connector: see `why` */
};

/* The RDMA CM's state of a queue pair, and the context of its ids, which are destroyed first. */
struct ib_cm {
	pthread_mutex_t lock; /* guards what event handlers change; held while they run */
	struct ib_qp *qp;
	struct rdma_cm_id *id;       /* acceptor: NULL until the peer has connected */
	struct rdma_cm_id *listener; /* acceptor */
	bool gone;                   /* handlers must not touch the queue pair any more */
	struct sockaddr_storage to;  /* connector */
	_Atomic uint64_t asked_ms;   /* connector: time of its request; 0 = not sent yet */
	uint8_t nonce[ANYNET_CM_NONCE_BYTES];
	_Atomic enum ib_cm_state state;
	char why[IB_CM_WHY_BYTES];
};

static struct {
	pthread_once_t once;
	pthread_mutex_t lock; /* held while events are read */
	struct rdmacm lib;
	struct rdma_event_channel *channel; /* NULL = not available, see `why` */
	char why[IB_CM_WHY_BYTES];
} cm = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static void open_once(void)
{
	pthread_mutex_lock(&cm.lock);
	cm.channel = ib_cm_open(&cm.lib, ib_cm_read, cm.why, sizeof(cm.why));
	pthread_mutex_unlock(&cm.lock);
	if (!cm.channel)
		anynet_warn("ANYNET_IB_CM: the RDMA CM cannot be used; queue pairs are connected "
			    "without it: %s",
			    cm.why);
}

bool ib_cm_is_wanted(char *why, size_t why_bytes)
{
	*why = '\0';
	if (!anynet_net.cfg->ib_cm)
		return false;
	pthread_once(&cm.once, open_once);
	if (!cm.channel)
		snprintf(why, why_bytes, "%s", cm.why);
	return cm.channel;
}

/* --- both ends --- */

ANYNET_PRINTF(2, 3) static void fail(struct ib_cm *end, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(end->why, sizeof(end->why), fmt, args);
	va_end(args);
	atomic_store(&end->state, IB_CM_FAILED);
}

static struct ib_cm *end_new(struct ib_qp *qp)
{
	struct ib_cm *end = calloc(1, sizeof(*end));

	if (!end)
		return NULL;
	pthread_mutex_init(&end->lock, NULL);
	end->qp = qp;
	qp->cm = end;
	return end;
}

/* The IP address by which the RDMA CM finds the queue pair's port. */
static void own_addr(const struct ib_qp *qp, struct sockaddr_storage *addr)
{
	if (qp->port.attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		*addr = qp->nic->dev->addr;
	else
		gid_addr(&qp->port.gid, addr);
}

/* Does the id's address belong to the device and port of the queue pair? */
static bool is_on_port(const struct rdma_cm_id *id, const struct ib_qp *qp)
{
	const struct ib_nic *nic = qp->nic;

	return id->verbs && id->port_num == nic->port &&
	       !strcmp(nic->verbs->get_device_name(id->verbs->device), nic->verbs_name);
}

static struct rdma_conn_param own_side(const struct ib_cm *end)
{
	return (struct rdma_conn_param){
		.private_data = end->nonce,
		.private_data_len = sizeof(end->nonce),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = (uint8_t)anynet_net.cfg->ib_retry_cnt,
		.rnr_retry_count = IB_RNR_FOR_EVER,
		.qp_num = end->qp->ibv->qp_num,
	};
}

/* The path that the RDMA CM has found, with the negotiated service level and traffic class. On InfiniBand, service
 * level 0 counts as unset: the level chosen by the subnet manager is used. */
static int read_path(struct rdma_cm_id *id, const struct ib_qp *qp, struct ib_path *path)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT }, rtr = { .qp_state = IBV_QPS_RTR },
			   rts = { .qp_state = IBV_QPS_RTS };
	int mask;

	if (cm.lib.init_qp_attr(id, &init, &mask) || cm.lib.init_qp_attr(id, &rtr, &mask) ||
	    cm.lib.init_qp_attr(id, &rts, &mask))
		return errno ? -errno : -EIO;
	*path = (struct ib_path){
		.ah = rtr.ah_attr,
		.mtu = (enum ibv_mtu)anynet_min(rtr.path_mtu,
						anynet_min(qp->port.attr.active_mtu, qp->peer.mtu)),
		.qpn = rtr.dest_qp_num,
		.send_psn = rts.sq_psn,
		.recv_psn = rtr.rq_psn,
		.pkey_index = init.pkey_index,
	};
	if (qp->service.sl || qp->port.attr.link_layer != IBV_LINK_LAYER_INFINIBAND)
		path->ah.sl = qp->service.sl;
	path->ah.grh.traffic_class = qp->service.tc;
	return path->qpn == qp->peer.qpn ? 0 : -EPROTO;
}

/* Moves the queue pair to RTS, over the path that the RDMA CM has found. 0 or -errno. */
static int connect_qp(struct rdma_cm_id *id, struct ib_qp *qp)
{
	struct ib_path path;
	int ret = read_path(id, qp, &path);

	return ret ? ret : ib_qp_to_rts(qp, &path);
}

static int last_error(int ret)
{
	return !ret ? 0 : errno ? -errno : -EIO;
}

/* --- the acceptor --- */

static int listen_at(struct ib_cm *end, struct sockaddr_storage *addr)
{
	const struct rdmacm *lib = &cm.lib;
	int ret = last_error(lib->create_id(cm.channel, &end->listener, end, RDMA_PS_TCP));

	if (!ret)
		ret = last_error(lib->bind_addr(end->listener, (struct sockaddr *)addr));
	if (!ret && !is_on_port(end->listener, end->qp))
		return -EXDEV;
	return ret ? ret : last_error(lib->listen(end->listener, BACKLOG));
}

int ib_cm_listen(struct ib_qp *qp, struct anynet_wire_cm *wire, char *why, size_t why_bytes)
{
	struct ib_cm *end = end_new(qp);
	char text[SOCKET_TEXT_BYTES];
	struct sockaddr_storage addr;
	int ret;

	if (!end) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	own_addr(qp, &addr);
	ret = os_random(end->nonce, sizeof(end->nonce));
	if (!ret)
		ret = listen_at(end, &addr);
	if (ret) {
		snprintf(why, why_bytes, "cannot listen at %s: %s", socket_text(&addr, text),
			 ret == -EXDEV ? "the address belongs to another port" : error_text(-ret));
		ib_cm_free(qp);
		return ret;
	}
	memcpy(wire->nonce, end->nonce, sizeof(wire->nonce));
	socket_to_wire(&addr, be16toh(cm.lib.get_src_port(end->listener)), 0, &wire->addr);
	socket_from_wire(&wire->addr, 0, &addr);
	anynet_chat("dev %s: queue pair 0x%x waits for the RDMA CM at %s", qp->nic->dev->name,
		    qp->ibv->qp_num, socket_text(&addr, text));
	return 0;
}

static int answer(struct ib_cm *end, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = own_side(end);
	int ret = is_on_port(id, end->qp) ? connect_qp(id, end->qp) : -EXDEV;

	return ret ? ret : last_error(cm.lib.accept(id, &param));
}

/* Requests without the nonce are normal on an open port: they are rejected without a log line. */
static void take_request(struct ib_cm *end, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *peer = &event->param.conn;
	bool expected = !end->gone && !end->id && peer->private_data_len >= sizeof(end->nonce) &&
			constant_time_equal(peer->private_data, end->nonce, sizeof(end->nonce));
	int ret = expected ? answer(end, event->id) : -EACCES;

	if (!ret) {
		end->id = event->id;
		return;
	}
	if (expected)
		anynet_info("dev %s: the RDMA CM cannot connect a queue pair: %s; the request is rejected",
			    end->qp->nic->dev->name, error_text(-ret));
	cm.lib.reject(event->id, NULL, 0);
	cm.lib.destroy_id(event->id);
}

/* --- the connector --- */

static int begin(struct ib_cm *end)
{
	const struct rdmacm *lib = &cm.lib;
	int ret = last_error(lib->create_id(cm.channel, &end->id, end, RDMA_PS_TCP));
	struct sockaddr_storage from;

	if (ret)
		return ret;
	own_addr(end->qp, &from);
	if (end->qp->service.tc) /* the choice of the path may depend on it */
		lib->set_option(end->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &end->qp->service.tc,
				sizeof(end->qp->service.tc));
	atomic_store(&end->asked_ms, 0);
	return last_error(lib->resolve_addr(end->id, (struct sockaddr *)&from,
					    (struct sockaddr *)&end->to, RESOLVE_MS));
}

int ib_cm_connect(struct ib_qp *qp, const struct anynet_wire_cm *wire)
{
	struct ib_cm *end = end_new(qp);
	int ret = -EPROTO;

	if (!end)
		return -ENOMEM;
	memcpy(end->nonce, wire->nonce, sizeof(end->nonce));
	pthread_mutex_lock(&end->lock);
	if (socket_from_wire(&wire->addr, qp->port.gid.ifindex, &end->to))
		ret = begin(end);
	if (ret)
		fail(end, "cannot start: %s", error_text(-ret));
	pthread_mutex_unlock(&end->lock);
	return 0;
}

/* Repeats the request, with a new id. If the peer has accepted the previous one and only its answer was lost, it
 * rejects this one, and the CM has failed. The lock is not held in destroy_id, which waits for event handlers. */
static void begin_again(struct ib_cm *end)
{
	struct rdma_cm_id *old = NULL;
	int ret;

	pthread_mutex_lock(&end->lock);
	/* Else another thread has just read the answer. */
	if (atomic_load(&end->state) == IB_CM_WAITS) {
		old = end->id;
		end->id = NULL;
	}
	pthread_mutex_unlock(&end->lock);
	if (!old)
		return;
	cm.lib.destroy_id(old);
	pthread_mutex_lock(&end->lock);
	ret = begin(end);
	if (ret)
		fail(end, "cannot restart: %s", error_text(-ret));
	pthread_mutex_unlock(&end->lock);
}

static void addr_resolved(struct ib_cm *end)
{
	if (!is_on_port(end->id, end->qp))
		fail(end, "the route to the peer uses another port than %s:%u",
		     end->qp->nic->verbs_name, end->qp->nic->port);
	else if (cm.lib.resolve_route(end->id, RESOLVE_MS))
		fail(end, "no route: %s", error_text(errno));
}

static void route_resolved(struct ib_cm *end)
{
	struct rdma_conn_param param = own_side(end);

	atomic_store(&end->asked_ms, os_now_ms());
	if (cm.lib.connect(end->id, &param))
		fail(end, "cannot connect: %s", error_text(errno));
}

static int finish(struct ib_cm *end)
{
	int ret = connect_qp(end->id, end->qp);

	if (!ret)
		ret = last_error(cm.lib.establish(end->id));
	if (ret) {
		fail(end, "cannot set the state of the queue pair: %s", error_text(-ret));
		return ret;
	}
	anynet_chat("dev %s: queue pair 0x%x connected by the RDMA CM to 0x%x",
		    end->qp->nic->dev->name, end->qp->ibv->qp_num, end->qp->peer.qpn);
	return 0;
}

int ib_cm_step(struct ib_qp *qp, char *why, size_t why_bytes)
{
	struct ib_cm *end = qp->cm;

	ib_cm_read(false);
	if (atomic_load(&end->state) == IB_CM_WAITS) {
		uint64_t asked_ms = atomic_load(&end->asked_ms);

		if (asked_ms && os_now_ms() - asked_ms >= AGAIN_MS)
			begin_again(end);
		return -EAGAIN;
	}
	if (atomic_load(&end->state) == IB_CM_ANSWERED && !finish(end))
		return 0;
	snprintf(why, why_bytes, "%s", end->why);
	return -ECONNABORTED;
}

/* --- events --- */

/* Handles an event of an id, with end->lock held. True: the queue pair has failed. */
static bool take_of_qp(struct ib_cm *end, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		addr_resolved(end);
		return false;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route_resolved(end);
		return false;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		atomic_store(&end->state, IB_CM_ANSWERED);
		return false;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		atomic_store(&end->qp->fault.failed, true);
		return true;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DISCONNECTED: /* the peer's RESUME, or the end of TCP, is decisive */
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return false;
	default: /* the CM has failed: the connector handles that for both ends */
		if (end->qp->is_send && atomic_load(&end->state) == IB_CM_WAITS)
			fail(end, "%s, status %d", cm.lib.event_str(event->event), event->status);
		return false;
	}
}

static bool take(const struct rdma_cm_event *event)
{
	bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST, broken = false;
	struct ib_cm *end = (is_request ? event->listen_id : event->id)->context;

	pthread_mutex_lock(&end->lock);
	if (is_request)
		take_request(end, event);
	else if (!end->gone && (event->id == end->id || event->id == end->listener))
		broken = take_of_qp(end, event);
	pthread_mutex_unlock(&end->lock);
	return broken;
}

bool ib_cm_read(bool wait)
{
	struct rdma_cm_event *event;
	bool broken = false;

	if (wait)
		pthread_mutex_lock(&cm.lock);
	else if (pthread_mutex_trylock(&cm.lock))
		return false;
	for (int i = 0; i < EVENTS_PER_TURN && !cm.lib.get_cm_event(cm.channel, &event); i++) {
		broken |= take(event);
		cm.lib.ack_cm_event(event); /* after this, its id and `end` may be freed */
	}
	pthread_mutex_unlock(&cm.lock);
	return broken;
}

/* --- the end --- */

void ib_cm_quit(struct ib_qp *qp)
{
	if (!qp->cm)
		return;
	pthread_mutex_lock(&qp->cm->lock);
	qp->cm->gone = true;
	pthread_mutex_unlock(&qp->cm->lock);
}

void ib_cm_free(struct ib_qp *qp)
{
	struct ib_cm *end = qp->cm;

	if (!end)
		return;
	ib_cm_quit(qp);
	/* Without the lock: destroy_id waits for threads that handle events of the id. */
	if (end->id)
		cm.lib.destroy_id(end->id);
	if (end->listener)
		cm.lib.destroy_id(end->listener);
	pthread_mutex_destroy(&end->lock);
	free(end);
	qp->cm = NULL;
}
