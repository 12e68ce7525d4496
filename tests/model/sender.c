/* SPDX-License-Identifier: Apache-2.0 */
/* The sender of the model: messages, slots and logs as in send.c, redialling, control frames. */
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

/* More than one tag is used up to this message. */
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
bool send_post(struct model *m, unsigned stream, unsigned arg)
{
	unsigned message = m->s.posted_sends, slot = 0;

	(void)stream, (void)arg;
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

/* The next new frame for a stream; false: none. */
static bool next_frame(struct model *m, struct stream_state *stream, uint8_t *frame)
{
	unsigned message = m->s.queue[0];
	struct send_message *msg = &m->s.sends[message];

	if (!m->s.queued) {
		if (!m->cfg->close || stream->bye_sent || !send_all_done(m))
			return false;
		stream->bye_sent = 1;
		*frame = FRAME(FRAME_BYE, 0, 0);
		return true;
	}
	if (msg->rts_due) {
		msg->rts_due = 0;
		*frame = FRAME(FRAME_RTS, message, 0);
		ready_pop(m, SEND_WAITING);
		return true;
	}
	*frame = FRAME(FRAME_DATA, message, msg->given);
	if (++msg->given == kind_of(m, message)->chunks)
		ready_pop(m, SEND_GIVEN);
	return true;
}

static void log_insert(struct model *m, struct stream_state *stream, unsigned at, uint8_t frame)
{
	if (stream->logged == LOG_MAX) {
		model_fault(m, "a stream numbers more frames than there are");
		return;
	}
	memmove(stream->log + at + 1, stream->log + at, stream->logged - at);
	stream->log[at] = frame;
	stream->logged++;
}

/* Logged data must still exist: NCCL's buffer until the ACK, a copy until the ACK. */
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

/* Within a stream the chunks of a message are in ascending order. */
static void check_order(struct model *m, const struct stream_state *stream)
{
	uint8_t frame = stream->log[stream->written];

	for (unsigned i = 0; i < stream->written; i++)
		if (FRAME_TYPE(frame) == FRAME_DATA && FRAME_TYPE(stream->log[i]) == FRAME_DATA &&
		    FRAME_MESSAGE(stream->log[i]) == FRAME_MESSAGE(frame) &&
		    FRAME_CHUNK(stream->log[i]) > FRAME_CHUNK(frame))
			model_fault(m, "chunks of a message do not ascend within a stream");
}

bool send_write(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];
	bool again = stream->written < stream->logged;
	uint8_t frame;

	(void)arg;
	if (stream->phase != PHASE_UP)
		return false;
	if (stream->alive && stream->written - stream->at >= (int)m->cfg->in_flight)
		return false;
	if (!again || (mutated(m, MUTATION_REPLAY_NEW_FIRST) && !stream->trim)) {
		if (next_frame(m, stream, &frame)) {
			log_insert(m, stream, stream->written, frame);
			again = false;
		} else if (!again) {
			return false;
		}
	}
	if (again)
		check_memory(m, stream->log[stream->written]);
	check_order(m, stream);
	stream->written++;
	if (stream->alive && stream->conn == CONN_JOINED && !stream->late)
		stream->limit = stream->written;
	return true;
}

/* BYE and everything before it is in the receiver's kernel: the connection is left to itself. Not while a hello is in
 * flight, which could make the receiver close it unread. */
bool send_drain_over(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];

	(void)arg;
	if (stream->phase != PHASE_UP || !stream->bye_sent || stream->written < stream->logged ||
	    !stream->alive)
		return false;
	if (stream->hello != HELLO_NONE && !mutated(m, MUTATION_CLOSE_DIALLING))
		return false;
	stream->phase = PHASE_OVER;
	stream->hello = HELLO_NONE;
	stream->alive = stream->dial_alive = 0;
	stream->control = stream->dial_control = (struct control_queue){ 0 };
	return true;
}

/* --- a connection that breaks --- */

/* At once to the other stream, as if it did not matter what has arrived. */
static void give_to_other(struct model *m, unsigned r)
{
	struct stream_state *stream = &m->s.streams[r], *other = &m->s.streams[1 - r];

	for (unsigned i = 0; i < stream->logged; i++)
		if (FRAME_TYPE(stream->log[i]) == FRAME_DATA &&
		    m->s.sends[FRAME_MESSAGE(stream->log[i])].state != SEND_ACKED)
			log_insert(m, other, other->logged, stream->log[i]);
}

void send_hello(struct model *m, unsigned r)
{
	struct stream_state *stream = &m->s.streams[r];

	if (!mutated(m, MUTATION_EPOCH_KEPT) || stream->hello == HELLO_NONE)
		stream->epoch++;
	stream->hello = HELLO_FLYING;
	stream->dial_alive = 1;
	stream->dial_control = (struct control_queue){ 0 };
	stream->frames_told = stream->part_told = 0;
	if (stream->conn == CONN_DIALLED)
		stream->conn = CONN_ALONE;
}

/* The sender notices that its connection is broken and closes it. */
bool send_notice(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];

	(void)arg;
	if (stream->alive || stream->phase != PHASE_UP)
		return false;
	if (stream->sealed && stream->control.count)
		return false; /* its last frames are read first */
	if (mutated(m, MUTATION_OTHER_STREAM))
		give_to_other(m, r);
	stream->phase = PHASE_DOWN;
	stream->written = stream->logged;
	if (!mutated(m, MUTATION_OLD_SOCKET))
		stream->control = (struct control_queue){ 0 };
	if (stream->conn == CONN_JOINED)
		stream->conn = CONN_ALONE;
	if (stream->hello == HELLO_NONE)
		send_hello(m, r);
	return true;
}

