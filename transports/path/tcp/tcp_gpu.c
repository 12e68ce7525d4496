/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TCP stream's payload in GPU memory: of an IB device's stream without a queue pair, and of TCP devices with
 * ANYNET_TCP_CUDA=1. Otherwise NCCL copies. It passes through bounces (gpu.h), in the order of the stream.
 *
 * Sending: bounces are filled ahead of the socket, up to ahead_frame and ahead_at. A bounce is given back when the
 * socket has taken its bytes.
 * Receiving: one bounce is filled from the socket, and copied to the GPU when it is full or the frame ends. The frame
 * counts as placed when its last copy is done.
 * No stream keeps bounces that wait for the peer while the pool is short. A receiver copies what it has; a sender gives
 * up what the socket does not take.
 */
#include <errno.h>
#include <stdlib.h>

#include "path/tcp/tcp_stream.h"
#include "wire/crc32c.h"

#define NO_PIECE (-1)

/* A bounce in use. */
struct piece {
	int bounce;
	bool copied;        /* sending: its copy is done */
	uint64_t frame;     /* sending: number of the frame */
	uint32_t at, bytes; /* sending: range of the frame's payload */
	/* Receiving: message of the frame that ends with this piece; NULL = no frame ends with it */
	struct recv_msg *msg;
	uint32_t length; /* receiving, with msg: payload bytes of that frame */
};

struct tcp_gpu {
	struct gpu *gpu;
	struct piece pieces[TCP_GPU_PIECES]; /* ring of [head, tail), in the order of the stream */
	uint32_t head, tail;

	/* Sending: frame and payload offset to copy next. */
	uint64_t ahead_frame;
	uint32_t ahead_at;

	/* Receiving: the bounce that is being filled; NO_PIECE = none. */
	int open;
	uint32_t filled; /* bytes in it; the last one belongs just before rx.dst */
};

static struct piece *piece_at(struct tcp_gpu *tg, uint32_t i)
{
	return &tg->pieces[i % TCP_GPU_PIECES];
}

static int failed(struct tcp_stream *stream)
{
	return comm_note_gpu_fault(stream->base.comm, &stream->base, stream->gpu->gpu);
}

int tcp_gpu_begin(struct tcp_stream *stream)
{
	struct tcp_gpu *tg = stream->gpu;

	if (tg)
		return 0;
	tg = stream->gpu = calloc(1, sizeof(*tg));
	if (!tg) {
		comm_note_fault(stream->base.comm, &stream->base, -ENOMEM,
				"out of memory for copies of GPU memory");
		return -ENOMEM;
	}
	tg->gpu = stream->base.comm->gpu;
	tg->open = NO_PIECE;
	tg->ahead_frame = stream->base.log.next;
	return 0;
}

bool tcp_gpu_is_busy(const struct tcp_stream *stream)
{
	return stream->gpu &&
	       (stream->gpu->head != stream->gpu->tail || stream->gpu->open != NO_PIECE);
}

static void drop_first(struct tcp_gpu *tg)
{
	gpu_bounce_give(tg->gpu, piece_at(tg, tg->head++)->bounce);
}

/* Gives all bounces back. Waits for copies in progress: the next owner of the bounce may write it, NCCL may free the
 * GPU memory. */
static void forget(struct tcp_gpu *tg)
{
	while (tg->head != tg->tail) {
		const struct piece *piece = piece_at(tg, tg->head);

		if (!piece->copied)
			gpu_copy_wait(tg->gpu, piece->bounce);
		drop_first(tg);
	}
	if (tg->open != NO_PIECE)
		gpu_bounce_give(tg->gpu, tg->open);
	tg->open = NO_PIECE;
}

/* --- sending --- */

/* Marks pieces whose copy is done. 0 or -errno. */
static int take_copied(struct tcp_stream *stream)
{
	struct tcp_gpu *tg = stream->gpu;

	for (uint32_t i = tg->head; i != tg->tail; i++) {
		struct piece *piece = piece_at(tg, i);
		int done = piece->copied ? 1 : gpu_copy_done(tg->gpu, piece->bounce);

		if (done < 0)
			return failed(stream);
		if (!done)
			return 0;
		piece->copied = true;
	}
	return 0;
}

