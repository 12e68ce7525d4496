/* SPDX-License-Identifier: Apache-2.0 */
/* Redials one stream; see redial.h. recovery.c handles the answers. */
#include "session/redial.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/socket.h"
#include "session/progress.h"

/* Limits for the connection to be established, then for the WELCOME. A limit is the minimum plus LIMIT_RTTS round trips
 * in the first round over all pairs, and the minimum doubles with each round: a dead path costs little time, and a slow
 * peer is reached in the end. */
#define CONNECT_MIN_MS 60
#define CONNECT_MAX_MS 500
#define ANSWER_MIN_MS  250
#define ANSWER_MAX_MS  5000
#define LIMIT_RTTS     4
#define ROUNDS_MAX     5 /* max doublings */

struct recovery *recovery_get(struct anynet_comm *comm)
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

static void note(struct recovery *recovery, struct anynet_wire_pair pair, int err)
{
	unsigned i = 0;

	while (i < recovery->attempt_count && !pairs_equal(recovery->attempts[i].pair, pair))
		i++;
	if (i == recovery->attempt_count)
		recovery->attempt_count++;
	recovery->attempts[i] = (struct attempt){ pair, err };
}

void redial_describe(const struct anynet_comm *comm, char *text, size_t bytes)
{
	const struct recovery *recovery = comm->session->recovery;
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; recovery && i < recovery->attempt_count && used < bytes; i++) {
		char from[SOCKET_TEXT_BYTES], to[SOCKET_TEXT_BYTES];
		struct dial dial = DIAL_INIT;
		int n;

		if (!dial_pair(&dial, &comm->session->paths, recovery->attempts[i].pair))
			continue;
		n = snprintf(text + used, bytes - used, "%s%s -> %s (%s)", used ? ", " : "; tried ",
			     socket_text(&dial.from, from), socket_text(&dial.to, to),
			     socket_error(recovery->attempts[i].err));
		used += n > 0 ? (size_t)n : 0;
	}
}

/* Nothing listens there. A process that lives keeps its listening sockets open for as long as it has the comm. */
static void note_refusal(struct recovery *recovery, uint64_t now)
{
	if (!recovery->refusals++)
		recovery->refused_ms = now;
}

static uint64_t pause_min(const struct redial *redial)
{
	return redial->aim == REDIAL_HOME ? HOME_MIN_MS : REDIAL_MIN_MS;
}

static uint64_t pause_max(const struct redial *redial)
{
	return redial->aim == REDIAL_HOME ? HOME_MAX_MS : REDIAL_MAX_MS;
}

void redial_begin(struct redial *redial, enum redial_aim aim, uint64_t next_ms)
{
	redial->aim = aim;
	redial->tries = 0;
	redial->next_ms = next_ms;
	redial->pause_ms = pause_min(redial);
}

void redial_end(struct redial *redial)
{
	dial_close(&redial->dial);
	redial->aim = REDIAL_NOTHING;
}

void redial_hurry(struct redial *redial)
{
	redial->next_ms = 0;
	redial->pause_ms = pause_min(redial);
	if (redial->dial.state == DIAL_CONNECT || redial->dial.state == DIAL_HELLO)
		dial_close(&redial->dial);
}

void redial_next(struct redial *redial, uint64_t now)
{
	dial_close(&redial->dial);
	redial->next_ms = now;
	if (redial->pairs && ++redial->tries % redial->pairs)
		return;
	redial->next_ms = now + redial->pause_ms;
	redial->pause_ms = anynet_min(redial->pause_ms * 2, pause_max(redial));
}

void redial_failed(struct anynet_comm *comm, struct redial *redial, int err, uint64_t now)
{
	struct recovery *recovery = comm->session->recovery;

	note(recovery, redial->pair, err);
	if (redial->aim == REDIAL_HOME)
		;
	else if (err == -ECONNREFUSED)
		note_refusal(recovery, now);
	else if (redial->dial.state > DIAL_HELLO)
		recovery->refusals = 0; /* the process exists */
	redial_next(redial, now);
}

static uint64_t grown(const struct anynet_comm *comm, const struct redial *redial, uint64_t min_ms, uint64_t max_ms)
{
	unsigned rounds = redial->pairs ? redial->tries / redial->pairs : 0;

	return anynet_min(min_ms << anynet_min(rounds, ROUNDS_MAX), max_ms) +
	       LIMIT_RTTS * (uint64_t)comm->session->rtt_us / 1000;
}

