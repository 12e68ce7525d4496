/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling; see dial.h. */
#include "session/dial.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/socket.h"
#include "path/ib/ib_setup.h"
#include "session/progress.h"
#include "wire/secret.h"

#define JOIN_COMM_MS 5000
#define JOIN_MS      2000
#define PROOF_MS     3000 /* the kernel may have to resolve the peer's Ethernet address first */

bool dial_pair(struct dial *dial, const struct comm_paths *paths, struct anynet_wire_pair pair)
{
	if (pair.from >= paths->own_count || pair.to >= paths->peer_count)
		return false;
	dial->from = paths->own[pair.from]->addr;
	return socket_from_wire(&paths->peer[pair.to], paths->own[pair.from]->ifindex, &dial->to);
}

void dial_close(struct dial *dial)
{
	fd_hang_up(&dial->fd, -1);
	ib_qp_retire(dial->qp);
	dial->qp = NULL;
	free(dial->hello);
	dial->hello = NULL;
	dial->state = DIAL_IDLE;
}

static void fill_hello(struct anynet_wire_hello *hello, const struct comm_paths *paths,
		       enum anynet_hello_kind kind, unsigned stream, uint32_t epoch)
{
	hello_fill(hello, paths->dev, paths->own_addrs, paths->own_count);
	hello->version = paths->version;
	hello->type = ANYNET_HELLO;
	hello->kind = (uint8_t)kind;
	hello->stream = (uint16_t)stream;
	hello->streams = (uint16_t)nic_streams_wanted(paths->dev);
	hello->plan[0].from = (uint8_t)nic_spread(paths->dev);
	hello->epoch = epoch;
	hello->endpoint = paths->endpoint;
	hello->comm_id = paths->comm_id;
	hello->comm_hash = paths->comm_hash;
	memcpy(hello->token, paths->token, sizeof(hello->token));
}

/* --- the queue pair beside the connection --- */

static void offer_qp(struct dial *dial)
{
	struct anynet_wire_hello *hello = dial->hello;
	char why[160] = "ANYNET_CHECKSUM is set";

	if (dial->qp)
		ib_qp_describe(dial->qp, hello);
	if (dial->qp || !dial->dev || dial->dev->transport != ANYNET_TRANSPORT_IB)
		return;
	hello->cm.wanted = !dial->without_cm;
	if (!anynet_net.cfg->checksum)
		dial->qp = ib_qp_offer(dial->dev, &dial->to, dial->traffic_class, hello, why,
				       sizeof(why));
	if (!dial->qp)
		snprintf(hello->reason, sizeof(hello->reason), "%s: %s", anynet_net.host, why);
	else if (dial->without_cm && !hello->reason[0])
		snprintf(hello->reason, sizeof(hello->reason), "%s: it has failed before",
			 anynet_net.host);
}

static void drop_qp(struct dial *dial, const char *why)
{
	if (!dial->quiet)
		hello_say_no_qp(dial->hello, why);
	if (why != dial->hello->reason)
		snprintf(dial->hello->reason, sizeof(dial->hello->reason), "%s", why);
	ib_qp_retire(dial->qp);
	dial->qp = NULL;
	dial->state = DIAL_DONE;
}

/* The queue pair is connected: test it. */
static void begin_proof(struct dial *dial)
{
	int ret = ib_qp_begin_proof(dial->qp);

	if (ret) {
		drop_qp(dial, error_text(-ret));
		return;
	}
	dial->deadline_ms = os_now_ms() + PROOF_MS;
	dial->state = DIAL_PROOF;
}

/* Time for the RDMA CM. When a whole job starts, the subnet manager may be slow to resolve paths. Streams other than
 * stream 0 have EXTRA_STREAM_MS in all (connect.c). */
static unsigned join_ms(enum anynet_hello_kind kind)
{
	return kind == ANYNET_KIND_COMM ? JOIN_COMM_MS : JOIN_MS;
}

