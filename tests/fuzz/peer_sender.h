/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sender for a receive comm: on each stream, frames that may end at any byte and resume where
 * the comm says. It checks what the comm tells: positions, acknowledgements and CTS.
 */
#ifndef TESTS_FUZZ_PEER_SENDER_H
#define TESTS_FUZZ_PEER_SENDER_H

#include "peer.h"
#include "resume.h"

#define SCRIPT_MAX          64 /* messages of the script; some more fill what stays posted */
#define SENDER_MESSAGES_MAX (SCRIPT_MAX + ANYNET_SENDS)
#define SENDER_FRAMES_MAX   (6 * SCRIPT_MAX + 2 * ANYNET_SENDS)

/* A frame of a stream. */
struct sender_frame {
	struct anynet_wire_frame header; /* as first sent, without checksum */
	uint32_t from, end;              /* what of the message is still to be sent with it */
	uint32_t reached;                /* message offset up to which it has ever been written */
	bool whole;                      /* all that the comm needs of it has been written */
};

struct sender_message {
	uint32_t tag, size, slot;
	uint8_t layout, stream;
	uint8_t frames, flags;
	bool asked, cleared, acked;
	bool done; /* its receive is done: whoever sees that says so here */
};

struct sender_stream {
	int fd; /* -1 = none */
	struct sender_frame frames[SENDER_FRAMES_MAX];
	uint32_t count, next;
	size_t gone;    /* bytes of frame `next` written */
	size_t written; /* on this connection */
	bool spoiled;   /* a byte was changed on this connection */
	bool flip;      /* the next one written is */
	uint64_t told;  /* position as the comm told it last */
	uint32_t told_part;
	uint8_t in[4096];
	size_t in_bytes;
};

struct sender {
	struct anynet_comm *comm;
	bool wild; /* it has said what is not right: what the comm tells means nothing any more */
	bool multi, tag_known;
	unsigned streams;
	uint32_t tag;
	uint32_t count;
	struct sender_message messages[SENDER_MESSAGES_MAX];
	int slots[ANYNET_WIRE_SLOTS]; /* message number, -1 = free */
	struct sender_stream stream[STREAMS_MAX];
};

/* sender->stream[].fd is filled by the caller. */
void sender_start(struct sender *sender, struct anynet_comm *comm, unsigned streams);

/* One more message, the first of its frames on `stream`; layout: how many chunks, on one stream or all. */
void sender_message(struct sender *sender, unsigned stream, uint32_t tag, uint32_t size,
		    uint8_t layout);

/* The last frame of every stream. */
void sender_bye(struct sender *sender);

/* Write at most `limit` bytes of the stream. */
void sender_push(struct sender *sender, unsigned stream, size_t limit);
void sender_ping(struct sender *sender, unsigned stream);

/* Has every frame of a message been written to its end? */
bool sender_has_written(const struct sender *sender, uint32_t number);

/* Read what the comm says. */
void sender_hear(struct sender *sender, unsigned stream);

/* The comm has named its position on a new connection … */
void sender_note_position(struct sender *sender, unsigned stream,
			  const struct anynet_wire_hello *welcome);

/* … and the stream goes on over it from there. */
void sender_go_on(struct sender *sender, unsigned stream, int fd,
		  const struct anynet_wire_hello *welcome);

/* Every message is where it belongs, and what was to be acknowledged is. */
bool sender_all_home(const struct sender *sender);

#endif
