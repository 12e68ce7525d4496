/* SPDX-License-Identifier: Apache-2.0 */
#include "peer_sender.h"

#include <sys/socket.h>

#include "transports/message/recv_internal.h"
#include "transports/wire/checksum.h"

/* --- what to send --- */

static void queue_frame(struct sender_stream *stream, const struct anynet_wire_frame *header)
{
	must(stream->count < SENDER_FRAMES_MAX);
	stream->frames[stream->count++] = (struct sender_frame){
		.header = *header,
		.from = (uint32_t)header->offset,
		.end = (uint32_t)header->offset + header->length,
		.reached = (uint32_t)header->offset,
	};
}

static struct anynet_wire_frame message_frame(const struct sender *sender,
					      const struct sender_message *msg, uint8_t type)
{
	return (struct anynet_wire_frame){
		.type = type,
		.flags = msg->flags,
		.slot = (uint16_t)msg->slot,
		.tag = msg->tag,
		.seq = (uint32_t)(msg - sender->messages),
		.size = msg->size,
	};
}

static void queue_data(struct sender *sender, struct sender_message *msg)
{
	uint32_t chunks = msg->flags & ANYNET_FLAG_TAIL ? 1 : 1 + (msg->layout & 3), each, at = 0;
	struct anynet_wire_frame header = message_frame(sender, msg, ANYNET_FRAME_DATA);
	unsigned stream = msg->stream;

	each = (msg->size / chunks + ANYNET_PART_ALIGN - 1) & ~(ANYNET_PART_ALIGN - 1u);
	do {
		header.offset = at;
		header.length = (uint32_t)anynet_min(each, msg->size - at);
		queue_frame(&sender->stream[stream], &header);
		msg->frames++;
		at += header.length;
		stream = (stream + (msg->layout >> 2 & 1)) % sender->streams;
	} while (at < msg->size);
}

static uint32_t free_slot(const struct sender *sender)
{
	uint32_t slot = 0;

	while (sender->slots[slot] >= 0)
		slot++;
	return slot;
}

void sender_message(struct sender *sender, unsigned stream, uint32_t tag, uint32_t size,
		    uint8_t layout)
{
	struct sender_message *msg = &sender->messages[sender->count];

	sender->multi |= sender->tag_known && tag != sender->tag;
	sender->tag_known = true;
	sender->tag = tag;
	*msg = (struct sender_message){ .tag = tag,
					.size = size,
					.slot = free_slot(sender),
					.layout = layout,
					.stream = (uint8_t)stream };
	sender->slots[msg->slot] = (int)sender->count++;
	msg->flags = sender->multi ? ANYNET_FLAG_MULTI : 0;
	msg->flags |= size <= LOCAL_EAGER_BYTES ? ANYNET_FLAG_TAIL : ANYNET_FLAG_ACK;
	if (sender->multi && !(msg->flags & ANYNET_FLAG_TAIL)) {
		struct anynet_wire_frame header = message_frame(sender, msg, ANYNET_FRAME_RTS);

		msg->asked = true;
		queue_frame(&sender->stream[stream], &header);
		return;
	}
	queue_data(sender, msg);
}

void sender_bye(struct sender *sender)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE, .seq = sender->count };

	for (unsigned i = 0; i < sender->streams; i++)
		queue_frame(&sender->stream[i], &bye);
}

/* --- writing it --- */

/* The rest of a frame, as on the wire. *needed: without the tail. */
static size_t make_image(const struct sender *sender, const struct sender_frame *frame,
			 uint8_t *image, size_t *needed)
{
	struct anynet_wire_frame header = frame->header;
	bool data = header.type == ANYNET_FRAME_DATA;
	size_t bytes = HEADER_BYTES;

	header.offset = frame->from;
	header.length = frame->end - frame->from;
	memcpy(image + bytes, pattern(header.seq, frame->from), header.length);
	bytes += header.length;
	if (sender->comm->checksum) {
		uint32_t crc = crc32c(0, image + HEADER_BYTES, header.length);

		checksum_header(&header, NULL);
		memcpy(image + bytes, &crc, sizeof(crc));
		bytes += data ? sizeof(crc) : 0;
	}
	memcpy(image, &header, HEADER_BYTES);
	*needed = bytes;
	if (header.flags & ANYNET_FLAG_TAIL)
		image[bytes++] = 0;
	return bytes;
}

static void note_written(struct sender_stream *stream, struct sender_frame *frame, size_t needed)
{
	size_t payload = stream->gone > HEADER_BYTES ? stream->gone - HEADER_BYTES : 0;

	if (stream->spoiled)
		return;
	payload = anynet_min(payload, frame->end - frame->from);
	frame->reached = (uint32_t)anynet_max(frame->reached, frame->from + (uint32_t)payload);
	frame->whole |= stream->gone >= needed;
}

