/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of the model: storing data, the fence, frames to the sender and their repetition. */
#include "model.h"

#include <stddef.h>

static unsigned all_messages(const struct model *m)
{
	return (1u << m->cfg->count) - 1;
}

bool recv_all_done(const struct model *m)
{
	for (unsigned i = 0; i < m->cfg->count; i++)
		if (!m->s.incoming[i].complete || !m->s.incoming[i].bound)
			return false;
	return true;
}

/* --- reading --- */

static void frame_consumed(struct model *m, struct stream_state *stream)
{
	if (stream->at != stream->consumed && !stream->late)
		model_fault(m, "a frame of a stream is left out or taken in twice");
	stream->at++;
	stream->consumed++;
	stream->header = stream->units = stream->trim = 0;
	if (!mutated(m, MUTATION_PART_KEPT))
		stream->part = 0;
}

static void complete_message(struct model *m, unsigned message)
{
	struct incoming_state *incoming = &m->s.incoming[message];
	struct slot_state *slot = &m->s.slots[m->s.sends[message].slot];

	if (incoming->got != (1u << message_units(m, message)) - 1)
		model_fault(m, "a receive is done without all its bytes");
	incoming->complete = 1;
	slot->rank = RANK_COMPLETE;
	if (!mutated(m, MUTATION_RETELL_OUTDATED) && !mutated(m, MUTATION_RETELL_PENDING))
		slot->again = 0;
}

static bool read_header(struct model *m, struct stream_state *stream, unsigned message, bool rts)
{
	struct slot_state *slot = match_slot(m, message, rts);
	struct incoming_state *incoming = &m->s.incoming[message];

	if (!slot)
		return true;
	if ((slot->rank == RANK_UNSEEN || slot->rank >= RANK_COMPLETE) &&
	    !match_announce(m, slot, message, rts))
		return false;
	if (rts) {
		frame_consumed(m, stream);
		return true;
	}
	stream->header = 1;
	stream->units = stream->trim;
	if (!mutated(m, MUTATION_PART_KEPT))
		stream->part = 0;
	incoming->begun += (uint8_t)(kind_of(m, message)->units - stream->units);
	if (incoming->begun > message_units(m, message))
		model_fault(m, "more is sent of a message than it has");
	return true;
}

static void read_unit(struct model *m, struct stream_state *stream, uint8_t frame)
{
	unsigned message = FRAME_MESSAGE(frame), units = kind_of(m, message)->units;
	struct incoming_state *incoming = &m->s.incoming[message];

	if (incoming->complete)
		model_fault(m, "a byte is placed after its message was complete");
	incoming->got |= (uint8_t)(1u << (FRAME_CHUNK(frame) * units + stream->units));
	incoming->received++;
	stream->units++;
	if (stream->units < units)
		return;
	frame_consumed(m, stream);
	if (incoming->received == message_units(m, message))
		complete_message(m, message);
}

bool recv_read(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];
	uint8_t frame = stream->log[stream->at % LOG_MAX];

	(void)arg;
	if (stream->conn == CONN_CLOSED || stream->at >= stream->limit ||
	    m->s.closing == CLOSING_GONE)
		return false;
	if (FRAME_TYPE(frame) == FRAME_BYE) {
		stream->bye_read = 1;
		frame_consumed(m, stream);
		return true;
	}
	if (!stream->header)
		return read_header(m, stream, FRAME_MESSAGE(frame), FRAME_TYPE(frame) == FRAME_RTS);
	read_unit(m, stream, frame);
	return true;
}

/* --- acknowledgements and CTS --- */

/* The connection for frames on this stream; NULL: there is no peer. */
static struct control_queue *words(struct stream_state *stream)
{
	if (stream->conn == CONN_JOINED && stream->alive && stream->phase == PHASE_UP)
		return &stream->control;
	if (stream->conn == CONN_DIALLED && stream->dial_alive)
		return &stream->dial_control;
	return NULL;
}

static void say(struct model *m, struct stream_state *stream, enum control_type type, unsigned body)
{
	struct control_queue *queue = words(stream);

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
		say(m, &m->s.streams[r], CONTROL_BITMAP, bits);
	return bits;
}

static bool tell_cts(struct model *m, unsigned r)
{
	for (unsigned i = 0; i < m->cfg->slots; i++) {
		struct slot_state *slot = &m->s.slots[i];

		if (!slot->asked || slot->rank != RANK_MATCHED)
			continue;
		slot->rank = RANK_CLEARED;
		slot->told_on = (uint8_t)(r + 1);
		say(m, &m->s.streams[r], CONTROL_CTS, i << 2 | slot->message);
		return true;
	}
	return false;
}