/* Starts the copy of a frame's next piece. 1, 0: no bounce is free, or -errno. */
static int copy_piece(struct tcp_stream *stream, const struct stream_frame *frame)
{
	struct tcp_gpu *tg = stream->gpu;
	struct piece *piece = piece_at(tg, tg->tail);
	uint32_t left = frame->header.length - tg->ahead_at;
	int bounce = tg->tail - tg->head < TCP_GPU_PIECES ? gpu_bounce_take(tg->gpu) : NO_PIECE;

	if (bounce == NO_PIECE)
		return 0;
	*piece = (struct piece){
		.bounce = bounce,
		.frame = tg->ahead_frame,
		.at = tg->ahead_at,
		.bytes = (uint32_t)anynet_min(left, GPU_BOUNCE_BYTES),
	};
	tg->tail++;
	if (gpu_copy_out(tg->gpu, bounce, frame->payload + piece->at, piece->bytes))
		return failed(stream);
	tg->ahead_at += piece->bytes;
	return 1;
}

int tcp_gpu_copy_ahead(struct tcp_stream *stream)
{
	struct tcp_gpu *tg;
	int ret = tcp_gpu_begin(stream);

	if (ret)
		return ret;
	tg = stream->gpu;
	if (tg->ahead_frame < stream->base.log.next) {
		tg->ahead_frame = stream->base.log.next;
		tg->ahead_at = 0;
	}
	while (tg->ahead_frame != stream->base.log.end) {
		struct stream_frame frame;

		send_frame((struct send_comm *)stream->base.comm,
			   &stream_log_at(&stream->base, tg->ahead_frame)->id, &frame);
		while (frame.on_gpu && tg->ahead_at < frame.header.length) {
			ret = copy_piece(stream, &frame);
			if (ret <= 0)
				return ret < 0 ? ret : take_copied(stream);
		}
		tg->ahead_frame++;
		tg->ahead_at = 0;
	}
	return take_copied(stream);
}

const uint8_t *tcp_gpu_copied(struct tcp_stream *stream, uint64_t frame, uint32_t from,
			      size_t *bytes)
{
	struct tcp_gpu *tg = stream->gpu;

	for (uint32_t i = tg->head; i != tg->tail; i++) {
		struct piece *piece = piece_at(tg, i);

		if (!piece->copied)
			return NULL;
		if (piece->frame != frame || from < piece->at || from >= piece->at + piece->bytes)
			continue;
		*bytes = piece->at + piece->bytes - from;
		return gpu_bounce_memory(tg->gpu, piece->bounce) + (from - piece->at);
	}
	return NULL;
}

/* CRC32C of a frame's payload up to the end of a piece. `before` is that of the payload up to its beginning. */
static uint32_t checksum_with(const struct tcp_gpu *tg, const struct piece *piece, uint32_t before)
{
	return crc32c(piece->at ? before : 0, gpu_bounce_memory(tg->gpu, piece->bounce),
		      piece->bytes);
}

uint32_t tcp_gpu_checksum(struct tcp_stream *stream, uint64_t frame)
{
	struct tcp_gpu *tg = stream->gpu;
	uint32_t crc = stream_log_at(&stream->base, frame)->crc; /* of the pieces given back */

	for (uint32_t i = tg->head; i != tg->tail; i++)
		if (piece_at(tg, i)->frame == frame)
			crc = checksum_with(tg, piece_at(tg, i), crc);
	return crc;
}

void tcp_gpu_sent(struct tcp_stream *stream, uint32_t payload_gone)
{
	struct tcp_gpu *tg = stream->gpu;

	while (tg->head != tg->tail) {
		const struct piece *piece = piece_at(tg, tg->head);

		if (piece->frame > stream->base.log.next ||
		    (piece->frame == stream->base.log.next && piece->at + piece->bytes > payload_gone))
			return;
		if (stream->base.comm->checksum && piece->frame == stream->base.log.next) {
			struct log_frame *entry = stream_log_at(&stream->base, piece->frame);

			entry->crc = checksum_with(tg, piece, entry->crc);
		}
		drop_first(tg);
	}
}

void tcp_gpu_yield(struct tcp_stream *stream)
{
	struct tcp_gpu *tg = stream->gpu;

	if (tg->head == tg->tail || !gpu_is_short(tg->gpu))
		return;
	tg->ahead_frame = piece_at(tg, tg->head)->frame;
	tg->ahead_at = piece_at(tg, tg->head)->at;
	forget(tg);
}

