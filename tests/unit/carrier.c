/* SPDX-License-Identifier: Apache-2.0 */
#include "carrier.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/base/socket.h"
#include "transports/message/recv_internal.h"
#include "transports/session/recovery.h"

#define NOTICE_TURNS 20
#define SETTLE_TURNS 1000
#define QUIET_TURNS  3 /* iterations without a transfer: nothing more will happen */

static void make_socket_pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void start_connection(struct carrier_stream *stream)
{
	for (int way = 0; way < CARRIER_WAYS; way++) {
		stream->passed[way] = 0;
		stream->left[way] = stream->flip[way] = CARRIER_NEVER;
	}
	stream->tape_bytes = 0;
}

void carrier_open(struct carrier *carrier, unsigned streams)
{
	pair_open_send(&carrier->pair, streams);
	carrier->pair.recv =
		recv_comm_create(&local_dev, streams, (uint32_t)local_cfg.replay_bytes);
	assert_non_null(carrier->pair.recv);
	to_recv(carrier->pair.recv)->ready = true; /* it has been accepted */
	carrier->pair.recv->peer = carrier->pair.send->peer;
	for (unsigned i = 0; i < PAIR_STREAMS_MAX; i++) {
		struct carrier_stream *stream = &carrier->streams[i];

		start_connection(stream);
		stream->ends[TO_RECEIVER] = carrier->pair.fds[i];
		stream->ends[TO_SENDER] = i < streams ? local_stream(carrier->pair.recv, i) : -1;
		carrier->pair.fds[i] = -1;
	}
	assert_int_equal(comm_open(carrier->pair.recv), 0);
}

void carrier_close(struct carrier *carrier)
{
	for (unsigned i = 0; i < carrier->pair.streams; i++)
		for (int way = 0; way < CARRIER_WAYS; way++)
			close_end(&carrier->streams[i].ends[way]);
	pair_close(&carrier->pair);
}

/* --- transferring --- */

/* Bytes that do not fit at the other end stay. */
static size_t carry_way(struct carrier_stream *stream, int way)
{
	uint8_t buf[4096];
	size_t room = stream->left[way] < sizeof(buf) ? (size_t)stream->left[way] : sizeof(buf);
	ssize_t n, sent;

	if (stream->ends[way] < 0 || stream->ends[!way] < 0 || !room)
		return 0;
	n = recv(stream->ends[way], buf, room, MSG_DONTWAIT | MSG_PEEK);
	if (n <= 0)
		return 0;
	if (stream->flip[way] - stream->passed[way] < (size_t)n)
		buf[stream->flip[way] - stream->passed[way]] ^= 0x10;
	sent = send(stream->ends[!way], buf, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && errno == EAGAIN)
		return 0;
	if (sent >= 0) /* otherwise the receiver has already closed its end */
		n = sent;
	if (way == TO_RECEIVER && stream->tape_bytes + (size_t)n <= sizeof(stream->tape)) {
		memcpy(stream->tape + stream->tape_bytes, buf, (size_t)n);
		stream->tape_bytes += (size_t)n;
	}
	assert_int_equal(recv(stream->ends[way], buf, (size_t)n, MSG_DONTWAIT), n);
	stream->passed[way] += (uint64_t)n;
	if (stream->left[way] != CARRIER_NEVER)
		stream->left[way] -= (uint64_t)n;
	return (size_t)n;
}

size_t carrier_carry(struct carrier *carrier)
{
	size_t bytes = 0, more;

	do {
		more = 0;
		for (unsigned i = 0; i < carrier->pair.streams; i++)
			for (int way = 0; way < CARRIER_WAYS; way++)
				more += carry_way(&carrier->streams[i], way);
		bytes += more;
	} while (more);
	return bytes;
}

size_t carrier_turn(struct carrier *carrier)
{
	size_t bytes;

	comm_turn(carrier->pair.send);
	bytes = carrier_carry(carrier);
	comm_turn(carrier->pair.recv);
	comm_transmit(carrier->pair.recv);
	return bytes + carrier_carry(carrier);
}

void carrier_settle(struct carrier *carrier)
{
	int quiet = 0;

	for (int turn = 0; quiet < QUIET_TURNS; turn++) {
		assert_true(turn < SETTLE_TURNS);
		quiet = carrier_turn(carrier) ? 0 : quiet + 1;
	}
}

void carrier_cut(struct carrier *carrier, unsigned stream)
{
	close_end(&carrier->streams[stream].ends[TO_RECEIVER]);
	close_end(&carrier->streams[stream].ends[TO_SENDER]);
}

void carrier_cut_sender(struct carrier *carrier, unsigned stream)
{
	close_end(&carrier->streams[stream].ends[TO_RECEIVER]);
}