/* At most `limit` bytes of the next frame. Returns the number of bytes written. */
static size_t push_frame(struct sender *sender, struct sender_stream *stream, size_t limit)
{
	static uint8_t image[BYTES_MAX + 64];
	struct sender_frame *frame = &stream->frames[stream->next];
	size_t needed, bytes = make_image(sender, frame, image, &needed), n;
	bool flip;

	n = anynet_min(bytes - stream->gone, limit);
	flip = stream->flip && stream->gone + n / 2 < needed; /* no checksum covers the tail */
	if (flip) {
		image[stream->gone + n / 2] ^= 0x20;
		n = n / 2 + 1;
	}
	n = peer_send(stream->fd, image + stream->gone, n);
	if (!n)
		return 0;
	if (flip) {
		stream->spoiled = true;
		stream->flip = false;
	}
	stream->gone += n;
	stream->written += n;
	note_written(stream, frame, needed);
	if (stream->gone == bytes) {
		stream->next++;
		stream->gone = 0;
	}
	return n;
}

void sender_push(struct sender *sender, unsigned index, size_t limit)
{
	struct sender_stream *stream = &sender->stream[index];
	size_t n = 1;

	for (; n && limit && stream->fd >= 0 && stream->next < stream->count; limit -= n)
		n = push_frame(sender, stream, limit);
}

void sender_ping(struct sender *sender, unsigned index)
{
	struct sender_stream *stream = &sender->stream[index];

	if (!stream->gone)
		peer_say(&stream->fd, (struct anynet_wire_frame){ .type = ANYNET_FRAME_PING }, NULL,
			 sender->comm->checksum, 0);
}

bool sender_has_written(const struct sender *sender, uint32_t number)
{
	unsigned whole = 0;

	for (unsigned i = 0; i < sender->streams; i++)
		for (uint32_t k = 0; k < sender->stream[i].count; k++) {
			const struct sender_frame *frame = &sender->stream[i].frames[k];

			whole += frame->header.type == ANYNET_FRAME_DATA &&
				 frame->header.seq == number && frame->whole;
		}
	return sender->messages[number].frames && whole == sender->messages[number].frames;
}

/* --- frames of the comm --- */

static void acknowledged(struct sender *sender, unsigned slot)
{
	int number = sender->slots[slot];

	must(number >= 0 && sender_has_written(sender, (uint32_t)number));
	sender->messages[number].acked = true;
	sender->slots[slot] = -1;
}

static void cleared(struct sender *sender, const struct anynet_wire_frame *header)
{
	int number = sender->slots[header->slot];
	struct sender_message *msg = &sender->messages[header->seq];

	must(header->seq < sender->count && msg->slot == header->slot && msg->asked);
	if (number != (int)header->seq || msg->cleared)
		return; /* repeated */
	msg->cleared = true;
	queue_data(sender, msg);
}

static void take_control(struct sender *sender, const struct anynet_wire_frame *header,
			 const uint8_t *payload)
{
	must(header->slot < ANYNET_WIRE_SLOTS);
	if (header->type == ANYNET_FRAME_ACK && header->length) {
		must(header->length == ANYNET_ACK_BYTES);
		for (unsigned slot = 0; slot < ANYNET_WIRE_SLOTS; slot++)
			if (payload[slot / 8] >> slot % 8 & 1)
				acknowledged(sender, slot);
		return;
	}
	must(!header->length);
	if (header->type == ANYNET_FRAME_ACK) {
		if (sender->slots[header->slot] == (int)header->seq)
			acknowledged(sender, header->slot);
	} else if (header->type == ANYNET_FRAME_CTS) {
		cleared(sender, header);
	} else {
		must(header->type == ANYNET_FRAME_PING || header->type == ANYNET_FRAME_BYE ||
		     header->type == ANYNET_FRAME_SUSPECT);
	}
}

static void take_controls(struct sender *sender, struct sender_stream *stream)
{
	size_t at = 0;

	while (!sender->wild && stream->in_bytes - at >= HEADER_BYTES) {
		struct anynet_wire_frame header;

		memcpy(&header, stream->in + at, sizeof(header));
		must(header.length <= ANYNET_ACK_BYTES);
		if (stream->in_bytes - at < HEADER_BYTES + header.length)
			break;
		must(!sender->comm->checksum ||
		     checksum_check(&header, stream->in + at + HEADER_BYTES));
		take_control(sender, &header, stream->in + at + HEADER_BYTES);
		at += HEADER_BYTES + header.length;
	}
	if (sender->wild)
		at = stream->in_bytes;
	stream->in_bytes -= at;
	memmove(stream->in, stream->in + at, stream->in_bytes);
}

