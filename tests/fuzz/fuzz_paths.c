/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive comm with two streams whose sender is the input: frames queued on either stream, written in pieces of any
 * size, so that a frame of one stream is incomplete while others start and end messages on the other; receives, tests,
 * streams that break and resume; with and without checksums. The sender's checksums are correct unless the script says
 * otherwise: it is a peer, not noise. The comm's state of each message must be consistent after every iteration.
 */
#include <sys/socket.h>

#include "buffers.h"
#include "peer.h"
#include "recv_check.h"
#include "transports/message/recv_internal.h"
#include "transports/path/tcp/tcp_stream.h"
#include "transports/session/recovery.h"
#include "transports/wire/checksum.h"

#define STEPS_MAX    400
#define PATHS        2
#define STREAM_BYTES (128u << 10)

/* of the first byte */
#define CHECKSUMS 0x01
#define RECOVERIES     0x02
#define IB_DEVICE 0x04 /* the comm of an IB device, over TCP */

/* of a frame's second byte, besides the flags of the header */
#define WRONG_PAYLOAD_CRC 0x80
#define FRAME_KIND_AT     4

enum frame_kind {
	KIND_DATA,
	KIND_DATA_AGAIN, /* a chunk of an earlier message */
	KIND_DATA_SHORT, /* fewer bytes follow than its length says */
	KIND_RTS,
	KIND_CONTROL, /* of a type chosen by the script */
	KIND_WILD,    /* some bytes are the script's */
};

static const uint16_t sizes[] = { 0, 1, 31, 100, 512, 2048, 4097, 20000 };

struct path {
	int fd; /* -1 = closed */
	uint32_t epoch;
	uint8_t stream[STREAM_BYTES]; /* [head, tail) is queued */
	size_t head, tail;
};

static struct run {
	struct input *in;
	struct anynet_comm *comm;
	struct path paths[PATHS];
	uint32_t next_seq;
	struct anynet_wire_frame last; /* DATA */
	bool garbage;                  /* some bytes were the script's */
	struct posted posted[ANYNET_REQUESTS];
} run;

/* --- receives --- */

static enum buffer_kind choose_kind(uint8_t choice, size_t bytes)
{
	if (choice & 0x20 && !bytes)
		return BUFFER_NONE;
	return choice & 0x40 ? BUFFER_REGISTERED : BUFFER_PLAIN;
}

static void post(void)
{
	uint8_t shape = input_u8(run.in);
	struct posted *posted = posted_free_one(run.posted);

	if (!posted)
		return;
	for (int i = 0; i < (shape & 0x80 ? 1 + shape % ANYNET_RECVS_MAX : 1); i++) {
		uint8_t choice = input_u8(run.in);
		size_t bytes = sizes[choice % ARRAY_SIZE(sizes)];

		posted_add(run.comm, posted, choose_kind(choice, bytes), bytes, choice >> 3 & 3);
	}
	posted_post(run.comm, posted);
	if (!posted->req)
		posted_blank(run.comm, posted);
}

static void test(struct posted *posted)
{
	int got[ANYNET_RECVS_MAX];

	if (!posted_test(run.comm, posted, got))
		return;
	if (!run.garbage)
		posted_check_written(posted, got);
	posted_blank(run.comm, posted);
	must(!comm_error(run.comm)); /* nothing was in flight any more */
}

/* As the background thread does, whatever is posted. */
static void turn(void)
{
	comm_enter(run.comm);
	if (!comm_error(run.comm) && !run.comm->peer_closed)
		comm_turn(run.comm);
	comm_leave(run.comm);
}

/* A message exists while one of its frames is arriving. */
static void check_paths(void)
{
	for (unsigned i = 0; i < PATHS; i++) {
		const struct tcp_stream *stream = (const struct tcp_stream *)run.comm->streams[i];

		must(!stream || !stream->rx.open || comm_error(run.comm) ||
		     (stream->rx.msg->state != RECV_UNSEEN &&
		      stream->rx.msg->seq == stream->rx.frame.seq));
	}
}

static void test_all(void)
{
	turn();
	check_paths();
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		test(&run.posted[i]);
	recv_check(run.comm);
}

