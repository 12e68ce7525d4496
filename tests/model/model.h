/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resume protocol (docs/wire.md) as a state machine small enough to be looked at from every side.
 *
 * One sender, one receiver, two streams. A step is the least thing that one of them, or the network, can
 * do; search.c tries all steps in all orders. What stands for what:
 *
 *   here                          there
 *   stream.log, logged              the log of a stream of a send comm: the frames that are numbered. Those
 *                                 that are consumed are cut off again (model_normalise), so that
 *                                 states that differ in their past only are one
 *   stream.epoch, fenced            epoch of the sender's last attempt; of the receiver's connection
 *   stream.trim                     what WELCOME's part has cut off from the sender's log entry of frame N
 *   stream.consumed, part           the receiver's N and p: what WELCOME {frames, part} tells
 *   stream.frames_told, part_told   frames=N and part=p of the WELCOME that is in progress
 *   unit                          ANYNET_PART_ALIGN (128) bytes of payload / config.round: a chunk has
 *                                 `units` of them, part is rounded down to a multiple of `round`
 *   slot.message                  (slot, seq): the number of a message is its seq
 *   slot.told_on                  1 + the stream on which the last ACK or CTS of the slot was told
 *   stream.control, dial_control    ACK (bitmap), ACK (slot, seq), CTS (slot, seq), BYE in progress to the
 *                                 sender, on its connection and behind the WELCOME of a new one
 *   message.given, incoming.begun, received    as in send.c and recv_internal.h
 *
 * A connection is whole or cut (alive). When it is cut, what is in progress may still arrive up to any
 * point, for each direction by itself, and each side notices whenever it likes: the receiver perhaps
 * never. A connection that sends nothing any more, or of which one direction fails first, is the same
 * as one that is cut at the last thing that came through.
 *
 * The sender may dial while its connection still stands (a path suspect, the way back to a stream's own
 * path). It reads and writes the old one until it has read WELCOME on the new one.
 *
 * A side that closes drains: until all it has said is with the other's kernel (which it then will
 * read), unless a hello is out that could make the other drop it. Nothing is cut after that.
 *
 * Writing a frame is one step, since a frame cut off anywhere is the same as one written whole and cut
 * off on its way. A receiver reads header and units one by one. PING, PROBE, READY and TAIL have no part
 * in this and are left out; a CRC that does not fit is a cut noticed by
 * the receiver, with units of which none is kept (config.round = 0).
 */
#ifndef TESTS_MODEL_MODEL_H
#define TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define STREAMS     2
#define MESSAGE_MAX 4
#define SLOT_MAX    4
#define CHUNK_MAX   3
#define UNIT_MAX    4
#define LOG_MAX     12
#define CONTROL_MAX 6
#define NONE        0xf

/* Deliberate faults, each of which the search must find. */
enum mutation {
	MUTATION_NONE,
#define MUTATION(id, name, where, text) MUTATION_##id,
#include "mutations.def"
#undef MUTATION
	MUTATION_COUNT,
};

/* Configurations in which they are searched for. */
enum faulty {
	FAULTY_SLOTS,
	FAULTY_TAGS,
	FAULTY_PARTS,
	FAULTY_CLOSE
};

struct message_kind {
	uint8_t chunks, units; /* units in each chunk */
	uint8_t tag;           /* 0 or 1 */
	bool copied;           /* done when handed over; otherwise when acknowledged … */
	bool kept;             /* … or copied after it was handed over */
};

struct model_config {
	const char *name;
	const char *messages; /* parsed into `kinds` */
	/* Tags of the posted buffers in order, "ab…"; NULL: the tags of the messages */
	const char *receives;
	unsigned slots;    /* of the sender */
	unsigned units;    /* in each chunk of a message that is not copied */
	unsigned round;    /* part is rounded down to a multiple of it; 0: to nothing */
	unsigned posted;   /* receives posted at the start; the others at any time */
	unsigned in_flight; /* frames a connection holds */
	unsigned breaks;    /* total number of cuts */
	unsigned replays;   /* hellos that arrive late or are replayed by an unauthenticated peer */
	bool close;         /* both sides close at the end */
	enum mutation mutation;