void sender_hear(struct sender *sender, unsigned index)
{
	struct sender_stream *stream = &sender->stream[index];

	while (stream->fd >= 0) {
		ssize_t n = recv(stream->fd, stream->in + stream->in_bytes,
				 sizeof(stream->in) - stream->in_bytes, MSG_DONTWAIT);

		if (n <= 0)
			return;
		stream->in_bytes += (size_t)n;
		take_controls(sender, stream);
	}
}

/* --- positions --- */

/* The data of a frame is where the comm says. */
static void check_placed(const struct sender *sender, const struct sender_frame *frame,
			 uint32_t end)
{
	const struct recv_msg *msg = &((struct recv_comm *)sender->comm)->msgs[frame->header.slot];
	uint32_t from = (uint32_t)frame->header.offset;
	const uint8_t *base;

	if (frame->header.type != ANYNET_FRAME_DATA || msg->seq != frame->header.seq ||
	    msg->state == RECV_UNSEEN || from == end)
		return;
	base = msg->unexpected ? msg->unexpected->data : msg->sub->data;
	must(!memcmp(base + from, pattern(msg->seq, from), end - from));
}

/* Of frame `n` the part before `part` has arrived, not all. */
static void check_part(const struct sender *sender, const struct sender_stream *stream, uint64_t n,
		       uint32_t part)
{
	const struct sender_frame *frame = &stream->frames[n];

	must(n < stream->count && frame->header.type == ANYNET_FRAME_DATA);
	must(!(frame->header.flags & ANYNET_FLAG_TAIL) && !sender->comm->checksum);
	must(part % ANYNET_PART_ALIGN == 0 && part >= frame->from);
	must(part < frame->end && part <= frame->reached);
	check_placed(sender, frame, part);
}

/* A message that the comm has delivered is not requested again. */
static void check_not_given(const struct sender *sender, const struct sender_frame *frame)
{
	const struct sender_message *msg = &sender->messages[frame->header.seq];

	must(frame->header.type != ANYNET_FRAME_DATA || !(msg->done || msg->acked));
}

static void check_position(const struct sender *sender, const struct sender_stream *stream,
			   uint64_t frames, uint32_t part)
{
	must(frames <= stream->count && frames >= stream->told);
	if (stream->written < HEADER_BYTES)
		must(frames == stream->told && part == stream->told_part);
	for (uint64_t n = 0; n < frames; n++) {
		must(stream->frames[n].whole);
		check_placed(sender, &stream->frames[n], stream->frames[n].end);
	}
	if (part)
		check_part(sender, stream, frames, part);
	for (uint64_t n = frames; n < stream->count; n++)
		check_not_given(sender, &stream->frames[n]);
}

void sender_note_position(struct sender *sender, unsigned index,
			  const struct anynet_wire_hello *welcome)
{
	struct sender_stream *stream = &sender->stream[index];

	if (sender->wild)
		return;
	check_position(sender, stream, welcome->frames, welcome->part);
	stream->told = welcome->frames;
	stream->told_part = welcome->part;
}

void sender_go_on(struct sender *sender, unsigned index, int fd,
		  const struct anynet_wire_hello *welcome)
{
	struct sender_stream *stream = &sender->stream[index];

	sender_note_position(sender, index, welcome);
	peer_close(&stream->fd);
	stream->fd = fd;
	stream->in_bytes = stream->gone = stream->written = 0;
	stream->spoiled = stream->flip = false;
	stream->next = (uint32_t)anynet_min(welcome->frames, stream->count);
	if (!sender->wild && welcome->part > stream->frames[stream->next].from)
		stream->frames[stream->next].from = welcome->part;
}

/* --- start and end --- */

void sender_start(struct sender *sender, struct anynet_comm *comm, unsigned streams)
{
	for (unsigned i = 0; i < STREAMS_MAX; i++) {
		struct sender_stream *stream = &sender->stream[i];

		stream->fd = -1;
		stream->count = stream->next = 0;
		stream->gone = stream->written = stream->in_bytes = 0;
		stream->spoiled = stream->flip = false;
		stream->told = stream->told_part = 0;
	}
	memset(sender->slots, 0xff, sizeof(sender->slots));
	sender->comm = comm;
	sender->wild = sender->multi = sender->tag_known = false;
	sender->streams = streams;
	sender->count = 0;
}

bool sender_all_home(const struct sender *sender)
{
	for (uint32_t i = 0; i < sender->count; i++)
		if (!sender->messages[i].done ||
		    (sender->messages[i].flags & ANYNET_FLAG_ACK && !sender->messages[i].acked))
			return false;
	return true;
}