/* --- frames --- */

static void queue(struct path *path, const void *bytes, size_t count)
{
	if (count > sizeof(path->stream) - path->tail)
		return;
	memcpy(path->stream + path->tail, bytes, count);
	path->tail += count;
}

/* Header, payload and tail; `payload`: number of its bytes. */
static void queue_frame(struct path *path, struct anynet_wire_frame header, size_t payload,
			bool wrong_crc)
{
	static uint8_t bytes[20000 + 256];
	uint32_t crc;

	payload = anynet_min(payload, sizeof(bytes));
	memset(bytes, (int)(header.seq << 1 | 1), payload); /* odd: not NEVER_BYTE */
	crc = crc32c(0, bytes, payload) + wrong_crc;
	if (run.comm->checksum && header.flags & ANYNET_FLAG_CRC)
		checksum_header(&header, NULL);
	queue(path, &header, sizeof(header));
	queue(path, bytes, payload);
	if (header.type == ANYNET_FRAME_DATA && header.flags & ANYNET_FLAG_CRC)
		queue(path, &crc, sizeof(crc));
	if (header.flags & ANYNET_FLAG_TAIL)
		queue(path, "", 1);
}

/* The part of its message that a chunk covers. */
static void choose_part(struct anynet_wire_frame *header, uint8_t choice)
{
	uint32_t size = (uint32_t)header->size, half = size / 2;

	header->length = size;
	switch (choice >> 5) {
	case 1:
		header->length = 0;
		break;
	case 2:
		header->length = half;
		break;
	case 3:
		header->offset = half;
		header->length = size - half;
		break;
	case 4:
		header->offset = input_u16(run.in);
		header->length = input_u16(run.in);
		break;
	case 5:
		header->offset = size;
		header->length = 0;
		break;
	default:
		break;
	}
}

static void choose_message(struct anynet_wire_frame *header, enum frame_kind kind)
{
	if (kind == KIND_DATA_AGAIN) {
		uint8_t back = input_u8(run.in);

		header->seq = run.next_seq - 1 - back % 8;
		header->slot = (uint16_t)((header->seq + (back >= 0xf0)) % ANYNET_WIRE_SLOTS);
	} else {
		header->seq = run.next_seq++;
		header->slot = (uint16_t)(header->seq % ANYNET_WIRE_SLOTS);
	}
}

static void change_bytes(struct anynet_wire_frame *header)
{
	uint8_t times = 1 + input_u8(run.in) % 3;

	for (; times; times--) {
		uint8_t at = input_u8(run.in) % sizeof(*header);

		((uint8_t *)header)[at] = input_u8(run.in);
	}
}

static void frame(struct path *path)
{
	uint8_t choice = input_u8(run.in), more = input_u8(run.in);
	enum frame_kind kind = more >> FRAME_KIND_AT & 7;
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_DATA,
		.flags = more & 0x0f,
		.tag = choice >> 3 & 3,
		.size = sizes[choice % ARRAY_SIZE(sizes)],
	};
	size_t payload;

	choose_message(&header, kind);
	choose_part(&header, choice);
	payload = header.length;
	if (kind == KIND_RTS || kind == KIND_CONTROL) {
		header.type = kind == KIND_RTS ? ANYNET_FRAME_RTS : input_u8(run.in);
		header.length = 0;
		payload = 0;
	} else if (kind == KIND_DATA_SHORT) {
		payload = input_u16(run.in) % (payload + 1);
	} else if (kind >= KIND_WILD) {
		change_bytes(&header);
		payload = header.length;
	}
	if (header.type == ANYNET_FRAME_DATA)
		run.last = header;
	queue_frame(path, header, payload, more & WRONG_PAYLOAD_CRC);
}

/* The last one's message again, all of it or another part. */
static void frame_again(struct path *path)
{
	struct anynet_wire_frame header = run.last;

	header.offset = 0;
	choose_part(&header, input_u8(run.in));
	queue_frame(path, header, header.length, false);
}

static void garbage(struct path *path)
{
	uint8_t bytes[256], count = input_u8(run.in);

	run.garbage = true;
	queue(path, bytes, input_take(run.in, bytes, count));
}