/* The WELCOME has come: connect to the peer's end of the queue pair. */
static void begin_join(struct dial *dial)
{
	const struct anynet_wire_hello *welcome = dial->hello;
	int ret;

	if (welcome->status)
		return;
	if (!dial->qp || !welcome->qp.kind) {
		if (dial->qp || welcome->reason[0])
			drop_qp(dial, welcome->reason);
		return;
	}
	if (dial->kind == ANYNET_KIND_RESUME)
		return; /* proven before, and the peer still has its end */
	ret = ib_qp_join(dial->qp, welcome);
	if (ret == -EINPROGRESS) {
		dial->deadline_ms = os_now_ms() + join_ms(dial->kind);
		dial->state = DIAL_JOIN;
	} else if (ret) {
		drop_qp(dial, error_text(-ret));
	} else {
		if (welcome->reason[0] && dial->kind == ANYNET_KIND_COMM)
			hello_say_no_cm(welcome, welcome->reason);
		begin_proof(dial);
	}
}

/* The RDMA CM has failed. A PING over TCP asks the peer to connect without it, and the peer answers with the same PING
 * when its end is ready. */
static int begin_agreeing(struct dial *dial)
{
	dial->frame =
		(struct anynet_wire_frame){ .type = ANYNET_FRAME_PING, .seq = ANYNET_PING_JOIN };
	/* Nothing else is queued in the new socket, so the frame fits. */
	if (send(dial->fd, &dial->frame, sizeof(dial->frame), MSG_DONTWAIT | MSG_NOSIGNAL) !=
	    sizeof(dial->frame))
		return -ECONNABORTED;
	dial->done = 0;
	dial->deadline_ms = os_now_ms() + PROOF_MS;
	dial->state = DIAL_AGREE;
	return 0;
}

static int agree(struct dial *dial)
{
	int ret = socket_recv_some(dial->fd, &dial->frame, sizeof(dial->frame), &dial->done);

	if (ret == -EAGAIN) {
		if (os_now_ms() < dial->deadline_ms)
			return ret;
		if (dial->done)
			return -ETIMEDOUT; /* the rest of the PING would be read as a frame */
		drop_qp(dial, "no answer from the peer");
		return 0;
	}
	if (ret)
		return ret;
	if (dial->frame.type != ANYNET_FRAME_PING || dial->frame.seq != ANYNET_PING_JOIN)
		return -EPROTO;
	ret = ib_qp_rejoin(dial->qp);
	if (ret)
		drop_qp(dial, error_text(-ret));
	else
		begin_proof(dial);
	return 0;
}

static int join(struct dial *dial)
{
	char why[112] = "no answer";
	int ret = ib_qp_joined(dial->qp, why, sizeof(why));

	if (ret == -EAGAIN && os_now_ms() < dial->deadline_ms)
		return ret;
	if (ret) {
		hello_say_no_cm(dial->hello, why);
		dial->without_cm = true;
		if (dial->kind != ANYNET_KIND_QP)
			return begin_agreeing(dial);
		/* After a QP hello the peer does not read this connection any more: the next dial does without the CM. */
		drop_qp(dial, why);
		return 0;
	}
	begin_proof(dial);
	return 0;
}

static int prove(struct dial *dial)
{
	int ret = ib_qp_prove(dial->qp);
	char why[112];

	if (ret == -EAGAIN && os_now_ms() < dial->deadline_ms)
		return ret;
	dial->state = DIAL_DONE;
	if (ret) {
		ib_qp_unproven(dial->qp, ret, why, sizeof(why));
		drop_qp(dial, why);
	}
	return 0;
}

/* --- the connection --- */

int dial_start(struct dial *dial, const struct comm_paths *paths, const struct anynet_device *dev,
	       enum anynet_hello_kind kind, unsigned stream, uint32_t epoch)
{
	struct anynet_wire_hello *hello;
	int ret;

	/* A forked child would take the streams of its parent's comm. */
	if (anynet_net.forks != fd_forks())
		return -ECHILD;
	if (secret_problem())
		return -EACCES;
	hello = malloc(sizeof(*hello));
	if (!hello)
		return -ENOMEM;
	dial->kind = kind;
	fill_hello(hello, paths, kind, stream, epoch);
	dial->question = hello_question(hello);
	ret = socket_connect(&dial->from, &dial->to, anynet_net.cfg,
			     nic_with_addr(&dial->to) || socket_same_ip(&dial->from, &dial->to),
			     dial->narrow ? PROGRESS_NARROW_BYTES : 0);
	if (ret < 0) {
		free(hello);
		dial_close(dial);
		return ret == -EAGAIN ? -EADDRNOTAVAIL : ret; /* no local port is free */
	}
	dial->fd = ret;
	dial->hello = hello;
	dial->dev = dev;
	dial->traffic_class = paths->traffic_class;
	dial->state = DIAL_CONNECT;
	return 0;
}

