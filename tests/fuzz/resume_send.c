/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send comm whose receiver (peer_receiver.h) is the input. As long as the input names its true positions and sends
 * nothing wrong, nothing may fail, and in the end everything has arrived once. A false position is refused with EPROTO
 * or accepted. In any case each stream continues where the receiver said.
 */
#include <errno.h>

#include "buffers.h"
#include "peer_receiver.h"

struct run {
	struct input *in;
	struct anynet_comm *comm;
	uint8_t order;
	unsigned streams;
	struct receiver receiver;
	uint32_t epochs[STREAMS_MAX];
	struct sent sent[RECEIVER_MESSAGES_MAX]; /* by number of message */
};

static struct run run;

static bool strict(void)
{
	return receiver_strict(&run.receiver);
}

static void check_error(void)
{
	int error = comm_error(run.comm);

	must(!error || run.receiver.wild || (run.receiver.lied && error == -EPROTO));
}

/* --- what NCCL does --- */

static void post(void)
{
	uint32_t number = run.receiver.count, bytes = choose_size(run.in);
	uint8_t tag = input_u8(run.in) % TAGS;
	struct sent *sent = &run.sent[number];

	if (number == RECEIVER_MESSAGES_MAX || comm_error(run.comm))
		return;
	receiver_expect(&run.receiver, bytes, tag); /* before isend, which already sends */
	buffer_make(run.comm, &sent->buffer, BUFFER_REGISTERED, bytes);
	memcpy(sent->buffer.data, pattern(number, 0), bytes);
	must(sent_post(run.comm, sent, tag) || sent->req);
	check_error();
}

static void test_all(void)
{
	take_again(run.comm);
	for (uint32_t i = 0; i < run.receiver.count; i++)
		sent_test(run.comm, &run.sent[i]);
	check_error();
}

static void take_back(struct sent *sent)
{
	if (!sent->req)
		return;
	run.receiver.wild = true;
	sent_take_back(run.comm, sent);
}

/* --- resuming --- */

static void lie(uint32_t *frames, uint32_t *part)
{
	uint8_t choice = input_u8(run.in);

	run.receiver.lied = true;
	if (choice & 1)
		*frames += input_step(run.in) % 8 - 4;
	if (choice & 2)
		*part = input_u8(run.in) * (uint32_t)ANYNET_PART_ALIGN;
	if (choice & 4)
		*part += input_u8(run.in);
	if (choice & 8)
		*frames = input_u16(run.in);
	if (choice & 16)
		*part = ~*part;
}

static bool can_resume(unsigned stream)
{
	return run.comm->streams[stream] && !comm_error(run.comm) && !run.comm->peer_closed;
}

static void resume(unsigned index, bool true_position)
{
	struct anynet_stream *stream = run.comm->streams[index];
	struct receiver_stream *peer = &run.receiver.stream[index];
	uint32_t frames, part;
	int fds[2];

	if (!can_resume(index))
		return;
	receiver_fence(&run.receiver, index);
	frames = peer->frames;
	part = peer->part;
	if (!true_position)
		lie(&frames, &part);
	if (stream->path.fd >= 0)
		comm_sever(run.comm, stream, 0);
	peer_pair(fds);
	peer->fd = fds[1];
	comm_stream_back(run.comm, stream, fds[0], ++run.epochs[index], stream->home,
			 (struct stream_position){ frames, part });
	check_error();
	if (!comm_error(run.comm))
		receiver_go_on(&run.receiver, index, frames, part);
}

static void resume_somehow(unsigned stream)
{
	uint8_t choice = input_u8(run.in);

	if (choice & 1)
		receiver_pull(&run.receiver, stream, SIZE_MAX);
	resume(stream, !(run.order & LIES) || choice & 0x06);
}

static void break_stream(unsigned index, uint8_t how)
{
	struct anynet_stream *stream = run.comm->streams[index];

	if (!(how & 3)) {
		peer_close(&run.receiver.stream[index].fd);
	} else if (!stream || stream->path.fd < 0) {
		return;
	} else if (how & 1) {
		comm_stream_broke(run.comm, stream, how & 4 ? -ETIMEDOUT : -EPIPE);
		check_error();
	} else {
		comm_sever(run.comm, stream, -ENETDOWN);
	}
}

/* --- errors --- */

static void go_wild(unsigned stream)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK };
	uint8_t choice = input_u8(run.in), bytes[ANYNET_ACK_BYTES];

	if (!(run.order & WILD))
		return;
	if (choice & 1) {
		take_back(&run.sent[input_u8(run.in) % RECEIVER_MESSAGES_MAX]);
		return;
	}
	run.receiver.wild = true;
	input_take(run.in, bytes, sizeof(bytes) / 8);
	memset(bytes + sizeof(bytes) / 8, 0, sizeof(bytes) - sizeof(bytes) / 8);
	if (choice & 2) {
		header.length = sizeof(bytes);
	} else {
		header.type = choice & 4 ? 4 + choice / 16 : ANYNET_FRAME_ACK;
		header.slot = bytes[0];
		header.seq = bytes[1];
	}
	receiver_say(&run.receiver, stream, header, bytes, choice & 8 ? bytes[2] : 0);
}

