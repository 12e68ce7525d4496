/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, which handles name, and which connections they admit; see listen_internal.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/slots.h"
#include "path/ib/ib_setup.h"
#include "session/connect.h"
#include "session/listen_internal.h"
#include "session/listen_sockets.h"
#include "session/pairs.h"
#include "session/recovery.h"
#include "session/registry.h"

struct endpoint {
	uint8_t token[ANYNET_TOKEN_BYTES];
	struct anynet_listener *listener; /* NULL once its comm is accepted */
	struct anynet_comm *comm;         /* NULL until a COMM hello is admitted */
	uint64_t comm_id;
};

static struct slots endpoints; /* the number of an entry is in the handle */

int endpoints_used(void)
{
	return (int)endpoints.used;
}

void endpoints_free(void)
{
	slots_free(&endpoints);
}

int endpoint_take(struct anynet_listener *listener, struct anynet_wire_handle *handle,
		  const struct anynet_wire_addr *addrs, int addr_count)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int ret;

	if (!endpoint)
		return -ENOMEM;
	ret = os_random(endpoint->token, sizeof(endpoint->token));
	if (!ret)
		ret = slots_add(&endpoints, endpoint, &listener->endpoint);
	if (ret) {
		free(endpoint);
		return ret;
	}
	endpoint->listener = listener;
	handle_fill(handle, listener->endpoint, endpoint->token, addrs, addr_count);
	return 0;
}

void endpoint_release(uint32_t number)
{
	free(slots_at(&endpoints, number));
	slots_remove(&endpoints, number);
}

static struct endpoint *find(uint32_t number, const uint8_t token[ANYNET_TOKEN_BYTES])
{
	struct endpoint *endpoint = slots_at(&endpoints, number);

	return endpoint && constant_time_equal(endpoint->token, token, ANYNET_TOKEN_BYTES) ? endpoint : NULL;
}

void endpoint_drop_half_built(struct anynet_listener *listener)
{
	struct endpoint *endpoint = slots_at(&endpoints, listener->endpoint);

	anynet_chat(
		"dev %s peer %s pid %u addr %s: the peer gave up before the connection was "
		"established; still listening",
		listener->dev->name, listener->comm->peer.host, listener->comm->peer.pid,
		listener->comm->peer.addr);
	comm_destroy(listener->comm);
	listener->comm = endpoint->comm = NULL;
}

struct anynet_comm *endpoint_hand_over(struct anynet_listener *listener)
{
	struct endpoint *endpoint = slots_at(&endpoints, listener->endpoint);
	struct anynet_comm *comm = listener->comm;

	listener->comm = NULL;
	endpoint->listener = NULL;
	return comm;
}

void endpoint_close_listener(struct anynet_listener *listener)
{
	const struct endpoint *endpoint;

	if (listener->comm)
		endpoint_drop_half_built(listener);
	/* Once its comm is accepted, the endpoint belongs to the comm, and may be gone. */
	endpoint = slots_at(&endpoints, listener->endpoint);
	if (endpoint && endpoint->listener == listener)
		endpoint_release(listener->endpoint);
}

/* --- who is let in --- */

bool endpoint_expects(const struct anynet_wire_hello *hello)
{
	return find(hello->endpoint, hello->token) != NULL;
}

static int refuse(struct anynet_wire_hello *answer, enum anynet_hello_status status,
		  const char *why)
{
	answer->status = status;
	snprintf(answer->reason, sizeof(answer->reason), "%s", why);
	return -EALREADY;
}

static ANYNET_COLD int refuse_without_qp(const struct anynet_wire_hello *hello,
					 struct anynet_wire_hello *answer)
{
	char why[sizeof(answer->reason)];

	snprintf(why, sizeof(why),
		 "no queue pair can be created, and ANYNET_TRANSPORT=ib requires one: %.140s",
		 answer->reason);
	anynet_warn("connection from %s pid %u refused: %s", hello->host, hello->pid, why);
	return refuse(answer, ANYNET_STATUS_TRANSPORT, why);
}

/* Between two IB devices the plan has their own ports only, because the other devices are standbys. An IB device and a TCP
 * device are joined by pair 0 only. */
static int plan_streams(const struct anynet_device *dev, const struct anynet_wire_hello *hello,
			const struct anynet_wire_addr *addrs,
			struct anynet_wire_pair plan[ANYNET_STREAMS_MAX])
{
	int wanted = (int)anynet_max((size_t)nic_streams_wanted(dev), hello->streams);
	bool ib = dev->transport == ANYNET_TRANSPORT_IB;
	bool to_ib = hello->transports & 1u << ANYNET_TRANSPORT_IB;

