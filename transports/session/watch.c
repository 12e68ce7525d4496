/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a comm, ten times a second while somebody is there to do it; see watch.h. A path gives no
 * sign when what was sent is sent again and again and the peer's kernel does not answer; a peer that
 * is stopped or slow has a kernel that does. Heartbeats see to it that something is under way while
 * requests wait.
 */
#include "session/watch.h"

#include <errno.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "device/links.h"
#include "session/progress.h"
#include "session/recovery.h"

#define SUSPECT_TRIES     2 /* unanswered in a row: with other paths at hand … */
#define SUSPECT_MS        300
#define SUSPECT_SINGLE_MS 1000 /* … and without */
#define DOUBT_MS          1000 /* that the peer's word about a path counts */
#define PING_SHARE        6    /* heartbeats in ANYNET_PEER_TIMEOUT */

static uint64_t peer_timeout(void)
{
	return (uint64_t)anynet_net.cfg->user_timeout_ms;
}

/* For how long has the path of a rail given no sign, with things sent again in vain? In ms. */
static uint64_t silence_of(struct anynet_rail *rail, const struct rail_signs *signs, uint64_t now)
{
	if (!signs->waiting || !signs->tries) {
		rail->silent_ms = 0;
		return 0;
	}
	if (!rail->silent_ms)
		rail->silent_ms = now;
	return signs->tries >= SUSPECT_TRIES || rail->suspect ? now - rail->silent_ms : 0;
}

static void tell_doubt(struct anynet_comm *comm, const struct anynet_rail *rail, const char *why)
{
	recorder_note(comm, rail, ANYNET_EVENT_SUSPECT, 0, 0, why);
	anynet_chat("%s peer %s dev %s path %u (%s): %s",
		    comm->is_send ? "send to" : "receive from", comm->peer.host, comm->dev->name,
		    rail->index, rail->path, why);
}

/* Between addresses of one host packets need no link, and the kernel may send by another NIC than the one
 * with the address: what was connected without the link does without it. */
static bool has_lost_link(const struct anynet_rail *rail)
{
	return rail->dev && link_is_down(rail->dev) && link_losses(rail->dev) != rail->losses;
}

static void watch_rail(struct anynet_comm *comm, struct anynet_rail *rail, uint64_t now)
{
	bool alternative = comm->session->paths.own_count > 1 || comm->session->paths.peer_count > 1;
	struct rail_signs signs = { 0 };
	bool told = rail->ops->signs(rail, &signs);
	uint64_t silence = told ? silence_of(rail, &signs, now) : 0;
	bool lost = signs.lost || has_lost_link(rail) ||
		    (rail->doubted_ms && now - rail->doubted_ms < DOUBT_MS);

	if (told && signs.acked >= rail->seen.acked + RAIL_PROGRESS_BYTES)
		comm->session->watch.acked += signs.acked - rail->seen.acked;
	if (told)
		rail->seen = signs;
	if (silence >= peer_timeout() && (comm->is_send || !recovery_wanted())) {
		comm_rail_broke(comm, rail, -ETIMEDOUT);
	} else if (recovery_wanted() &&
		   (lost || silence >= (alternative ? SUSPECT_MS : SUSPECT_SINGLE_MS))) {
		if (!rail->suspect && !comm->is_send)
			recv_doubt(comm, rail->index, true);
		if (!rail->suspect)
			tell_doubt(comm, rail,
				   lost ? "the NIC has lost its link" : "no answer from the peer");
		rail->suspect = true;
		recovery_rail(comm, rail, alternative);
	} else if (rail->suspect && !rail->silent_ms) {
		rail->suspect = false;
		recorder_note(comm, rail, ANYNET_EVENT_TRUSTED, 0, 0, NULL);
		recovery_cancel(comm, rail);
		if (!comm->is_send)
			recv_doubt(comm, rail->index, false);
	}
}

static void ping(struct anynet_comm *comm, uint64_t now)
{
	comm->session->watch.pinged_ms = now;
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i] && comm->rails[i]->fd >= 0)
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
		if (comm->rails[i] && (comm->rails[i]->fd < 0 || comm->rails[i]->suspect))
			why = "its connections are broken or silent and are being replaced";
	anynet_warn("%s peer %s pid %u addr %s dev %s: no progress for %s s: %s; %s",
		    comm->is_send ? "send to" : "receive from", comm->peer.host, comm->peer.pid,
		    comm->peer.addr, comm->dev->name, seconds_text(stall, 0, seconds), asked, why);
}

void watch_comm(struct anynet_comm *comm, uint64_t now)
{
	struct comm_watch *watch = &comm->session->watch;
	uint64_t progress =
		comm->is_send ? send_progress(comm) + watch->acked : recv_progress(comm);
	bool waits = comm_pending(comm) || (comm->is_send && !send_confirmed(comm));

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
		if (comm->rails[i] && comm->rails[i]->fd >= 0 && (waits || comm->rails[i]->suspect))
			watch_rail(comm, comm->rails[i], now);
	for (unsigned i = 0; i < comm->rail_count && !comm_error(comm) && recovery_wanted(); i++) {
		if (!comm->rails[i] || comm->rails[i]->fd >= 0)
			continue;
		recovery_rail(comm, comm->rails[i], false);
		/* The sender may not know: a reset can come to one side only. */
		if (!comm->is_send && now - comm->rails[i]->broke_ms >= WATCH_MS)
			recv_doubt(comm, i, true);
	}
}
