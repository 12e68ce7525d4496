/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receiver for a send comm: it reads its streams, which resume at its position, and checks their contents; it sends
 * acknowledgements and CTS, and repeats those that may be lost.
 */
#ifndef TESTS_FUZZ_PEER_RECEIVER_H
#define TESTS_FUZZ_PEER_RECEIVER_H

#include "peer.h"
#include "resume.h"

#define RECEIVER_MESSAGES_MAX 96
#define RECEIVER_FRAMES_MAX   2048
#define STAGE_BYTES           65536

struct known_frame {
	struct anynet_wire_frame header; /* expected offset and length */
	bool seen;
};

struct receiver_stream {
	int fd; /* -1 = none */
	uint8_t stage[STAGE_BYTES];
	size_t head, tail;
	struct known_frame known[RECEIVER_FRAMES_MAX];
	uint32_t frames; /* consumed */
	uint32_t part;   /* as stream_position.part */
	bool open;       /* frame number `frames` has started … */
	struct anynet_wire_frame header;
	uint32_t got; /* … and this much of its payload has arrived */
	uint32_t crc, skip;
	bool bye;
};

struct receiver_message {
	uint32_t bytes, tag;
	uint8_t *seen;    /* for each byte: has it arrived, will it be requested again? */
	uint32_t missing; /* bytes that are not valid yet */
	uint16_t slot;
	uint8_t told_on; /* the stream of its ACK or CTS; 0xff = none */
	bool begun, whole, asked, cleared, acked;
};

struct receiver {
	bool checksum;
	bool wild, lied; /* it has sent something wrong, or a wrong position */
	unsigned streams;
	uint32_t count;
	struct receiver_message messages[RECEIVER_MESSAGES_MAX];
	int slots[ANYNET_WIRE_SLOTS]; /* the message last seen there */
	struct receiver_stream stream[STREAMS_MAX];
};

/* The caller sets receiver->stream[].fd. */
void receiver_start(struct receiver *receiver, unsigned streams, bool checksum);
void receiver_free(struct receiver *receiver);

/* Has it sent only correct frames? */
static inline bool receiver_strict(const struct receiver *receiver)
{
	return !receiver->wild && !receiver->lied;
}

/* One more message will be sent, with the bytes of pattern(its number). */
void receiver_expect(struct receiver *receiver, uint32_t bytes, uint32_t tag);

/* Reads at most `limit` bytes. */
void receiver_pull(struct receiver *receiver, unsigned stream, size_t limit);

/* Frames to the sender; `cut` bytes of each are lost with the connection. */
void receiver_say(struct receiver *receiver, unsigned stream, struct anynet_wire_frame header,
		  const uint8_t *payload, size_t cut);

/* Every `each`-th message that has arrived. */
void receiver_acknowledge(struct receiver *receiver, unsigned stream, unsigned each, size_t cut);

/* One message. */
void receiver_cts(struct receiver *receiver, unsigned stream, size_t cut);

/* The connection is closed; stream->frames and part are its position now. */
void receiver_fence(struct receiver *receiver, unsigned stream);

/* The stream resumes from there over stream->fd. */
void receiver_go_on(struct receiver *receiver, unsigned stream, uint32_t frames, uint32_t part);

#endif
