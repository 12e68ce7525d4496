/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at how a comm is doing; see watch.h. A peer that is stopped or slow has a kernel that acknowledges what
 * arrives. What is not acknowledged for longer than the path has ever taken is lost, or the path is.
 */
#include "session/watch.h"

#include <errno.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "device/links.h"
#include "session/progress.h"
#include "session/recovery.h"

/* How long what was sent may be without an acknowledgement, beyond what round trips have taken so far: */
#define SLACK_US     20000 /* for kernels that are busy */
#define ACK_DELAY_US 40000 /* for an acknowledgement that is delayed, as it may be while the peer does not read (Linux: TCP_ATO_MIN) */
#define SINGLE_TRIES 2     /* without another path: the kernel has sent it again so often, and heard nothing */

#define GLANCE_MS  5    /* between two glances at a comm that gets no further: at first, and while something is out */
#define DOUBT_MS   1000 /* that the peer's word about a path counts */
#define PING_SHARE 6    /* heartbeats in ANYNET_PEER_TIMEOUT */

/* An alarm doubles what the path is given until the next one, and is forgotten after a while. */
#define ALARMS_MAX     4
#define ALARM_COUNT_MS 1000

static uint64_t peer_timeout(void)
{
	return (uint64_t)anynet_net.cfg->user_timeout_ms;
}

/* For how long has the peer's host not acknowledged what it was sent, or given another sign? In ms. */
static uint64_t silence_of(struct anynet_rail *rail, const struct rail_signs *signs, uint64_t now)
{
	uint64_t heard_ms = now - anynet_min(now, signs->quiet_ms);

	if (!signs->waiting) {
		rail->silent_ms = 0;
		return 0;
	}
	if (signs->acked != rail->seen.acked || !rail->silent_ms)
		rail->silent_ms = now;
	rail->silent_ms = anynet_max(rail->silent_ms, heard_ms);
	return now - rail->silent_ms;
}

static unsigned alarms(const struct anynet_rail *rail, uint64_t now)
{
	uint64_t forgotten = (now - rail->alarmed_ms) / ALARM_COUNT_MS;

	return rail->alarms - (unsigned)anynet_min(rail->alarms, forgotten);
}

/* As RFC 9002, 6.2.1, has it for QUIC. */
static uint64_t patience_ms(const struct anynet_rail *rail, const struct rail_signs *signs, uint64_t now)
{
	uint64_t us = signs->rtt_us + 4 * (uint64_t)signs->rtt_var_us + SLACK_US + ACK_DELAY_US;

	return (us / 1000 + 1) << alarms(rail, now);
}

static bool has_alternative(const struct anynet_comm *comm)
{
	return comm->session->paths.own_count > 1 || comm->session->paths.peer_count > 1;
}

static void suspect(struct anynet_comm *comm, struct anynet_rail *rail, const char *why)
{
	comm_rail_change(comm, rail, RAIL_SUSPECT, why);
	if (!comm->is_send)
		recv_doubt(comm, rail->index, true);
	anynet_chat("%s peer %s dev %s path %u (%s): %s",
		    comm->is_send ? "send to" : "receive from", comm->peer.host, comm->dev->name,
		    rail->index, rail->path, why);
}

static void raise_alarm(struct anynet_comm *comm, struct anynet_rail *rail, uint64_t now)
{
	rail->alarms = (uint8_t)anynet_min(alarms(rail, now) + 1, ALARMS_MAX);
	rail->alarmed_ms = now;
	suspect(comm, rail, "no answer from the peer");
}

static void trust(struct anynet_comm *comm, struct anynet_rail *rail)
{
	comm_rail_change(comm, rail, RAIL_UP, NULL);
	recovery_cancel(comm, rail);
	if (!comm->is_send)
		recv_doubt(comm, rail->index, false);
}

/* Between addresses of one host packets need no link, and the kernel may send by another NIC than the one
 * with the address: what was connected without the link does without it. */
static bool has_lost_link(const struct anynet_rail *rail)
{
	return rail->dev && link_is_down(rail->dev) && link_losses(rail->dev) != rail->losses;
}

static void watch_rail(struct anynet_comm *comm, struct anynet_rail *rail, uint64_t now)
{
	struct rail_signs signs = { 0 };
	bool told = rail->ops->signs(rail, &signs);
	uint64_t silence = told ? silence_of(rail, &signs, now) : 0;
	bool silent = silence && silence >= patience_ms(rail, &signs, now) &&
		      (has_alternative(comm) || signs.tries >= SINGLE_TRIES);
	bool lost = signs.lost || has_lost_link(rail) ||
		    (rail->doubted_ms && now - rail->doubted_ms < DOUBT_MS);

	if (told && signs.acked >= rail->seen.acked + RAIL_PROGRESS_BYTES)
		comm->session->watch.acked += signs.acked - rail->seen.acked;
	if (told)
		rail->seen = signs;
	if (silence >= peer_timeout() && (comm->is_send || !recovery_wanted())) {
		comm_rail_broke(comm, rail, -ETIMEDOUT);
	} else if (recovery_wanted() && (lost || silent)) {
		if (rail_works(rail) && lost)
			suspect(comm, rail, "the NIC has lost its link");
		else if (rail_works(rail))
			raise_alarm(comm, rail, now);
		recovery_rail(comm, rail, has_alternative(comm));
	} else if (rail->state == RAIL_SUSPECT && !silence) {
		trust(comm, rail);
	}
}