	if (ib && to_ib)
		return stream_plan_ports(anynet_members(dev), wanted, plan, ANYNET_STREAMS_MAX);
	return stream_plan((struct nic_addrs){ hello->addrs, to_ib ? 1 : hello_spread(hello) },
			   (struct nic_addrs){ addrs, ib ? 1 : nic_spread(dev) }, wanted, plan,
			   ANYNET_STREAMS_MAX);
}

static void know_paths(struct comm_paths *paths, const struct endpoint *endpoint,
		       const struct anynet_wire_hello *hello,
		       const struct anynet_device *const *set, const struct anynet_wire_addr *addrs,
		       int count)
{
	*paths = (struct comm_paths){
		.version = hello->version,
		.comm_id = hello->comm_id,
		.comm_hash = hello->comm_hash,
		.dev = endpoint->listener->dev,
		.endpoint = endpoint->listener->endpoint,
		.own_count = (uint8_t)count,
		.peer_count = (uint8_t)hello_addr_count(hello),
	};
	memcpy(paths->token, endpoint->token, sizeof(endpoint->token));
	memcpy(paths->own, set, (size_t)count * sizeof(*set));
	memcpy(paths->own_addrs, addrs, (size_t)count * sizeof(*addrs));
	memcpy(paths->peer, hello->addrs, sizeof(hello->addrs));
}

/* COMM hello: creates the comm, with this connection as its stream 0. */
static int admit_comm(struct endpoint *endpoint, const struct anynet_wire_hello *hello, int fd,
		      struct anynet_wire_hello *answer)
{
	struct anynet_listener *listener = endpoint->listener;
	const struct anynet_device *set[ANYNET_HELLO_ADDRS];
	struct anynet_wire_addr addrs[ANYNET_HELLO_ADDRS];
	struct anynet_comm *comm;
	struct ib_qp *qp;
	int count;

	count = nic_list(listener->dev, set, ANYNET_HELLO_ADDRS);
	if (sockets_listen(set, count, false, addrs))
		return refuse(answer, ANYNET_STATUS_BUSY, "cannot listen");
	hello_fill(answer, listener->dev, addrs, count);
	answer->streams = (uint16_t)plan_streams(listener->dev, hello, addrs, answer->plan);
	comm = recv_comm_create(listener->dev, answer->streams, hello->replay_bytes);
	if (!comm)
		return refuse(answer, ANYNET_STATUS_BUSY, "out of memory");
	qp = ib_qp_accept(set[0], hello, answer);
	if (!qp && nic_needs_qp(listener->dev)) {
		comm_destroy(comm);
		return refuse_without_qp(hello, answer);
	}
	if (!qp && answer->reason[0])
		hello_say_no_qp(hello, answer->reason);
	else if (answer->reason[0])
		hello_say_no_cm(hello, answer->reason);
	know_paths(&comm->session->paths, endpoint, hello, set, addrs, count);
	if (comm_add_stream(comm, fd, 0, hello->epoch, comm_pair_at(comm, fd, answer->plan[0]),
			    qp)) {
		ib_qp_retire(qp);
		comm_destroy(comm);
		return refuse(answer, ANYNET_STATUS_BUSY, "out of memory");
	}
	comm->checksum |= hello->features & ANYNET_FEATURE_CHECKSUM;
	comm->tcp.only = !hello_may_use_qps(hello);
	hello_peer(hello, &comm->peer);
	snprintf(comm->peer.addr, sizeof(comm->peer.addr), "%s",
		 strrchr(comm->streams[0]->path.text, ' ') + 1);
	endpoint->comm_id = hello->comm_id;
	endpoint->comm = listener->comm = comm;
	listener->deadline_ms = 0;
	return 0;
}

static int admit_stream(struct endpoint *endpoint, const struct anynet_wire_hello *hello, int fd,
			struct anynet_wire_hello *answer)
{
	struct anynet_comm *comm = endpoint->comm;
	struct ib_qp *qp = NULL;

	hello_fill(answer, comm->dev, NULL, 0);
	if (!endpoint->listener || hello->stream >= comm->stream_count ||
	    comm->streams[hello->stream] || hello->epoch)
		return refuse(answer, ANYNET_STATUS_STALE, "no such path is expected");
	if (hello->qp.kind && !comm->tcp.only)
		qp = ib_qp_accept(comm_device_at(comm, fd), hello, answer);
	if (comm_add_stream(comm, fd, hello->stream, hello->epoch,
			    comm_pair_at(comm, fd, PAIRS_NONE), qp)) {
		ib_qp_retire(qp);
		return refuse(answer, ANYNET_STATUS_BUSY, "out of memory");
	}
	return 0;
}

