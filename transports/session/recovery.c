/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery: the sender's dials, the receiver's PROBEs; see recovery.h. resume.c answers RESUME and QP hellos. */
#include "session/recovery.h"

#include <errno.h>
#include <stdio.h>

#include <nccl_net/log.h>

#include "session/give_up.h"
#include "session/progress.h"
#include "session/redial.h"

#define PROBE_PAUSE_MS 1000
#define EPOCH_STEP     16 /* added to an epoch that was STALE */

void recovery_stream(struct anynet_comm *comm, struct anynet_stream *stream, bool elsewhere)
{
	struct recovery *recovery = recovery_get(comm);
	struct redial *redial;

	atomic_store(&comm->attention, true);
	if (!recovery || !comm->is_send)
		return; /* no memory: watch_comm calls this again */
	redial = &recovery->redials[stream->index];
	if (redial_is_urgent(redial))
		return;
	/* A RESUME to the stream's own path that has been sent may have made the receiver close the old connection:
	 * keep it, the answer is on its way. If the stream still stands, that is not so, or the path of the RESUME has
	 * failed since. */
	if (stream_stands(stream) || redial->dial.state <= DIAL_HELLO ||
	    redial->dial.kind == ANYNET_KIND_QP)
		dial_close(&redial->dial);
	redial_begin(redial,
		     elsewhere || progress_in_vain(stream) > 1 ? REDIAL_ELSEWHERE : REDIAL_AGAIN,
		     os_now_ms() + progress_pause_ms(stream));
}

/* A stream that is back or works again is dialled no more, unless it can have a better path. */
static void aim_home(const struct anynet_comm *comm, const struct anynet_stream *stream, struct redial *redial)
{
	dial_close(&redial->dial);
	redial_begin(redial, pairs_away(comm, stream) ? REDIAL_HOME : REDIAL_NOTHING,
		     os_now_ms() + progress_home_pause_ms(stream));
}

void recovery_home(struct anynet_comm *comm, struct anynet_stream *stream)
{
	struct recovery *recovery = recovery_get(comm);

	if (!recovery || recovery->redials[stream->index].aim)
		return;
	atomic_store(&comm->attention, true);
	aim_home(comm, stream, &recovery->redials[stream->index]);
}

void recovery_cancel(struct anynet_comm *comm, struct anynet_stream *stream)
{
	struct redial *redial;

	if (!comm->session->recovery || !comm->is_send || !stream_stands(stream))
		return;
	redial = &comm->session->recovery->redials[stream->index];
	if (redial_is_urgent(redial) && !redial->said)
		aim_home(comm, stream, redial);
}

bool recovery_announced(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	return comm->is_send && comm->session->recovery &&
	       comm->session->recovery->redials[stream->index].said;
}

void recovery_hurry(struct anynet_comm *comm)
{
	struct recovery *recovery = comm->session->recovery;

	for (unsigned i = 0; recovery && i < recovery->streams; i++)
		redial_hurry(&recovery->redials[i]);
}

/* A process answers and refuses: other secrets, other wire versions, or it lacks memory or descriptors. Either the peer has
 * changed, or another process has its address now. */
static void note_why_refused(struct anynet_comm *comm, const struct anynet_wire_hello *hello)
{
	struct recovery *recovery = comm->session->recovery;
	bool first = !*recovery->refusal;
	const char *why = hello->reason;

	if (hello->status == ANYNET_STATUS_VERSION)
		why = "it speaks other wire versions: install the same anynet on every host";
	snprintf(recovery->refusal, sizeof(recovery->refusal), "; a process on %s refuses: %s",
		 *hello->host ? hello->host : "?", *why ? why : "see its log");
	if (first)
		anynet_info("%s peer %s pid %u dev %s: cannot reconnect%s; trying again",
			    comm_direction(comm), comm->peer.host, comm->peer.pid, comm->dev->name,
			    recovery->refusal);
}

/* --- the sender: dial --- */

