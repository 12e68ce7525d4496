/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery: the sender's dials, the receiver's PROBEs, giving up; see recovery.h. resume.c answers RESUME and QP hellos. */
#include "session/recovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "base/socket.h"
#include "session/progress.h"
#include "session/redial.h"

#define PROBE_PAUSE_MS 1000
#define GONE_MS        500 /* dials refused for so long: the peer's process is gone */
#define GONE_REFUSALS  2
#define EPOCH_STEP     16 /* added to an epoch that was STALE */

static struct recovery *recovery_get(struct anynet_comm *comm)
{
	unsigned streams = comm->is_send ? comm->stream_count : 1;
	struct recovery *recovery = comm->session->recovery;

	if (recovery)
		return recovery;
	recovery = calloc(1, sizeof(*recovery) + streams * sizeof(recovery->redials[0]));
	if (!recovery)
		return NULL;
	recovery->streams = streams;
	for (unsigned i = 0; i < streams; i++) {
		recovery->redials[i].dial.fd = -1;
		recovery->redials[i].pair = PAIRS_NONE;
	}
	comm->session->recovery = recovery;
	return recovery;
}

void recovery_free(struct anynet_comm *comm)
{
	struct recovery *recovery = comm->session->recovery;

	for (unsigned i = 0; recovery && i < recovery->streams; i++)
		dial_close(&recovery->redials[i].dial);
	free(recovery);
	comm->session->recovery = NULL;
}

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
	redial->aim = elsewhere || stream->progress.vain > 1 ? REDIAL_ELSEWHERE : REDIAL_AGAIN;
	redial->tries = 0;
	redial->next_ms = os_now_ms() + progress_pause_ms(stream);
	redial->pause_ms = REDIAL_MIN_MS;
}

void recovery_cancel(struct anynet_comm *comm, struct anynet_stream *stream)
{
	struct redial *redial;

	if (!comm->session->recovery || !comm->is_send || !stream_stands(stream))
		return;
	redial = &comm->session->recovery->redials[stream->index];
	if (redial_is_urgent(redial) && !redial->said) {
		dial_close(&redial->dial);
		redial->aim = REDIAL_NOTHING;
	}
}

bool recovery_announced(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	return comm->is_send && comm->session->recovery &&
	       comm->session->recovery->redials[stream->index].said;
}

void recovery_hurry(struct anynet_comm *comm)
{
	struct recovery *recovery = comm->session->recovery;

	for (unsigned i = 0; recovery && i < recovery->streams; i++) {
		recovery->redials[i].next_ms = 0;
		recovery->redials[i].pause_ms =
			recovery->redials[i].aim == REDIAL_HOME ? HOME_MIN_MS : REDIAL_MIN_MS;
		if (recovery->redials[i].dial.state == DIAL_HELLO)
			dial_close(&recovery->redials[i].dial);
	}
}

/* May somebody listen there still? Not if the latest dial was refused; any other error, also one of this host, says
 * nothing about the peer's process. */
static bool may_listen(const struct anynet_comm *comm, struct anynet_wire_pair pair)
{
	const struct recovery *recovery = comm->session->recovery;

	for (unsigned i = 0; i < recovery->attempt_count; i++)
		if (pairs_equal(recovery->attempts[i].pair, pair))
			return recovery->attempts[i].err != -ECONNREFUSED;
	return pairs_can_dial(&comm->session->paths, pair); /* not dialled yet */
}

/* Is the peer's process gone? Dials must have been refused for GONE_MS, and among them each stream's own pair. Other
 * pairs alone may be refused by a firewall, or lead to another host. */
static bool peer_is_gone(const struct anynet_comm *comm, uint64_t now)
{
	const struct recovery *recovery = comm->session->recovery;

	if (!recovery->refused_ms || recovery->refusals < GONE_REFUSALS || now - recovery->refused_ms < GONE_MS)
		return false;
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (comm->streams[i] && may_listen(comm, comm->streams[i]->home))
			return false;
	return true;
}

