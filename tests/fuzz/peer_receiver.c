/* SPDX-License-Identifier: Apache-2.0 */
#include "peer_receiver.h"

#include <sys/socket.h>

#include "transports/wire/checksum.h"

#define TOLD_NOTHING 0xff

enum seen {
	SEEN_NOT,
	SEEN,         /* it has arrived … */
	SEEN_FOR_GOOD /* … and will not be requested again */
};

void receiver_expect(struct receiver *receiver, uint32_t bytes, uint32_t tag)
{
	struct receiver_message *msg = &receiver->messages[receiver->count++];

	*msg = (struct receiver_message){
		.bytes = bytes, .missing = bytes, .tag = tag, .told_on = TOLD_NOTHING
	};
	msg->seen = calloc(anynet_max(bytes, 1), 1);
	must(msg->seen);
}

/* --- the incoming stream --- */

static struct receiver_message *message_of(struct receiver *receiver,
					   const struct anynet_wire_frame *header)
{
	struct receiver_message *msg = &receiver->messages[header->seq];

	must(header->seq < receiver->count);
	must(header->slot < ANYNET_WIRE_SLOTS);
	must(header->size == msg->bytes && header->tag == msg->tag);
	must(header->offset + header->length <= header->size);
	must(header->offset % ANYNET_PART_ALIGN == 0);
	return msg;
}

static void begin_message(struct receiver *receiver, const struct anynet_wire_frame *header)
{
	struct receiver_message *msg = message_of(receiver, header);
	int before = receiver->slots[header->slot];

	if (!msg->begun) {
		must(!receiver_strict(receiver) || before < 0 || receiver->messages[before].acked);
		if (before >= 0)
			receiver->messages[before].told_on = TOLD_NOTHING;
		receiver->slots[header->slot] = (int)header->seq;
		msg->slot = header->slot;
	}
	must(msg->slot == header->slot);
	msg->begun = true;
	must(!receiver_strict(receiver) || !msg->acked);
	if (header->type == ANYNET_FRAME_RTS) {
		must(header->flags & ANYNET_FLAG_MULTI && !header->length);
		msg->asked = true;
	} else {
		must(!receiver_strict(receiver) || !msg->asked || msg->cleared);
		msg->told_on = TOLD_NOTHING; /* of the CTS */
	}
}

/* A numbered frame continues at the position that the receiver named, and is the same as before. */
static void check_known(struct receiver_stream *stream, const struct anynet_wire_frame *header)
{
	struct known_frame *known = &stream->known[stream->frames];
	struct anynet_wire_frame *was = &known->header;

	must(stream->frames < RECEIVER_FRAMES_MAX);
	if (!known->seen) {
		*known = (struct known_frame){ *header, true };
		return;
	}
	must(header->type == was->type && header->flags == was->flags && header->slot == was->slot);
	must(header->tag == was->tag && header->size == was->size);
	must(header->offset == was->offset && header->length == was->length);
	must(header->seq == was->seq || header->type == ANYNET_FRAME_BYE);
}

static void begin_frame(struct receiver *receiver, struct receiver_stream *stream)
{
	struct anynet_wire_frame *header = &stream->header;

	memcpy(header, stream->stage + stream->head, HEADER_BYTES);
	stream->head += HEADER_BYTES;
	must(!receiver->checksum || checksum_check(header, NULL));
	must(!(header->flags & ANYNET_FLAG_CRC) == !receiver->checksum);
	if (header->type == ANYNET_FRAME_PING) {
		must(!header->length);
		return;
	}
	must(!stream->bye); /* the last of the stream */
	check_known(stream, header);
	stream->part = 0;
	stream->open = true;
	stream->got = 0;
	stream->crc = 0;
	if (header->type == ANYNET_FRAME_DATA || header->type == ANYNET_FRAME_RTS)
		begin_message(receiver, header);
	else
		must((header->type == ANYNET_FRAME_READY || header->type == ANYNET_FRAME_BYE) &&
		     !header->length);
}