/* An attempt has failed, or was given up. */
bool send_redial(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];

	(void)arg;
	if (stream->hello == HELLO_NONE || stream->dial_alive)
		return false;
	if (stream->sealed && stream->hello == HELLO_ACCEPTED)
		return false; /* WELCOME has arrived */
	send_hello(m, r);
	return true;
}

/* Dials although the connection is established. */
bool send_dial(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];

	(void)arg;
	if (stream->phase != PHASE_UP || !stream->alive || stream->hello != HELLO_NONE ||
	    m->s.breaks == m->cfg->breaks)
		return false;
	m->s.breaks++;
	send_hello(m, r);
	return true;
}

/* The position in WELCOME is possible: everything to be retransmitted is in the log. */
static bool welcome_fits(struct model *m, const struct stream_state *stream, unsigned from,
			 unsigned part)
{
	if (from > stream->logged)
		return false;
	return !part || (from < stream->logged && part < frame_units(m, stream->log[from]));
}

/* The new connection replaces the old one, whatever that still contained. */
static void change_over(struct model *m, struct stream_state *stream)
{
	struct control_queue old = stream->control;

	stream->phase = PHASE_UP;
	stream->hello = HELLO_NONE;
	stream->alive = stream->dial_alive;
	stream->dial_alive = 0;
	stream->control = stream->dial_control;
	stream->dial_control = (struct control_queue){ 0 };
	if (stream->conn == CONN_JOINED)
		stream->conn = CONN_ALONE;
	else if (stream->conn == CONN_DIALLED)
		stream->conn = CONN_JOINED;
	for (unsigned i = 0; mutated(m, MUTATION_OLD_SOCKET) && i < old.count; i++)
		if (stream->control.count < CONTROL_MAX)
			stream->control.frames[stream->control.count++] = old.frames[i];
}

/* The sender reads WELCOME {frames, part} and continues from there. */
bool send_welcome(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];
	unsigned from = stream->frames_told, part = stream->part_told;

	(void)arg;
	if (stream->hello != HELLO_ACCEPTED)
		return false;
	if (mutated(m, MUTATION_REPLAY_EARLY) && from)
		from--, part = 0;
	if (mutated(m, MUTATION_REPLAY_LATE) && from < stream->logged)
		from++, part = 0;
	if (mutated(m, MUTATION_OTHER_STREAM) && from < stream->logged)
		stream->logged = (uint8_t)from, part = 0;
	if (!welcome_fits(m, stream, from, part)) {
		model_fault(m, "WELCOME tells what was never sent");
		return true;
	}
	change_over(m, stream);
	stream->written = (uint8_t)from;
	if (part > stream->trim && !mutated(m, MUTATION_PART_IGNORED))
		stream->trim = (uint8_t)part;
	if (stream->late)
		return true;
	stream->frames_told = stream->part_told = 0;
	if (stream->conn == CONN_JOINED)
		stream->at = stream->limit = (uint8_t)from;
	return true;
}

/* --- control frames --- */

static void acknowledge(struct model *m, unsigned message)
{
	if (message == NONE || m->s.sends[message].state != SEND_GIVEN) {
		model_fault(m, "a slot is acknowledged that has nothing sent in full");
		return;
	}
	if (!m->s.incoming[message].complete)
		model_fault(m, "a message is acknowledged that the receiver has not in full");
	m->s.sends[message].state = SEND_ACKED;
}

static void on_ack(struct model *m, unsigned slot, unsigned message)
{
	unsigned holder = slot_holder(m, slot);

	if (mutated(m, MUTATION_ACK_UNCHECKED) || holder == message)
		acknowledge(m, holder);
}

static void on_cts(struct model *m, unsigned slot, unsigned message)
{
	unsigned holder = slot_holder(m, slot);
	bool asked = holder != NONE && m->s.sends[holder].state == SEND_WAITING;

	if (mutated(m, MUTATION_CTS_UNCHECKED) && !asked)
		model_fault(m, "a slot is cleared that asked for nothing");
	else if (asked && (holder == message || mutated(m, MUTATION_CTS_UNCHECKED)))
		ready_push(m, holder);
}

void send_stream_ended(struct model *m, struct stream_state *stream)
{
	bool any = mutated(m, MUTATION_GONE_FOR_ALL) && stream->hello != HELLO_NONE;

	stream->phase = PHASE_OVER;
	stream->hello = HELLO_NONE;
	stream->alive = stream->dial_alive = 0;
	stream->control = stream->dial_control = (struct control_queue){ 0 };
	if (stream->conn == CONN_DIALLED)
		stream->conn = CONN_ALONE;
	for (unsigned r = 0; r < STREAMS && !any; r++)
		if (m->s.streams[r].phase != PHASE_OVER)
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
	struct control_queue *queue = &m->s.streams[r].control;
	unsigned type = CONTROL_TYPE(queue->frames[0]), body = CONTROL_BODY(queue->frames[0]);

	(void)arg;
	if (!queue->count || m->s.streams[r].phase != PHASE_UP)
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
	case CONTROL_CTS:
		on_cts(m, body >> 2, body & 3);
		break;
	default:
		send_stream_ended(m, &m->s.streams[r]);
	}
	return true;
}
