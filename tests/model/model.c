/* SPDX-License-Identifier: Apache-2.0 */
/* The model: initial and final states, the steps, and the normal form of states. */
#include "model.h"

#include <assert.h>
#include <string.h>

#define REST_BYTES 9 /* of a state: its fields outside arrays */

static_assert(sizeof(struct model_state) ==
		      STREAMS * sizeof(struct stream_state) +
			      MESSAGE_MAX * (sizeof(struct send_message) +
					     sizeof(struct incoming_state) + 1) +
			      SLOT_MAX * sizeof(struct slot_state) + REST_BYTES,
	      "states are compared as bytes: nothing between the fields");

/* One message: "c" copied, "1" … "3" that many chunks, "k1" … "k3" and kept; then perhaps "b" for the second tag. */
static const char *parse_message(struct message_kind *kind, const char *text)
{
	*kind = (struct message_kind){
		.chunks = 1,
		.units = 1,
		.copied = *text == 'c',
		.kept = *text == 'k',
	};
	text += kind->kept;
	if (!kind->copied) {
		if (*text < '1' || *text > '0' + CHUNK_MAX)
			return NULL;
		kind->chunks = (uint8_t)(*text - '0');
	}
	text++;
	if (*text == 'b') {
		kind->tag = 1;
		text++;
	}
	return text;
}

bool model_config_parse(struct model_config *cfg)
{
	const char *text = cfg->messages;

	cfg->count = 0;
	do {
		struct message_kind *kind = &cfg->kinds[cfg->count];

		text = cfg->count < MESSAGE_MAX ? parse_message(kind, text) : NULL;
		if (!text)
			return false;
		if (!kind->copied)
			kind->units = (uint8_t)cfg->units;
		if (kind->chunks * kind->units > 8)
			return false;
		cfg->receive_tags[cfg->count++] = kind->tag;
	} while (*text++ == ',');
	if (text[-1])
		return false;
	for (unsigned i = 0; cfg->receives && i < cfg->count; i++) {
		if (cfg->receives[i] != 'a' && cfg->receives[i] != 'b')
			return false;
		cfg->receive_tags[i] = cfg->receives[i] == 'b';
	}
	return cfg->slots && cfg->slots <= SLOT_MAX && cfg->units && cfg->units <= UNIT_MAX &&
	       cfg->posted <= cfg->count && cfg->in_flight;
}

struct model_state model_start(const struct model_config *cfg)
{
	struct model_state s;

	memset(&s, 0, sizeof(s));
	for (unsigned r = 0; r < STREAMS; r++) {
		s.streams[r].phase = PHASE_UP;
		s.streams[r].alive = 1;
	}
	s.plain = 1;
	s.posted_receives = (uint8_t)cfg->posted;
	for (unsigned i = 1; i < cfg->posted; i++)
		if (cfg->receive_tags[i] != cfg->receive_tags[0])
			s.plain = 0;
	return s;
}

/* A connection is cut, whichever side it belongs to and in any state. arg: the one being dialled. */
static bool cut(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];
	uint8_t *alive = arg ? &stream->dial_alive : &stream->alive;

	if (!*alive || m->s.breaks == m->cfg->breaks)
		return false;
	m->s.breaks++;
	*alive = 0;
	return true;
}

static const struct {
	step_fn *try;
	uint8_t streams, args;
	bool may; /* optional; the other steps happen eventually, unless something prevents them */
} kinds[STEP_KINDS] = {
	[STEP_POST] = { send_post, 1, 1, false },
	[STEP_WRITE] = { send_write, STREAMS, 1, false },
	[STEP_CONTROL] = { send_control, STREAMS, 1, false },
	[STEP_NOTICE] = { send_notice, STREAMS, 1, false },
	[STEP_REDIAL] = { send_redial, STREAMS, 1, false },
	[STEP_WELCOME] = { send_welcome, STREAMS, 1, false },
	[STEP_OVER] = { send_drain_over, STREAMS, 1, false },
	[STEP_RECV_POST] = { recv_post, 1, 1, false },
	[STEP_READ] = { recv_read, STREAMS, 1, false },
	[STEP_TELL] = { recv_tell, STREAMS, 4, false },
	[STEP_HELLO] = { recv_hello, STREAMS, 1, false },
	[STEP_RECV_CLOSE] = { recv_close, 1, 1, false },
	[STEP_RECV_GONE] = { recv_gone, 1, 1, false },
	[STEP_SWITCH] = { recv_switch, STREAMS, 1, false },
	[STEP_CUT] = { cut, STREAMS, 2, true },
	[STEP_DIAL] = { send_dial, STREAMS, 1, true },
	[STEP_OLD_HELLO] = { recv_old_hello, STREAMS, 4, true },
	[STEP_RECV_NOTICE] = { recv_notice, STREAMS, 1, true },
};

/* --- invariants of every state --- */

static bool is_final(const struct model *m)
{
	if (!recv_all_done(m) || !send_all_done(m) || m->s.posted_sends < m->cfg->count)
		return false;
	for (unsigned i = 0; !m->cfg->close && i < m->cfg->count; i++)
		if (m->s.sends[i].state != SEND_ACKED)
			return false;
	for (unsigned r = 0; m->cfg->close && r < STREAMS; r++)
		if (m->s.streams[r].phase != PHASE_OVER)
			return false;
	return !m->cfg->close || m->s.closing == CLOSING_GONE;
}