static void take_payload(struct receiver *receiver, struct receiver_stream *stream)
{
	const struct anynet_wire_frame *header = &stream->header;
	uint32_t bytes = (uint32_t)anynet_min(stream->tail - stream->head,
					      header->length - stream->got),
		 at = (uint32_t)header->offset + stream->got;
	struct receiver_message *msg = &receiver->messages[header->seq];

	if (!bytes)
		return;
	must(!memcmp(stream->stage + stream->head, pattern(header->seq, at), bytes));
	stream->crc = crc32c(stream->crc, stream->stage + stream->head, bytes);
	for (uint32_t i = at; i < at + bytes; i++) {
		must(!receiver_strict(receiver) || !msg->seen[i]);
		msg->seen[i] |= SEEN;
	}
	stream->got += bytes;
	stream->head += bytes;
}

/* Bytes [from, end) of a message are valid. */
static void keep_bytes(struct receiver_message *msg, uint64_t from, uint64_t end)
{
	for (uint64_t i = from; i < end; i++) {
		msg->missing -= !(msg->seen[i] & SEEN_FOR_GOOD);
		msg->seen[i] |= SEEN_FOR_GOOD;
	}
	msg->whole = !msg->missing;
}

static bool finish_frame(struct receiver *receiver, struct receiver_stream *stream)
{
	const struct anynet_wire_frame *header = &stream->header;
	bool data = header->type == ANYNET_FRAME_DATA;
	size_t crc_bytes = data && receiver->checksum ? ANYNET_CRC_BYTES : 0;

	if (stream->got < header->length || stream->tail - stream->head < crc_bytes)
		return false;
	must(!crc_bytes || !memcmp(stream->stage + stream->head, &stream->crc, crc_bytes));
	stream->head += crc_bytes;
	stream->skip = data && header->flags & ANYNET_FLAG_TAIL ? ANYNET_TAIL_BYTES : 0;
	stream->open = false;
	stream->frames++;
	if (header->type == ANYNET_FRAME_BYE)
		stream->bye = true;
	if (data)
		keep_bytes(&receiver->messages[header->seq], header->offset,
			   header->offset + header->length);
	return true;
}

static void consume(struct receiver *receiver, struct receiver_stream *stream)
{
	for (;;) {
		if (stream->open) {
			take_payload(receiver, stream);
			if (!finish_frame(receiver, stream))
				return;
		} else if (stream->skip && stream->tail > stream->head) {
			must(!stream->stage[stream->head]);
			stream->head++;
			stream->skip = 0;
		} else if (stream->tail - stream->head >= HEADER_BYTES) {
			begin_frame(receiver, stream);
		} else {
			return;
		}
	}
}

void receiver_pull(struct receiver *receiver, unsigned index, size_t limit)
{
	struct receiver_stream *stream = &receiver->stream[index];

	while (stream->fd >= 0 && limit) {
		ssize_t n;

		memmove(stream->stage, stream->stage + stream->head, stream->tail - stream->head);
		stream->tail -= stream->head;
		stream->head = 0;
		n = recv(stream->fd, stream->stage + stream->tail,
			 anynet_min(sizeof(stream->stage) - stream->tail, limit), MSG_DONTWAIT);
		if (n <= 0)
			break;
		limit -= (size_t)n;
		stream->tail += (size_t)n;
		consume(receiver, stream);
	}
}

/* --- frames that it sends --- */

void receiver_say(struct receiver *receiver, unsigned stream, struct anynet_wire_frame header,
		  const uint8_t *payload, size_t cut)
{
	peer_say(&receiver->stream[stream].fd, header, payload, receiver->checksum, cut);
}

void receiver_acknowledge(struct receiver *receiver, unsigned stream, unsigned each, size_t cut)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK, .length = ANYNET_ACK_BYTES };
	uint8_t bitmap[ANYNET_ACK_BYTES] = { 0 };
	unsigned count = 0;

	if (receiver->stream[stream].fd < 0)
		return;
	for (uint32_t i = 0; i < receiver->count; i += each) {
		struct receiver_message *msg = &receiver->messages[i];

		if (!msg->whole || msg->acked)
			continue;
		msg->acked = true;
		msg->told_on = (uint8_t)stream;
		bitmap[msg->slot / 8] |= (uint8_t)(1u << msg->slot % 8);
		count++;
	}
	if (count)
		receiver_say(receiver, stream, header, bitmap, cut);
}

