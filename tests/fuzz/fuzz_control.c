/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send comm whose receiver is the input: a script of sends, acknowledgements and CTS (plausible
 * ones and garbage), tests, deregistrations and closed connections.
 */
#include <sys/socket.h>

#include "buffers.h"
#include "peer.h"

#define STEPS_MAX 600
#define SENT_MAX  ANYNET_SENDS

static const uint32_t sizes[] = { 0, 1, 100, 1000, 1024, 1025, 5000, 70000 };

struct run {
	struct input *in;
	struct anynet_comm *comm;
	int peers[STREAMS_MAX]; /* -1 = closed */
	unsigned streams;
	struct sent sent[SENT_MAX];
};

static void post(struct run *run, uint8_t tag)
{
	uint8_t choice = input_u8(run->in);
	struct sent *sent = run->sent;
	size_t bytes = sizes[choice % ARRAY_SIZE(sizes)];

	while (sent < run->sent + SENT_MAX && sent->req)
		sent++;
	if (sent == run->sent + SENT_MAX)
		return;
	buffer_make(run->comm, &sent->buffer,
		    bytes || choice & 0x20 ? BUFFER_REGISTERED : BUFFER_NONE, bytes);
	if (bytes)
		memset(sent->buffer.data, choice, bytes);
	sent_post(run->comm, sent, tag);
}

static void test_all(struct run *run)
{
	for (int i = 0; i < SENT_MAX; i++)
		sent_test(run->comm, &run->sent[i]);
}

static void control(struct run *run, unsigned stream)
{
	uint8_t choice = input_u8(run->in), bitmap[ANYNET_ACK_BYTES] = { 0 };
	struct anynet_wire_frame header = {
		.type = choice & 1 ? ANYNET_FRAME_CTS : ANYNET_FRAME_ACK,
		.length = choice & 1 ? 0 : sizeof(bitmap),
	};

	if (choice & 1)
		header.slot = choice & 2 ? input_u16(run->in) : input_u8(run->in) & 0x0f;
	if (choice & 0x80)
		header.type = input_u8(run->in);
	if (choice & 0x40)
		header.length = input_u8(run->in) % (2 * sizeof(bitmap));
	peer_send(run->peers[stream], &header, sizeof(header));
	if (choice & 4)
		memset(bitmap, 0xff, input_u8(run->in) % sizeof(bitmap));
	else
		input_take(run->in, bitmap, choice >> 3 & 3);
	peer_send(run->peers[stream], bitmap, anynet_min(header.length, sizeof(bitmap)));
}

static void drain(struct run *run, unsigned stream)
{
	static uint8_t bytes[65536];
	size_t count = 1 + (size_t)input_u8(run->in) * 257;

	if (run->peers[stream] >= 0)
		recv(run->peers[stream], bytes, count, MSG_DONTWAIT);
}

static void step(struct run *run)
{
	uint8_t op = input_u8(run->in);
	unsigned stream = (op >> 4) % run->streams;

	switch (op & 0x0f) {
	case 0:
	case 1:
	case 2:
		post(run, 0);
		break;
	case 3:
		post(run, op >> 4 & 3);
		break;
	case 4:
	case 5:
	case 6:
		control(run, stream);
		break;
	case 7:
		peer_garbage(run->peers[stream], run->in);
		break;
	case 8:
		sent_test(run->comm, &run->sent[input_u8(run->in) % SENT_MAX]);
		break;
	case 9:
	case 10:
		test_all(run);
		break;
	case 11:
	case 12:
		drain(run, stream);
		break;
	case 13:
		sent_take_back(run->comm, &run->sent[input_u8(run->in) % SENT_MAX]);
		break;
	case 14:
		if (op & 0x80)
			shutdown(run->peers[stream], SHUT_RDWR);
		else
			peer_close(&run->peers[stream]);
		break;
	default:
		send_ready(run->comm);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	static struct run run;

	fuzz_net_start();
	memset(&run, 0, sizeof(run));
	run.in = &in;
	run.streams = 1 + input_u8(&in) % STREAMS_MAX;
	run.comm = send_comm_create(&local_dev, run.streams);
	must(run.comm);
	for (unsigned i = 0; i < run.streams; i++)
		run.peers[i] = local_stream(run.comm, i);
	must(!comm_open(run.comm));
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&run);
	test_all(&run);
	/* NCCL has taken all buffers back, and closes. */
	for (int i = 0; i < SENT_MAX; i++)
		sent_take_back(run.comm, &run.sent[i]);
	sent_close(run.comm);
	for (unsigned i = 0; i < run.streams; i++)
		peer_close(&run.peers[i]);
	anynet_net_trim(&local_dev);
	for (int i = 0; i < SENT_MAX; i++)
		free(run.sent[i].buffer.data);
	return 0;
}
