/* SPDX-License-Identifier: Apache-2.0 */
/* Progress over connections; see progress.h. */
#include "session/progress.h"

#include <errno.h>
#include <stdio.h>

#include "base/libc_text.h"
#include "device/carrier.h"
#include "session/pairs.h"

#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 250
#define PAUSE_SHIFTS 5 /* max doublings */

#define QP_FRAMES       16 /* a queue pair that brought fewer counts as useless */
#define QP_PAUSE_MS     1000
#define QP_PAUSE_SHIFTS 9 /* max doublings: 8.5 minutes */
#define STEADY_MS       60000

void progress_begin(struct anynet_stream *stream, struct stream_position from)
{
	struct stream_progress *progress = &stream->progress;
	struct stream_signs signs = { 0 };

	progress->began_ms = os_now_ms();
	/* A new position is progress, whatever the kernel reported when the last connection ended. */
	if (from.frames != progress->from.frames || from.part != progress->from.part ||
	    !progress->since_ms) {
		progress->vain = progress->same = 0;
		progress->since_ms = progress->began_ms;
	}
	progress->from = from;
	progress->acked = stream->ops->signs(stream, &signs) ? signs.acked : 0;
	stream->path.health.seen = signs;
	stream->path.health.counted = signs.acked;
}

/* A connection has moved something: start to count again. since_ms: when it became silent, or else its end. */
static void begin_row(struct stream_progress *progress, uint64_t since_ms)
{
	progress->vain = 0;
	progress->since_ms = since_ms;
}

/* How long a sender's TCP connection had nothing in flight before what is stuck now. (Not known of a queue pair, and of
 * a path that passes heartbeats only: the part before the last one counts as well.) */
static uint64_t idle_ms(const struct anynet_stream *stream, uint64_t now)
{
	uint64_t until_ms = stream->path.health.silent_ms ? stream->path.health.silent_ms : now;
	uint64_t began_ms = stream->progress.began_ms;

	return stream->comm->is_send && !stream->qp.carries && until_ms > began_ms ? until_ms - began_ms : 0;
}

/* Has an alarm been raised for lack of acknowledgements by the present connection? Small packets may have been answered
 * since. A lost carrier does not count. */
static bool fell_silent(const struct anynet_stream *stream)
{
	return stream->alarms.ms > stream->progress.began_ms;
}

static void stuck(struct anynet_stream *stream, uint64_t now)
{
	struct stream_progress *progress = &stream->progress;
	uint64_t waits_ms =
		stream->comm->session->watch.since_ms ? stream->comm->session->watch.since_ms : now;

	/* The connection may have been idle for hours: count from when requests began to wait. */
	if (!progress->vain++)
		progress->since_ms = anynet_max(progress->since_ms, waits_ms);
	else
		progress->since_ms += idle_ms(stream, now);
	if (!fell_silent(stream))
		return;
	if (!pairs_equal(progress->narrow, stream->path.pair) && progress->vain == 1)
		progress->silences = 0; /* between other NICs, and something has moved since */
	progress->narrow = stream->path.pair;
	progress->silences++;
}

void progress_end(struct anynet_stream *stream, uint64_t now)
{
	struct stream_progress *progress = &stream->progress;
	enum stream_moved moved = stream->ops->moved(stream);

	progress->same += moved != STREAM_IDLE;
	switch (moved) {
	case STREAM_STUCK:
		stuck(stream, now);
		break;
	case STREAM_MOVED:
		begin_row(progress, stream->path.health.silent_ms ? stream->path.health.silent_ms : now);
		if (pairs_equal(progress->narrow, stream->path.pair))
			progress->narrow = PAIRS_NONE; /* try full-size packets again */
		break;
	case STREAM_IDLE:
		progress->since_ms += now - progress->began_ms; /* nothing to move: not counted */
	}
}

void progress_look(struct anynet_stream *stream, uint64_t now)
{
	if (anynet_unlikely(stream->progress.vain) && stream->ops->moved(stream) == STREAM_MOVED)
		begin_row(&stream->progress, now);
}

