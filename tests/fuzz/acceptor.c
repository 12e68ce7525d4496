/* SPDX-License-Identifier: Apache-2.0 */
#include "acceptor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "transports/base/socket.h"
#include "transports/device/verbs.h"
#include "transports/wire/hello.h"
#include "unit/local_net.h"

struct acceptor acceptor;

__typeof__(socket_connect) __wrap_socket_connect;

/* A new connection. */
int __wrap_socket_connect(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
			  const struct anynet_config *cfg, bool same_host, int segment_bytes)
{
	struct line *line = &acceptor.lines[acceptor.count];
	int fds[2];

	(void)from;
	(void)to;
	(void)cfg;
	(void)same_host;
	(void)segment_bytes;
	if (acceptor.refuses)
		return -acceptor.refuses;
	if (acceptor.count == LINES_MAX)
		return -ECONNREFUSED;
	peer_pair(fds);
	memset(line, 0, sizeof(*line));
	line->theirs = fds[0];
	line->fd = fds[1];
	acceptor.count++;
	return fds[0];
}

void acceptor_start(struct input *in, bool secret, bool ib)
{
	acceptor.in = in;
	acceptor.secret = secret;
	acceptor.ib = ib;
	acceptor.refuses = 0;
	acceptor.count = 0;
}

void acceptor_stop(void)
{
	for (unsigned i = 0; i < acceptor.count; i++)
		peer_close(&acceptor.lines[i].fd);
}

struct anynet_wire_addr acceptor_addr(unsigned i)
{
	return (struct anynet_wire_addr){
		.family = 4,
		.device = (uint8_t)i,
		.port = (uint16_t)(ACCEPTOR_PORT + i),
		.ip = { 127, 0, 0, (uint8_t)(10 + i) },
	};
}

struct line *acceptor_line(unsigned back)
{
	return back < acceptor.count ? &acceptor.lines[acceptor.count - 1 - back] : NULL;
}

const struct line *acceptor_find(int theirs)
{
	for (unsigned i = acceptor.count; i-- > 0;)
		if (acceptor.lines[i].theirs == theirs)
			return &acceptor.lines[i];
	return NULL;
}

/* --- reading --- */

static void heard_hello(struct line *line)
{
	char why[sizeof(line->hello.reason)];
	enum auth_verdict verdict;

	must(!hello_check(&line->hello, ANYNET_HELLO));
	line->asked = true;
	verdict = auth_judge(&line->auth, &line->hello, why, sizeof(why));
	must(verdict == (acceptor.secret ? AUTH_CHALLENGE : AUTH_ADMIT));
}

/* A response, or frames. Whether its proof is right depends on what the script has sent since. */
static void heard_response(struct line *line)
{
	struct anynet_wire_hello response;
	ssize_t n = recv(line->fd, &response, sizeof(response), MSG_DONTWAIT);

	if (n != sizeof(response) || response.magic != ANYNET_HELLO_MAGIC)
		return;
	must(acceptor.secret && !hello_check(&response, ANYNET_RESPONSE));
	auth_check(&line->auth, &response);
}

void line_hear(struct line *line)
{
	ssize_t n;

	if (line->fd < 0)
		return;
	if (line->asked) {
		heard_response(line);
		return;
	}
	n = recv(line->fd, (uint8_t *)&line->hello + line->heard, sizeof(line->hello) - line->heard,
		 MSG_DONTWAIT);
	if (n <= 0)
		return;
	line->heard += (size_t)n;
	if (line->heard == sizeof(line->hello))
		heard_hello(line);
}

/* --- answering --- */

static void change(struct anynet_wire_hello *message)
{
	uint8_t times = 1 + input_u8(acceptor.in) % 3;

	for (; times; times--) {
		unsigned at = input_u16(acceptor.in) % sizeof(*message);

		((uint8_t *)message)[at] = input_u8(acceptor.in);
	}
}

