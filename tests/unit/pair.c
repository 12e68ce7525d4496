/* SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "environment.h"
#include "support/capture.h"
#include "transports/message/recv_internal.h"

#define TURNS_MAX  100000
#define IDLE_TURNS 20

uint8_t pair_out[PAIR_LARGE], pair_in[PAIR_LARGE];

int pair_setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	for (size_t i = 0; i < sizeof(pair_out); i++)
		pair_out[i] = (uint8_t)(i * 7 + i / 251);
	return 0;
}

int pair_setup_recovery(void **state)
{
	pair_setup(state);
	local_cfg.recovery_timeout_ms = 60000;
	return 0;
}

int pair_teardown(void **state)
{
	pair_close(*state);
	capture_check();
	return 0;
}

static void name_peer(struct anynet_comm *comm)
{
	strcpy(comm->peer.host, "host-b");
	strcpy(comm->peer.device, "eth7");
	strcpy(comm->peer.addr, "10.0.0.2:4711");
	comm->peer.pid = 4242;
}

static void start(struct pair *pair, unsigned streams)
{
	memset(pair, 0, sizeof(*pair));
	pair->streams = streams;
	for (int i = 0; i < PAIR_STREAMS_MAX; i++)
		pair->fds[i] = -1;
}

static void make_send(struct pair *pair)
{
	pair->send = send_comm_create(&local_dev, pair->streams);
	assert_non_null(pair->send);
	name_peer(pair->send);
}

static void make_recv(struct pair *pair)
{
	pair->recv = recv_comm_create(&local_dev, pair->streams, (uint32_t)local_cfg.replay_bytes);
	assert_non_null(pair->recv);
	to_recv(pair->recv)->ready = true; /* it has been accepted */
	name_peer(pair->recv);
}

void pair_open(struct pair *pair, unsigned streams)
{
	start(pair, streams);
	make_send(pair);
	make_recv(pair);
	for (unsigned i = 0; i < streams; i++)
		assert_int_equal(comm_add_stream(pair->recv, local_stream(pair->send, i),
						 (uint16_t)i, 0, (struct anynet_wire_pair){ 0, 0 },
						 NULL),
				 0);
	assert_int_equal(comm_open(pair->send), 0);
	assert_int_equal(comm_open(pair->recv), 0);
}

void pair_open_recv(struct pair *pair, unsigned streams)
{
	start(pair, streams);
	make_recv(pair);
	for (unsigned i = 0; i < streams; i++)
		pair->fds[i] = local_stream(pair->recv, i);
	assert_int_equal(comm_open(pair->recv), 0);
}

void pair_open_send(struct pair *pair, unsigned streams)
{
	start(pair, streams);
	make_send(pair);
	for (unsigned i = 0; i < streams; i++)
		pair->fds[i] = local_stream(pair->send, i);
	assert_int_equal(comm_open(pair->send), 0);
}

void pair_hang_up(struct pair *pair, unsigned stream)
{
	close(pair->fds[stream]);
	pair->fds[stream] = -1;
}

void pair_close(struct pair *pair)
{
	if (pair->send)
		comm_destroy(pair->send);
	if (pair->recv)
		comm_destroy(pair->recv);
	for (unsigned i = 0; i < pair->streams; i++)
		if (pair->fds[i] >= 0)
			close(pair->fds[i]);
	memset(pair, 0, sizeof(*pair));
}

struct anynet_request *pair_isend(struct pair *pair, const void *data, size_t bytes, int tag)
{
	struct anynet_request *req;

	assert_int_equal(anynet_isend(pair->send, &(struct anynet_send){ data, bytes, tag, NULL, NULL }, &req), 0);
	assert_non_null(req);
	return req;
}

struct anynet_request *pair_irecv(struct pair *pair, void *data, size_t bytes, int tag)
{
	struct anynet_request *req;

	assert_int_equal(anynet_irecv(pair->recv, &(struct anynet_recv){ .n = 1, .data = &data, .bytes = &bytes, .tags = &tag }, &req), 0);
	assert_non_null(req);
	return req;
}

void pair_send(struct pair *pair, const void *data, size_t bytes)
{
	struct anynet_request *req = pair_isend(pair, data, bytes, 0);

	pair_finish(&req, 1, NULL);
}

bool pair_done(struct anynet_request *req, int *sizes)
{
	int done;

	assert_int_equal(anynet_test(req, &done, sizes), 0);
	return done;
}

