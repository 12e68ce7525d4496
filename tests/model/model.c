/* SPDX-License-Identifier: Apache-2.0 */
/* The model as a whole: where it starts and ends, which steps there are, what makes states equal. */
#include "model.h"

#include <assert.h>
#include <string.h>

#define REST_BYTES 9 /* of a state: its single fields */

static_assert(sizeof(struct model_state) ==
		      RAILS * sizeof(struct rail_state) +
			      MESSAGE_MAX * (sizeof(struct send_message) +
					     sizeof(struct arrival_state) + 1) +
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
	for (unsigned r = 0; r < RAILS; r++) {
		s.rails[r].phase = PHASE_UP;
		s.rails[r].alive = 1;
	}
	s.plain = 1;
	s.posted_receives = (uint8_t)cfg->posted;
	for (unsigned i = 1; i < cfg->posted; i++)
		if (cfg->receive_tags[i] != cfg->receive_tags[0])
			s.plain = 0;
	return s;
}

/* A connection is cut, whichever side it belongs to and whatever it was doing. arg: the one dialled. */
static bool cut(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];
	uint8_t *alive = arg ? &rail->dial_alive : &rail->alive;

	if (!*alive || m->s.breaks == m->cfg->breaks)
		return false;
	m->s.breaks++;
	*alive = 0;
	return true;
}

static const struct {
	step_fn *try;
	uint8_t rails, args;
	bool may; /* happens or not: the others happen some time, unless something prevents them */
} kinds[STEP_KINDS] = {
	[STEP_POST] = { send_post, 1, 1, false },
	[STEP_WRITE] = { send_write, RAILS, 1, false },
	[STEP_CONTROL] = { send_control, RAILS, 1, false },
	[STEP_NOTICE] = { send_notice, RAILS, 1, false },
	[STEP_REDIAL] = { send_redial, RAILS, 1, false },
	[STEP_WELCOME] = { send_welcome, RAILS, 1, false },
	[STEP_OVER] = { send_drain_over, RAILS, 1, false },
	[STEP_RECV_POST] = { recv_post, 1, 1, false },
	[STEP_READ] = { recv_read, RAILS, 1, false },
	[STEP_TELL] = { recv_tell, RAILS, 4, false },
	[STEP_HELLO] = { recv_hello, RAILS, 1, false },
	[STEP_RECV_CLOSE] = { recv_close, 1, 1, false },
	[STEP_RECV_GONE] = { recv_gone, 1, 1, false },
	[STEP_SWITCH] = { recv_switch, RAILS, 1, false },
	[STEP_CUT] = { cut, RAILS, 2, true },
	[STEP_DIAL] = { send_dial, RAILS, 1, true },
	[STEP_OLD_HELLO] = { recv_old_hello, RAILS, 4, true },
	[STEP_RECV_NOTICE] = { recv_notice, RAILS, 1, true },
};

/* --- what has to hold of every state --- */

static bool is_final(const struct model *m)
{
	if (!recv_all_done(m) || !send_all_done(m) || m->s.posted_sends < m->cfg->count)
		return false;
	for (unsigned i = 0; !m->cfg->close && i < m->cfg->count; i++)
		if (m->s.sends[i].state != SEND_ACKED)
			return false;
	for (unsigned r = 0; m->cfg->close && r < RAILS; r++)
		if (m->s.rails[r].phase != PHASE_OVER)
			return false;
	return !m->cfg->close || m->s.closing == CLOSING_GONE;
}

/* How far a rail is from doing its work: only a cut or an unauthenticated peer can make it less. */
static unsigned rail_stage(const struct rail_state *rail)
{
	unsigned sender = rail->phase == PHASE_DOWN ? 2 : !rail->alive;

	if (rail->phase == PHASE_OVER)
		return 40;
	if (rail->hello == HELLO_NONE)
		return rail->alive ? 30 : 10;
	if (!rail->dial_alive)
		return (rail->hello == HELLO_ACCEPTED ? 4 : 12) + sender;
	if (rail->hello == HELLO_ACCEPTED)
		return 24 + sender;
	return (rail->epoch == rail->fenced ? 16 : 20) + sender;
}

static unsigned message_progress(const struct model *m)
{
	unsigned sum = m->s.posted_sends + m->s.posted_receives, in_slots = 0;

	for (unsigned i = 0; i < m->cfg->count; i++) {
		const struct arrival_state *arrival = &m->s.arrivals[i];

		sum += 2u * m->s.sends[i].given + 2u * arrival->received + arrival->bound;
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

/* Every step makes this larger. So there is no way round in a circle: once nothing is cut any more,
 * all ways lead to a state without a step, and those are looked at one by one. */
static unsigned progress(const struct model *m)
{
	unsigned sum = message_progress(m), stages = 0;

	for (unsigned r = 0; r < RAILS; r++) {
		const struct rail_state *rail = &m->s.rails[r];

		stages += 4 * rail_stage(rail) + (rail->conn == CONN_CLOSED) + !rail->late;
		sum += 40u + rail->bye_sent + rail->bye_read + rail->header - 2u * rail->bye_due;
		sum -= rail->logged - rail->written;
		sum -= rail->control.count + rail->dial_control.count;
	}
	stages += 400u * m->s.closing;
	return (m->s.breaks + m->s.replays) * 10000000u + stages * 10000u + sum;
}

/* --- */

static void subtract(uint8_t *field, uint8_t by)
{
	*field = *field > by ? *field - by : 0;
}

/* Numbers of frames and epochs count from what the receiver has; what it has is forgotten. */
static void cut_log(struct rail_state *rail)
{
	uint8_t by = rail->consumed;

	if (by) {
		memmove(rail->log, rail->log + by, (size_t)LOG_MAX - by);
		memset(rail->log + LOG_MAX - by, 0, by);
	}
	subtract(&rail->logged, by);
	subtract(&rail->written, by);
	subtract(&rail->at, by);
	subtract(&rail->limit, by);
	subtract(&rail->frames_told, by);
	rail->consumed = 0;
	subtract(&rail->epoch, rail->fenced);
	rail->fenced = 0;
}

void model_normalise(const struct model_config *cfg, struct model_state *s)
{
	if (cfg->mutation)
		return;
	for (unsigned r = 0; r < RAILS; r++) {
		struct rail_state *rail = &s->rails[r];

		cut_log(rail);
		if (rail->conn == CONN_CLOSED)
			rail->limit = rail->at;
	}
	for (unsigned i = 0; i < cfg->count; i++)
		if (s->sends[i].state == SEND_ACKED)
			s->sends[i].slot = 0;
}

void model_sort_rails(struct model_state *s)
{
	static const uint8_t other[] = { 0, 2, 1, 3 };
	struct rail_state first = s->rails[0];

	if (memcmp(&s->rails[0], &s->rails[1], sizeof(first)) <= 0)
		return;
	s->rails[0] = s->rails[1];
	s->rails[1] = first;
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
		for (unsigned i = 0; i < kinds[kind].rails * kinds[kind].args; i++) {
			struct step step = { kind, (uint8_t)(i % kinds[kind].rails),
					     (uint8_t)(i / kinds[kind].rails) };

			if (!kinds[kind].try(&m, step.rail, step.arg))
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
