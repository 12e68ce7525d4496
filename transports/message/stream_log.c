/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a sending stream; see stream_log.h. The receiver consumes a stream's frames in order. So if the message of a
 * frame has been acknowledged, that frame and all before it have been consumed, and the log can drop them.
 */
#include "message/stream_log.h"

#include <errno.h>
#include <stdlib.h>

#include "message/comm.h"

#define LOG_MAX (1u << 20) /* max size of the log, in frames */

int stream_log_init(struct anynet_stream *stream)
{
	stream->log.frames = malloc(STREAM_LOG_FRAMES * sizeof(*stream->log.frames));
	stream->log.room = STREAM_LOG_FRAMES;
	return stream->log.frames ? 0 : -ENOMEM;
}

static bool is_of_message(const struct frame_id *id)
{
	return id->type == ANYNET_FRAME_DATA || id->type == ANYNET_FRAME_RTS;
}

static bool is_over(struct anynet_stream *stream, const struct frame_id *id)
{
	return is_of_message(id) && send_frame_over((struct send_comm *)stream->comm, id);
}

bool stream_log_owes(struct anynet_stream *stream)
{
	for (uint64_t n = stream->log.end; n > anynet_max(stream->log.first, stream->log.arrived); n--) {
		const struct frame_id *id = &stream_log_at(stream, n - 1)->id;

		if (is_of_message(id))
			return !is_over(stream, id);
	}
	return false;
}

/* Drops the consumed frames. Returns their number. A queue pair reports each frame as arrived, and that may be all that a
 * message waits for: its frames stay until then, even if a later message has been acknowledged. */
static uint64_t trim(struct anynet_stream *stream)
{
	uint64_t end = stream->qp.carries ? stream->log.arrived : stream->log.next;

	for (uint64_t n = end; n != stream->log.first; n--) {
		if (is_over(stream, &stream_log_at(stream, n - 1)->id)) {
			uint64_t count = n - stream->log.first;

			stream->log.first = n;
			return count;
		}
	}
	return 0;
}

static void grow(struct anynet_stream *stream)
{
	uint32_t room = stream->log.room * 2;
	struct log_frame *grown;

	if (room > LOG_MAX)
		return;
	grown = malloc(room * sizeof(*grown));
	if (!grown)
		return;
	for (uint64_t n = stream->log.first; n != stream->log.end; n++)
		grown[n & (room - 1)] = *stream_log_at(stream, n);
	free(stream->log.frames);
	stream->log.frames = grown;
	stream->log.room = room;
}

/* trim() scans the log. If it frees a quarter of it, that costs a few steps per frame; else the log grows. If it cannot
 * grow, sending waits for acknowledgements. */
bool stream_log_make_room(struct anynet_stream *stream)
{
	if (trim(stream) < stream->log.room / 4)
		grow(stream);
	return stream->log.end - stream->log.first < stream->log.room;
}

/* Can the stream resume at frame `n`, from offset `part` of its message (0 = the beginning of the frame)? */
static bool can_start(struct anynet_stream *stream, uint64_t n, uint32_t part)
{
	const struct log_frame *entry;
	struct stream_frame frame;

	/* Frames that a queue pair has reported may have completed their message, whose memory NCCL then uses again. */
	if (n < stream->log.first || n < stream->log.arrived || n > stream->log.next)
		return false;
	if (n == stream->log.end)
		return !part;
	if (!part)
		return true;
	entry = stream_log_at(stream, n);
	if (entry->id.type != ANYNET_FRAME_DATA || stream->comm->checksum ||
	    send_frame_over((struct send_comm *)stream->comm, &entry->id))
		return false;
	send_frame((struct send_comm *)stream->comm, &entry->id, &frame);
	if (frame.framed || part % ANYNET_PART_ALIGN ||
	    part >= frame.header.offset + frame.header.length)
		return false;
	/* If the frame has been sent in part only: does that part reach offset `part`? */
	return n != stream->log.next || part <= frame.header.offset ||
	       part - frame.header.offset + sizeof(frame.header) <= stream->log.gone;
}

int stream_log_rewind(struct anynet_stream *stream, struct stream_position to)
{
	const uint64_t frames = to.frames;
	const uint32_t part = to.part;
	struct send_comm *comm = (struct send_comm *)stream->comm;
	struct log_frame *first;

	if (!can_start(stream, frames, part))
		return -EPROTO;
	for (uint64_t n = frames; n != stream->log.next; n++)
		if (is_over(stream, &stream_log_at(stream, n)->id))
			return -EPROTO; /* acknowledged: NCCL may have reused its memory */
	for (uint64_t n = stream->log.first; n != frames; n++)
		if (stream_log_at(stream, n)->id.type == ANYNET_FRAME_READY)
			send_arrived(comm, &stream_log_at(stream, n)->id);
	for (uint64_t n = frames; n != stream->log.next; n++)
		send_rewound(comm, &stream_log_at(stream, n)->id);
	stream->log.first = stream->log.next = stream->log.arrived = frames;
	stream->log.gone = 0;
	first = stream_log_at(stream, frames);
	if (part && part / ANYNET_PART_ALIGN > first->id.at) {
		first->id.length -= part - first->id.at * ANYNET_PART_ALIGN;
		first->id.at = part / ANYNET_PART_ALIGN;
		send_begun(comm, &first->id);
	}
	return 0;
}