/* --- giving up ---
 * Because the peer's process is gone (refused, or GONE), no connection could be made, connections move nothing
 * (progress.c), or an answer ends the comm. comm_fail (comm.c) logs it. */

static void describe_attempts(const struct anynet_comm *comm, char *text, size_t bytes)
{
	const struct recovery *recovery = comm->session->recovery;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < recovery->attempt_count && used < bytes; i++) {
		char from[SOCKET_TEXT_BYTES], to[SOCKET_TEXT_BYTES];
		struct dial dial = DIAL_INIT;
		int n;

		if (!dial_pair(&dial, &comm->session->paths, recovery->attempts[i].pair))
			continue;
		n = snprintf(text + used, bytes - used, "%s%s -> %s (%s)", used ? ", " : "; tried ",
			     socket_text(&dial.from, from, sizeof(from)),
			     socket_text(&dial.to, to, sizeof(to)),
			     socket_error(recovery->attempts[i].err));
		used += n > 0 ? (size_t)n : 0;
	}
}

/* A process answers, and refuses: the secrets or the wire versions differ. A peer that was connected has changed its mind, or
 * another process has its address now. */
static void note_why_refused(struct anynet_comm *comm, const struct anynet_wire_hello *answer)
{
	struct recovery *recovery = comm->session->recovery;
	bool first = !*recovery->refusal;
	const char *why = answer->reason;

	if (answer->status == ANYNET_STATUS_VERSION)
		why = "it speaks other wire versions: install the same anynet on every host";
	snprintf(recovery->refusal, sizeof(recovery->refusal), "; a process on %s refuses: %s",
		 *answer->host ? answer->host : "?", *why ? why : "see its log");
	if (first)
		anynet_info("%s peer %s pid %u dev %s: cannot reconnect%s; trying again",
			    comm->is_send ? "send to" : "receive from", comm->peer.host,
			    comm->peer.pid, comm->dev->name, recovery->refusal);
}

static uint64_t progress_of(const struct anynet_comm *comm)
{
	return comm->is_send ? send_progress(comm) : recv_progress(comm);
}

/* Receives the peer's last frames, which may be unread in connections that stand. False: do not give up, because they
 * brought progress or an error, or wait for receives that NCCL has not posted yet. */
static bool read_last_words(struct anynet_comm *comm)
{
	uint64_t progress = progress_of(comm);
	bool parked = false;

	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream_stands(stream))
			continue;
		if (!stream->parked)
			stream->ops->receive(stream); /* the next turn gets an error again */
		parked |= stream->parked;
	}
	return !comm->noted && !comm_error(comm) && progress_of(comm) == progress && (!parked || comm_pending(comm));
}

static void give_up(struct anynet_comm *comm, int err, const char *why, uint64_t now)
{
	char attempts[400], asked[160] = "", lost[SECONDS_TEXT_BYTES], stalled[SECONDS_TEXT_BYTES];
	const struct recovery *recovery = comm->session->recovery;
	uint64_t stalled_ms = comm->session->watch.since_ms ? now - comm->session->watch.since_ms : 0;

	if (!read_last_words(comm))
		return;
	describe_attempts(comm, attempts, sizeof(attempts));
	if (!comm_pending(comm)) {
		anynet_info("%s peer %s pid %u dev %s: lost while idle: %s%s%s; NCCL gets an error if it uses it again",
			    comm->is_send ? "send to" : "receive from", comm->peer.host,
			    comm->peer.pid, comm->dev->name, why, recovery->refusal, attempts);
		recorder_note(comm, NULL, ANYNET_EVENT_LOST, err, 0, why);
		comm->peer_closed = comm->session->peer_lost = true;
		recovery_free(comm);
		comm_close_streams(comm);
		return;
	}
	(comm->is_send ? send_describe : recv_describe)(comm, asked, sizeof(asked));
	comm_fail(comm, NULL, err, "%s%s%s; without a connection for %s s; pending: %s, for %s s",
		  why, recovery->refusal, attempts,
		  seconds_text(recovery->since_ms ? now - recovery->since_ms : 0, 1, lost), asked,
		  seconds_text(stalled_ms, 1, stalled));
	recovery_free(comm);
	comm_close_streams(comm);
}