/* A frame about one message. */
static void say_about(struct receiver *receiver, unsigned stream, uint32_t number, uint8_t type,
		      size_t cut)
{
	struct anynet_wire_frame header = { .type = type,
					    .slot = receiver->messages[number].slot,
					    .seq = number };

	receiver_say(receiver, stream, header, NULL, cut);
}

void receiver_cts(struct receiver *receiver, unsigned stream, size_t cut)
{
	if (receiver->stream[stream].fd < 0)
		return;
	for (uint32_t i = 0; i < receiver->count; i++) {
		struct receiver_message *msg = &receiver->messages[i];

		if (!msg->asked || msg->cleared)
			continue;
		msg->cleared = true;
		msg->told_on = (uint8_t)stream;
		say_about(receiver, stream, i, ANYNET_FRAME_CTS, cut);
		return;
	}
}

/* The last frame of a stream, again. */
static void tell_again(struct receiver *receiver, unsigned stream)
{
	for (uint32_t i = 0; i < receiver->count; i++) {
		const struct receiver_message *msg = &receiver->messages[i];

		if (msg->told_on == stream && receiver->slots[msg->slot] == (int)i)
			say_about(receiver, stream, i,
				  msg->acked ? ANYNET_FRAME_ACK : ANYNET_FRAME_CTS, 0);
	}
}

/* --- positions --- */

/* How much of the payload of the frame at the head is kept. */
static uint32_t kept(const struct receiver_stream *stream)
{
	if (stream->header.flags & (ANYNET_FLAG_TAIL | ANYNET_FLAG_CRC))
		return 0;
	return stream->got - stream->got % ANYNET_PART_ALIGN;
}

void receiver_fence(struct receiver *receiver, unsigned index)
{
	struct receiver_stream *stream = &receiver->stream[index];
	const struct anynet_wire_frame *header = &stream->header;
	struct receiver_message *msg = &receiver->messages[header->seq];
	uint32_t keep;

	peer_close(&stream->fd);
	stream->head = stream->tail = 0;
	stream->skip = 0;
	if (!stream->open)
		return;
	stream->open = false;
	keep = kept(stream);
	if (keep)
		keep_bytes(msg, header->offset, header->offset + keep);
	for (uint64_t i = header->offset + keep; i < header->offset + stream->got; i++)
		msg->seen[i] &= SEEN_FOR_GOOD;
	stream->part = keep ? (uint32_t)header->offset + keep : 0;
}

/* From now on the stream is expected to continue there. */
static void expect_from(struct receiver *receiver, struct receiver_stream *stream, uint32_t frames,
			uint32_t part)
{
	struct anynet_wire_frame *header;

	must(frames < RECEIVER_FRAMES_MAX);
	must(frames <= stream->frames || receiver->lied); /* it was never read */
	header = &stream->known[frames].header;
	stream->frames = frames;
	stream->part = part;
	stream->bye = false;
	if (!stream->known[frames].seen || part <= header->offset)
		return;
	header->length -= part - (uint32_t)header->offset;
	header->offset = part;
}

void receiver_go_on(struct receiver *receiver, unsigned stream, uint32_t frames, uint32_t part)
{
	expect_from(receiver, &receiver->stream[stream], frames, part);
	tell_again(receiver, stream);
}

/* --- start and end --- */

void receiver_start(struct receiver *receiver, unsigned streams, bool checksum)
{
	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		struct receiver_stream *stream = &receiver->stream[i];

		for (uint32_t k = 0; k < RECEIVER_FRAMES_MAX; k++)
			stream->known[k].seen = false;
		stream->fd = -1;
		stream->frames = stream->part = stream->skip = 0;
		stream->head = stream->tail = 0;
		stream->open = stream->bye = false;
	}
	memset(receiver->slots, 0xff, sizeof(receiver->slots));
	receiver->checksum = checksum;
	receiver->wild = receiver->lied = false;
	receiver->streams = streams;
	receiver->count = 0;
}

void receiver_free(struct receiver *receiver)
{
	for (unsigned i = 0; i < receiver->streams; i++)
		peer_close(&receiver->stream[i].fd);
	for (uint32_t i = 0; i < receiver->count; i++)
		free(receiver->messages[i].seen);
}