void endpoint_withdraw(const struct anynet_wire_hello *hello)
{
	struct endpoint *endpoint = slots_at(&endpoints, hello->endpoint);

	if (hello->kind == ANYNET_KIND_COMM)
		endpoint_drop_half_built(endpoint->listener);
	else
		comm_end_stream(endpoint->comm, endpoint->comm->streams[hello->stream]);
}

struct wanted {
	const struct anynet_wire_hello *hello;
	bool found;
};

static void match_send_comm(struct anynet_comm *comm, void *arg)
{
	struct wanted *wanted = arg;

	if (!comm->is_send || comm->session->paths.comm_id != wanted->hello->comm_id ||
	    !constant_time_equal(comm->session->paths.token, wanted->hello->token,
				 ANYNET_TOKEN_BYTES))
		return;
	if (comm_error(comm) || comm->peer_closed)
		return; /* it does not dial any more */
	wanted->found = true;
	/* No stream works at the receiver, and this side may not know that yet. */
	atomic_store(&comm->session->probed, true);
	atomic_store(&comm->attention, true);
}

/* A sender whose receiver has closed must learn that, to give up. The peer need not know a token: the answer reveals
 * nothing else. */
static int answer_gone(const struct anynet_wire_hello *hello, struct anynet_wire_hello *answer)
{
	*answer = (struct anynet_wire_hello){
		.magic = ANYNET_HELLO_MAGIC,
		.bytes = sizeof(*answer),
		.status = ANYNET_STATUS_GONE,
	};
	hello_answer(answer, hello);
	return -EALREADY; /* send the answer, then close */
}

/* PROBE: a receiver without a working stream asks whether its sender still exists. */
static int answer_probe(const struct anynet_wire_hello *hello, struct anynet_wire_hello *answer)
{
	struct wanted wanted = { .hello = hello };
	/* The table of connects first: a comm is registered before its connect leaves that table. */
	bool connects = connect_knows(hello->comm_id, hello->token);

	registry_each(match_send_comm, &wanted);
	answer_gone(hello, answer);
	if (wanted.found || connects)
		answer->status = ANYNET_STATUS_OK;
	return -EALREADY;
}

/* May this COMM hello replace the half-built comm? A later try of the same sender may, because it has given up the
 * earlier one. Another sender may only if stream 0 of the first is broken. */
static bool begins_anew(const struct endpoint *endpoint, const struct anynet_wire_hello *hello)
{
	const struct anynet_stream *stream = endpoint->comm->streams[0];

	if (!stream) /* stream 0 has ended: accept returns the comm if it has READY */
		return !recv_comm_ready(endpoint->comm);
	return endpoint->comm_id == hello->comm_id ? (int32_t)(hello->epoch - stream->epoch) > 0
						   : !stream_stands(stream);
}

int endpoint_admit(const struct anynet_wire_hello *hello, int fd, const struct auth *auth,
		   struct anynet_wire_hello *answer)
{
	struct endpoint *endpoint;
	int ret;

	if (hello->kind == ANYNET_KIND_PROBE)
		return answer_probe(hello, answer);
	endpoint = find(hello->endpoint, hello->token);
	if (hello->kind == ANYNET_KIND_RESUME || hello->kind == ANYNET_KIND_QP) {
		if (!endpoint || !endpoint->comm || endpoint->comm_id != hello->comm_id)
			return answer_gone(hello, answer);
		if (recovery_post(endpoint->comm, fd, hello, auth))
			return -ENOENT;
		comm_poke(endpoint->comm);
		return -EINPROGRESS;
	}
	if (!endpoint)
		return -ENOENT;
	if (hello->kind == ANYNET_KIND_COMM && endpoint->listener) {
		if (endpoint->comm && begins_anew(endpoint, hello))
			endpoint_drop_half_built(endpoint->listener);
		ret = endpoint->comm ? -ENOENT : admit_comm(endpoint, hello, fd, answer);
	} else if (hello->kind == ANYNET_KIND_STREAM && endpoint->comm &&
		   endpoint->comm_id == hello->comm_id) {
		ret = admit_stream(endpoint, hello, fd, answer);
	} else {
		ret = -ENOENT; /* replayed hello */
	}
	if (ret != -ENOENT)
		hello_answer(answer, hello);
	return ret;
}