/* A byte of it is changed in transit: the stream is given up, nothing else. */
static void spoilt_word(struct receiver_stream *peer)
{
	uint8_t image[CONTROL_BYTES];
	size_t bytes;

	if (!run.comm->checksum || peer->fd < 0)
		return;
	bytes = control_image((struct anynet_wire_frame){ .type = ANYNET_FRAME_PING }, NULL, true,
			      image);
	image[input_u8(run.in) % HEADER_BYTES] ^= 1 + input_u8(run.in) % 255;
	if (peer_send(peer->fd, image, bytes) != bytes)
		peer_close(&peer->fd);
}

/* --- the script --- */

static void test_on_full_sockets(uint8_t op)
{
	if (op & 0x80)
		take_short = 1 + (op >> 4 & 3); /* for example without the tail */
	else
		take_budget = op & 1 ? input_u8(run.in) : input_u16(run.in);
	test_all();
	take_short = 0;
	take_budget = SIZE_MAX;
}

static void step(void)
{
	uint8_t op = input_u8(run.in);
	unsigned stream = (op >> 4) % run.streams;

	switch (op & 0x0f) {
	case 0:
	case 1:
		post();
		break;
	case 2:
		test_all();
		break;
	case 3:
	case 4:
		test_on_full_sockets(op);
		break;
	case 5:
		receiver_pull(&run.receiver, stream, input_u8(run.in));
		break;
	case 6:
		receiver_pull(&run.receiver, stream, input_u16(run.in));
		break;
	case 7:
		receiver_pull(&run.receiver, stream, SIZE_MAX);
		break;
	case 8:
		receiver_acknowledge(&run.receiver, stream, 1 + (op >> 6), 0);
		break;
	case 9:
		receiver_cts(&run.receiver, stream, 0);
		break;
	case 10:
		if (op & 0x80)
			receiver_cts(&run.receiver, stream, 1 + input_u8(run.in) % HEADER_BYTES);
		else
			receiver_acknowledge(&run.receiver, stream, 1, 1 + input_u8(run.in) % 64);
		break;
	case 11:
	case 12:
		resume_somehow(stream);
		break;
	case 13:
		break_stream(stream, input_u8(run.in));
		break;
	case 14:
		if (op & 0x80)
			spoilt_word(&run.receiver.stream[stream]);
		else
			send_ready(run.comm);
		break;
	default:
		go_wild(stream);
	}
}

static bool all_home(void)
{
	for (uint32_t i = 0; i < run.receiver.count; i++)
		if (run.sent[i].req || !run.receiver.messages[i].acked)
			return false;
	return send_confirmed(run.comm);
}

/* No more breaks: everything arrives. */
static void bring_home(void)
{
	unsigned rounds = 0;

	for (unsigned i = 0; i < run.streams; i++)
		resume(i, true);
	while (!all_home()) {
		must(++rounds < ROUNDS_MAX);
		test_all();
		must(!comm_turn(run.comm)); /* also when all are tested and not acknowledged */
		for (unsigned i = 0; i < run.streams; i++)
			receiver_pull(&run.receiver, i, SIZE_MAX);
		for (unsigned i = 0; i < run.streams; i++)
			receiver_cts(&run.receiver, i, 0);
		receiver_acknowledge(&run.receiver, rounds % run.streams, 1, 0);
	}
}

/* NCCL closes it; this plays the background thread. */
static void close_comm(void)
{
	bool stays = drain_start(run.comm);

	for (int i = 0; i < 8 && stays; i++) {
		for (unsigned k = 0; k < run.streams; k++)
			receiver_pull(&run.receiver, k, SIZE_MAX);
		stays = !drain_over(run.comm);
	}
	for (unsigned k = 0; strict() && k < run.streams; k++) {
		receiver_pull(&run.receiver, k, SIZE_MAX);
		must(run.receiver.stream[k].bye);
	}
	must(!strict() || !stays);
}

static void start(struct input *in, uint8_t order)
{
	memset(run.epochs, 0, sizeof(run.epochs));
	memset(run.sent, 0, sizeof(run.sent));
	run.in = in;
	run.order = order;
	run.streams = streams_wanted(order);
	run.comm = send_comm_create(&local_dev, run.streams);
	must(run.comm);
	receiver_start(&run.receiver, run.streams, run.comm->checksum);
	for (unsigned i = 0; i < run.streams; i++)
		run.receiver.stream[i].fd = local_stream(run.comm, i);
	must(!comm_open(run.comm));
}

void resume_sending(struct input *in, uint8_t order)
{
	start(in, order);
	for (int i = 0; in->left && i < STEPS_MAX; i++)
		step();
	if (strict())
		bring_home();
	test_all();
	/* NCCL has taken all buffers back, and closes. */
	for (int i = 0; i < RECEIVER_MESSAGES_MAX; i++)
		sent_take_back(run.comm, &run.sent[i]);
	close_comm();
	comm_destroy(run.comm);
	receiver_free(&run.receiver);
	for (int i = 0; i < RECEIVER_MESSAGES_MAX; i++)
		free(run.sent[i].buffer.data);
}