/* A queue pair is made for a peer that can be reached only: recovery may dial for hours. */
static int finish_connect(struct dial *dial)
{
	struct pollfd writable = { .fd = dial->fd, .events = POLLOUT };

	if (!poll(&writable, 1, 0))
		return -EAGAIN;
	if (!(writable.revents & POLLERR)) /* else sending reports it */
		offer_qp(dial);
	dial->done = 0;
	dial->state = DIAL_HELLO;
	return auth_hello(&dial->auth, dial->hello);
}

/* Sends the message in dial->hello, then enters state `next`. */
static int say(struct dial *dial, enum dial_state next)
{
	int ret = socket_send_some(dial->fd, dial->hello, sizeof(*dial->hello), &dial->done);

	if (!ret) {
		dial->state = next;
		dial->done = 0;
	}
	return ret;
}

static int say_hello(struct dial *dial)
{
	return say(dial, secret_known() ? DIAL_CHALLENGE : DIAL_WELCOME);
}

static int say_response(struct dial *dial)
{
	return say(dial, DIAL_WELCOME);
}

static int hear(struct dial *dial)
{
	int ret = socket_recv_some(dial->fd, dial->hello, sizeof(*dial->hello), &dial->done);

	/* a hello of another version may be shorter; the peer closes after it */
	return ret && hello_is_foreign(dial->hello, dial->done) ? 0 : ret;
}

/* Anybody may have sent the answer: replace it by a refusal, and keep only the host name. */
static void refuse_unproven(struct dial *dial)
{
	struct anynet_wire_hello refusal = { .status = ANYNET_STATUS_AUTH };

	snprintf(refusal.host, sizeof(refusal.host), "%s", dial->hello->host);
	snprintf(refusal.reason, sizeof(refusal.reason),
		 "it has not proved that it knows the secret (ANYNET_SECRET_FILE)");
	*dial->hello = refusal;
	dial->state = DIAL_DONE;
}

/* With a secret, only these two answers need no proof: their sender may have no secret. */
static bool needs_proof(const struct anynet_wire_hello *welcome)
{
	return secret_known() && welcome->status != ANYNET_STATUS_VERSION &&
	       welcome->status != ANYNET_STATUS_AUTH;
}

static int judge_welcome(struct dial *dial)
{
	int ret = hello_check_answer(dial->hello, ANYNET_WELCOME, &dial->question);

	if (ret == -EPROTONOSUPPORT) { /* connect.c ends with a warning, recovery tries again */
		*dial->hello = (struct anynet_wire_hello){ .status = ANYNET_STATUS_VERSION };
		ret = 0;
	}
	if (ret)
		return ret;
	if (needs_proof(dial->hello))
		ret = auth_check(&dial->auth, dial->hello);
	if (ret == -EIO)
		return ret;
	if (ret)
		refuse_unproven(dial);
	dial->state = DIAL_DONE;
	begin_join(dial);
	return 0;
}

static int take_welcome(struct dial *dial)
{
	int ret = hear(dial);

	return ret ? ret : judge_welcome(dial);
}

static int take_challenge(struct dial *dial)
{
	int ret = hear(dial);

	if (ret)
		return ret;
	if (dial->hello->type == ANYNET_WELCOME)
		return judge_welcome(dial); /* refused, or without a challenge: judge_welcome checks */
	ret = hello_check_answer(dial->hello, ANYNET_CHALLENGE, &dial->question);
	if (ret)
		return ret;
	ret = auth_check(&dial->auth, dial->hello);
	if (ret == -EIO)
		return ret;
	if (ret) {
		refuse_unproven(dial);
		return 0;
	}
	dial->done = 0;
	dial->state = DIAL_RESPONSE;
	return auth_response(&dial->auth, dial->hello, dial->hello);
}

int dial_step(struct dial *dial)
{
	static int (*const steps[])(struct dial *) = {
		[DIAL_CONNECT] = finish_connect,
		[DIAL_HELLO] = say_hello,
		[DIAL_CHALLENGE] = take_challenge,
		[DIAL_RESPONSE] = say_response,
		[DIAL_WELCOME] = take_welcome,
		[DIAL_AGREE] = agree,
		[DIAL_JOIN] = join,
		[DIAL_PROOF] = prove,
	};
	int ret = 0;

	while (!ret && dial->state != DIAL_DONE)
		ret = steps[dial->state](dial);
	return ret;
}
