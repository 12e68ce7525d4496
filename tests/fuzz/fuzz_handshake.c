/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accept engine with the input as its peers: a script of connections to the listening socket, bytes on them
 * (garbage, or a hello or response that was correct until the script changed it, in pieces), accepts and closes, with
 * and without a secret. Afterwards a listener that still waits must accept a real peer.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"
#include "transports/base/socket.h"
#include "transports/service/background.h"
#include "transports/session/listen_internal.h"
#include "transports/wire/auth.h"
#include "transports/wire/hello.h"
#include "unit/local_net.h"

/* of the first byte */
#define CLOSE_COMM_FIRST 0x01
#define WITH_SECRET      0x02
#define CHANGE_PROVEN    0x04 /* changes of the script come after the proof */

#define PEERS_MAX      4
#define STEPS_MAX      64
#define REAL_PEER_EACH 64    /* a real connect takes longer than all the rest */
#define REAL_STEPS_MAX 20000 /* … but never this many steps */

struct run {
	struct input *in;
	struct anynet_listener *listener;
	struct anynet_comm *comm;
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} handle;
	uint8_t order;
	bool secret;
	int peers[PEERS_MAX];                       /* -1 = not connected */
	struct anynet_wire_hello hellos[PEERS_MAX]; /* or the response */
	struct auth auths[PEERS_MAX];
	size_t said[PEERS_MAX]; /* its bytes */
};

static void change(struct run *run, struct anynet_wire_hello *message, int times)
{
	for (; times > 0; times--) {
		unsigned at = input_u16(run->in) % sizeof(*message);

		((uint8_t *)message)[at] = input_u8(run->in);
	}
}

static void fill_hello(struct run *run, unsigned peer)
{
	struct anynet_wire_hello *hello = &run->hellos[peer];
	uint8_t choice = input_u8(run->in);

	hello_fill(hello, &local_dev, run->handle.wire.addrs, 1);
	hello->type = ANYNET_HELLO;
	hello->kind = choice & 1 ? ANYNET_KIND_STREAM : ANYNET_KIND_COMM;
	hello->stream = choice >> 4 & 3;
	hello->streams = choice >> 1 & 7;
	hello->endpoint = run->handle.wire.endpoint;
	memcpy(hello->token, run->handle.wire.token, sizeof(hello->token));
	if (hello->stream == 3) {
		hello->kind = choice & 1 ? ANYNET_KIND_PROBE : ANYNET_KIND_RESUME;
		hello->stream = choice >> 1 & 1;
		hello->epoch = 1 + peer;
	}
	if (!(run->order & CHANGE_PROVEN))
		change(run, hello, (choice >> 6) - 1);
	if (run->secret)
		must(!auth_hello(&run->auths[peer], hello));
	if (run->order & CHANGE_PROVEN)
		change(run, hello, (choice >> 6) - 1);
}

static void hang_up(struct run *run, unsigned peer)
{
	struct linger now = { .l_onoff = 1 };

	if (run->peers[peer] < 0)
		return;
	setsockopt(run->peers[peer], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	peer_close(&run->peers[peer]);
}

static void dial(struct run *run, unsigned peer)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(run->handle.wire.addrs[0].port),
		.sin_addr = ((struct sockaddr_in *)&local_dev.addr)->sin_addr,
	};

	hang_up(run, peer);
	fill_hello(run, peer);
	run->said[peer] = 0;
	run->peers[peer] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(run->peers[peer] >= 0);
	/* This many connections may use up the ports for a while. */
	if (connect(run->peers[peer], (struct sockaddr *)&to, sizeof(to)))
		hang_up(run, peer);
}

static void say(struct run *run, unsigned peer, size_t bytes)
{
	bytes = anynet_min(bytes, sizeof(*run->hellos) - run->said[peer]);
	peer_send(run->peers[peer], (uint8_t *)&run->hellos[peer] + run->said[peer], bytes);
	run->said[peer] += bytes;
}

static void say_ready(struct run *run, unsigned peer)
{
	struct anynet_wire_frame ready = { .type = ANYNET_FRAME_READY, .size = 1 };

	peer_send(run->peers[peer], &ready, sizeof(ready));
}

static void accept_step(struct run *run)
{
	struct anynet_comm *comm;

	if (run->comm) {
		listen_turn();
		comm_enter(run->comm);
		comm_attend(run->comm);
		comm_leave(run->comm);
		return;
	}
	must(!anynet_accept(run->listener, &comm));
	run->comm = comm;
}

