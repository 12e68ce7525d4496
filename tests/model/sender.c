/* SPDX-License-Identifier: Apache-2.0 */
/* The sender of the model: messages, slots and logs as in send.c, dialling again, control frames. */
#include "model.h"

#include <string.h>

static bool is_done(const struct model *m, unsigned message)
{
	uint8_t state = m->s.sends[message].state;

	const struct message_kind *kind = kind_of(m, message);

	return state == SEND_ACKED || (state == SEND_GIVEN && (kind->copied || kind->kept));
}

bool send_all_done(const struct model *m)
{
	for (unsigned i = 0; i < m->cfg->count; i++)
		if (!is_done(m, i))
			return false;
	return true;
}

/* The message that has a slot, or NONE. */
static unsigned slot_holder(const struct model *m, unsigned slot)
{
	for (unsigned i = m->s.posted_sends; i-- > 0;) {
		const struct send_message *msg = &m->s.sends[i];

		if (msg->slot == slot && msg->state != SEND_ACKED)
			return i;
	}
	return NONE;
}

static bool slot_free(const struct model *m, unsigned slot)
{
	unsigned holder = slot_holder(m, slot);

	return holder == NONE || (mutated(m, MUTATION_SLOT_EARLY) && is_done(m, holder));
}

/* More than one tag has been used up to this message. */
static bool is_multi(const struct model *m, unsigned message)
{
	for (unsigned i = 0; i < message; i++)
		if (kind_of(m, i)->tag != kind_of(m, message)->tag)
			return true;
	return message && is_multi(m, message - 1);
}

static void ready_push(struct model *m, unsigned message)
{
	m->s.sends[message].state = SEND_QUEUED;
	m->s.queue[m->s.queued++] = (uint8_t)message;
}

static void ready_pop(struct model *m, enum send_state state)
{
	m->s.sends[m->s.queue[0]].state = (uint8_t)state;
	m->s.queued--;
	memmove(m->s.queue, m->s.queue + 1, m->s.queued);
	m->s.queue[m->s.queued] = 0;
}

/* isend */
bool send_post(struct model *m, unsigned rail, unsigned arg)
{
	unsigned message = m->s.posted_sends, slot = 0;

	(void)rail, (void)arg;
	if (message == m->cfg->count)
		return false;
	while (slot < m->cfg->slots && !slot_free(m, slot))
		slot++;
	if (slot == m->cfg->slots)
		return false;
	m->s.posted_sends++;
	m->s.sends[message].slot = (uint8_t)slot;
	m->s.sends[message].rts_due = !kind_of(m, message)->copied && is_multi(m, message);
	ready_push(m, message);
	return true;
}

/* --- frames --- */

/* The next new frame for a rail; false: none. */
static bool next_frame(struct model *m, struct rail_state *rail, uint8_t *frame)
{
	unsigned message = m->s.queue[0];
	struct send_message *msg = &m->s.sends[message];

	if (!m->s.queued) {
		if (!m->cfg->close || rail->bye_sent || !send_all_done(m))
			return false;
		rail->bye_sent = 1;
		*frame = FRAME(FRAME_BYE, 0, 0);
		return true;
	}
	if (msg->rts_due) {
		msg->rts_due = 0;
		*frame = FRAME(FRAME_RTS, message, 0);
		ready_pop(m, SEND_ASKED);
		return true;
	}
	*frame = FRAME(FRAME_DATA, message, msg->given);
	if (++msg->given == kind_of(m, message)->chunks)
		ready_pop(m, SEND_GIVEN);
	return true;
}

static void log_insert(struct model *m, struct rail_state *rail, unsigned at, uint8_t frame)
{
	if (rail->logged == LOG_MAX) {
		model_fault(m, "a rail numbers more frames than there are");
		return;
	}
	memmove(rail->log + at + 1, rail->log + at, rail->logged - at);
	rail->log[at] = frame;
	rail->logged++;
}

/* What a log holds has to be there still: NCCL's buffer until the ack, a copy until the ack. */
static void check_memory(struct model *m, uint8_t frame)
{
	if (FRAME_TYPE(frame) == FRAME_BYE)
		return;
	if (m->s.sends[FRAME_MESSAGE(frame)].state == SEND_ACKED)
		model_fault(m, "a frame of an acknowledged message is to be sent again");
	if (mutated(m, MUTATION_COPY_DROPPED) && (kind_of(m, FRAME_MESSAGE(frame))->copied ||
						  kind_of(m, FRAME_MESSAGE(frame))->kept))
		model_fault(m, "a frame to be sent again is no longer there");
}