/* Frames of a stream that may not have arrived are repeated on its new connection, slot by slot. */
static void tell_again_soon(struct model *m, unsigned r)
{
	for (unsigned i = 0; i < m->cfg->slots; i++) {
		struct slot_state *slot = &m->s.slots[i];

		if (slot->told_on != r + 1 && !(slot->told_on && mutated(m, MUTATION_RETELL_ALL)))
			continue;
		if (slot->rank == RANK_CLEARED && mutated(m, MUTATION_CTS_RENEWED))
			slot->rank = RANK_MATCHED;
		else
			slot->again |= (uint8_t)(1u << r);
	}
}

/* Repeats the last frame about a slot. None if it is still to be sent for the first time. */
static void say_again(struct model *m, struct stream_state *stream, unsigned i)
{
	const struct slot_state *slot = &m->s.slots[i];
	bool pending = mutated(m, MUTATION_RETELL_PENDING) && slot->rank == RANK_COMPLETE;

	if (slot->rank == RANK_CLEARED && !mutated(m, MUTATION_RETELL_NO_CTS))
		say(m, stream, CONTROL_CTS, i << 2 | slot->message);
	if ((slot->rank != RANK_TOLD && !pending) || mutated(m, MUTATION_RETELL_NONE))
		return;
	if (mutated(m, MUTATION_BITMAP_RETOLD))
		say(m, stream, CONTROL_BITMAP, 1u << i);
	else
		say(m, stream, CONTROL_ACK, i << 2 | slot->message);
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
		say_again(m, &m->s.streams[r], i);
		return true;
	}
	return false;
}

/* After everything else that the sender waits for. */
static bool tell_bye(struct model *m, unsigned r)
{
	struct stream_state *stream = &m->s.streams[r];

	if (!stream->bye_due)
		return false;
	for (unsigned i = 0; i < m->cfg->slots; i++) {
		const struct slot_state *slot = &m->s.slots[i];

		if (slot->again >> r & 1)
			return false;
		if (slot->rank == RANK_COMPLETE && !kind_of(m, slot->message)->copied)
			return false;
	}
	stream->bye_due = 0;
	say(m, stream, CONTROL_BYE, 0);
	return true;
}

bool recv_tell(struct model *m, unsigned r, unsigned arg)
{
	static bool (*const tell[])(struct model *, unsigned) = { tell_acks, tell_cts, tell_again,
								  tell_bye };
	struct stream_state *stream = &m->s.streams[r];
	const struct control_queue *queue = words(stream);

	if (stream->conn == CONN_CLOSED || m->s.closing == CLOSING_GONE)
		return false;
	if (queue && queue->count >= CONTROL_MAX - 1)
		return false;
	return tell[arg](m, r);
}

/* --- the fence --- */

/* Nothing more is read from the connection. Of frame N `part` is kept, counted from the start of the chunk; 0: what
 * this connection has delivered of it is discarded. */
static void fence(struct model *m, struct stream_state *stream)
{
	unsigned message = FRAME_MESSAGE(stream->log[stream->at % LOG_MAX]);
	struct incoming_state *incoming = &m->s.incoming[message];
	unsigned round = m->cfg->round, length = kind_of(m, message)->units - stream->trim;
	unsigned placed = (unsigned)stream->units - stream->trim, keep = 0;

	stream->limit = stream->at;
	if (!stream->header)
		return;
	if (!kind_of(m, message)->copied && round)
		keep = placed / round * round;
	if (!mutated(m, MUTATION_COUNT_KEPT)) {
		if (!mutated(m, MUTATION_PART_UNROUNDED))
			incoming->received -= (uint8_t)(placed - keep);
		incoming->begun -= (uint8_t)(length - keep);
	}
	stream->part = (uint8_t)(keep && !mutated(m, MUTATION_PART_FORGOTTEN) ? stream->trim + keep
									      : keep);
	stream->header = stream->units = 0;
}

static bool acceptable(const struct model *m, const struct stream_state *stream, unsigned epoch)
{
	if (mutated(m, MUTATION_EPOCH_ANY))
		return true;
	return epoch > stream->fenced ||
	       (epoch == stream->fenced && mutated(m, MUTATION_EPOCH_EQUAL));
}

/* The receiver closes the connections of a stream. */
static void close_conn(struct stream_state *stream)
{
	if (stream->conn == CONN_JOINED)
		stream->alive = 0;
	else if (stream->conn == CONN_DIALLED)
		stream->dial_alive = 0;
	stream->conn = CONN_CLOSED;
	stream->limit = stream->at;
}