bool progress_is_over(struct anynet_stream *stream, uint64_t now)
{
	const struct stream_progress *progress = &stream->progress;
	uint64_t since_ms = progress->since_ms + (stream_stands(stream) ? idle_ms(stream, now) : 0);

	/* No subtraction: since_ms may be later than `now`. */
	return progress->vain &&
	       (!stream_stands(stream) || stream->ops->moved(stream) == STREAM_STUCK) &&
	       now >= since_ms + (uint64_t)anynet_net.cfg->recovery_timeout_ms;
}

unsigned progress_in_vain(const struct anynet_stream *stream)
{
	return stream->progress.same > stream->progress.vain ? stream->progress.same
							     : stream->progress.vain;
}

uint64_t progress_pause_ms(const struct anynet_stream *stream)
{
	unsigned same = stream->progress.same;

	return same < 2 ? 0 : anynet_min(PAUSE_MIN_MS << anynet_min(same - 1, PAUSE_SHIFTS), PAUSE_MAX_MS);
}

/* Did the connection join the stream's own NICs, over TCP, with no queue pair wanted, and did it break or was it
 * suspect? */
static bool home_broke(const struct anynet_stream *stream)
{
	return (stream->breaks.err || stream->state == STREAM_SUSPECT) &&
	       !pairs_want_qp(stream->comm, stream) && pairs_equal(stream->path.pair, stream->home);
}

void progress_lapse(struct anynet_stream *stream, uint64_t now)
{
	struct stream_progress *progress = &stream->progress;
	int err = stream->qp.err;
	const struct anynet_device *nic = err ? stream->qp.nic : stream->path.nic.dev;

	stream->qp.err = 0;
	if (!(err || home_broke(stream)) || (nic && carrier_is_lost(nic)))
		return; /* a NIC that is down is not used until an event reports it up */
	if (err == -EREMOTEIO || (err && stream->qp.brought < QP_FRAMES))
		progress->lapses += progress->lapses ? 1 : 2;
	else if (now - progress->began_ms < STEADY_MS)
		progress->lapses++;
	else
		progress->lapses = 0;
}

/* The first lapse of a queue pair that was of use costs no pause. */
uint64_t progress_home_pause_ms(const struct anynet_stream *stream)
{
	unsigned more = stream->progress.lapses ? stream->progress.lapses - 1 : 0;

	if (!pairs_want_qp(stream->comm, stream))
		return anynet_min((uint64_t)HOME_MIN_MS << anynet_min(more, QP_PAUSE_SHIFTS), HOME_MAX_MS);
	return more ? (uint64_t)QP_PAUSE_MS << anynet_min(more - 1, QP_PAUSE_SHIFTS) : 0;
}

/* Does the present connection join these two NICs, and is it the next one to fall silent? */
static bool is_silent_too(struct anynet_stream *stream, struct anynet_wire_pair pair)
{
	return stream_stands(stream) && fell_silent(stream) &&
	       pairs_equal(stream->path.pair, pair) && stream->ops->moved(stream) == STREAM_STUCK;
}

/* The second connection that falls silent shows it: the first may have met an outage, in which handshakes do not pass
 * either. Nothing moved between two in a row, so they count even if they joined different NICs: all may be narrow. */
bool progress_is_narrow(struct anynet_stream *stream, struct anynet_wire_pair pair)
{
	const struct stream_progress *progress = &stream->progress;

	return (progress->vain > 1 || pairs_equal(progress->narrow, pair)) &&
	       progress->silences + is_silent_too(stream, pair) >= 2;
}

void progress_describe(const struct anynet_stream *stream, char *text, size_t bytes)
{
	const struct stream_progress *progress = &stream->progress;
	char seconds[SECONDS_TEXT_BYTES];

	seconds_text(os_now_ms() - progress->since_ms, 1, seconds);
	if (stream->comm->is_send)
		snprintf(
			text, bytes,
			"no data arrived for %s s, although connections were established (%u, of "
			"all %u with packets of %d bytes): the network passes handshakes only; "
			"check the path MTU (ping -M do -s SIZE) and firewalls",
			seconds, progress->vain, progress->narrowed, PROGRESS_NARROW_BYTES);
	else
		snprintf(text, bytes,
			 "%u connections in a row broke within the same frame, for %s s: %s",
			 progress->vain, seconds,
			 stream->breaks.err == -EBADMSG
				 ? "its checksum is always wrong: the sender's memory or a NIC "
				   "corrupts data"
				 : "a device between the hosts closes them");
}