/* Within a rail the chunks of a message ascend. */
static void check_order(struct model *m, const struct rail_state *rail)
{
	uint8_t frame = rail->log[rail->written];

	for (unsigned i = 0; i < rail->written; i++)
		if (FRAME_TYPE(frame) == FRAME_DATA && FRAME_TYPE(rail->log[i]) == FRAME_DATA &&
		    FRAME_MESSAGE(rail->log[i]) == FRAME_MESSAGE(frame) &&
		    FRAME_CHUNK(rail->log[i]) > FRAME_CHUNK(frame))
			model_fault(m, "chunks of a message do not ascend within a rail");
}

bool send_write(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];
	bool again = rail->written < rail->logged;
	uint8_t frame;

	(void)arg;
	if (rail->phase != PHASE_UP)
		return false;
	if (rail->alive && rail->written - rail->at >= (int)m->cfg->in_flight)
		return false;
	if (!again || (mutated(m, MUTATION_REPLAY_NEW_FIRST) && !rail->trim)) {
		if (next_frame(m, rail, &frame)) {
			log_insert(m, rail, rail->written, frame);
			again = false;
		} else if (!again) {
			return false;
		}
	}
	if (again)
		check_memory(m, rail->log[rail->written]);
	check_order(m, rail);
	rail->written++;
	if (rail->alive && rail->conn == CONN_JOINED && !rail->late)
		rail->limit = rail->written;
	return true;
}

/* BYE is with the receiver's kernel and so is all before it: the connection is left to itself. Not if
 * a hello is out, which could close it at the receiver before it is read. */
bool send_drain_over(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];

	(void)arg;
	if (rail->phase != PHASE_UP || !rail->bye_sent || rail->written < rail->logged ||
	    !rail->alive)
		return false;
	if (rail->hello != HELLO_NONE && !mutated(m, MUTATION_CLOSE_DIALLING))
		return false;
	rail->phase = PHASE_OVER;
	rail->hello = HELLO_NONE;
	rail->alive = rail->dial_alive = 0;
	rail->control = rail->dial_control = (struct control_queue){ 0 };
	return true;
}

/* --- a connection that breaks --- */

/* At once to the other rail, as if nobody had to know what has arrived. */
static void give_to_other(struct model *m, unsigned r)
{
	struct rail_state *rail = &m->s.rails[r], *other = &m->s.rails[1 - r];

	for (unsigned i = 0; i < rail->logged; i++)
		if (FRAME_TYPE(rail->log[i]) == FRAME_DATA &&
		    m->s.sends[FRAME_MESSAGE(rail->log[i])].state != SEND_ACKED)
			log_insert(m, other, other->logged, rail->log[i]);
}

void send_hello(struct model *m, unsigned r)
{
	struct rail_state *rail = &m->s.rails[r];

	if (!mutated(m, MUTATION_EPOCH_KEPT) || rail->hello == HELLO_NONE)
		rail->epoch++;
	rail->hello = HELLO_FLYING;
	rail->dial_alive = 1;
	rail->dial_control = (struct control_queue){ 0 };
	rail->frames_told = rail->part_told = 0;
	if (rail->conn == CONN_DIALLED)
		rail->conn = CONN_ALONE;
}

/* The sender finds its connection broken and closes it. */
bool send_notice(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];

	(void)arg;
	if (rail->alive || rail->phase != PHASE_UP)
		return false;
	if (rail->sealed && rail->control.count)
		return false; /* its last words are read first */
	if (mutated(m, MUTATION_OTHER_RAIL))
		give_to_other(m, r);
	rail->phase = PHASE_DOWN;
	rail->written = rail->logged;
	if (!mutated(m, MUTATION_OLD_SOCKET))
		rail->control = (struct control_queue){ 0 };
	if (rail->conn == CONN_JOINED)
		rail->conn = CONN_ALONE;
	if (rail->hello == HELLO_NONE)
		send_hello(m, r);
	return true;
}

/* An attempt has failed, or was taken to have failed. */
bool send_redial(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];

	(void)arg;
	if (rail->hello == HELLO_NONE || rail->dial_alive)
		return false;
	if (rail->sealed && rail->hello == HELLO_ACCEPTED)
		return false; /* WELCOME is there */
	send_hello(m, r);
	return true;
}

/* Dial although the connection stands. */
bool send_dial(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];

	(void)arg;
	if (rail->phase != PHASE_UP || !rail->alive || rail->hello != HELLO_NONE ||
	    m->s.breaks == m->cfg->breaks)
		return false;
	m->s.breaks++;
	send_hello(m, r);
	return true;
}

/* What WELCOME says is possible: all that is to be sent again is in the log. */
static bool welcome_fits(struct model *m, const struct rail_state *rail, unsigned from,
			 unsigned part)
{
	if (from > rail->logged)
		return false;
	return !part || (from < rail->logged && part < frame_units(m, rail->log[from]));
}

