/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of the model: placing, the fence, what is told and told again. */
#include "model.h"

#include <stddef.h>

static unsigned all_messages(const struct model *m)
{
	return (1u << m->cfg->count) - 1;
}

bool recv_all_done(const struct model *m)
{
	for (unsigned i = 0; i < m->cfg->count; i++)
		if (!m->s.arrivals[i].complete || !m->s.arrivals[i].bound)
			return false;
	return true;
}

/* --- reading --- */

static void frame_consumed(struct model *m, struct rail_state *rail)
{
	if (rail->at != rail->consumed && !rail->late)
		model_fault(m, "a frame of a rail is left out or taken in twice");
	rail->at++;
	rail->consumed++;
	rail->header = rail->units = rail->trim = 0;
	if (!mutated(m, MUTATION_PART_KEPT))
		rail->part = 0;
}

static void complete_message(struct model *m, unsigned message)
{
	struct arrival_state *arrival = &m->s.arrivals[message];
	struct slot_state *slot = &m->s.slots[m->s.sends[message].slot];

	if (arrival->got != (1u << message_units(m, message)) - 1)
		model_fault(m, "a receive is done without all its bytes");
	arrival->complete = 1;
	slot->rank = RANK_COMPLETE;
	if (!mutated(m, MUTATION_RETELL_OUTDATED) && !mutated(m, MUTATION_RETELL_PENDING))
		slot->again = 0;
}

static bool read_header(struct model *m, struct rail_state *rail, unsigned message, bool rts)
{
	struct slot_state *slot = match_slot(m, message, rts);
	struct arrival_state *arrival = &m->s.arrivals[message];

	if (!slot)
		return true;
	if ((slot->rank == RANK_UNSEEN || slot->rank >= RANK_COMPLETE) &&
	    !match_announce(m, slot, message, rts))
		return false;
	if (rts) {
		frame_consumed(m, rail);
		return true;
	}
	rail->header = 1;
	rail->units = rail->trim;
	if (!mutated(m, MUTATION_PART_KEPT))
		rail->part = 0;
	arrival->begun += (uint8_t)(kind_of(m, message)->units - rail->units);
	if (arrival->begun > message_units(m, message))
		model_fault(m, "more is sent of a message than it has");
	return true;
}

static void read_unit(struct model *m, struct rail_state *rail, uint8_t frame)
{
	unsigned message = FRAME_MESSAGE(frame), units = kind_of(m, message)->units;
	struct arrival_state *arrival = &m->s.arrivals[message];

	if (arrival->complete)
		model_fault(m, "a byte is placed after its message was complete");
	arrival->got |= (uint8_t)(1u << (FRAME_CHUNK(frame) * units + rail->units));
	arrival->received++;
	rail->units++;
	if (rail->units < units)
		return;
	frame_consumed(m, rail);
	if (arrival->received == message_units(m, message))
		complete_message(m, message);
}

bool recv_read(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];
	uint8_t frame = rail->log[rail->at % LOG_MAX];

	(void)arg;
	if (rail->conn == CONN_CLOSED || rail->at >= rail->limit || m->s.closing == CLOSING_GONE)
		return false;
	if (FRAME_TYPE(frame) == FRAME_BYE) {
		rail->bye_read = 1;
		frame_consumed(m, rail);
		return true;
	}
	if (!rail->header)
		return read_header(m, rail, FRAME_MESSAGE(frame), FRAME_TYPE(frame) == FRAME_RTS);
	read_unit(m, rail, frame);
	return true;
}

/* --- acknowledgements and grants --- */

/* Where words on this rail go; NULL: nowhere, there is nobody at the other end. */
static struct control_queue *words(struct rail_state *rail)
{
	if (rail->conn == CONN_JOINED && rail->alive && rail->phase == PHASE_UP)
		return &rail->control;
	if (rail->conn == CONN_DIALLED && rail->dial_alive)
		return &rail->dial_control;
	return NULL;
}