	unsigned count; /* of messages */
	struct message_kind kinds[MESSAGE_MAX];
	uint8_t receive_tags[MESSAGE_MAX];
};

enum phase {
	PHASE_DOWN, /* no connection; one is being dialled */
	PHASE_UP,
	PHASE_OVER, /* BYE written and everything received by the receiver's kernel; or the receiver's BYE read */
};

/* State of the last HELLO RESUME. */
enum hello {
	HELLO_NONE,
	HELLO_FLYING,
	HELLO_ACCEPTED, /* WELCOME is in flight */
};

/* The other end of the receiver's connection. */
enum conn {
	CONN_JOINED,  /* the sender's present connection */
	CONN_DIALLED, /* the one that the sender is dialling */
	CONN_ALONE,   /* closed by the sender, or unauthenticated */
	CONN_CLOSED,
};

enum frame_type {
	FRAME_DATA,
	FRAME_RTS,
	FRAME_BYE
};

#define FRAME(type, message, chunk) ((uint8_t)((type) << 4 | (message) << 2 | (chunk)))
#define FRAME_TYPE(frame)           ((unsigned)(frame) >> 4)
#define FRAME_MESSAGE(frame)        ((unsigned)(frame) >> 2 & 3)
#define FRAME_CHUNK(frame)          ((unsigned)(frame)&3)

enum control_type {
	CONTROL_BITMAP,
	CONTROL_ACK,
	CONTROL_CTS,
	CONTROL_BYE
};

#define CONTROL(type, body)   ((uint8_t)((type) << 4 | (body)))
#define CONTROL_TYPE(control) ((unsigned)(control) >> 4)
#define CONTROL_BODY(control) ((unsigned)(control)&15) /* bitmap, or slot << 2 | message */

/* In flight from the receiver to the sender. */
struct control_queue {
	uint8_t count, frames[CONTROL_MAX];
};

struct stream_state {
	/* State of the sender. */
	uint8_t phase, hello, epoch;
	uint8_t logged, written; /* frames numbered; written on this connection or before it */
	uint8_t trim;            /* units that the first frame of this connection leaves out */
	uint8_t bye_sent;
	uint8_t log[LOG_MAX];
	/* State of the receiver. */
	uint8_t conn, fenced;
	uint8_t consumed, part;
	uint8_t bye_read, bye_due; /* the sender's, the receiver's */
	uint8_t frames_told, part_told;
	uint8_t late; /* mutation: still reads the old connection */
	/* In flight on the receiver's connection: the next frame to read, number of frames that can be read; of the
	 * frame at the head: header read, units arrived. */
	uint8_t at, limit, header, units;
	/* The sender's present connection, and the one being dialled. */
	uint8_t alive, dial_alive;
	uint8_t sealed; /* everything from the receiver has arrived at the sender, which will read it */
	struct control_queue control, dial_control;
};

enum send_state {
	SEND_NEW,
	SEND_QUEUED,
	SEND_WAITING,
	SEND_GIVEN,
	SEND_ACKED
};

struct send_message {
	uint8_t state, given, rts_due, slot;
};

/* The receiver's state of a slot, in order. */
enum rank {
	RANK_UNSEEN,
	RANK_WAITING, /* seen, no buffer */
	RANK_MATCHED,
	RANK_CLEARED,  /* the CTS is sent */
	RANK_COMPLETE, /* the ACK is due */
	RANK_TOLD,     /* the ACK is sent */
};

struct slot_state {
	uint8_t message, rank, asked, told_on;
	uint8_t again; /* told_on has resumed: its last frame is to be repeated */
};

struct incoming_state {
	uint8_t begun, received;
	uint8_t bound;    /* has a posted buffer */
	uint8_t complete; /* all units counted */
	uint8_t got;      /* bit set of units that really exist */
};

enum closing {
	CLOSING_NOT,
	CLOSING_DRAINS, /* closeRecv; its frames may still be lost */
	CLOSING_GONE,
};