void carrier_noticed(struct carrier *carrier, unsigned stream)
{
	struct anynet_comm *send = carrier->pair.send;

	for (int i = 0; i < NOTICE_TURNS && send->streams[stream]->path.fd >= 0; i++)
		assert_int_equal(comm_turn(send), 0);
	assert_int_equal(send->streams[stream]->path.fd, -1);
}

/* --- RESUME --- */

static struct anynet_wire_hello resume_hello(unsigned stream, uint32_t epoch)
{
	struct anynet_wire_hello hello;

	hello_fill(&hello, &local_dev, NULL, 0);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_RESUME;
	hello.stream = (uint16_t)stream;
	hello.epoch = epoch;
	return hello;
}

int resume_recv(struct pair *pair, unsigned stream, uint32_t epoch,
		struct anynet_wire_hello *welcome)
{
	struct anynet_wire_hello hello = resume_hello(stream, epoch);
	int fds[2];
	char byte;

	make_socket_pair(fds);
	assert_int_equal(recovery_post(pair->recv, fds[0], &hello, NULL), 0);
	comm_poke(pair->recv);
	assert_int_equal(recv(fds[1], welcome, sizeof(*welcome), MSG_DONTWAIT), sizeof(*welcome));
	assert_int_equal(hello_check(welcome, ANYNET_WELCOME), 0);
	assert_int_equal(welcome->kind, ANYNET_KIND_RESUME);
	assert_int_equal(welcome->stream, stream);
	if (welcome->status == ANYNET_STATUS_OK)
		return fds[1];
	assert_int_equal(recv(fds[1], &byte, 1, MSG_DONTWAIT), 0);
	close(fds[1]);
	return -1;
}

void resume_recv_ok(struct pair *pair, unsigned stream, struct anynet_wire_hello *welcome)
{
	struct anynet_wire_hello answer;
	int fd = resume_recv(pair, stream, pair->recv->streams[stream]->epoch + 1, &answer);

	assert_int_equal(answer.status, ANYNET_STATUS_OK);
	close_end(&pair->fds[stream]);
	pair->fds[stream] = fd;
	if (welcome)
		*welcome = answer;
}

static int give_connection(struct anynet_comm *send, unsigned index, uint64_t frames, uint32_t part)
{
	struct anynet_stream *stream = send->streams[index];
	int fds[2];

	make_socket_pair(fds);
	if (stream->path.fd >= 0)
		comm_sever(send, stream, 0);
	comm_stream_back(send, stream, fds[0], stream->epoch + 1, stream->home,
			 (struct stream_position){ frames, part });
	return fds[1];
}

void resume_send(struct pair *pair, unsigned stream, uint64_t frames, uint32_t part)
{
	close_end(&pair->fds[stream]);
	pair->fds[stream] = give_connection(pair->send, stream, frames, part);
}

void resume_listen(struct pair *pair, int *listeners, unsigned count)
{
	struct comm_paths *paths = &pair->send->session->paths;

	paths->version = ANYNET_WIRE_VERSION;
	paths->own_count = 1;
	paths->dev = paths->own[0] = &local_dev;
	assert_true(socket_to_wire(&local_dev.addr, 0, 0, &paths->own_addrs[0]));
	paths->peer_count = (uint8_t)count;
	for (unsigned i = 0; i < count; i++) {
		listeners[i] = socket_listen(&local_dev.addr, &local_cfg);
		assert_true(listeners[i] >= 0);
		assert_true(socket_to_wire(&local_dev.addr, (uint16_t)socket_port(listeners[i]), 0,
					   &paths->peer[i]));
	}
}

void carrier_hello(struct carrier *carrier, unsigned stream, struct anynet_wire_hello *welcome)
{
	struct pair *pair = &carrier->pair;

	resume_recv_ok(pair, stream, welcome);
	close_end(&carrier->streams[stream].ends[TO_SENDER]);
	carrier->streams[stream].ends[TO_SENDER] = pair->fds[stream];
	pair->fds[stream] = -1;
}

void carrier_welcome(struct carrier *carrier, unsigned stream,
		     const struct anynet_wire_hello *welcome)
{
	assert_int_equal(carrier->streams[stream].ends[TO_RECEIVER], -1);
	start_connection(&carrier->streams[stream]);
	carrier->streams[stream].ends[TO_RECEIVER] =
		give_connection(carrier->pair.send, stream, welcome->frames, welcome->part);
	assert_int_equal(comm_error(carrier->pair.send), 0);
}

void carrier_mend(struct carrier *carrier, unsigned stream)
{
	struct anynet_wire_hello welcome;

	carrier_cut(carrier, stream);
	carrier_noticed(carrier, stream);
	carrier_hello(carrier, stream, &welcome);
	carrier_welcome(carrier, stream, &welcome);
}
