/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a comm's health; see watch.h. If the peer's process is stopped or slow, its kernel still acknowledges what
 * arrives. Data that is not acknowledged for longer than the path's round trips explain is lost, or the path is.
 */
#include "session/watch.h"

#include <errno.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "device/carrier.h"
#include "session/progress.h"
#include "session/recovery.h"
#include "session/redial.h"

/* Time allowed for an acknowledgement, in addition to measured round trips: */
#define SLACK_US     20000 /* for busy kernels */
#define ACK_DELAY_US 40000 /* for a delayed ACK: the peer may not be reading (Linux: TCP_ATO_MIN) */
#define SINGLE_TRIES 2     /* without another path: also so many retransmissions without an answer */

#define SENT_MOST_MS 200 /* a path has been silent for no longer than this when it is first looked at */

#define GLANCE_MS  5    /* shortest time between two glances */
#define SUSPECT_MS 1000 /* for which a SUSPECT frame counts */
#define PING_SHARE 6    /* heartbeats per ANYNET_PEER_TIMEOUT */
#define RECV_PINGS 32   /* a receiver's heartbeats in a stall */

/* Each false alarm doubles patience_ms of its path: up to ALARMS_MAX times where the path has answered after all, once
 * where a new connection has shown that nothing was lost. One is forgotten every ALARM_COUNT_MS. */
#define ALARMS_MAX     4
#define ALARMS_UNSURE  1
#define ALARM_COUNT_MS 1000

static uint64_t peer_timeout(void)
{
	return (uint64_t)anynet_net.cfg->peer_timeout_ms;
}

/* How long data has been in flight without an acknowledgement or another sign of life from the peer's host, in ms; 0 =
 * nothing is in flight. */
static uint64_t silence_of(struct path_health *health, const struct stream_signs *signs,
			   uint64_t now)
{
	uint64_t heard_ms = now - anynet_min(now, signs->quiet_ms);
	bool answered = signs->acked != health->seen.acked;

	if (!signs->waiting) {
		health->silent_ms = 0;
		return 0;
	}
	if (answered || !health->silent_ms) {
		uint64_t busy_ms = answered ? 0 : (signs->busy_us - health->seen.busy_us) / 1000;
		uint64_t age_ms = anynet_min(anynet_max(busy_ms, signs->sent_ms), SENT_MOST_MS);

		health->silent_ms = now - anynet_min(now, age_ms);
	}
	health->silent_ms = anynet_max(health->silent_ms, heard_ms);
	return now - health->silent_ms;
}

static unsigned recent(const struct stream_alarms *alarms, uint64_t now)
{
	uint64_t forgotten = (now - alarms->ms) / ALARM_COUNT_MS;

	return alarms->count - (unsigned)anynet_min(alarms->count, forgotten);
}

static uint64_t heartbeat_ms(void)
{
	return peer_timeout() / PING_SHARE;
}

/* The silence after which a path is suspect, like QUIC's probe timeout (RFC 9002, 6.2.1). The peer's heartbeats end a
 * silence: they must not hide that the kernel retransmits in vain, where small packets pass and larger ones do not. */
static uint64_t patience_ms(const struct stream_alarms *alarms, const struct stream_signs *signs,
			    uint64_t now)
{
	uint64_t us = signs->rtt_us + 4 * (uint64_t)signs->rtt_var_us + SLACK_US + ACK_DELAY_US;
	uint64_t ms = (us / 1000 + 1) << recent(alarms, now);

	return signs->tries < SINGLE_TRIES ? ms : anynet_min(ms, heartbeat_ms() / 2);
}

/* Is there another path that is as good? Over TCP, one of another speed is for when the NIC's own has failed. */
static bool has_alternative(const struct anynet_comm *comm)
{
	const struct comm_paths *paths = &comm->session->paths;

	return (paths->own_count > 1 || paths->peer_count > 1) && !nic_is_odd(comm->dev);
}

static void suspect(struct anynet_comm *comm, struct anynet_stream *stream, const char *why)
{
	comm_stream_change(comm, stream, STREAM_SUSPECT, why);
	anynet_chat("%s peer %s dev %s path %u (%s): %s", comm_direction(comm), comm->peer.host,
		    comm->dev->name, stream->index, stream->path.text, why);
}

/* Closes the alarm that is open, if any, and counts it as false, up to `most`; 0: it was right. */
static void count_alarm(struct stream_alarms *alarms, unsigned most)
{
	if (alarms->open && alarms->count < most)
		alarms->count++;
	alarms->open = false;
}

static void raise_alarm(struct anynet_comm *comm, struct anynet_stream *stream, uint64_t now)
{
	stream->alarms.count = (uint8_t)recent(&stream->alarms, now);
	stream->alarms.ms = now;
	stream->alarms.open = true;
	suspect(comm, stream, "no answer from the peer");
}