/* --- paths --- */

static void push(struct path *path, size_t limit)
{
	path->head += peer_send(path->fd, path->stream + path->head,
				anynet_min(limit, path->tail - path->head));
	if (path->head == path->tail)
		path->head = path->tail = 0;
}

/* The last bytes have not arrived. */
static void push_but(struct path *path, size_t count)
{
	size_t queued = path->tail - path->head;

	push(path, queued - anynet_min(queued, count));
}

static void drain(const struct path *path)
{
	uint8_t bytes[4096];

	while (path->fd >= 0 && recv(path->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

/* A new connection takes over the stream. `keep`: queued bytes that were not written arrive over it. */
static void resume(struct path *path, uint8_t choice)
{
	struct anynet_wire_hello hello, welcome;
	int fds[2];

	hello_fill(&hello, &local_dev, NULL, 0);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_RESUME;
	hello.stream = (uint16_t)(path - run.paths);
	hello.epoch = ++path->epoch;
	peer_pair(fds);
	must(!recovery_post(run.comm, fds[0], &hello, NULL));
	comm_poke(run.comm);
	comm_attend(run.comm);
	if (recv(fds[1], &welcome, sizeof(welcome), MSG_DONTWAIT) != sizeof(welcome) ||
	    welcome.status) {
		peer_close(&fds[1]);
		return;
	}
	must(!hello_check(&welcome, ANYNET_WELCOME));
	peer_close(&path->fd);
	path->fd = fds[1];
	if (!(choice & 1))
		path->head = path->tail = 0;
}

static void step(void)
{
	uint8_t op = input_u8(run.in);
	struct path *path = &run.paths[op >> 4 & 1];

	switch (op & 0x0f) {
	case 0:
	case 1:
		post();
		break;
	case 2:
		frame(path);
		break;
	case 3:
		frame_again(path);
		break;
	case 4:
		frame(path);
		push(path, SIZE_MAX);
		break;
	case 5:
		push(path, SIZE_MAX);
		break;
	case 6:
		push(path, 1 + (size_t)input_u8(run.in));
		break;
	case 7:
		push_but(path, op & 0x20 ? ANYNET_CRC_BYTES : 1 + (size_t)(op >> 6));
		break;
	case 8:
		garbage(path);
		break;
	case 9:
		test(&run.posted[input_u8(run.in) % ANYNET_REQUESTS]);
		recv_check(run.comm);
		break;
	case 10:
	case 11:
		test_all();
		break;
	case 12:
		posted_take_back(run.comm, &run.posted[input_u8(run.in) % ANYNET_REQUESTS]);
		break;
	case 13:
		if (op & 0x80)
			shutdown(path->fd, SHUT_WR);
		else
			peer_close(&path->fd);
		break;
	case 14:
		drain(path);
		break;
	default:
		resume(path, op >> 5);
	}
}

static void start(struct input *in)
{
	uint8_t order = input_u8(in);

	fuzz_net_start();
	local_cfg.checksum = order & CHECKSUMS;
	local_cfg.recovery_timeout_ms = order & RECOVERIES ? 600000 : 0;
	local_dev.transport = order & IB_DEVICE ? ANYNET_TRANSPORT_IB : ANYNET_TRANSPORT_TCP;
	memset(run.posted, 0, sizeof(run.posted));
	run.in = in;
	run.next_seq = 0;
	run.garbage = false;
	run.last = (struct anynet_wire_frame){ .type = ANYNET_FRAME_DATA };
	run.comm = recv_comm_create(&local_dev, PATHS, LOCAL_RING_BYTES);
	must(run.comm);
	for (unsigned i = 0; i < PATHS; i++) {
		run.paths[i].fd = local_stream(run.comm, i);
		run.paths[i].epoch = 0;
		run.paths[i].head = run.paths[i].tail = 0;
	}
	must(!comm_open(run.comm));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };

	start(&in);
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step();
	test_all();
	for (unsigned i = 0; i < PATHS; i++) {
		push(&run.paths[i], SIZE_MAX);
		peer_close(&run.paths[i].fd);
	}
	test_all();
	posted_close(run.comm, run.posted);
	return 0;
}
