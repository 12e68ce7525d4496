/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up a comm that cannot be recovered; see give_up.h. comm_fail (comm.c) logs it. */
#include "session/give_up.h"

#include <errno.h>
#include <stdio.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "message/stream_log.h"
#include "session/progress.h"
#include "session/redial.h"

#define GONE_MS       500 /* dials refused for so long: the peer's process is gone */
#define GONE_REFUSALS 2

bool give_up_read_last(struct anynet_comm *comm)
{
	const struct message_ops *ops = message_ops(comm);
	uint64_t progress = ops->progress(comm);
	bool parked = false;

	for (unsigned i = 0; i < comm->stream_count; i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (!stream_stands(stream))
			continue;
		if (!stream->path.parked)
			stream->ops->receive(stream); /* the next turn gets an error again */
		parked |= stream->path.parked;
	}
	return !comm->noted && !comm_error(comm) && ops->progress(comm) == progress && (!parked || comm_pending(comm));
}

/* Nothing is asked of the comm: that its peer is lost is no error until NCCL uses it again. */
static void end_idle(struct anynet_comm *comm, int err, const char *why, const char *attempts)
{
	anynet_info("%s peer %s pid %u dev %s: lost while idle: %s%s%s; NCCL gets an error if it uses it again",
		    comm_direction(comm), comm->peer.host, comm->peer.pid, comm->dev->name, why,
		    comm->session->recovery->refusal, attempts);
	recorder_note(comm, NULL, ANYNET_EVENT_LOST, err, 0, why);
	comm->peer_closed = comm->session->peer_lost = true;
}

static void fail(struct anynet_comm *comm, int err, const char *why, const char *attempts, uint64_t now)
{
	const struct recovery *recovery = comm->session->recovery;
	uint64_t waits_ms = comm->session->watch.since_ms;
	char asked[160] = "", lost[64] = "", seconds[SECONDS_TEXT_BYTES];

	message_ops(comm)->describe(comm, asked, sizeof(asked));
	if (recovery->since_ms)
		snprintf(lost, sizeof(lost), "; without a connection for %s s",
			 seconds_text(now - recovery->since_ms, 1, seconds));
	comm_fail(comm, NULL, err, "%s%s%s%s; pending: %s, for %s s", why, recovery->refusal,
		  attempts, lost, asked, seconds_text(waits_ms ? now - waits_ms : 0, 1, seconds));
}

void give_up(struct anynet_comm *comm, int err, const char *why, uint64_t now)
{
	char attempts[400];

	if (!give_up_read_last(comm))
		return;
	redial_describe(comm, attempts, sizeof(attempts));
	if (comm_is_waited_for(comm))
		fail(comm, err, why, attempts, now);
	else
		end_idle(comm, err, why, attempts);
	recovery_free(comm);
	comm_close_streams(comm);
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

	if (recovery->refusals < GONE_REFUSALS || now - recovery->refused_ms < GONE_MS)
		return false;
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (comm->streams[i] && may_listen(comm, comm->streams[i]->home))
			return false;
	return true;
}

/* A half-built comm without requests does not time out: connect has returned and accept waits, so neither side would
 * learn of its end. It ends only if the peer is known to be gone. */
static bool ends_unnoticed(const struct anynet_comm *comm)
{
	return comm_is_half_built(comm) && !comm_is_waited_for(comm);
}

/* From when does ANYNET_RECOVERY_TIMEOUT count, if the connection was lost at `lost_ms`? If nothing is owed, not before the
 * request that waits. 0 = nothing waits. */
static uint64_t counts_from(const struct anynet_comm *comm, uint64_t lost_ms, bool owes)
{
	uint64_t waits_ms = comm->session->watch.since_ms;

	if (owes)
		return lost_ms;
	return waits_ms ? anynet_max(lost_ms, waits_ms) : 0;
}

static bool is_over(uint64_t since_ms, uint64_t now)
{
	return since_ms && now >= since_ms + (uint64_t)anynet_net.cfg->recovery_timeout_ms;
}

/* An idle comm has all the time: what it has sent may have arrived without an acknowledgement, and a receiver that waits for more
 * counts its own time. */
static bool has_run_out(const struct anynet_comm *comm, uint64_t now)
{
	uint64_t lost_ms = comm->session->recovery->since_ms;

	return is_over(counts_from(comm, lost_ms, comm_is_closed(comm)), now);
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

/* Has the stream been broken for ANYNET_RECOVERY_TIMEOUT beside others, while requests wait or it has something to bring?
 * Requests may wait for what the receiver has told over its last path, and the sender has not read. A peer that is stopped
 * is waited for, as over the streams that work. */
static bool is_missed(const struct anynet_comm *comm, struct anynet_stream *stream, uint64_t now)
{
	const struct recovery *recovery = comm->session->recovery;
	uint64_t lost_ms;

	if (stream_stands(stream))
		return false;
	lost_ms = anynet_max(stream->breaks.ms, recovery->redials[stream->index].unanswered_ms);
	lost_ms = anynet_max(lost_ms, recovery->back_ms);
	return is_over(counts_from(comm, lost_ms, stream_log_owes(stream)), now);
}

/* Gives up if a stream cannot be connected again beside others that work. */
static void give_up_if_missed(struct anynet_comm *comm, uint64_t now)
{
	for (unsigned i = 0; comm->is_send && i < comm->stream_count && !ends_unnoticed(comm); i++) {
		struct anynet_stream *stream = comm->streams[i];
		char why[200];

		if (!stream || !is_missed(comm, stream, now))
			continue;
		snprintf(why, sizeof(why), "path %u of %u broke and did not come back within ANYNET_RECOVERY_TIMEOUT, although "
			 "another one works", i, comm->stream_count);
		give_up(comm, -ETIMEDOUT, why, now);
		return;
	}
}

void give_up_if_lost(struct anynet_comm *comm, uint64_t now)
{
	give_up_if_stuck(comm, now);
	if (comm->session->recovery && !comm->session->recovery->since_ms)
		give_up_if_missed(comm, now);
	if (!comm->session->recovery || !comm->session->recovery->since_ms || comm->session->unread)
		return;
	if (peer_is_gone(comm, now))
		give_up(comm, -ECONNRESET, "the peer process has ended; look at its log first",
			now);
	else if (has_run_out(comm, now))
		give_up(comm, -ETIMEDOUT,
			"the connection broke and did not come back within "
			"ANYNET_RECOVERY_TIMEOUT",
			now);
}