void pair_finish(struct anynet_request *const *reqs, int count, int *sizes)
{
	bool done[64] = { false };
	int left = count;

	assert_true(count <= 64);
	for (int turn = 0; left && turn < TURNS_MAX; turn++) {
		for (int i = 0; i < count; i++) {
			if (done[i])
				continue;
			done[i] = pair_done(reqs[i], sizes ? &sizes[i] : NULL);
			left -= done[i];
		}
	}
	assert_int_equal(left, 0);
}

void pair_idle(struct anynet_request *req)
{
	for (int i = 0; i < IDLE_TURNS; i++)
		assert_false(pair_done(req, NULL));
}

void pair_fails(struct anynet_request *req, int err)
{
	int done = 1, ret = 0;

	for (int i = 0; i < IDLE_TURNS && !ret; i++) {
		ret = anynet_test(req, &done, NULL);
		assert_int_equal(done, 0);
	}
	assert_int_equal(ret, err);
}

void warned_once(const char *text)
{
	char line[CAPTURE_LINE_BYTES];

	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 1);
	if (!capture_find(CAPTURE_WARN, text, line)) {
		assert_true(capture_find(CAPTURE_WARN, NULL, line));
		fail_msg("'%s' does not say '%s'", line, text);
	}
}

struct anynet_wire_frame frame_data(uint32_t seq, uint32_t tag, uint8_t flags, size_t bytes)
{
	return (struct anynet_wire_frame){
		.type = ANYNET_FRAME_DATA,
		.flags = flags,
		.slot = (uint16_t)(seq % ANYNET_WIRE_SLOTS),
		.tag = tag,
		.seq = seq,
		.length = (uint32_t)bytes,
		.size = bytes,
	};
}

static void put_bytes(int fd, const void *data, size_t bytes)
{
	assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

void frame_put(int fd, const struct anynet_wire_frame *frame, const void *payload)
{
	put_bytes(fd, frame, sizeof(*frame));
	if (payload && frame->length)
		put_bytes(fd, payload, frame->length);
	if (frame->type == ANYNET_FRAME_DATA && frame->flags & ANYNET_FLAG_TAIL)
		put_bytes(fd, "", ANYNET_TAIL_BYTES);
}

void frame_put_ack(int fd, const uint16_t *slots, size_t count)
{
	struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = ANYNET_ACK_BYTES };
	uint8_t bits[ANYNET_ACK_BYTES] = { 0 };

	for (size_t i = 0; i < count; i++)
		bits[slots[i] / 8] |= (uint8_t)(1u << slots[i] % 8);
	frame_put(fd, &ack, bits);
}

static void get_bytes(int fd, void *data, size_t bytes)
{
	if (bytes)
		assert_int_equal(recv(fd, data, bytes, MSG_DONTWAIT), bytes);
}

bool frame_get(int fd, struct anynet_wire_frame *frame, void *payload, size_t room)
{
	ssize_t n = recv(fd, frame, sizeof(*frame), MSG_DONTWAIT);
	uint8_t tail = 1;

	if (n <= 0)
		return false;
	assert_int_equal(n, sizeof(*frame));
	assert_true(frame->length <= room);
	get_bytes(fd, payload, frame->length);
	if (frame->type == ANYNET_FRAME_DATA && frame->flags & ANYNET_FLAG_TAIL) {
		get_bytes(fd, &tail, ANYNET_TAIL_BYTES);
		assert_int_equal(tail, 0);
	}
	return true;
}

bool word_get(int fd, struct anynet_wire_frame *frame, void *payload, size_t room)
{
	do {
		if (!frame_get(fd, frame, payload, room))
			return false;
	} while (frame->type == ANYNET_FRAME_SUSPECT);
	return true;
}

struct anynet_wire_frame pair_expect(const struct pair *pair, unsigned stream,
				     enum anynet_frame_type type, uint32_t seq)
{
	struct anynet_wire_frame frame;

	assert_true(frame_get(pair->fds[stream], &frame, pair_in, sizeof(pair_in)));
	assert_int_equal(frame.type, type);
	assert_int_equal(frame.seq, seq);
	if (type == ANYNET_FRAME_DATA)
		assert_memory_equal(pair_in, pair_out + frame.offset, frame.length);
	return frame;
}