/* The answer to a challenge is still to be sent. */
static void prepare_response(struct run *run, unsigned peer,
			     const struct anynet_wire_hello *challenge)
{
	struct anynet_wire_hello *response = &run->hellos[peer];

	must(!auth_check(&run->auths[peer], challenge));
	must(!auth_response(&run->auths[peer], challenge, response));
	run->said[peer] = 0;
	change(run, response, input_u8(run->in) >> 6);
}

static void read_answer(struct run *run, unsigned peer)
{
	struct anynet_wire_hello answer;
	ssize_t n;

	if (run->peers[peer] < 0)
		return;
	n = recv(run->peers[peer], &answer, sizeof(answer), MSG_DONTWAIT);
	if (n <= 0)
		return;
	/* After its welcome a comm may send something. */
	if (n == sizeof(struct anynet_wire_frame) || n == sizeof(struct anynet_wire_frame) + 32)
		return;
	must(n == sizeof(answer));
	if (answer.type != ANYNET_CHALLENGE) {
		must(!hello_check(&answer, ANYNET_WELCOME));
		return;
	}
	must(run->secret && !hello_check(&answer, ANYNET_CHALLENGE));
	prepare_response(run, peer, &answer);
}

static void step(struct run *run)
{
	uint8_t op = input_u8(run->in);
	unsigned peer = (op >> 4) % PEERS_MAX;

	switch (op & 0x07) {
	case 0:
	case 1:
		dial(run, peer);
		if (op & 0x08)
			say(run, peer, sizeof(struct anynet_wire_hello));
		break;
	case 2:
		say(run, peer, input_u16(run->in) % 1024);
		break;
	case 3:
		peer_garbage(run->peers[peer], run->in);
		break;
	case 4:
		say_ready(run, peer);
		break;
	case 5:
		if (op & 0x08)
			hang_up(run, peer);
		else
			read_answer(run, peer);
		break;
	default:
		accept_step(run);
	}
}

static void real_peer(struct run *run)
{
	struct anynet_connect_options opts = { .traffic_class = -1, .owner = &local_dev };
	struct anynet_comm *comm = NULL;

	for (int i = 0; i < REAL_STEPS_MAX && (!comm || !run->comm); i++) {
		if (!comm)
			must(!anynet_connect(&local_dev, &opts, run->handle.bytes, &comm));
		accept_step(run);
	}
	must(comm && run->comm);
	anynet_close(comm);
}

/* What the accepted comm does with the peer's next bytes. */
static void use_comm(struct run *run)
{
	uint8_t data[64];
	void *buffer = data;
	size_t bytes = sizeof(data);
	struct anynet_request *req;
	int tag = 0, done = 0;

	if (!anynet_irecv(run->comm, &(struct anynet_recv){ .n = 1, .data = &buffer, .bytes = &bytes, .tags = &tag }, &req) && req)
		for (int i = 0; i < 3 && !done && !anynet_test(req, &done, NULL); i++)
			;
	anynet_close(run->comm);
}

/* A loopback address of this process only: no other process uses up its ports. */
static void start(void)
{
	uint32_t pid = (uint32_t)getpid();

	fuzz_net_start();
	((struct sockaddr_in *)&local_dev.addr)->sin_addr.s_addr =
		htonl(127u << 24 | (pid & 0x3fffff) << 2 | 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static unsigned runs;
	struct input in = { data, bytes };
	struct run run = { .in = &in, .peers = { -1, -1, -1, -1 } };

	run.order = input_u8(&in);
	start();
	run.secret = fuzz_net_secret(run.order & WITH_SECRET) && run.order & WITH_SECRET;
	must(!anynet_listen(&local_dev, &local_dev, run.handle.bytes, &run.listener));
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&run);
	accept_step(&run);
	accept_step(&run);
	for (unsigned i = 0; i < PEERS_MAX; i++)
		hang_up(&run, i);
	accept_step(&run);
	/* A peer with the right token may have got so far that its time has to run out. */
	if (!run.comm && !run.listener->comm && runs++ % REAL_PEER_EACH == 0)
		real_peer(&run);
	if (run.comm && run.order & CLOSE_COMM_FIRST)
		use_comm(&run);
	anynet_close_listener(run.listener);
	if (run.comm && !(run.order & CLOSE_COMM_FIRST))
		use_comm(&run);
	anynet_net_trim(&local_dev);
	return 0;
}

/* The background thread, which would accept as well, is not started. */
__typeof__(background_rouse) __wrap_background_rouse;

void __wrap_background_rouse(void)
{
}