static void stray(struct anynet_wire_hello *answer, uint8_t strays)
{
	if (strays & STRAY_KIND)
		answer->kind = input_u8(acceptor.in);
	if (strays & STRAY_STREAM)
		answer->stream = input_u8(acceptor.in);
	if (strays & STRAY_EPOCH)
		answer->epoch += input_u8(acceptor.in);
	if (strays & STRAY_COMM)
		answer->comm_id ^= input_u8(acceptor.in);
	if (strays & STRAY_ENDPOINT)
		answer->endpoint ^= input_u8(acceptor.in);
	if (strays & STRAY_BYTES)
		change(answer);
}

static void finish(struct line *line, uint8_t strays)
{
	if (strays & STRAY_UNPROVEN)
		change(&line->answer);
	line->said = 0;
}

bool line_is_answered(const struct line *line)
{
	bool challenged = line->told[0].type == ANYNET_CHALLENGE;
	const struct anynet_wire_hello *welcome = &line->told[challenged], *hello = &line->hello;

	return line->told_bytes >= (challenged + 1) * sizeof(*welcome) &&
	       welcome->type == ANYNET_WELCOME && !welcome->status &&
	       welcome->kind == hello->kind && welcome->stream == hello->stream &&
	       welcome->epoch == hello->epoch && welcome->comm_id == hello->comm_id &&
	       welcome->endpoint == hello->endpoint;
}

/* A plan, and the addresses. */
static void fill_plan(struct anynet_wire_hello *answer, uint8_t shape)
{
	answer->streams = shape & 7;
	for (unsigned i = 0; i <= (shape >> 3) % ACCEPTOR_ADDRS; i++)
		answer->addrs[i] = acceptor_addr(i);
	for (unsigned i = 0; i < answer->streams; i++)
		answer->plan[i].to = (uint8_t)(shape & 0x40 ? i % ACCEPTOR_ADDRS : 0);
}

static void fill_qp(const struct anynet_wire_hello *hello, struct anynet_wire_hello *answer)
{
	answer->qp = (struct anynet_wire_qp){
		.kind = 1, /* InfiniBand */
		.mtu = IBV_MTU_4096,
		.qpn = ACCEPTOR_QPN,
		.slots = 32,
		.slot_bytes = 512,
	};
	if (hello->cm.wanted)
		answer->cm.addr = acceptor_addr(0);
}

void line_welcome(struct line *line, uint32_t status, uint8_t shape, uint8_t strays)
{
	struct anynet_wire_hello *answer = &line->answer;

	hello_fill(answer, &local_dev, NULL, 0);
	hello_answer(answer, &line->hello);
	answer->status = status;
	if (answer->kind == ANYNET_KIND_COMM)
		fill_plan(answer, shape);
	if (answer->kind == ANYNET_KIND_RESUME) {
		answer->frames = shape & 0x0f;
		answer->part = (uint32_t)(shape >> 4) * ANYNET_PART_ALIGN;
	}
	if (acceptor.ib && line->hello.qp.kind && !(shape & 0x80))
		fill_qp(&line->hello, answer);
	stray(answer, strays);
	if (acceptor.secret) {
		answer->features |= ANYNET_FEATURE_SECRET;
		must(!auth_prove(&line->auth, answer));
	}
	finish(line, strays);
}

void line_challenge(struct line *line, uint8_t strays)
{
	if (acceptor.secret) {
		struct auth auth = line->auth;

		must(!auth_challenge(&line->auth, &line->hello, &line->answer));
		stray(&line->answer, strays);
		if (strays & ~STRAY_UNPROVEN) {
			line->auth = auth;
			must(!auth_prove(&line->auth, &line->answer));
		}
	} else {
		line_welcome(line, 0, 0, strays);
		line->answer.type = ANYNET_CHALLENGE;
	}
	finish(line, strays);
}

void line_say(struct line *line, size_t bytes)
{
	bytes = anynet_min(bytes, sizeof(line->answer) - line->said);
	line_put(line, (uint8_t *)&line->answer + line->said, bytes);
	line->said += bytes;
}

void line_put(struct line *line, const void *bytes, size_t count)
{
	size_t sent = peer_send(line->fd, bytes, count);

	sent = anynet_min(sent, sizeof(line->told) - line->told_bytes);
	memcpy((uint8_t *)line->told + line->told_bytes, bytes, sent);
	line->told_bytes += sent;
}
