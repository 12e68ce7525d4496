/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sender for a receive comm: on each stream, frames that may end at any byte and resume where the comm says. It
 * checks the comm's positions, acknowledgements and CTS.
 */
#ifndef TESTS_FUZZ_PEER_SENDER_H
#define TESTS_FUZZ_PEER_SENDER_H

#include "peer.h"
#include "resume.h"

#define SCRIPT_MAX          64 /* messages of the script; some more fill the posted receives */
#define SENDER_MESSAGES_MAX (SCRIPT_MAX + ANYNET_SENDS)
#define SENDER_FRAMES_MAX   (6 * SCRIPT_MAX + 2 * ANYNET_SENDS)

/* A frame of a stream. */
struct sender_frame {
	struct anynet_wire_frame header; /* as first sent, without checksum */
	uint32_t from, end;              /* the rest of the message to be sent with it */
	uint32_t reached;                /* largest message offset written so far */
	bool whole;                      /* everything that the comm needs of it is written */
};

struct sender_message {
	uint32_t tag, size, slot;
	uint8_t layout, stream;
	uint8_t frames, flags;
	bool asked, cleared, acked;
	bool done; /* its receive is done: set by whoever notices */
};

struct sender_stream {
	int fd; /* -1 = none */
	struct sender_frame frames[SENDER_FRAMES_MAX];
	uint32_t count, next;
	size_t gone;    /* bytes of frame `next` written */
	size_t written; /* on this connection */
	bool spoiled;   /* a byte was changed on this connection */
	bool flip;      /* the next one to write */
	uint64_t told;  /* last position sent by the comm */
	uint32_t told_part;
	uint8_t in[4096];
	size_t in_bytes;
};

struct sender {
	struct anynet_comm *comm;
	bool wild; /* it has sent something wrong: the comm's frames mean nothing any more */
	bool multi, tag_known;
	unsigned streams;
	uint32_t tag;
	uint32_t count;
	struct sender_message messages[SENDER_MESSAGES_MAX];
	int slots[ANYNET_WIRE_SLOTS]; /* message number, -1 = free */
	struct sender_stream stream[STREAMS_MAX];
};

/* The caller sets sender->stream[].fd. */
void sender_start(struct sender *sender, struct anynet_comm *comm, unsigned streams);

/* One more message, its first frame on `stream`; layout: number of chunks, on one stream or all. */
void sender_message(struct sender *sender, unsigned stream, uint32_t tag, uint32_t size,
		    uint8_t layout);

/* The last frame of every stream. */
void sender_bye(struct sender *sender);

/* Writes at most `limit` bytes of the stream. */
void sender_push(struct sender *sender, unsigned stream, size_t limit);
void sender_ping(struct sender *sender, unsigned stream);

/* Has every frame of a message been written completely? */
bool sender_has_written(const struct sender *sender, uint32_t number);

/* Reads the comm's frames. */
void sender_hear(struct sender *sender, unsigned stream);

/* The comm has named its position on a new connection … */
void sender_note_position(struct sender *sender, unsigned stream,
			  const struct anynet_wire_hello *welcome);

/* … and the stream resumes there. */
void sender_go_on(struct sender *sender, unsigned stream, int fd,
		  const struct anynet_wire_hello *welcome);

/* Every message is where it belongs, and all due acknowledgements have arrived. */
bool sender_all_home(const struct sender *sender);

#endif