void tcp_gpu_rewind(struct tcp_stream *stream)
{
	if (!stream->gpu)
		return;
	forget(stream->gpu);
	stream->gpu->ahead_frame = stream->base.log.next;
	stream->gpu->ahead_at = 0;
}

/* --- receiving --- */

uint8_t *tcp_gpu_room(struct tcp_stream *stream, size_t *bytes)
{
	struct tcp_gpu *tg = stream->gpu;

	if (tg->open == NO_PIECE) {
		tg->open =
			tg->tail - tg->head < TCP_GPU_PIECES ? gpu_bounce_take(tg->gpu) : NO_PIECE;
		tg->filled = 0;
	}
	*bytes = tg->open == NO_PIECE ? 0 : GPU_BOUNCE_BYTES - tg->filled;
	return tg->open == NO_PIECE ? NULL : gpu_bounce_memory(tg->gpu, tg->open) + tg->filled;
}

/* Starts the copy of the open bounce to the GPU, or gives the bounce back if it is empty. 0 or -errno. */
static int copy_open(struct tcp_stream *stream)
{
	struct tcp_gpu *tg = stream->gpu;
	int bounce = tg->open;

	if (bounce == NO_PIECE)
		return 0;
	tg->open = NO_PIECE;
	if (!tg->filled) {
		gpu_bounce_give(tg->gpu, bounce);
		return 0;
	}
	*piece_at(tg, tg->tail++) = (struct piece){ .bounce = bounce };
	if (gpu_copy_in(tg->gpu, bounce, stream->rx.dst - tg->filled, tg->filled,
			recv_is_polled(stream->rx.msg)))
		return failed(stream);
	return 0;
}

int tcp_gpu_filled(struct tcp_stream *stream, size_t bytes)
{
	struct tcp_gpu *tg = stream->gpu;

	if (stream->rx.crc)
		stream->rx.sum = crc32c(stream->rx.sum,
					gpu_bounce_memory(tg->gpu, tg->open) + tg->filled, bytes);
	tg->filled += (uint32_t)bytes;
	return tg->filled == GPU_BOUNCE_BYTES ? copy_open(stream) : 0;
}

void tcp_gpu_wait(struct tcp_stream *stream)
{
	if (!stream->gpu->filled)
		copy_open(stream);
}

int tcp_gpu_end_frame(struct tcp_stream *stream, struct recv_msg *msg, uint32_t length)
{
	struct tcp_gpu *tg = stream->gpu;
	int ret = copy_open(stream);

	if (ret)
		return ret;
	if (tg->head == tg->tail) {
		recv_placed((struct recv_comm *)stream->base.comm, msg, length);
	} else {
		piece_at(tg, tg->tail - 1)->msg = msg;
		piece_at(tg, tg->tail - 1)->length = length;
	}
	return 0;
}

static void finish_first(struct tcp_stream *stream)
{
	struct piece piece = *piece_at(stream->gpu, stream->gpu->head);

	drop_first(stream->gpu);
	if (piece.msg)
		recv_placed((struct recv_comm *)stream->base.comm, piece.msg, piece.length);
}

int tcp_gpu_take_placed(struct tcp_stream *stream)
{
	struct tcp_gpu *tg = stream->gpu;

	while (tg->head != tg->tail) {
		int done = gpu_copy_done(tg->gpu, piece_at(tg, tg->head)->bounce);

		if (done < 0)
			return failed(stream);
		if (!done)
			break;
		finish_first(stream);
	}
	/* If the pool is short, do not hold a half-filled bounce: its next byte may come late. */
	return gpu_is_short(tg->gpu) ? copy_open(stream) : 0;
}

void tcp_gpu_place_all(struct tcp_stream *stream)
{
	struct tcp_gpu *tg = stream->gpu;

	if (!tg || copy_open(stream))
		return;
	while (tg->head != tg->tail) {
		if (gpu_copy_wait(tg->gpu, piece_at(tg, tg->head)->bounce)) {
			failed(stream);
			return;
		}
		finish_first(stream);
	}
}

void tcp_gpu_end(struct tcp_stream *stream)
{
	if (stream->gpu)
		forget(stream->gpu);
	free(stream->gpu);
	stream->gpu = NULL;
}
