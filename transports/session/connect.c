/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's connect, in steps that never block: dial, hello and WELCOME for stream 0, then for the other streams in
 * parallel, then READY. NCCL calls again with the same handle buffer (net-api.md §3.3). The handle's field `local` has
 * a token of the table of connects in progress, never a pointer, so a damaged handle does no harm. Pauses
 * are timestamps, within one deadline.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "base/socket.h"
#include "session/connect.h"
#include "session/connect_table.h"
#include "session/listen.h"
#include "session/pairs.h"
#include "session/registry.h"
#include "wire/secret.h"

#define PAUSE_MIN_MS   10
#define PAUSE_MAX_MS   1000
#define SILENT_MS       3000 /* without a sign of life from the peer's host: next address */
#define EXTRA_STREAM_MS 5000 /* further streams not established by then are left out */

static void op_free(struct connect_op *op, bool handed_over)
{
	dial_close(&op->first);
	for (int i = 1; op->extra && i < op->welcome.streams; i++)
		dial_close(&op->extra[i]);
	free(op->extra);
	if (!handed_over)
		listen_drop();
	if (op->comm)
		comm_destroy(op->comm);
	free(op);
}

void connect_trim(const void *owner)
{
	uint64_t now = os_now_ms();
	struct connect_op *op;

	while ((op = connect_table_take_abandoned(owner, now)))
		op_free(op, false);
}

/* --- stream 0: from each NIC to each of the handle's addresses in turn, with growing pauses --- */

/* Every second dial is over the first pair, the others over all other pairs in turn. */
static int start_first(struct connect_op *op)
{
	unsigned number = op->tries++, count;
	struct anynet_wire_pair pairs[PAIRS_MAX];

	count = pairs_to_connect(&op->paths, pairs);
	if (!count)
		return -EADDRNOTAVAIL;
	op->pair = pairs[number % 2 && count > 1 ? 1 + number / 2 % (count - 1) : 0];
	if (!dial_pair(&op->first, &op->paths, op->pair))
		return -EADDRNOTAVAIL;
	return dial_start(&op->first, &op->paths, op->paths.own[0], ANYNET_KIND_COMM, 0, number);
}

/* Reports the error of the first pair, or that the peer lacks something: other pairs may lead nowhere. */
static void note_failure(struct connect_op *op, int err)
{
	bool was_first = op->tries % 2;

	if (err == -EBUSY || (was_first && op->last_err != -EBUSY)) {
		op->last_err = err;
		socket_text(&op->first.to, op->last_addr);
	}
	dial_close(&op->first);
	if (was_first)
		return;
	op->next_try_ms = os_now_ms() + op->pause_ms;
	op->pause_ms = anynet_min(op->pause_ms * 2, PAUSE_MAX_MS);
}

static ANYNET_COLD int refused(const struct connect_op *op)
{
	const struct anynet_wire_hello *welcome = &op->welcome;
	const struct anynet_wire_handle *handle = &op->handle;

	if (welcome->status == ANYNET_STATUS_VERSION) {
		anynet_warn(
			"connect from dev %s to %s: the peer (pid %u) speaks wire versions %u to %u, this process %u "
			"to %u: install the same anynet on every host",
			op->dev->name, op->last_addr, handle->pid, handle->oldest, handle->version,
			wire_oldest(), wire_newest());
		return -EPROTONOSUPPORT;
	}
	anynet_warn("connect from dev %s to %s: peer %s refused: %s", op->dev->name, op->last_addr,
		    welcome->host[0] ? welcome->host : "?", welcome->reason);
	return -ECONNREFUSED;
}

static const char *explain(int err)
{
	switch (err) {
	case -ECONNREFUSED:
		return "; nothing listens there: the peer process has ended, or the address is "
		       "another host's";
	case -ETIMEDOUT:
	case -EINPROGRESS:
		return "; no answer: a firewall, a wrong interface (see NCCL_SOCKET_IFNAME) or a dead host";
	case -ENETUNREACH:
	case -EHOSTUNREACH:
		return "; no route from this interface: see NCCL_SOCKET_IFNAME, or "
		       "NCCL_SOCKET_FAMILY if one of the two hosts has no IPv4";
	case -ECONNRESET:
	case -ENODATA:
		return "; the peer process closed it: see its log";
	default:
		return "";
	}
}

