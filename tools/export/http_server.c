/* SPDX-License-Identifier: Apache-2.0 */
/* The poll loop and its clients; see http_server.h. */
#include "http_server.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_request.h"
#include "tools/shared/now.h"

#define BODIES          8   /* maximum number of versions of the page in memory */
#define ACCEPT_PAUSE_MS 100 /* pause after a failed accept */
#define DRAIN_MS        1000 /* limit for the client to close; closing with unread data sends a reset */
#define HEAD_BYTES      320
#define WRITE_MOST      (1 << 18) /* bytes sent in one turn, for fairness */

/* One version of the page, shared by the clients that receive it. */
struct body {
	unsigned users; /* references: clients, and the loop for the newest version */
	uint64_t made_ms;
	size_t bytes;
	char *text;
};

enum state {
	CLIENT_NONE,
	CLIENT_READING, /* receiving its request */
	CLIENT_WRITING, /* sending the response */
	CLIENT_CLOSING  /* response sent; waiting for the client to close */
};

struct client {
	enum state state;
	int fd;
	uint64_t came;     /* sequence number; the oldest client has the lowest */
	uint64_t limit_ms; /* deadline of the state */
	char in[HTTP_REQUEST_BYTES], head[HEAD_BYTES];
	size_t in_bytes, head_bytes, sent;
	struct body *body; /* NULL: head only */
};

struct loop {
	const struct http_server *server;
	struct client clients[HTTP_CLIENTS];
	struct body *body;       /* the newest version; NULL = none yet */
	unsigned bodies;         /* versions in memory */
	uint64_t accept_from_ms; /* do not accept before this time */
	uint64_t accepted;       /* clients so far */
};

/* --- the page --- */

static void body_drop(struct loop *loop, struct body *body)
{
	if (!body || --body->users)
		return;
	free(body->text);
	free(body);
	loop->bodies--;
}

static void client_end(struct loop *loop, struct client *client)
{
	if (client->state == CLIENT_NONE)
		return;
	close(client->fd);
	body_drop(loop, client->body);
	memset(client, 0, sizeof(*client));
}

/* Closes the oldest client; with_body: the oldest that receives an old version. Returns false if there is none. */
static bool end_oldest(struct loop *loop, bool with_body)
{
	struct client *oldest = NULL;

	for (int i = 0; i < HTTP_CLIENTS; i++) {
		struct client *client = &loop->clients[i];

		if (client->state == CLIENT_NONE ||
		    (with_body && (!client->body || client->body == loop->body)))
			continue;
		if (!oldest || client->came < oldest->came)
			oldest = client;
	}
	if (oldest)
		client_end(loop, oldest);
	return oldest;
}

static struct body *body_get(struct loop *loop)
{
	struct body *body = loop->body;

	if (body && now_ms() - body->made_ms < loop->server->fresh_ms) {
		body->users++;
		return body;
	}
	/* Several clients may share a version, so that closing one may not free it. */
	while (loop->bodies >= BODIES && end_oldest(loop, true))
		;
	body = calloc(1, sizeof(*body));
	if (body)
		body->text = loop->server->render(loop->server->arg, &body->bytes);
	if (!body || !body->text) {
		free(body);
		return NULL;
	}
	body->made_ms = now_ms();
	body->users = 2; /* the loop and the caller */
	body_drop(loop, loop->body);
	loop->body = body;
	loop->bodies++;
	return body;
}

/* --- clients --- */

static void enter(struct client *client, enum state state, unsigned ms)
{
	client->state = state;
	client->limit_ms = now_ms() + ms;
}

static void answer(struct loop *loop, struct client *client, const struct http_request *request)
{
	struct body *body = request->status == 200 ? body_get(loop) : NULL;
	int status = request->status == 200 && !body ? 503 : request->status, n;
	const char *name = http_status_name(status);
	size_t bytes = body ? body->bytes : strlen(name) + 1;

	n = snprintf(client->head, sizeof(client->head),
		     "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
		     "Connection: close\r\n\r\n%s%s",
		     status, name, body ? loop->server->type : "text/plain", bytes,
		     status == 405 ? "Allow: GET, HEAD\r\n" : "",
		     body || request->is_head ? "" : name, body || request->is_head ? "" : "\n");
	client->head_bytes = (size_t)n;
	if (request->is_head)
		body_drop(loop, body);
	else
		client->body = body;
	enter(client, CLIENT_WRITING, loop->server->write_ms);
}