static void trust(struct anynet_comm *comm, struct anynet_stream *stream)
{
	count_alarm(&stream->alarms, ALARMS_MAX);
	comm_stream_change(comm, stream, STREAM_UP, NULL);
	recovery_cancel(comm, stream);
}

/* Has the NIC lost its carrier since the connection was made? A connection made without a carrier does not need it: it
 * is within one host, or the kernel sends through another NIC. Nor does a queue pair, which has a port (signs.lost). */
static bool has_lost_carrier(const struct anynet_stream *stream)
{
	return !stream->qp.carries && stream->path.nic.dev &&
	       carrier_interface_is_down(stream->path.nic.dev) &&
	       carrier_losses(stream->path.nic.dev) != stream->path.nic.losses;
}

static void watch_stream(struct anynet_comm *comm, struct anynet_stream *stream, uint64_t now)
{
	struct path_health *health = &stream->path.health;
	struct stream_signs signs = { 0 };
	bool told = stream->ops->signs(stream, &signs);
	uint64_t silence = told ? silence_of(health, &signs, now) : 0;
	bool silent = silence && silence >= patience_ms(&stream->alarms, &signs, now) &&
		      (has_alternative(comm) || signs.tries >= SINGLE_TRIES);
	bool lost = signs.lost || has_lost_carrier(stream) ||
		    (health->suspected_ms && now < health->suspected_ms + SUSPECT_MS);

	if (stream_works(stream)) /* if there was an alarm, the connection has been replaced since */
		count_alarm(&stream->alarms, health->lost ? 0 : ALARMS_UNSURE);
	if (told && signs.acked >= health->counted + STREAM_PROGRESS_BYTES) {
		comm->session->watch.acked += signs.acked - health->counted;
		health->counted = signs.acked;
	}
	if (told)
		health->seen = signs;
	if (silence >= peer_timeout() && (comm->is_send || !recovery_wanted())) {
		comm_stream_broke(comm, stream, -ETIMEDOUT);
	} else if (recovery_wanted() && (lost || silent)) {
		if (stream_works(stream) && lost)
			suspect(comm, stream, "the NIC has lost its link");
		else if (stream_works(stream))
			raise_alarm(comm, stream, now);
		recovery_stream(comm, stream, has_alternative(comm));
	} else if (stream->state == STREAM_SUSPECT && !silence) {
		trust(comm, stream);
	} else if (comm->is_send && stream->path.failed && recovery_wanted()) {
		recovery_home(comm, stream);
	}
}

static void ping(struct anynet_comm *comm, uint64_t now)
{
	comm->session->watch.pinged_ms = now;
	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream_stands(stream))
			continue;
		stream->ops->ping(stream);
		stream->path.health.counted = stream->path.health.seen.acked; /* heartbeats do not add up to progress */
	}
}

/* No stream works at the receiver: it may see a fault that this side cannot, and has no stream left for a SUSPECT. */
static void suspect_all(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (stream_stands(comm->streams[i]))
			comm->noted = comm->streams[i]->path.health.suspected = true;
}

static void heartbeat(struct anynet_comm *comm, uint64_t now)
{
	uint64_t pause = heartbeat_ms(), stall = now - comm->session->watch.since_ms;

	/* Those that a stopped process does not read close its window, which TCP_USER_TIMEOUT of accepted sockets takes for a
	 * dead host. Keepalive goes on. */
	if (!comm->is_send && stall > RECV_PINGS * pause)
		return;
	if (stall >= pause && now - comm->session->watch.pinged_ms >= pause)
		ping(comm, now);
}

static void warn_of_stall(struct anynet_comm *comm, uint64_t now)
{
	uint64_t limit = (uint64_t)anynet_net.cfg->stall_warn_ms,
		 stall = now - comm->session->watch.since_ms;
	const char *why = comm->is_send ? "the peer's process may be stopped or busy elsewhere"
					: "the peer has sent nothing: its process may be stopped, "
					  "busy elsewhere, or waiting for another rank";
	char asked[160], seconds[SECONDS_TEXT_BYTES], lost[200], tried[400] = "";
	const struct anynet_stream *broken = NULL;

	if (!limit || stall < limit || comm->session->watch.warned)
		return;
	comm->session->watch.warned = true;
	comm->session->tally.stalls++;
	message_ops(comm)->describe(comm, asked, sizeof(asked));
	recorder_note(comm, NULL, ANYNET_EVENT_STALLED, 0, stall, asked);
	for (unsigned i = 0; i < comm->stream_count && !broken; i++)
		if (comm->streams[i] && !stream_works(comm->streams[i]))
			broken = comm->streams[i];
	if (broken) {
		snprintf(lost, sizeof(lost),
			 "path %u of %u (%s) is broken or silent and is being replaced",
			 broken->index, comm->stream_count, broken->path.text);
		why = lost;
		redial_describe(comm, tried, sizeof(tried));
	}
	anynet_warn("%s peer %s pid %u addr %s dev %s: no progress for %s s: %s; %s%s",
		    comm_direction(comm), comm->peer.host, comm->peer.pid, comm->peer.addr,
		    comm->dev->name, seconds_text(stall, 0, seconds), asked, why, tried);
}