static ANYNET_COLD int timed_out(struct connect_op *op)
{
	int err = op->last_err;

	if (err == -EBUSY)
		return refused(op);
	if (!err) {
		err = -EINPROGRESS;
		socket_text(&op->first.to, op->last_addr);
	}
	anynet_warn("connect from dev %s to %s: not connected within %d ms: %s%s", op->dev->name,
		    op->last_addr, anynet_net.cfg->connect_timeout_ms,
		    err == -EINPROGRESS ? "no answer" : socket_error(err), explain(err));
	return err == -EINPROGRESS ? -ETIMEDOUT : err == -ENODATA ? -ECONNRESET : err;
}

static int try_again(struct connect_op *op, uint64_t now)
{
	return now < op->deadline_ms ? -EAGAIN : timed_out(op);
}

/* The peer's kernel has accepted the connection, but its process does not answer. This has no deadline, because NCCL
 * would wait forever, too. Warns after ANYNET_STALL_WARN, then at growing intervals. */
static void wait_for_answer(struct connect_op *op, uint64_t now)
{
	uint64_t patience = (uint64_t)anynet_net.cfg->stall_warn_ms;
	char to[SOCKET_TEXT_BYTES], seconds[SECONDS_TEXT_BYTES];

	if (!op->stood_ms)
		op->stood_ms = op->told_ms = now;
	/* After the WELCOME a queue pair is being made, which has its own limits. */
	if (!patience || op->first.state > DIAL_WELCOME ||
	    now - op->told_ms < anynet_max(patience, op->told_ms - op->stood_ms))
		return;
	op->told_ms = now;
	anynet_warn(
		"connect from dev %s to %s: connected, but no answer for %s s: the peer process "
		"is stopped, or does not run anynet; still waiting",
		op->dev->name, socket_text(&op->first.to, to),
		seconds_text(now - op->stood_ms, 0, seconds));
}

/* The time spent waiting for an answer does not count towards ANYNET_CONNECT_TIMEOUT. */
static void wait_is_over(struct connect_op *op, uint64_t now)
{
	if (op->stood_ms)
		op->deadline_ms += now - op->stood_ms;
	op->stood_ms = 0;
}

/* The peer's kernel acknowledges a hello even if its process is late. A host that acknowledges nothing for SILENT_MS is
 * given up for the next address or another try: the kernel would retransmit at growing intervals, and to this address
 * only. */
static int dial_first(struct connect_op *op, uint64_t now)
{
	enum dial_state before = op->first.state;
	int ret = dial_step(&op->first);

	if (op->first.state != before || (before > DIAL_HELLO && socket_unsent(op->first.fd) <= 0))
		op->heard_ms = now;
	return ret == -EAGAIN && now - op->heard_ms >= SILENT_MS ? -ETIMEDOUT : ret;
}

static int step_first(struct connect_op *op, uint64_t now)
{
	int ret = 0;

	if (op->first.state == DIAL_IDLE) {
		if (now < op->next_try_ms)
			return try_again(op, now);
		ret = start_first(op);
		op->heard_ms = now;
	}
	if (!ret)
		ret = dial_first(op, now);
	if (ret == -EAGAIN && op->first.state > DIAL_HELLO) {
		wait_for_answer(op, now);
		return ret;
	}
	wait_is_over(op, now);
	if (!ret) {
		op->welcome = *op->first.hello;
		socket_text(&op->first.to, op->last_addr);
		if (op->welcome.status != ANYNET_STATUS_BUSY)
			return op->welcome.status ? refused(op) : 0;
		ret = -EBUSY;
	}
	if (ret != -EAGAIN)
		note_failure(op, ret);
	return try_again(op, now);
}

/* --- the comm and its further streams --- */

static ANYNET_COLD int no_qp(const struct connect_op *op)
{
	anynet_warn("connect from dev %s to %s: peer %s pid %u: no queue pair can be created, "
		    "and ANYNET_TRANSPORT=ib requires one: %s",
		    op->dev->name, op->last_addr, op->welcome.host, op->welcome.pid,
		    op->welcome.reason[0] ? op->welcome.reason : "see its log");
	return -ECONNREFUSED;
}

static ANYNET_COLD int not_made(const struct connect_op *op, int err)
{
	anynet_warn("connect from dev %s to %s: this side cannot set up the connection: %s",
		    op->dev->name, op->last_addr, error_text(-err));
	return err;
}