/* The new connection takes the place of the old one, whatever that still held. */
static void change_over(struct model *m, struct rail_state *rail)
{
	struct control_queue old = rail->control;

	rail->phase = PHASE_UP;
	rail->hello = HELLO_NONE;
	rail->alive = rail->dial_alive;
	rail->dial_alive = 0;
	rail->control = rail->dial_control;
	rail->dial_control = (struct control_queue){ 0 };
	if (rail->conn == CONN_JOINED)
		rail->conn = CONN_ALONE;
	else if (rail->conn == CONN_DIALLED)
		rail->conn = CONN_JOINED;
	for (unsigned i = 0; mutated(m, MUTATION_OLD_SOCKET) && i < old.count; i++)
		if (rail->control.count < CONTROL_MAX)
			rail->control.frames[rail->control.count++] = old.frames[i];
}

/* The sender reads WELCOME {frames, part} and goes on from there. */
bool send_welcome(struct model *m, unsigned r, unsigned arg)
{
	struct rail_state *rail = &m->s.rails[r];
	unsigned from = rail->frames_told, part = rail->part_told;

	(void)arg;
	if (rail->hello != HELLO_ACCEPTED)
		return false;
	if (mutated(m, MUTATION_REPLAY_EARLY) && from)
		from--, part = 0;
	if (mutated(m, MUTATION_REPLAY_LATE) && from < rail->logged)
		from++, part = 0;
	if (mutated(m, MUTATION_OTHER_RAIL) && from < rail->logged)
		rail->logged = (uint8_t)from, part = 0;
	if (!welcome_fits(m, rail, from, part)) {
		model_fault(m, "WELCOME tells what was never sent");
		return true;
	}
	change_over(m, rail);
	rail->written = (uint8_t)from;
	if (part > rail->trim && !mutated(m, MUTATION_PART_IGNORED))
		rail->trim = (uint8_t)part;
	if (rail->late)
		return true;
	rail->frames_told = rail->part_told = 0;
	if (rail->conn == CONN_JOINED)
		rail->at = rail->limit = (uint8_t)from;
	return true;
}

/* --- control frames --- */

static void acknowledge(struct model *m, unsigned message)
{
	if (message == NONE || m->s.sends[message].state != SEND_GIVEN) {
		model_fault(m, "a slot is acknowledged that has nothing sent in full");
		return;
	}
	if (!m->s.arrivals[message].complete)
		model_fault(m, "a message is acknowledged that the receiver has not in full");
	m->s.sends[message].state = SEND_ACKED;
}

static void on_ack(struct model *m, unsigned slot, unsigned message)
{
	unsigned holder = slot_holder(m, slot);

	if (mutated(m, MUTATION_ACK_UNCHECKED) || holder == message)
		acknowledge(m, holder);
}

static void on_grant(struct model *m, unsigned slot, unsigned message)
{
	unsigned holder = slot_holder(m, slot);
	bool asked = holder != NONE && m->s.sends[holder].state == SEND_ASKED;

	if (mutated(m, MUTATION_GRANT_UNCHECKED) && !asked)
		model_fault(m, "a slot is granted that asked for nothing");
	else if (asked && (holder == message || mutated(m, MUTATION_GRANT_UNCHECKED)))
		ready_push(m, holder);
}

void send_rail_ended(struct model *m, struct rail_state *rail)
{
	bool any = mutated(m, MUTATION_GONE_FOR_ALL) && rail->hello != HELLO_NONE;

	rail->phase = PHASE_OVER;
	rail->hello = HELLO_NONE;
	rail->alive = rail->dial_alive = 0;
	rail->control = rail->dial_control = (struct control_queue){ 0 };
	if (rail->conn == CONN_DIALLED)
		rail->conn = CONN_ALONE;
	for (unsigned r = 0; r < RAILS && !any; r++)
		if (m->s.rails[r].phase != PHASE_OVER)
			return;
	if (!send_all_done(m))
		model_fault(m, "a send fails whose receive was done");
}

static void on_bitmap(struct model *m, unsigned bits)
{
	for (unsigned slot = 0; slot < m->cfg->slots; slot++)
		if (bits >> slot & 1)
			acknowledge(m, slot_holder(m, slot));
}

bool send_control(struct model *m, unsigned r, unsigned arg)
{
	struct control_queue *queue = &m->s.rails[r].control;
	unsigned type = CONTROL_TYPE(queue->frames[0]), body = CONTROL_BODY(queue->frames[0]);

	(void)arg;
	if (!queue->count || m->s.rails[r].phase != PHASE_UP)
		return false;
	queue->count--;
	memmove(queue->frames, queue->frames + 1, CONTROL_MAX - 1);
	queue->frames[CONTROL_MAX - 1] = 0;
	switch (type) {
	case CONTROL_BITMAP:
		on_bitmap(m, body);
		break;
	case CONTROL_ACK:
		on_ack(m, body >> 2, body & 3);
		break;
	case CONTROL_GRANT:
		on_grant(m, body >> 2, body & 3);
		break;
	default:
		send_rail_ended(m, &m->s.rails[r]);
	}
	return true;
}