static void accept_resume(struct model *m, unsigned r, unsigned epoch, enum conn conn)
{
	struct stream_state *stream = &m->s.streams[r];
	bool late = mutated(m, MUTATION_FENCE_LATE) && conn == CONN_DIALLED && !stream->header &&
		    stream->conn == CONN_ALONE && stream->at < stream->limit;

	if (!late) {
		fence(m, stream);
		close_conn(stream);
		stream->at = stream->limit = stream->consumed;
	}
	stream->late = late;
	stream->fenced = (uint8_t)epoch;
	stream->conn = (uint8_t)conn;
	if (conn != CONN_DIALLED)
		return;
	stream->hello = HELLO_ACCEPTED;
	stream->frames_told = stream->consumed;
	stream->part_told = stream->part;
	tell_again_soon(m, r);
}

/* HELLO RESUME arrives, and so does its answer, unless that is WELCOME. A lost answer is the same as a lost hello. */
bool recv_hello(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];

	(void)arg;
	if (stream->hello != HELLO_FLYING || !stream->dial_alive)
		return false;
	if (m->s.closing == CLOSING_GONE && stream->phase == PHASE_UP && stream->control.count &&
	    !mutated(m, MUTATION_GONE_UNREAD))
		return false; /* at GONE the sender first reads the rest of the old connection */
	if (m->s.closing == CLOSING_GONE)
		send_stream_ended(m, stream); /* status GONE */
	else if (acceptable(m, stream, stream->epoch))
		accept_resume(m, r, stream->epoch, CONN_DIALLED);
	else if (mutated(m, MUTATION_STALE_FINAL))
		model_fault(m, "the sender gives up a receiver that lives");
	else
		send_hello(m, r);
	return true;
}

/* An abandoned hello, or a replayed copy. Only those that would be accepted make a difference. */
bool recv_old_hello(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];
	unsigned epoch = arg + 1;

	if (m->s.replays == m->cfg->replays || epoch > stream->epoch ||
	    m->s.closing == CLOSING_GONE || !acceptable(m, stream, epoch))
		return false;
	m->s.replays++;
	if (stream->phase == PHASE_UP && stream->hello == HELLO_NONE && stream->conn == CONN_JOINED)
		model_fault(m, "an old hello takes a stream from its sender");
	accept_resume(m, r, epoch, CONN_ALONE);
	return true;
}

/* The receiver notices that its connection is broken. One that the sender has left with BYE is intact: the receiver
 * must not close it unread, even if a link is reported down. */
bool recv_notice(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];

	(void)arg;
	if (stream->conn == CONN_CLOSED || (stream->conn == CONN_JOINED && stream->alive) ||
	    (stream->conn == CONN_DIALLED && stream->dial_alive))
		return false;
	if (stream->phase == PHASE_OVER && !mutated(m, MUTATION_CLOSE_UNREAD))
		return false;
	fence(m, stream);
	stream->conn = CONN_CLOSED;
	return true;
}

/* Mutation: the old connection is closed only now. */
bool recv_switch(struct model *m, unsigned r, unsigned arg)
{
	struct stream_state *stream = &m->s.streams[r];

	(void)arg;
	if (!stream->late || stream->phase != PHASE_UP || !stream->alive ||
	    stream->written == stream->frames_told)
		return false;
	fence(m, stream);
	stream->late = 0;
	stream->at = stream->frames_told;
	stream->limit = stream->written;
	stream->frames_told = stream->part_told = 0;
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
	for (unsigned i = 0; i < STREAMS; i++)
		m->s.streams[i].bye_due = 1;
	m->s.closing = CLOSING_DRAINS;
	return true;
}

/* May frames of the stream be lost, or is something still to be sent? */
static bool owes(const struct model *m, unsigned r)
{
	struct stream_state stream = m->s.streams[r];

	if (stream.phase == PHASE_OVER)
		return false; /* the sender is gone */
	for (unsigned i = 0; i < m->cfg->slots; i++)
		if (words(&stream) ? m->s.slots[i].again >> r & 1 : m->s.slots[i].told_on == r + 1)
			return true;
	return words(&stream) && stream.bye_due;
}

static bool acks_due(const struct model *m)
{
	for (unsigned i = 0; i < m->cfg->slots; i++)
		if (m->s.slots[i].rank == RANK_COMPLETE &&
		    !kind_of(m, m->s.slots[i].message)->copied)
			return true;
	return false;
}

/* The receive comm has drained long enough: its connections are closed, its endpoint is removed. */
bool recv_gone(struct model *m, unsigned r, unsigned arg)
{
	bool forgets = mutated(m, MUTATION_CLOSE_FORGETS);

	(void)r, (void)arg;
	if (m->s.closing != CLOSING_DRAINS)
		return false;
	for (unsigned i = 0; i < STREAMS && !forgets; i++)
		if (owes(m, i) || acks_due(m))
			return false;
	for (unsigned i = 0; i < STREAMS; i++) {
		m->s.streams[i].sealed = words(&m->s.streams[i]) != NULL;
		close_conn(&m->s.streams[i]);
	}
	m->s.closing = CLOSING_GONE;
	return true;
}