/* RESUME: the stream continues over the new connection. */
static void came_back(struct anynet_comm *comm, struct anynet_stream *stream, struct redial *redial)
{
	const struct anynet_wire_hello *welcome = redial->dial.hello;
	int fd = redial->dial.fd;

	if (stream_stands(stream))
		comm_sever(comm, stream, 0);
	redial->dial.fd = -1;
	if (redial->dial.narrow && stream_is_news(++stream->progress.narrowed))
		anynet_warn("send to peer %s pid %u dev %s path %u of %u (%s): connected, but "
			    "full-size packets do not get through; replaced by a connection with "
			    "packets of %d bytes; check the path MTU",
			    comm->peer.host, comm->peer.pid, comm->dev->name, stream->index,
			    comm->stream_count, stream->path.text, PROGRESS_NARROW_BYTES);
	if (!comm->tcp.only) { /* else dial_close frees it */
		stream->qp.next = redial->dial.qp;
		redial->dial.qp = NULL;
	}
	comm_stream_back(comm, stream, fd, redial->epoch, redial->pair,
			 (struct stream_position){ welcome->frames, welcome->part });
	if (comm_error(comm)) {
		dial_close(&redial->dial);
		return; /* the peer's position was impossible: the comm has failed, and its streams are gone */
	}
	aim_home(comm, stream, redial);
	redial->said = false;
}

/* A QP hello is answered. If the queue pair is proven, a RESUME on a new connection makes the stream use it. */
static void qp_answered(struct anynet_stream *stream, struct redial *redial, uint64_t now)
{
	struct ib_qp *qp = redial->dial.qp;

	if (!qp) {
		stream->progress.qps_failed++;
		redial_next(redial, now);
		return;
	}
	stream->progress.qps_failed = 0;
	redial->dial.qp = NULL;
	dial_close(&redial->dial);
	redial->dial.qp = qp;
	redial->next_ms = now;
}

/* The receiver has closed or failed the comm. Its last frames may still arrive on other streams, so only this stream
 * ends, and the comm with its last one. */
static void peer_has_ended(struct anynet_comm *comm, struct anynet_stream *stream,
			   struct redial *redial, uint64_t now)
{
	const char *reason = redial->dial.hello->reason;
	char why[160];

	if (!pairs_lead_to_peer(&comm->session->paths, redial->pair)) {
		redial_failed(comm, redial, -ECONNREFUSED, now);
		return;
	}
	snprintf(why, sizeof(why), "the peer has ended this connection: %.100s",
		 reason[0] ? reason : "see its log");
	redial_next(redial, now);
	give_up_read_last(comm);
	if (comm->noted || comm_error(comm))
		return; /* a fault may name the stream: it is settled first, at the end of this turn */
	redial_end(redial);
	comm_end_stream(comm, stream);
	if (!comm_streams(comm))
		give_up(comm, -ECONNRESET, why, now);
}

/* The peer has answered the dial of a stream. */
static void take_answer(struct anynet_comm *comm, struct anynet_stream *stream,
			struct redial *redial, uint64_t now)
{
	switch (redial->dial.hello->status) {
	case ANYNET_STATUS_OK:
		comm->session->recovery->refusal[0] = 0;
		if (redial->dial.kind == ANYNET_KIND_QP)
			qp_answered(stream, redial, now);
		else
			came_back(comm, stream, redial);
		return;
	case ANYNET_STATUS_GONE:
		peer_has_ended(comm, stream, redial, now);
		return;
	/* Other answers do not depend on the pair: the round is over, and a pause follows. */
	case ANYNET_STATUS_STALE:
		redial->epoch += EPOCH_STEP;
		redial->pairs = 1;
		redial_next(redial, now);
		return;
	default:
		if (redial_is_urgent(redial)) /* else the stream works */
			note_why_refused(comm, redial->dial.hello);
		redial->pairs = 1;
		redial_failed(comm, redial, -EACCES, now);
	}
}