struct model_state {
	struct stream_state streams[STREAMS];
	struct send_message sends[MESSAGE_MAX];
	struct slot_state slots[SLOT_MAX];
	struct incoming_state incoming[MESSAGE_MAX];
	uint8_t queue[MESSAGE_MAX], queued; /* the ready queue of the sender */
	uint8_t posted_sends, posted_receives;
	uint8_t matched; /* bit set of buffers */
	uint8_t seen;    /* bit set of messages */
	uint8_t plain;
	uint8_t closing;         /* the receive comm: enum closing */
	uint8_t breaks, replays; /* so far */
};

/* A state during a step. */
struct model {
	const struct model_config *cfg;
	struct model_state s;
	const char *fault; /* the violated invariant, or NULL */
};

static inline void model_fault(struct model *m, const char *text)
{
	if (!m->fault)
		m->fault = text;
}

static inline bool mutated(const struct model *m, enum mutation mutation)
{
	return m->cfg->mutation == mutation;
}

static inline const struct message_kind *kind_of(const struct model *m, unsigned message)
{
	return &m->cfg->kinds[message];
}

static inline unsigned message_units(const struct model *m, unsigned message)
{
	return (unsigned)kind_of(m, message)->chunks * kind_of(m, message)->units;
}

static inline unsigned frame_units(const struct model *m, uint8_t frame)
{
	return FRAME_TYPE(frame) == FRAME_DATA ? kind_of(m, FRAME_MESSAGE(frame))->units : 0;
}

enum step_kind {
	STEP_POST,
	STEP_WRITE,
	STEP_CONTROL,
	STEP_NOTICE,
	STEP_REDIAL,
	STEP_WELCOME,
	STEP_OVER,
	STEP_RECV_POST,
	STEP_READ,
	STEP_TELL,
	STEP_HELLO,
	STEP_RECV_CLOSE,
	STEP_RECV_GONE,
	STEP_SWITCH,
	STEP_CUT,
	STEP_DIAL,
	STEP_OLD_HELLO,
	STEP_RECV_NOTICE,
	STEP_KINDS,
};

/* A step: its kind, the stream, and further choices. */
struct step {
	uint8_t kind, stream, arg;
};

#define STEP_MAX 64

/* Each one tries its step. False: it is not possible, and the state is unchanged. */
typedef bool step_fn(struct model *m, unsigned stream, unsigned arg);

/* --- sender.c --- */

step_fn send_post, send_write, send_control, send_notice, send_dial, send_redial, send_welcome,
	send_drain_over;

/* Every message is done for the sender's NCCL. */
bool send_all_done(const struct model *m);
/* The sender has received a frame of a stream that the receiver closes. */
void send_stream_ended(struct model *m, struct stream_state *stream);
/* Sends a hello; the previous one had no result. */
void send_hello(struct model *m, unsigned stream);

/* --- receiver.c --- */

step_fn recv_post, recv_read, recv_tell, recv_notice, recv_hello, recv_old_hello, recv_close,
	recv_gone, recv_switch;

bool recv_all_done(const struct model *m);

/* --- matching.c --- */

/* The slot of a DATA or RTS frame; NULL: the frame is invalid. */
struct slot_state *match_slot(struct model *m, unsigned message, bool rts);
/* First frame of a message. False: its frame has to wait in its stream. */
bool match_announce(struct model *m, struct slot_state *slot, unsigned message, bool rts);

/* --- model.c --- */

/* Parses the texts into the fields that follow. False: they are invalid. */
bool model_config_parse(struct model_config *cfg);

struct model_state model_start(const struct model_config *cfg);

/* All steps possible in `state`, with the resulting states. Returns their number. `*fault` is NULL, or the invariant
 * that the last of them violates; or `state` itself, if there are none. */
unsigned model_steps(const struct model_config *cfg, const struct model_state *state,
		     struct step steps[STEP_MAX], struct model_state next[STEP_MAX],
		     const char **fault);

/* The normal form of a state: without what does not affect the future. */
void model_normalise(const struct model_config *cfg, struct model_state *state);
/* The streams in a canonical order: they are interchangeable. */
void model_sort_streams(struct model_state *state);

/* --- describe.c --- */

void step_print(const struct model_config *cfg, struct step step, const struct model_state *after);

#endif