static void say(struct model *m, struct rail_state *rail, enum control_type type, unsigned body)
{
	struct control_queue *queue = words(rail);

	if (!queue)
		return;
	if (queue->count == CONTROL_MAX)
		model_fault(m, "more control frames than there are");
	else
		queue->frames[queue->count++] = CONTROL(type, body);
}

static bool tell_acks(struct model *m, unsigned r)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < m->cfg->slots; i++) {
		if (m->s.slots[i].rank != RANK_COMPLETE)
			continue;
		m->s.slots[i].rank = RANK_TOLD;
		m->s.slots[i].told_on = (uint8_t)(r + 1);
		if (!mutated(m, MUTATION_RETELL_OUTDATED))
			m->s.slots[i].again = 0;
		bits |= 1u << i;
	}
	if (bits)
		say(m, &m->s.rails[r], CONTROL_BITMAP, bits);
	return bits;
}

static bool tell_grant(struct model *m, unsigned r)
{
	for (unsigned i = 0; i < m->cfg->slots; i++) {
		struct slot_state *slot = &m->s.slots[i];

		if (!slot->asked || slot->rank != RANK_MATCHED)
			continue;
		slot->rank = RANK_GRANTED;
		slot->told_on = (uint8_t)(r + 1);
		say(m, &m->s.rails[r], CONTROL_GRANT, i << 2 | slot->message);
		return true;
	}
	return false;
}

/* What was told on a rail and may not have arrived is told again on its new connection, slot by slot. */
static void tell_again_soon(struct model *m, unsigned r)
{
	for (unsigned i = 0; i < m->cfg->slots; i++) {
		struct slot_state *slot = &m->s.slots[i];

		if (slot->told_on != r + 1 && !(slot->told_on && mutated(m, MUTATION_RETELL_ALL)))
			continue;
		if (slot->rank == RANK_GRANTED && mutated(m, MUTATION_GRANT_RENEWED))
			slot->rank = RANK_MATCHED;
		else
			slot->again |= (uint8_t)(1u << r);
	}
}

/* The last word about a slot once more. None if it is to be told for the first time anyway. */
static void say_again(struct model *m, struct rail_state *rail, unsigned i)
{
	const struct slot_state *slot = &m->s.slots[i];
	bool pending = mutated(m, MUTATION_RETELL_PENDING) && slot->rank == RANK_COMPLETE;

	if (slot->rank == RANK_GRANTED && !mutated(m, MUTATION_RETELL_NO_GRANT))
		say(m, rail, CONTROL_GRANT, i << 2 | slot->message);
	if ((slot->rank != RANK_TOLD && !pending) || mutated(m, MUTATION_RETELL_NONE))
		return;
	if (mutated(m, MUTATION_BITMAP_RETOLD))
		say(m, rail, CONTROL_BITMAP, 1u << i);
	else
		say(m, rail, CONTROL_ACK, i << 2 | slot->message);
}

static bool tell_again(struct model *m, unsigned r)
{
	bool anywhere = mutated(m, MUTATION_RETELL_ANYWHERE);

	for (unsigned i = 0; i < m->cfg->slots; i++) {
		struct slot_state *slot = &m->s.slots[i];

		if (!(anywhere ? slot->again : slot->again >> r & 1))
			continue;
		slot->again &= (uint8_t)(anywhere ? 0 : ~(1u << r));
		if (anywhere)
			slot->told_on = (uint8_t)(r + 1);
		say_again(m, &m->s.rails[r], i);
		return true;
	}
	return false;
}

/* Behind all else that the sender waits for. */
static bool tell_bye(struct model *m, unsigned r)
{
	struct rail_state *rail = &m->s.rails[r];

	if (!rail->bye_due)
		return false;
	for (unsigned i = 0; i < m->cfg->slots; i++) {
		const struct slot_state *slot = &m->s.slots[i];

		if (slot->again >> r & 1)
			return false;
		if (slot->rank == RANK_COMPLETE && !kind_of(m, slot->message)->copied)
			return false;
	}
	rail->bye_due = 0;
	say(m, rail, CONTROL_BYE, 0);
	return true;
}