/* Distance of a stream from being able to work: only a cut or an unauthenticated peer can increase it. */
static unsigned stream_stage(const struct stream_state *stream)
{
	unsigned sender = stream->phase == PHASE_DOWN ? 2 : !stream->alive;

	if (stream->phase == PHASE_OVER)
		return 40;
	if (stream->hello == HELLO_NONE)
		return stream->alive ? 30 : 10;
	if (!stream->dial_alive)
		return (stream->hello == HELLO_ACCEPTED ? 4 : 12) + sender;
	if (stream->hello == HELLO_ACCEPTED)
		return 24 + sender;
	return (stream->epoch == stream->fenced ? 16 : 20) + sender;
}

static unsigned message_progress(const struct model *m)
{
	unsigned sum = m->s.posted_sends + m->s.posted_receives, in_slots = 0;

	for (unsigned i = 0; i < m->cfg->count; i++) {
		const struct incoming_state *incoming = &m->s.incoming[i];

		sum += 2u * m->s.sends[i].given + 2u * incoming->received + incoming->bound;
		sum += i < m->s.posted_sends && !m->s.sends[i].rts_due;
		in_slots += m->s.seen >> i & 1;
	}
	for (unsigned i = 0; i < m->cfg->slots; i++) {
		sum += 10u * m->s.slots[i].rank -
		       2u * (unsigned)__builtin_popcount(m->s.slots[i].again);
		in_slots -= m->s.slots[i].rank != RANK_UNSEEN;
	}
	return sum + 10u * RANK_TOLD * in_slots;
}

/* Every step increases this. So there are no cycles: without further cuts all paths lead to a state without a step, and
 * those are checked one by one. */
static unsigned progress(const struct model *m)
{
	unsigned sum = message_progress(m), stages = 0;

	for (unsigned r = 0; r < STREAMS; r++) {
		const struct stream_state *stream = &m->s.streams[r];

		stages += 4 * stream_stage(stream) + (stream->conn == CONN_CLOSED) + !stream->late;
		sum += 40u + stream->bye_sent + stream->bye_read + stream->header -
		       2u * stream->bye_due;
		sum -= stream->logged - stream->written;
		sum -= stream->control.count + stream->dial_control.count;
	}
	stages += 400u * m->s.closing;
	return (m->s.breaks + m->s.replays) * 10000000u + stages * 10000u + sum;
}

/* --- */

static void subtract(uint8_t *field, uint8_t by)
{
	*field = *field > by ? *field - by : 0;
}

/* Numbers of frames and epochs count from the receiver's position; what it has received is dropped. */
static void cut_log(struct stream_state *stream)
{
	uint8_t by = stream->consumed;

	if (by) {
		memmove(stream->log, stream->log + by, (size_t)LOG_MAX - by);
		memset(stream->log + LOG_MAX - by, 0, by);
	}
	subtract(&stream->logged, by);
	subtract(&stream->written, by);
	subtract(&stream->at, by);
	subtract(&stream->limit, by);
	subtract(&stream->frames_told, by);
	stream->consumed = 0;
	subtract(&stream->epoch, stream->fenced);
	stream->fenced = 0;
}

void model_normalise(const struct model_config *cfg, struct model_state *s)
{
	if (cfg->mutation)
		return;
	for (unsigned r = 0; r < STREAMS; r++) {
		struct stream_state *stream = &s->streams[r];

		cut_log(stream);
		if (stream->conn == CONN_CLOSED)
			stream->limit = stream->at;
	}
	for (unsigned i = 0; i < cfg->count; i++)
		if (s->sends[i].state == SEND_ACKED)
			s->sends[i].slot = 0;
}

void model_sort_streams(struct model_state *s)
{
	static const uint8_t other[] = { 0, 2, 1, 3 };
	struct stream_state first = s->streams[0];

	if (memcmp(&s->streams[0], &s->streams[1], sizeof(first)) <= 0)
		return;
	s->streams[0] = s->streams[1];
	s->streams[1] = first;
	for (unsigned i = 0; i < SLOT_MAX; i++) {
		s->slots[i].told_on = other[s->slots[i].told_on];
		s->slots[i].again = other[s->slots[i].again];
	}
}

/* --- steps --- */

static void finish_step(struct model *m, unsigned before)
{
	model_normalise(m->cfg, &m->s);
	if (progress(m) <= before)
		model_fault(m, "steps go round in a circle");
}

unsigned model_steps(const struct model_config *cfg, const struct model_state *state,
		     struct step steps[STEP_MAX], struct model_state next[STEP_MAX],
		     const char **fault)
{
	struct model m = { .cfg = cfg, .s = *state };
	unsigned count = 0, before = progress(&m);
	bool stuck = true;

	*fault = NULL;
	for (uint8_t kind = 0; kind < STEP_KINDS; kind++) {
		for (unsigned i = 0; i < kinds[kind].streams * kinds[kind].args; i++) {
			struct step step = { kind, (uint8_t)(i % kinds[kind].streams),
					     (uint8_t)(i / kinds[kind].streams) };

			if (!kinds[kind].try(&m, step.stream, step.arg))
				continue;
			finish_step(&m, before);
			stuck = stuck && kinds[kind].may;
			steps[count] = step;
			next[count++] = m.s;
			*fault = m.fault;
			if (m.fault)
				return count;
			m.s = *state;
		}
	}
	if (!stuck || is_final(&m))
		return count;
	*fault = "nothing can go on, but not all is done";
	return 0;
}
