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
#include "transports/session/recovery.h"

#define NOTICE_TURNS 20
#define SETTLE_TURNS 1000
#define QUIET_TURNS  3 /* in a row with nothing carried: nothing more is going to happen */

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

static void start_connection(struct carrier_rail *rail)
{
	for (int way = 0; way < CARRIER_WAYS; way++) {
		rail->passed[way] = 0;
		rail->left[way] = rail->flip[way] = CARRIER_NEVER;
	}
	rail->tape_bytes = 0;
}

void carrier_open(struct carrier *carrier, unsigned rails)
{
	pair_open_send(&carrier->pair, rails);
	carrier->pair.recv = recv_comm_create(&local_dev, rails, (uint32_t)local_cfg.replay_bytes);
	assert_non_null(carrier->pair.recv);
	carrier->pair.recv->peer = carrier->pair.send->peer;
	for (unsigned i = 0; i < PAIR_RAILS_MAX; i++) {
		struct carrier_rail *rail = &carrier->rails[i];

		start_connection(rail);
		rail->ends[TO_RECEIVER] = carrier->pair.fds[i];
		rail->ends[TO_SENDER] = i < rails ? local_rail(carrier->pair.recv, i) : -1;
		carrier->pair.fds[i] = -1;
	}
	assert_int_equal(comm_open(carrier->pair.recv), 0);
}

void carrier_close(struct carrier *carrier)
{
	for (unsigned i = 0; i < carrier->pair.rails; i++)
		for (int way = 0; way < CARRIER_WAYS; way++)
			close_end(&carrier->rails[i].ends[way]);
	pair_close(&carrier->pair);
}

/* --- carrying --- */

/* What the other end has no room for stays. */
static size_t carry_way(struct carrier_rail *rail, int way)
{
	uint8_t buf[4096];
	size_t room = rail->left[way] < sizeof(buf) ? (size_t)rail->left[way] : sizeof(buf);
	ssize_t n, sent;

	if (rail->ends[way] < 0 || rail->ends[!way] < 0 || !room)
		return 0;
	n = recv(rail->ends[way], buf, room, MSG_DONTWAIT | MSG_PEEK);
	if (n <= 0)
		return 0;
	if (rail->flip[way] - rail->passed[way] < (size_t)n)
		buf[rail->flip[way] - rail->passed[way]] ^= 0x10;
	sent = send(rail->ends[!way], buf, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && errno == EAGAIN)
		return 0;
	if (sent >= 0) /* else who is to have it has closed its end already */
		n = sent;
	if (way == TO_RECEIVER && rail->tape_bytes + (size_t)n <= sizeof(rail->tape)) {
		memcpy(rail->tape + rail->tape_bytes, buf, (size_t)n);
		rail->tape_bytes += (size_t)n;
	}
	assert_int_equal(recv(rail->ends[way], buf, (size_t)n, MSG_DONTWAIT), n);
	rail->passed[way] += (uint64_t)n;
	if (rail->left[way] != CARRIER_NEVER)
		rail->left[way] -= (uint64_t)n;
	return (size_t)n;
}