bool recv_tell(struct model *m, unsigned r, unsigned arg)
{
	static bool (*const tell[])(struct model *, unsigned) = { tell_acks, tell_grant, tell_again,
								  tell_bye };
	struct rail_state *rail = &m->s.rails[r];
	const struct control_queue *queue = words(rail);

	if (rail->conn == CONN_CLOSED || m->s.closing == CLOSING_GONE)
		return false;
	if (queue && queue->count >= CONTROL_MAX - 1)
		return false;
	return tell[arg](m, r);
}

/* --- the fence --- */

/* Nothing more is read from the connection. Of frame N as much stays as part tells, counted from the
 * start of the chunk; 0: what this connection has brought of it is forgotten. */
static void fence(struct model *m, struct rail_state *rail)
{
	unsigned message = FRAME_MESSAGE(rail->log[rail->at % LOG_MAX]);
	struct arrival_state *arrival = &m->s.arrivals[message];
	unsigned round = m->cfg->round, length = kind_of(m, message)->units - rail->trim;
	unsigned placed = (unsigned)rail->units - rail->trim, keep = 0;

	rail->limit = rail->at;
	if (!rail->header)
		return;
	if (!kind_of(m, message)->copied && round)
		keep = placed / round * round;
	if (!mutated(m, MUTATION_COUNT_KEPT)) {
		if (!mutated(m, MUTATION_PART_UNROUNDED))
			arrival->received -= (uint8_t)(placed - keep);
		arrival->begun -= (uint8_t)(length - keep);
	}
	rail->part =
		(uint8_t)(keep && !mutated(m, MUTATION_PART_FORGOTTEN) ? rail->trim + keep : keep);
	rail->header = rail->units = 0;
}

static bool acceptable(const struct model *m, const struct rail_state *rail, unsigned epoch)
{
	if (mutated(m, MUTATION_EPOCH_ANY))
		return true;
	return epoch > rail->fenced || (epoch == rail->fenced && mutated(m, MUTATION_EPOCH_EQUAL));
}

/* The receiver closes what it has of a rail. */
static void close_conn(struct rail_state *rail)
{
	if (rail->conn == CONN_JOINED)
		rail->alive = 0;
	else if (rail->conn == CONN_DIALLED)
		rail->dial_alive = 0;
	rail->conn = CONN_CLOSED;
	rail->limit = rail->at;
}

static void accept_resume(struct model *m, unsigned r, unsigned epoch, enum conn conn)
{
	struct rail_state *rail = &m->s.rails[r];
	bool late = mutated(m, MUTATION_FENCE_LATE) && conn == CONN_DIALLED && !rail->header &&
		    rail->conn == CONN_ALONE && rail->at < rail->limit;

	if (!late) {
		fence(m, rail);
		close_conn(rail);
		rail->at = rail->limit = rail->consumed;
	}
	rail->late = late;
	rail->fenced = (uint8_t)epoch;
	rail->conn = (uint8_t)conn;
	if (conn != CONN_DIALLED)
		return;
	rail->hello = HELLO_ACCEPTED;
	rail->frames_told = rail->consumed;
	rail->part_told = rail->part;
	tell_again_soon(m, r);
}

/* HELLO RESUME arrives, and what it is answered does too, unless it is WELCOME. An answer that is lost
 * is the same as a hello that is lost. */
bool recv_hello(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];

	(void)arg;
	if (rail->hello != HELLO_FLYING || !rail->dial_alive)
		return false;
	if (m->s.closing == CLOSING_GONE && rail->phase == PHASE_UP && rail->control.count &&
	    !mutated(m, MUTATION_GONE_UNREAD))
		return false; /* at GONE the sender first reads what the old connection has */
	if (m->s.closing == CLOSING_GONE)
		send_rail_ended(m, rail); /* status GONE */
	else if (acceptable(m, rail, rail->epoch))
		accept_resume(m, r, rail->epoch, CONN_DIALLED);
	else if (mutated(m, MUTATION_STALE_FINAL))
		model_fault(m, "the sender gives up a receiver that lives");
	else
		send_hello(m, r);
	return true;
}

