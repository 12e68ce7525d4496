/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive comm whose sender is the input: a script of receives to post, bytes to write on its streams (correct
 * messages, plausible frames, garbage), tests, deregistrations and closed connections.
 */
#include <sys/socket.h>

#include "buffers.h"
#include "peer.h"

#define STEPS_MAX 400
#define PAYLOAD   32768

static const uint16_t sizes[] = { 0, 1, 31, 100, 512, 2048, 4097, 20000 };

struct run {
	struct input *in;
	struct anynet_comm *comm;
	int peers[STREAMS_MAX]; /* -1 = closed */
	unsigned streams;
	uint32_t next_seq; /* of the next correct message */
	struct posted posted[ANYNET_REQUESTS];
};

static enum buffer_kind choose_kind(uint8_t choice, size_t bytes)
{
	if (choice & 0x20 && !bytes)
		return BUFFER_NONE; /* nothing will be written */
	return choice & 0x40 ? BUFFER_REGISTERED : BUFFER_PLAIN;
}

static void post(struct run *run)
{
	uint8_t shape = input_u8(run->in);
	struct posted *posted = posted_free_one(run->posted);

	if (!posted)
		return;
	for (int i = 0; i < (shape & 0x80 ? 1 + shape % ANYNET_RECVS_MAX : 1); i++) {
		uint8_t choice = input_u8(run->in);
		size_t bytes = sizes[choice % ARRAY_SIZE(sizes)];

		posted_add(run->comm, posted, choose_kind(choice, bytes), bytes, choice >> 3 & 3);
	}
	posted_post(run->comm, posted);
	/* Buffers of a refused receive stay in flight only if the comm failed. */
	if (!posted->req)
		posted_blank(run->comm, posted);
}

static void test(struct run *run, struct posted *posted)
{
	int got[ANYNET_RECVS_MAX];

	if (!posted_test(run->comm, posted, got))
		return;
	posted_blank(run->comm, posted);
	must(!comm_error(run->comm)); /* nothing was in flight any more */
}

static void test_all(struct run *run)
{
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		test(run, &run->posted[i]);
}

static void put_frame(struct run *run, unsigned stream, const struct anynet_wire_frame *header,
		      size_t payload)
{
	static uint8_t bytes[PAYLOAD];

	peer_send(run->peers[stream], header, sizeof(*header));
	peer_send(run->peers[stream], bytes, anynet_min(payload, sizeof(bytes)));
}

/* A whole message, in two chunks on two streams if there are two. */
static void message(struct run *run, unsigned stream)
{
	uint8_t choice = input_u8(run->in);
	uint32_t size = sizes[choice % ARRAY_SIZE(sizes)], first = choice & 0x40 ? size / 2 : size;
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_DATA,
		.flags = (choice & 0x20 ? ANYNET_FLAG_MULTI : 0) | ANYNET_FLAG_TAIL,
		.tag = choice >> 3 & 3,
		.slot = (uint16_t)(run->next_seq % ANYNET_WIRE_SLOTS),
		.seq = run->next_seq,
		.length = first,
		.size = size,
	};

	run->next_seq++;
	if (choice & 0x80)
		header.flags |= ANYNET_FLAG_ACK;
	put_frame(run, stream, &header, first + 1);
	if (first == size)
		return;
	header.offset = first;
	header.length = size - first;
	put_frame(run, (stream + 1) % run->streams, &header, header.length + 1);
}

static void plausible_frame(struct run *run, unsigned stream)
{
	uint8_t choice = input_u8(run->in), more = input_u8(run->in);
	struct anynet_wire_frame header = {
		.type = more & 0x80 ? more & 7 : ANYNET_FRAME_DATA,
		.flags = more >> 3 & 0x0b,
		.tag = choice >> 3 & 3,
		.seq = run->next_seq + input_step(run->in),
		.size = sizes[choice % ARRAY_SIZE(sizes)],
	};

	header.slot = more & 0x40 ? input_u16(run->in) : header.seq % ANYNET_WIRE_SLOTS;
	header.length = (uint32_t)header.size;
	if (choice & 0x20)
		header.length = input_u16(run->in);
	if (choice & 0x40)
		header.offset = input_u16(run->in);
	if (choice & 0x80)
		run->next_seq = header.seq + 1;
	put_frame(run, stream, &header,
		  more & 0x07 ? header.length + (header.flags & ANYNET_FLAG_TAIL ? 1 : 0)
			      : input_u16(run->in));
}

static void drain(struct run *run, unsigned stream)
{
	uint8_t bytes[4096];

	while (run->peers[stream] >= 0 &&
	       recv(run->peers[stream], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void step(struct run *run)
{
	uint8_t op = input_u8(run->in);
	unsigned stream = (op >> 4) % run->streams;

	switch (op & 0x0f) {
	case 0:
	case 1:
		post(run);
		break;
	case 2:
	case 3:
		message(run, stream);
		break;
	case 4:
	case 5:
		plausible_frame(run, stream);
		break;
	case 6:
		peer_garbage(run->peers[stream], run->in);
		break;
	case 7:
		test(run, &run->posted[input_u8(run->in) % ANYNET_REQUESTS]);
		break;
	case 8:
	case 9:
	case 10:
		test_all(run);
		break;
	case 11:
		posted_take_back(run->comm, &run->posted[input_u8(run->in) % ANYNET_REQUESTS]);
		break;
	case 12:
		if (op & 0x80)
			shutdown(run->peers[stream], SHUT_WR);
		else
			peer_close(&run->peers[stream]);
		break;
	case 13:
		drain(run, stream);
		break;
	case 14:
		run->next_seq += input_step(run->in);
		break;
	default:
		must(anynet_iflush(run->comm, 0, NULL, NULL, &(struct anynet_request *){ NULL }) == comm_error(run->comm));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	struct run run = { .in = &in, .streams = 1 + input_u8(&in) % STREAMS_MAX };

	fuzz_net_start();
	run.comm = recv_comm_create(&local_dev, run.streams, LOCAL_RING_BYTES);
	must(run.comm);
	for (unsigned i = 0; i < run.streams; i++)
		run.peers[i] = local_stream(run.comm, i);
	must(!comm_open(run.comm));
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&run);
	test_all(&run);
	for (unsigned i = 0; i < run.streams; i++)
		peer_close(&run.peers[i]);
	test_all(&run);
	posted_close(run.comm, run.posted);
	return 0;
}