/* Between IB devices the acceptor's plan leaves the choice of the connector's ports to the connector. */
static void complete_plan(struct connect_op *op)
{
	struct anynet_wire_hello *welcome = &op->welcome;

	if (op->dev->transport == ANYNET_TRANSPORT_IB &&
	    welcome->transports & 1u << ANYNET_TRANSPORT_IB)
		stream_plan_own_ports(anynet_members(op->dev), welcome->plan, welcome->streams);
}

/* The pair over which stream 0 is connected; `planned` if it has a queue pair, or the peer does not name the address. */
static struct anynet_wire_pair first_pair(const struct connect_op *op,
					  struct anynet_wire_pair planned)
{
	struct sockaddr_storage addr;

	for (uint8_t i = 0; !op->first.qp && i < op->paths.peer_count; i++)
		if (socket_from_wire(&op->paths.peer[i], 0, &addr) &&
		    socket_same_ip(&addr, &op->first.to))
			return (struct anynet_wire_pair){ op->pair.from, i };
	return planned;
}

static int make_comm(struct connect_op *op)
{
	const struct anynet_wire_hello *welcome = &op->welcome;
	struct anynet_wire_pair planned;
	int ret;

	if (!op->first.qp && nic_needs_qp(op->dev))
		return no_qp(op);
	op->comm = send_comm_create(op->dev, welcome->streams);
	if (!op->comm)
		return not_made(op, -ENOMEM);
	complete_plan(op);
	planned = welcome->plan[0];
	op->comm->spread = stream_plan_spreads(welcome->plan, welcome->streams);
	op->paths.peer_count = (uint8_t)hello_addr_count(welcome);
	memcpy(op->paths.peer, welcome->addrs, sizeof(op->paths.peer));
	op->comm->session->paths = op->paths;
	if (planned.from >= op->paths.own_count) /* the index is the peer's, so check it */
		planned.from = 0;
	op->comm->checksum |= welcome->features & ANYNET_FEATURE_CHECKSUM;
	op->comm->tcp.only = !hello_may_use_qps(welcome);
	hello_peer(welcome, &op->comm->peer);
	snprintf(op->comm->peer.addr, sizeof(op->comm->peer.addr), "%s", op->last_addr);
	ret = comm_add_stream(op->comm, op->first.fd, 0, op->tries - 1, first_pair(op, planned),
			      op->first.qp);
	if (ret)
		return not_made(op, ret);
	op->first.fd = -1;
	op->first.qp = NULL;
	dial_close(&op->first);
	if (welcome->streams == 1)
		return 0;
	op->extra = calloc(welcome->streams, sizeof(*op->extra));
	for (int i = 0; op->extra && i < welcome->streams; i++)
		op->extra[i].fd = -1;
	op->extra_deadline_ms = os_now_ms() + EXTRA_STREAM_MS; /* also if the peer was late */
	return op->extra ? 0 : not_made(op, -ENOMEM);
}

static int dial_extra(struct connect_op *op, int stream)
{
	struct anynet_wire_pair pair = op->welcome.plan[stream];
	struct dial *dial = &op->extra[stream];
	int ret = 0;

	if (dial->state == DIAL_IDLE) {
		if (!dial_pair(dial, &op->paths, pair))
			return -EINVAL;
		ret = dial_start(dial, &op->paths,
				 op->comm->tcp.only ? NULL : op->paths.own[pair.from],
				 ANYNET_KIND_STREAM, (unsigned)stream, 0);
	}
	if (!ret)
		ret = dial_step(dial);
	if (ret)
		return ret;
	if (dial->hello->status)
		return -ECONNREFUSED;
	ret = comm_add_stream(op->comm, dial->fd, (uint16_t)stream, 0, pair, dial->qp);
	if (ret)
		return ret;
	dial->fd = -1;
	dial->qp = NULL;
	return 0;
}

static int step_extra_stream(struct connect_op *op, int stream, uint64_t now)
{
	struct dial *dial = &op->extra[stream];
	int ret;

	if (dial->state == DIAL_DONE)
		return 0;
	ret = dial_extra(op, stream);
	if (ret == -EAGAIN && now < op->extra_deadline_ms)
		return ret;
	if (ret)
		anynet_info("connect from dev %s to peer %s: path %d of %d from dev %s cannot be "
			    "opened: %s; continuing without it",
			    op->dev->name, op->comm->peer.host, stream, op->welcome.streams,
			    op->welcome.plan[stream].from < op->paths.own_count
				    ? op->paths.own[op->welcome.plan[stream].from]->name
				    : "?",
			    error_text(ret == -EAGAIN ? ETIMEDOUT : -ret));
	dial_close(dial);
	dial->state = DIAL_DONE;
	return 0;
}