/* READY may not have arrived. Until it has, accept does not return, and NCCL may post nothing. */
static bool is_half_built(const struct anynet_comm *comm)
{
	return comm->is_send ? !send_comm_ready(comm) : !recv_comm_ready(comm);
}

/* A half-built comm without requests does not time out: connect has returned and accept waits, so neither side would
 * learn of its end. It ends only if the peer is known to be gone. */
static bool ends_unnoticed(const struct anynet_comm *comm)
{
	return is_half_built(comm) && !comm_pending(comm);
}

static bool has_run_out(const struct anynet_comm *comm, uint64_t now)
{
	return now - comm->session->recovery->since_ms >=
		       (uint64_t)anynet_net.cfg->recovery_timeout_ms &&
	       !ends_unnoticed(comm);
}

/* Gives up if connections are established and nothing gets through them. */
static void give_up_if_stuck(struct anynet_comm *comm, uint64_t now)
{
	for (unsigned i = 0; i < comm->stream_count && !ends_unnoticed(comm); i++) {
		struct anynet_stream *stream = comm->streams[i];
		char why[300];

		if (!stream || !progress_is_over(stream, now))
			continue;
		progress_describe(stream, why, sizeof(why));
		give_up(comm, stream->breaks.err == -EBADMSG ? -EBADMSG : -ETIMEDOUT, why, now);
		return;
	}
}

/* --- the sender: dial --- */

static void came_back(struct anynet_comm *comm, struct anynet_stream *stream, struct redial *redial)
{
	const struct anynet_wire_hello *welcome = redial->dial.hello;
	unsigned index = stream->index;
	int fd = redial->dial.fd;

	if (stream_stands(stream))
		comm_sever(comm, stream, 0);
	redial->dial.fd = -1;
	if (redial->dial.narrow && stream_is_news(++stream->progress.narrowed))
		anynet_warn("send to peer %s pid %u dev %s path %u of %u (%s): connected, but "
			    "full-size packets do not get through; replaced by a connection with "
			    "packets of %d bytes; check the path MTU",
			    comm->peer.host, comm->peer.pid, comm->dev->name, stream->index,
			    comm->stream_count, stream->path, PROGRESS_NARROW_BYTES);
	if (!comm->tcp_only) { /* else dial_close frees it */
		stream->qp.next = redial->dial.qp;
		redial->dial.qp = NULL;
	}
	comm_stream_back(comm, stream, fd, redial->epoch, redial->pair,
			 (struct stream_position){ welcome->frames, welcome->part });
	dial_close(&redial->dial);
	if (comm->streams[index] != stream)
		return; /* the peer's position was impossible: the comm has failed, and its streams are gone */
	redial->pause_ms = HOME_MIN_MS;
	redial->next_ms = os_now_ms() + progress_home_pause_ms(stream);
	redial->aim = pairs_away(comm, stream) ? REDIAL_HOME : REDIAL_NOTHING;
	redial->said = false;
	redial->tries = 0;
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
	char why[160];

	snprintf(why, sizeof(why), "the peer has ended this connection: %.100s",
		 redial->dial.hello->reason[0] ? redial->dial.hello->reason : "see its log");
	redial_next(redial, now);
	read_last_words(comm);
	if (comm->noted || comm_error(comm))
		return; /* a fault may name the stream: it is settled first, at the end of this turn */
	redial->aim = REDIAL_NOTHING;
	comm_end_stream(comm, stream);
	if (!comm_has_streams(comm))
		give_up(comm, -ECONNRESET, why, now);
}