static void step_redial(struct anynet_comm *comm, struct anynet_stream *stream,
			struct redial *redial, uint64_t now)
{
	if (!redial->aim)
		return;
	if (!stream) {
		redial_end(redial); /* the peer has said BYE meanwhile */
		return;
	}
	if ((int32_t)(redial->epoch - stream->epoch) < 0) /* modulo 2^32 */
		redial->epoch = stream->epoch;
	if (!redial_step(comm, stream, redial, now))
		take_answer(comm, stream, redial, now);
}

/* --- the receiver: ask --- */

static void step_probe(struct anynet_comm *comm, uint64_t now)
{
	struct redial *probe = &comm->session->recovery->redials[0];

	if (!comm->session->recovery->since_ms) {
		redial_end(probe);
		return;
	}
	if (!probe->aim)
		redial_begin(probe, REDIAL_AGAIN, probe->next_ms);
	if (redial_step(comm, NULL, probe, now))
		return;
	if (probe->dial.hello->status == ANYNET_STATUS_GONE &&
	    !pairs_lead_to_peer(&comm->session->paths, probe->pair)) {
		redial_failed(comm, probe, -ECONNREFUSED, now);
		return;
	}
	if (probe->dial.hello->status == ANYNET_STATUS_GONE && !comm->session->unread) {
		give_up(comm, -ECONNRESET, "the peer has ended this connection: see its log", now);
		if (!comm->session->recovery)
			return;
	}
	if (probe->dial.hello->status && probe->dial.hello->status != ANYNET_STATUS_GONE)
		note_why_refused(comm, probe->dial.hello);
	comm->session->recovery->told = true;
	dial_close(&probe->dial);
	probe->next_ms = now + PROBE_PAUSE_MS;
}

/* --- steps --- */

/* May this stream bring something? Not if its connection has ended, and the frame at its head waits for what another
 * stream has to bring, or the comm is closed. */
static bool may_bring(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	return stream_works(stream) &&
	       !(stream->path.ended && (stream->path.parked || comm_is_closed(comm)));
}

static bool any_stream_works(const struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (may_bring(comm, comm->streams[i]))
			return true;
	return false;
}

/* Is a step due before the background thread's next visit? */
static bool is_busy(const struct recovery *recovery, uint64_t now)
{
	for (unsigned i = 0; i < recovery->streams; i++)
		if (recovery->redials[i].aim && (recovery->redials[i].dial.state != DIAL_IDLE ||
						recovery->redials[i].next_ms < now + REDIAL_MAX_MS / 2))
			return true;
	return false;
}

static bool is_over(const struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->session->recovery->streams; i++)
		if (comm->session->recovery->redials[i].aim)
			return false;
	return !comm->down && any_stream_works(comm);
}

/* Does the comm wait for its peer? An idle receiver does not, once a PROBE has been answered; a closed one does, for the
 * RESUME by which the sender learns what has come. */
static bool waits(const struct anynet_comm *comm)
{
	return comm->is_send || comm_pending(comm) || comm_is_half_built(comm) || comm_is_closed(comm) ||
	       !comm->session->recovery->told;
}

void recovery_step(struct anynet_comm *comm, uint64_t now)
{
	struct recovery *recovery = comm->session->recovery;
	bool works = any_stream_works(comm);

	if (works)
		recovery->told = false;
	if (works && recovery->since_ms)
		recovery->back_ms = now;
	if (works || !waits(comm)) {
		recovery->since_ms = 0;
		recovery->refusals = 0;
	} else if (!recovery->since_ms) {
		recovery->since_ms = now;
	}
	for (unsigned i = 0; comm->is_send && comm->session->recovery && i < recovery->streams; i++)
		step_redial(comm, comm->streams[i], &recovery->redials[i], now);
	if (!comm->is_send)
		step_probe(comm, now);
	if (comm->session->recovery)
		give_up_if_lost(comm, now);
	if (!comm->session->recovery)
		return;
	if (is_over(comm))
		recovery_free(comm);
	else if (is_busy(recovery, now))
		atomic_store(&comm->attention, true);
}