static int step_extra(struct connect_op *op, uint64_t now)
{
	int ret = 0;

	for (int i = 1; i < op->welcome.streams; i++)
		if (step_extra_stream(op, i, now))
			ret = -EAGAIN;
	if (ret)
		return ret;
	send_ready(op->comm);
	return 0;
}

static int op_step(struct connect_op *op)
{
	uint64_t now = os_now_ms();
	int ret;

	if (!op->comm) {
		ret = step_first(op, now);
		if (ret)
			return ret;
		ret = make_comm(op);
		if (ret)
			return ret;
	}
	ret = step_extra(op, now);
	if (ret)
		return ret;
	ret = comm_open(op->comm);
	if (ret)
		return not_made(op, ret);
	comm_tell_opened(op->comm);
	/* Sends READY, which tells accept that NCCL gets this comm. */
	return comm_transmit(op->comm);
}

static int op_create(const struct anynet_device *dev, const struct anynet_connect_options *opts,
		     const struct anynet_wire_handle *handle, struct connect_op **out)
{
	struct connect_op *op = calloc(1, sizeof(*op));
	struct comm_paths *paths;
	int ret;

	if (!op)
		return -ENOMEM;
	op->dev = dev;
	op->owner = opts->owner;
	op->handle = *handle;
	op->busy = true;
	op->first.fd = -1;
	op->pause_ms = PAUSE_MIN_MS;
	op->called_ms = os_now_ms();
	op->deadline_ms = op->called_ms + (uint64_t)anynet_net.cfg->connect_timeout_ms;
	paths = &op->paths;
	paths->version = handle_version(handle);
	paths->dev = dev;
	paths->endpoint = handle->endpoint;
	memcpy(paths->token, handle->token, sizeof(paths->token));
	paths->comm_hash = opts->comm_hash;
	paths->traffic_class = opts->traffic_class;
	ret = os_random(&paths->comm_id, sizeof(paths->comm_id));
	if (ret) {
		free(op);
		return ret;
	}
	/* The acceptor plans streams over these NICs and sends its PROBEs to them. */
	paths->own_count = (uint8_t)nic_list(dev, paths->own, ANYNET_HELLO_ADDRS);
	listen_hold(paths->own, paths->own_count, paths->own_addrs);
	memcpy(paths->peer, handle->addrs, sizeof(handle->addrs)); /* until the WELCOME has all */
	paths->peer_count = ANYNET_HANDLE_ADDRS;
	ret = connect_table_add(op);
	if (ret) {
		listen_drop();
		free(op);
		return ret;
	}
	*out = op;
	return 0;
}

int connect_step(const struct anynet_device *dev, const struct anynet_connect_options *opts,
		 void *buffer, struct anynet_comm **out)
{
	struct anynet_wire_handle handle; /* NCCL's buffer need not be aligned */
	struct connect_op *op;
	char why[160];
	int ret;

	*out = NULL;
	if (secret_problem()) {
		anynet_warn("connect from dev %s: %s", dev->name, secret_problem());
		return -EACCES;
	}
	memcpy(&handle, buffer, sizeof(handle));
	ret = handle_check(&handle, why, sizeof(why));
	if (ret) {
		anynet_warn("connect from dev %s: %s", dev->name, why);
		return ret;
	}
	op = connect_table_find(&handle);
	if (!op) {
		ret = op_create(dev, opts, &handle, &op);
		if (ret == -ENOMEM)
			anynet_warn("out of memory: cannot connect from dev %s", dev->name);
		if (ret)
			return ret;
		handle.local[0] = op->token;
		memcpy(buffer, &handle, sizeof(handle));
	}
	ret = op_step(op);
	if (ret == -EAGAIN) {
		connect_table_put(op);
		return 0;
	}
	handle.local[0] = 0;
	memcpy(buffer, &handle, sizeof(handle));
	/* Register the comm before the op leaves the table: a PROBE must find one of the two. */
	if (!ret && (ret = registry_add(op->comm)))
		not_made(op, ret);
	if (!ret) {
		*out = op->comm;
		(*out)->session->listening = true; /* the comm takes over the op's listen_hold */
		op->comm = NULL;
	}
	connect_table_remove(op);
	op_free(op, !ret);
	return ret;
}