static void ping(struct anynet_comm *comm, uint64_t now)
{
	comm->session->watch.pinged_ms = now;
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (rail_stands(comm->rails[i]))
			comm->rails[i]->ops->ping(comm->rails[i]);
}

static void heartbeat(struct anynet_comm *comm, uint64_t now)
{
	uint64_t pause = peer_timeout() / PING_SHARE;

	if (now - comm->session->watch.since_ms >= pause && now - comm->session->watch.pinged_ms >= pause)
		ping(comm, now);
}

static void warn_of_stall(struct anynet_comm *comm, uint64_t now)
{
	uint64_t limit = (uint64_t)anynet_net.cfg->stall_warn_ms,
		 stall = now - comm->session->watch.since_ms;
	const char *why = comm->is_send ? "the peer's process may be stopped or busy elsewhere"
					: "the peer has sent nothing: its process may be stopped, "
					  "busy elsewhere, or waiting for another rank";
	char asked[160], seconds[SECONDS_TEXT_BYTES];

	if (!limit || stall < limit || comm->session->watch.warned)
		return;
	comm->session->watch.warned = true;
	comm->session->tally.stalls++;
	(comm->is_send ? send_describe : recv_describe)(comm, asked, sizeof(asked));
	recorder_note(comm, NULL, ANYNET_EVENT_STALLED, 0, stall, asked);
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i] && !rail_works(comm->rails[i]))
			why = "its connections are broken or silent and are being replaced";
	anynet_warn("%s peer %s pid %u addr %s dev %s: no progress for %s s: %s; %s",
		    comm->is_send ? "send to" : "receive from", comm->peer.host, comm->peer.pid,
		    comm->peer.addr, comm->dev->name, seconds_text(stall, 0, seconds), asked, why);
}

/* Are requests, or sends that were reported done, on their way? */
static bool is_waiting(const struct anynet_comm *comm)
{
	return comm_pending(comm) || (comm->is_send && !send_confirmed(comm));
}

/* Returns whether something is out that is not acknowledged. Links have a time-out of their own. */
static bool glance_at_rails(struct anynet_comm *comm, uint64_t now)
{
	bool out = false;

	for (unsigned i = 0; i < comm->rail_count && !comm_error(comm); i++) {
		struct anynet_rail *rail = comm->rails[i];

		if (!rail_stands(rail) || rail->linked)
			continue;
		watch_rail(comm, rail, now);
		out |= rail_stands(rail) && rail->silent_ms;
	}
	return out;
}

void watch_glance(struct anynet_comm *comm, uint64_t now)
{
	struct comm_watch *watch = &comm->session->watch;
	uint64_t progress = comm->is_send ? send_progress(comm) : recv_progress(comm);

	if (now < watch->glance_ms || !has_alternative(comm) || !recovery_wanted())
		return;
	if (progress != watch->glanced || !is_waiting(comm) || glance_at_rails(comm, now))
		watch->pause_ms = GLANCE_MS;
	else
		watch->pause_ms = anynet_min(watch->pause_ms * 2, WATCH_MS);
	watch->glanced = progress;
	watch->glance_ms = now + watch->pause_ms;
}

void watch_comm(struct anynet_comm *comm, uint64_t now)
{
	struct comm_watch *watch = &comm->session->watch;
	uint64_t progress =
		comm->is_send ? send_progress(comm) + watch->acked : recv_progress(comm);
	bool waits = is_waiting(comm);

	watch->looked_ms = now;
	if (atomic_exchange(&comm->session->link_event, false)) {
		recorder_note_links(comm);
		recovery_hurry(comm);
	}
	/* A rail that stands only here is answered with a reset. */
	if (atomic_exchange(&comm->session->probed, false))
		ping(comm, now);
	if (!comm_pending(comm) || progress != watch->progress || !watch->since_ms) {
		if (watch->warned)
			recorder_note(comm, NULL, ANYNET_EVENT_MOVING, 0, now - watch->since_ms,
				      NULL);
		watch->progress = progress;
		watch->since_ms = comm_pending(comm) ? now : 0;
		watch->warned = false;
	}
	if (watch->since_ms) {
		heartbeat(comm, now);
		warn_of_stall(comm, now);
	}
	for (unsigned i = 0; i < comm->rail_count && !comm_error(comm); i++)
		if (rail_stands(comm->rails[i]) && (waits || !rail_works(comm->rails[i])))
			watch_rail(comm, comm->rails[i], now);
	for (unsigned i = 0; i < comm->rail_count && !comm_error(comm) && recovery_wanted(); i++) {
		if (!comm->rails[i] || rail_stands(comm->rails[i]))
			continue;
		recovery_rail(comm, comm->rails[i], false);
		/* The sender may not know: a reset can come to one side only. */
		if (!comm->is_send && now - comm->rails[i]->broke_ms >= WATCH_MS)
			recv_doubt(comm, i, true);
	}
}