/* A hello that was given up, or a replayed copy. Only those that would be
 * accepted make a difference. */
bool recv_old_hello(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];
	unsigned epoch = arg + 1;

	if (m->s.replays == m->cfg->replays || epoch > rail->epoch ||
	    m->s.closing == CLOSING_GONE || !acceptable(m, rail, epoch))
		return false;
	m->s.replays++;
	if (rail->phase == PHASE_UP && rail->hello == HELLO_NONE && rail->conn == CONN_JOINED)
		model_fault(m, "an old hello takes a rail from its sender");
	accept_resume(m, r, epoch, CONN_ALONE);
	return true;
}

/* The receiver finds its connection broken. One that the sender has left with BYE is whole: the
 * receiver must not close it unread, whatever it hears of links. */
bool recv_notice(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];

	(void)arg;
	if (rail->conn == CONN_CLOSED || (rail->conn == CONN_JOINED && rail->alive) ||
	    (rail->conn == CONN_DIALLED && rail->dial_alive))
		return false;
	if (rail->phase == PHASE_OVER && !mutated(m, MUTATION_CLOSE_UNREAD))
		return false;
	fence(m, rail);
	rail->conn = CONN_CLOSED;
	return true;
}

/* Mutation: only now is the old connection closed. */
bool recv_switch(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];

	(void)arg;
	if (!rail->late || rail->phase != PHASE_UP || !rail->alive ||
	    rail->written == rail->frames_told)
		return false;
	fence(m, rail);
	rail->late = 0;
	rail->at = rail->frames_told;
	rail->limit = rail->written;
	rail->frames_told = rail->part_told = 0;
	return true;
}

/* closeRecv, once all receives are done. */
bool recv_close(struct model *m, unsigned r, unsigned arg)
{
	(void)r, (void)arg;
	if (!m->cfg->close || m->s.closing || !recv_all_done(m))
		return false;
	if (m->s.seen != all_messages(m))
		model_fault(m, "all receives are done, but not all messages were seen");
	for (unsigned i = 0; i < RAILS; i++)
		m->s.rails[i].bye_due = 1;
	m->s.closing = CLOSING_LINGERS;
	return true;
}

/* May what was said on a rail be lost, or is something still to be said? */
static bool owes(const struct model *m, unsigned r)
{
	struct rail_state rail = m->s.rails[r];

	if (rail.phase == PHASE_OVER)
		return false; /* the sender has left */
	for (unsigned i = 0; i < m->cfg->slots; i++)
		if (words(&rail) ? m->s.slots[i].again >> r & 1 : m->s.slots[i].told_on == r + 1)
			return true;
	return words(&rail) && rail.bye_due;
}

static bool acks_due(const struct model *m)
{
	for (unsigned i = 0; i < m->cfg->slots; i++)
		if (m->s.slots[i].rank == RANK_COMPLETE &&
		    !kind_of(m, m->s.slots[i].message)->copied)
			return true;
	return false;
}

/* The receive comm has drained long enough: its connections are closed, its endpoint is forgotten. */
bool recv_gone(struct model *m, unsigned r, unsigned arg)
{
	bool forgets = mutated(m, MUTATION_CLOSE_FORGETS);

	(void)r, (void)arg;
	if (m->s.closing != CLOSING_LINGERS)
		return false;
	for (unsigned i = 0; i < RAILS && !forgets; i++)
		if (owes(m, i) || acks_due(m))
			return false;
	for (unsigned i = 0; i < RAILS; i++) {
		m->s.rails[i].sealed = words(&m->s.rails[i]) != NULL;
		close_conn(&m->s.rails[i]);
	}
	m->s.closing = CLOSING_GONE;
	return true;
}
