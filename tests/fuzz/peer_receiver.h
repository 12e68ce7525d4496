/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receiver for a send comm: it reads its streams, which resume where it says, and checks that
 * they hold what they must; it sends acknowledgements and CTS, and repeats what may be lost.
 */
#ifndef TESTS_FUZZ_PEER_RECEIVER_H
#define TESTS_FUZZ_PEER_RECEIVER_H

#include "peer.h"
#include "resume.h"

#define RECEIVER_MESSAGES_MAX 96
#define RECEIVER_FRAMES_MAX   2048
#define STAGE_BYTES           65536

struct known_frame {
	struct anynet_wire_frame header; /* offset and length as they are to be now */
	bool seen;
};

struct receiver_stream {
	int fd; /* -1 = none */
	uint8_t stage[STAGE_BYTES];
	size_t head, tail;
	struct known_frame known[RECEIVER_FRAMES_MAX];
	uint32_t frames; /* consumed */
	uint32_t part;   /* as tcp_rx.part */
	bool open;       /* frame number `frames` is begun … */
	struct anynet_wire_frame header;
	uint32_t got; /* … and that much of its payload has come */
	uint32_t crc, skip;
	bool bye;
};

struct receiver_message {
	uint32_t bytes, tag;
	uint8_t *seen;    /* for each byte: has it come, will it be asked for again? */
	uint32_t missing; /* bytes that do not count yet */
	uint16_t slot;
	uint8_t told_on; /* the stream of its ack or CTS; 0xff = none */
	bool begun, whole, asked, cleared, acked;
};

struct receiver {
	bool checksum;
	bool wild, lied; /* it has said what is not right, or a position that is not */
	unsigned streams;
	uint32_t count;
	struct receiver_message messages[RECEIVER_MESSAGES_MAX];
	int slots[ANYNET_WIRE_SLOTS]; /* the message that was last seen there */
	struct receiver_stream stream[STREAMS_MAX];
};

/* receiver->stream[].fd is filled by the caller. */
void receiver_start(struct receiver *receiver, unsigned streams, bool checksum);
void receiver_free(struct receiver *receiver);

/* Has it said nothing but what is right? */
static inline bool receiver_strict(const struct receiver *receiver)
{
	return !receiver->wild && !receiver->lied;
}

/* One more message is going to be sent: it is to have the bytes of pattern(its number). */
void receiver_expect(struct receiver *receiver, uint32_t bytes, uint32_t tag);

/* Read at most `limit` bytes. */
void receiver_pull(struct receiver *receiver, unsigned stream, size_t limit);

/* Words to the sender; `cut` bytes of each are lost with the connection. */
void receiver_say(struct receiver *receiver, unsigned stream, struct anynet_wire_frame header,
		  const uint8_t *payload, size_t cut);

/* Every `each`-th message that is there. */
void receiver_acknowledge(struct receiver *receiver, unsigned stream, unsigned each, size_t cut);

/* One message. */
void receiver_cts(struct receiver *receiver, unsigned stream, size_t cut);

/* The connection is over; stream->frames and part are its position now. */
void receiver_fence(struct receiver *receiver, unsigned stream);

/* The stream goes on from there over stream->fd. */
void receiver_go_on(struct receiver *receiver, unsigned stream, uint32_t frames, uint32_t part);

#endif