/* The answer to a QP hello is followed by steps of the queue pair, which have timeouts of their own. */
static uint64_t answer_limit(const struct anynet_comm *comm, const struct redial *redial)
{
	return redial->dial.kind == ANYNET_KIND_QP ? ANSWER_MAX_MS
						     : grown(comm, redial, ANSWER_MIN_MS, ANSWER_MAX_MS);
}

/* Before a dial starts: has the latest one left a proven queue pair, which a RESUME is to take? */
static bool has_proven_qp(const struct redial *redial)
{
	return redial->dial.qp;
}

/*
 * A stream continues over TCP at once (RESUME), even if a queue pair carried it: that costs one round trip. A new queue
 * pair is made beside it (QP hello) and takes over when it is proven. So a fabric that is down, or loses the data, delays
 * nothing.
 */
static enum anynet_hello_kind kind_of(const struct anynet_comm *comm,
				      const struct anynet_stream *stream,
				      const struct redial *redial)
{
	if (!stream)
		return ANYNET_KIND_PROBE;
	return redial->aim == REDIAL_HOME && !has_proven_qp(redial) && pairs_want_qp(comm, stream)
		       ? ANYNET_KIND_QP
		       : ANYNET_KIND_RESUME;
}

/* Chooses the next pair; false = there is none. A proven queue pair stays on its pair. */
static bool choose_pair(struct anynet_comm *comm, struct anynet_stream *stream,
			struct redial *redial)
{
	struct anynet_wire_pair pairs[PAIRS_MAX];

	if (has_proven_qp(redial))
		return true;
	redial->pairs = pairs_list(comm, stream, redial->aim, pairs);
	if (redial->pairs)
		redial->pair = pairs[redial->tries % redial->pairs];
	return redial->pairs;
}

/* Starts a dial over the next pair. 0; -EAGAIN = not due, or no pair; other -errno = the dial has failed. */
static int start_dial(struct anynet_comm *comm, struct anynet_stream *stream, struct redial *redial,
		      uint64_t now)
{
	const struct comm_paths *paths = &comm->session->paths;
	enum anynet_hello_kind kind;

	if (now < redial->next_ms)
		return -EAGAIN;
	if (comm->tcp.only)
		dial_close(&redial->dial); /* frees a queue pair that was proven in the meantime */
	kind = kind_of(comm, stream, redial);
	if (!choose_pair(comm, stream, redial)) {
		redial_next(redial, now);
		return -EAGAIN;
	}
	redial->limit_ms = now + grown(comm, redial, CONNECT_MIN_MS, CONNECT_MAX_MS);
	if (!dial_pair(&redial->dial, paths, redial->pair))
		return -EADDRNOTAVAIL;
	redial->dial.narrow = stream && progress_is_narrow(stream, redial->pair);
	redial->dial.quiet =
		kind == ANYNET_KIND_QP && !stream_is_news(stream->progress.qps_failed + 1);
	return dial_start(&redial->dial, paths,
			  kind == ANYNET_KIND_QP ? paths->own[redial->pair.from] : NULL, kind,
			  stream ? stream->index : 0, ++redial->epoch);
}

int redial_step(struct anynet_comm *comm, struct anynet_stream *stream, struct redial *redial,
		uint64_t now)
{
	struct dial *dial = &redial->dial;
	int ret = 0;

	if (dial->state == DIAL_IDLE) {
		ret = start_dial(comm, stream, redial, now);
		if (ret == -EAGAIN)
			return ret;
	}
	if (!ret)
		ret = dial_step(dial);
	redial->said |= dial->state > DIAL_HELLO && dial->kind != ANYNET_KIND_QP;
	if (ret == -EAGAIN && dial->state > DIAL_HELLO && !socket_unsent(dial->fd))
		redial->unanswered_ms = now;
	if (ret == -EAGAIN &&
	    now < redial->limit_ms + (dial->state <= DIAL_HELLO ? 0 : answer_limit(comm, redial)))
		return -EAGAIN;
	if (ret) {
		redial_failed(comm, redial, ret == -EAGAIN ? -ETIMEDOUT : ret, now);
		return -EAGAIN;
	}
	comm->session->recovery->refusals = 0; /* whatever the answer is */
	return 0;
}