static void step_stream(struct anynet_comm *comm, struct anynet_stream *stream,
			struct redial *redial, uint64_t now)
{
	if ((int32_t)(redial->epoch - stream->epoch) < 0) /* modulo 2^32 */
		redial->epoch = stream->epoch;
	if (redial_step(comm, stream, redial, now))
		return;
	switch (redial->dial.hello->status) {
	case ANYNET_STATUS_OK:
		if (redial->dial.kind == ANYNET_KIND_QP)
			qp_answered(stream, redial, now);
		else
			came_back(comm, stream, redial);
		break;
	case ANYNET_STATUS_GONE:
		peer_has_ended(comm, stream, redial, now);
		break;
	case ANYNET_STATUS_STALE:
		redial->epoch += EPOCH_STEP;
		redial->pairs = 1;
		redial_next(redial, now);
		break;
	default:
		note_why_refused(comm, redial->dial.hello);
		redial->pairs = 1;
		redial_failed(comm, redial, -EACCES, now);
	}
}

static void step_redial(struct anynet_comm *comm, struct redial *redial, unsigned index, uint64_t now)
{
	if (!redial->aim)
		return;
	if (comm->streams[index]) {
		step_stream(comm, comm->streams[index], redial, now);
		return;
	}
	dial_close(&redial->dial); /* the peer has said BYE meanwhile */
	redial->aim = REDIAL_NOTHING;
}

/* --- the receiver: ask --- */

static void step_probe(struct anynet_comm *comm, uint64_t now)
{
	struct redial *probe = &comm->session->recovery->redials[0];

	if (!comm->session->recovery->since_ms) {
		dial_close(&probe->dial);
		probe->aim = REDIAL_NOTHING;
		return;
	}
	if (!probe->aim) {
		probe->aim = REDIAL_AGAIN;
		probe->pause_ms = REDIAL_MIN_MS;
	}
	if (redial_step(comm, NULL, probe, now))
		return;
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

/* May this stream bring something? Not if its connection has ended and the frame at its head waits for what another
 * stream has to bring. */
static bool may_bring(const struct anynet_stream *stream)
{
	return stream_works(stream) && !(stream->ended && stream->parked);
}

static bool any_stream_works(const struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (may_bring(comm->streams[i]))
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
	for (unsigned i = 0; comm->is_send && i < comm->session->recovery->streams; i++)
		if (comm->session->recovery->redials[i].aim)
			return false;
	return !comm->down && any_stream_works(comm);
}

/* Does the comm wait for its peer? An idle receiver does not, once a PROBE has been answered; a closed one does, for the
 * RESUME by which the sender learns what has come. */
static bool waits(const struct anynet_comm *comm)
{
	return comm->is_send || comm_pending(comm) || is_half_built(comm) || comm_is_closed(comm) ||
	       !comm->session->recovery->told;
}

void recovery_step(struct anynet_comm *comm, uint64_t now)
{
	struct recovery *recovery = comm->session->recovery;

	if (any_stream_works(comm))
		recovery->told = false;
	if (any_stream_works(comm) || !waits(comm)) {
		recovery->since_ms = recovery->refused_ms = 0;
		recovery->refusals = 0;
	} else if (!recovery->since_ms) {
		recovery->since_ms = now;
	}
	for (unsigned i = 0; comm->is_send && comm->session->recovery && i < recovery->streams; i++)
		step_redial(comm, &recovery->redials[i], i, now);
	if (!comm->is_send)
		step_probe(comm, now);
	if (!comm->session->recovery)
		return;
	give_up_if_stuck(comm, now);
	if (!comm->session->recovery)
		return;
	if (recovery->since_ms && !comm->session->unread) {
		if (peer_is_gone(comm, now))
			give_up(comm, -ECONNRESET,
				"the peer process is gone; look at its log first", now);
		else if (has_run_out(comm, now))
			give_up(comm, -ETIMEDOUT,
				"the connection broke and did not come back within "
				"ANYNET_RECOVERY_TIMEOUT",
				now);
	}
	if (!comm->session->recovery)
		return;
	if (is_over(comm))
		recovery_free(comm);
	else if (is_busy(recovery, now))
		atomic_store(&comm->attention, true);
}