/* Are there requests that are not done, or sends reported done and not acknowledged? */
static bool is_waiting(const struct anynet_comm *comm)
{
	return comm_pending(comm) || (comm->is_send && !send_confirmed(comm));
}

/* Looks again soon, also if NCCL does not call. */
static void glance_soon(struct anynet_comm *comm, uint64_t now)
{
	struct comm_watch *watch = &comm->session->watch;

	if (!has_alternative(comm) || !recovery_wanted())
		return;
	atomic_store(&watch->out, true);
	watch->glanced = message_ops(comm)->progress(comm);
	watch->glanced_ms = now;
	watch->pause_ms = GLANCE_MS;
}

/* Has something not been acknowledged for longer than a round trip? */
static bool is_late(const struct anynet_stream *stream, uint64_t now)
{
	const struct path_health *health = &stream->path.health;

	return health->silent_ms && now - health->silent_ms >= GLANCE_MS + health->seen.rtt_us / 1000;
}

/* True: something is late. Skips queue pairs, which have a timeout of their own. */
static bool glance_at_streams(struct anynet_comm *comm, uint64_t now)
{
	bool late = false;

	for (unsigned i = 0; i < comm->stream_count && !comm_error(comm); i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream_stands(stream) || stream->qp.carries)
			continue;
		watch_stream(comm, stream, now); /* may free it */
		late |= stream_stands(comm->streams[i]) && is_late(comm->streams[i], now);
	}
	return late;
}

void watch_glance(struct anynet_comm *comm, bool asked, uint64_t now)
{
	struct comm_watch *watch = &comm->session->watch;
	uint64_t progress;
	bool out;

	if (now < watch->glanced_ms + (asked ? GLANCE_MS : watch->pause_ms) ||
	    !has_alternative(comm) || !recovery_wanted())
		return;
	progress = message_ops(comm)->progress(comm);
	out = is_waiting(comm) && (asked || progress == watch->glanced) && glance_at_streams(comm, now);
	atomic_store(&watch->out, out);
	if (progress != watch->glanced || !is_waiting(comm) || out)
		watch->pause_ms = GLANCE_MS;
	else
		watch->pause_ms = anynet_min(watch->pause_ms * 2, WATCH_MS);
	watch->glanced = progress;
	watch->glanced_ms = now;
}

/* `all`: also at streams that work. Needed while something waits, or when a carrier has changed. */
static void look_at_streams(struct anynet_comm *comm, bool all, uint64_t now)
{
	for (unsigned i = 0; i < comm->stream_count && !comm_error(comm); i++) {
		if (!stream_stands(comm->streams[i]))
			continue;
		progress_look(comm->streams[i], now);
		if (all || !stream_works(comm->streams[i]))
			watch_stream(comm, comm->streams[i], now); /* may free it */
		if (all && stream_stands(comm->streams[i]) && comm->streams[i]->path.health.silent_ms)
			glance_soon(comm, now);
	}
}

void watch_comm(struct anynet_comm *comm, uint64_t now)
{
	struct comm_watch *watch = &comm->session->watch;
	uint64_t progress = message_ops(comm)->progress(comm) + (comm->is_send ? watch->acked : 0);
	bool event = atomic_exchange(&comm->session->carrier_event, false);

	watch->looked_ms = now;
	if (comm->is_send && comm->stream_count > 1)
		send_age_rates(comm);
	if (event) {
		recorder_note_carriers(comm);
		recovery_hurry(comm);
	}
	/* If a connection exists on this side only, the peer's host answers the PING with a reset. */
	if (atomic_exchange(&comm->session->probed, false)) {
		ping(comm, now);
		suspect_all(comm);
	}
	if (!comm_is_waited_for(comm) || progress != watch->progress || !watch->since_ms) {
		if (watch->warned)
			recorder_note(comm, NULL, ANYNET_EVENT_MOVING, 0, now - watch->since_ms,
				      NULL);
		watch->progress = progress;
		watch->since_ms = comm_is_waited_for(comm) ? now : 0;
		watch->warned = false;
	}
	if (watch->since_ms) {
		heartbeat(comm, now);
		warn_of_stall(comm, now);
	}
	look_at_streams(comm, event || is_waiting(comm), now);
	for (unsigned i = 0; i < comm->stream_count && !comm_error(comm) && recovery_wanted();
	     i++) {
		if (!comm->streams[i] || stream_stands(comm->streams[i]))
			continue;
		recovery_stream(comm, comm->streams[i], false);
		/* The sender may not know that the connection broke: a reset may reach one side only. */
		if (!comm->is_send && now - comm->streams[i]->breaks.ms >= WATCH_MS)
			recv_suspect(comm, i, true);
	}
}
