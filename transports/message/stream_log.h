/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a sending stream: the frames that may have to be sent again, and those queued to be sent. Paths pull frames
 * into it and say what they have taken; a new path goes back to the receiver's position.
 */
#ifndef ANYNET_STREAM_LOG_H
#define ANYNET_STREAM_LOG_H

#include <nccl_net/util.h>

#include "message/stream.h"

/* A frame that is queued, or sent and possibly to be sent again. */
struct log_frame {
	struct frame_id id;
	uint32_t crc; /* CRC32C of its payload, if frames carry checksums */
};

#define STREAM_LOG_FRAMES 64 /* initial size of the log, in frames */

int stream_log_init(struct anynet_stream *stream); /* 0 or -ENOMEM */

static inline struct log_frame *stream_log_at(struct anynet_stream *stream, uint64_t number)
{
	return &stream->log.frames[number & (stream->log.room - 1)];
}

/* The log is full: drops what need not be sent again, or else enlarges it. False: there is still no room. */
bool stream_log_make_room(struct anynet_stream *stream);

/* Queues the comm's next frame for this stream as frame log.end - 1. False = there is none now, or no room. */
static inline bool stream_pull(struct anynet_stream *stream)
{
	if (anynet_unlikely(stream->log.end - stream->log.first >= stream->log.room) &&
	    !stream_log_make_room(stream))
		return false;
	if (!send_next((struct send_comm *)stream->comm, stream,
		       &stream_log_at(stream, stream->log.end)->id))
		return false;
	stream->log.end++;
	return true;
}

/* The path has taken all of frame log.next. */
static inline void stream_taken(struct anynet_stream *stream)
{
	const struct frame_id *id = &stream_log_at(stream, stream->log.next++)->id;

	stream->sent.bytes += id->length;
	send_written((struct send_comm *)stream->comm, id);
}

/* Are frames of messages queued, or sent and not acknowledged? */
bool stream_log_owes(struct anynet_stream *stream);

/* Goes back to the receiver's position. 0, or -EPROTO: it cannot be there. */
int stream_log_rewind(struct anynet_stream *stream, struct stream_position to);

#endif