size_t carrier_carry(struct carrier *carrier)
{
	size_t bytes = 0, more;

	do {
		more = 0;
		for (unsigned i = 0; i < carrier->pair.rails; i++)
			for (int way = 0; way < CARRIER_WAYS; way++)
				more += carry_way(&carrier->rails[i], way);
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

void carrier_cut(struct carrier *carrier, unsigned rail)
{
	close_end(&carrier->rails[rail].ends[TO_RECEIVER]);
	close_end(&carrier->rails[rail].ends[TO_SENDER]);
}

void carrier_cut_sender(struct carrier *carrier, unsigned rail)
{
	close_end(&carrier->rails[rail].ends[TO_RECEIVER]);
}

void carrier_noticed(struct carrier *carrier, unsigned rail)
{
	struct anynet_comm *send = carrier->pair.send;

	for (int i = 0; i < NOTICE_TURNS && send->rails[rail]->fd >= 0; i++)
		assert_int_equal(comm_turn(send), 0);
	assert_int_equal(send->rails[rail]->fd, -1);
}

/* --- RESUME --- */

static struct anynet_wire_hello resume_hello(unsigned rail, uint32_t epoch)
{
	struct anynet_wire_hello hello;

	hello_fill(&hello, &local_dev, NULL, 0);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_RESUME;
	hello.rail = (uint16_t)rail;
	hello.epoch = epoch;
	return hello;
}

int resume_recv(struct pair *pair, unsigned rail, uint32_t epoch, struct anynet_wire_hello *welcome)
{
	struct anynet_wire_hello hello = resume_hello(rail, epoch);
	int fds[2];
	char byte;

	make_socket_pair(fds);
	assert_int_equal(recovery_post(pair->recv, fds[0], &hello, NULL), 0);
	comm_poke(pair->recv);
	assert_int_equal(recv(fds[1], welcome, sizeof(*welcome), MSG_DONTWAIT), sizeof(*welcome));
	assert_int_equal(hello_check(welcome, ANYNET_WELCOME), 0);
	assert_int_equal(welcome->kind, ANYNET_KIND_RESUME);
	assert_int_equal(welcome->rail, rail);
	if (welcome->status == ANYNET_STATUS_OK)
		return fds[1];
	assert_int_equal(recv(fds[1], &byte, 1, MSG_DONTWAIT), 0);
	close(fds[1]);
	return -1;
}

void resume_recv_ok(struct pair *pair, unsigned rail, struct anynet_wire_hello *welcome)
{
	struct anynet_wire_hello answer;
	int fd = resume_recv(pair, rail, pair->recv->rails[rail]->epoch + 1, &answer);

	assert_int_equal(answer.status, ANYNET_STATUS_OK);
	close_end(&pair->fds[rail]);
	pair->fds[rail] = fd;
	if (welcome)
		*welcome = answer;
}

static int give_connection(struct anynet_comm *send, unsigned index, uint64_t frames, uint32_t part)
{
	struct anynet_rail *rail = send->rails[index];
	int fds[2];

	make_socket_pair(fds);
	if (rail->fd >= 0)
		comm_sever(send, rail, 0);
	comm_rail_back(send, rail, fds[0], rail->epoch + 1, rail->home, frames, part);
	return fds[1];
}

void resume_send(struct pair *pair, unsigned rail, uint64_t frames, uint32_t part)
{
	close_end(&pair->fds[rail]);
	pair->fds[rail] = give_connection(pair->send, rail, frames, part);
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

void carrier_hello(struct carrier *carrier, unsigned rail, struct anynet_wire_hello *welcome)
{
	struct pair *pair = &carrier->pair;

	resume_recv_ok(pair, rail, welcome);
	close_end(&carrier->rails[rail].ends[TO_SENDER]);
	carrier->rails[rail].ends[TO_SENDER] = pair->fds[rail];
	pair->fds[rail] = -1;
}

void carrier_welcome(struct carrier *carrier, unsigned rail,
		     const struct anynet_wire_hello *welcome)
{
	assert_int_equal(carrier->rails[rail].ends[TO_RECEIVER], -1);
	start_connection(&carrier->rails[rail]);
	carrier->rails[rail].ends[TO_RECEIVER] =
		give_connection(carrier->pair.send, rail, welcome->frames, welcome->part);
	assert_int_equal(comm_error(carrier->pair.send), 0);
}

void carrier_mend(struct carrier *carrier, unsigned rail)
{
	struct anynet_wire_hello welcome;

	carrier_cut(carrier, rail);
	carrier_noticed(carrier, rail);
	carrier_hello(carrier, rail, &welcome);
	carrier_welcome(carrier, rail, &welcome);
}