static void client_read(struct loop *loop, struct client *client)
{
	struct http_request request;
	ssize_t n = recv(client->fd, client->in + client->in_bytes,
			 sizeof(client->in) - client->in_bytes, 0);

	if (n <= 0) {
		if (!n || (errno != EAGAIN && errno != EINTR))
			client_end(loop, client);
		return;
	}
	client->in_bytes += (size_t)n;
	if (http_request_parse(&request, client->in, client->in_bytes))
		answer(loop, client, &request);
}

static void client_write(struct loop *loop, struct client *client)
{
	size_t body_bytes = client->body ? client->body->bytes : 0, left;
	const char *from = client->head + client->sent;
	ssize_t n;

	left = client->head_bytes - client->sent;
	if (client->sent >= client->head_bytes) {
		from = client->body->text + (client->sent - client->head_bytes);
		left = client->head_bytes + body_bytes - client->sent;
	}
	n = send(client->fd, from, left < WRITE_MOST ? left : WRITE_MOST, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		client_end(loop, client);
	if (n < 0)
		return;
	client->sent += (size_t)n;
	if (client->sent < client->head_bytes + body_bytes)
		return;
	shutdown(client->fd, SHUT_WR);
	enter(client, CLIENT_CLOSING, DRAIN_MS);
}

static void client_drain(struct loop *loop, struct client *client)
{
	ssize_t n = recv(client->fd, client->in, sizeof(client->in), 0);

	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
		client_end(loop, client);
}

static void client_turn(struct loop *loop, struct client *client, short events)
{
	if (now_ms() >= client->limit_ms)
		client_end(loop, client);
	else if (!events)
		return;
	else if (client->state == CLIENT_READING)
		client_read(loop, client);
	else if (client->state == CLIENT_WRITING)
		client_write(loop, client);
	else
		client_drain(loop, client);
}

/* --- the loop --- */

static struct client *find_place(struct loop *loop)
{
	for (int i = 0; i < HTTP_CLIENTS; i++)
		if (loop->clients[i].state == CLIENT_NONE)
			return &loop->clients[i];
	return NULL;
}

static void take_client(struct loop *loop)
{
	int fd = accept4(loop->server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct client *client;

	if (fd < 0) { /* possibly out of file descriptors: do not spin */
		loop->accept_from_ms = now_ms() + ACCEPT_PAUSE_MS;
		return;
	}
	if (!find_place(loop))
		end_oldest(loop, false);
	client = find_place(loop);
	client->fd = fd;
	client->came = ++loop->accepted;
	enter(client, CLIENT_READING, loop->server->read_ms);
}

/* Fills `polls`. Returns the timeout in milliseconds, or -1 for none. */
static int prepare(const struct loop *loop, struct pollfd *polls)
{
	uint64_t now = now_ms(), soonest = UINT64_MAX;

	polls[HTTP_CLIENTS] = (struct pollfd){
		.fd = now < loop->accept_from_ms ? -1 : loop->server->fd,
		.events = POLLIN,
	};
	if (now < loop->accept_from_ms)
		soonest = loop->accept_from_ms;
	for (int i = 0; i < HTTP_CLIENTS; i++) {
		const struct client *client = &loop->clients[i];
		bool used = client->state != CLIENT_NONE;

		polls[i] = (struct pollfd){
			.fd = used ? client->fd : -1,
			.events = client->state == CLIENT_WRITING ? POLLOUT : POLLIN,
		};
		if (used && client->limit_ms < soonest)
			soonest = client->limit_ms;
	}
	return soonest == UINT64_MAX ? -1 : soonest > now ? (int)(soonest - now) : 0;
}

static int turn(struct loop *loop)
{
	struct pollfd polls[HTTP_CLIENTS + 1];
	int ms = prepare(loop, polls);
	struct timespec timeout = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	if (ppoll(polls, HTTP_CLIENTS + 1, ms < 0 ? NULL : &timeout, loop->server->mask) < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < HTTP_CLIENTS; i++)
		if (loop->clients[i].state != CLIENT_NONE)
			client_turn(loop, &loop->clients[i], polls[i].revents);
	if (polls[HTTP_CLIENTS].revents)
		take_client(loop);
	return 0;
}

int http_server_run(const struct http_server *server)
{
	static struct loop loop;
	int ret = 0;

	loop = (struct loop){ .server = server };
	while (!ret && !*server->stop)
		ret = turn(&loop);
	for (int i = 0; i < HTTP_CLIENTS; i++)
		client_end(&loop, &loop.clients[i]);
	body_drop(&loop, loop.body);
	return ret;
}
