/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between processes. The wire is a directory: N.lock is held by the process with slot N, which listens at N.sock.
 * Requests are sent on a connection of the sender, and the replies come back on it. Unix sockets lose nothing, so every
 * request is answered, or the process there has ended.
 */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define TURN_READS 64 /* from one process, before others get their turn */
#define BACKLOG    128

struct out {
	STAILQ_ENTRY(out) next;
	size_t bytes;
	char data[];
};

struct link {
	LIST_ENTRY(link) next;
	int fd;
	bool outgoing;
	uint32_t slot; /* of an outgoing one */
	STAILQ_HEAD(, out) queue;
	size_t sent; /* of the first in the queue */
	struct message message;
	char *payload;
	size_t got; /* of both */
};

static LIST_HEAD(, link) links;
static struct link listener = { .fd = -1 };
static int slot_fd = -1;

static int name_of(char *path, size_t bytes, uint32_t slot, const char *suffix)
{
	int length = snprintf(path, bytes, "%s/%u.%s", fake.wire, slot, suffix);

	return length > 0 && (size_t)length < bytes ? 0 : ENAMETOOLONG;
}

static struct sockaddr_un place_of(uint32_t slot)
{
	struct sockaddr_un place = { .sun_family = AF_UNIX };

	if (name_of(place.sun_path, sizeof(place.sun_path), slot, "sock"))
		*place.sun_path = '\0';
	return place;
}

static bool take_slot(uint32_t slot)
{
	char path[sizeof(fake.wire) + 16], pid[16];
	int length = snprintf(pid, sizeof(pid), "%d", (int)getpid());

	if (name_of(path, sizeof(path), slot, "lock"))
		return false;
	slot_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (slot_fd >= 0 && !flock(slot_fd, LOCK_EX | LOCK_NB) && !ftruncate(slot_fd, 0) &&
	    write(slot_fd, pid, (size_t)length) == length)
		return true;
	if (slot_fd >= 0)
		close(slot_fd);
	slot_fd = -1;
	return false;
}

static int start_listening(void)
{
	struct sockaddr_un place = place_of(fake.slot);

	unlink(place.sun_path);
	listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener.fd < 0 ||
	    bind(listener.fd, (struct sockaddr *)(void *)&place, sizeof(place)) ||
	    listen(listener.fd, BACKLOG))
		return errno;
	return engine_watch(listener.fd, EPOLLIN, &listener);
}

int wire_open(void)
{
	int ret;

	fake.slot = 0;
	if (!*fake.wire)
		return 0;
	if (mkdir(fake.wire, 0700) && errno != EEXIST)
		return errno;
	while (fake.slot < SLOTS_MAX && !take_slot(fake.slot))
		fake.slot++;
	ret = fake.slot < SLOTS_MAX ? start_listening() : ENOSPC;
	if (ret)
		wire_close();
	return ret;
}

static void link_free(struct link *link)
{
	struct out *out;

	while ((out = STAILQ_FIRST(&link->queue))) {
		STAILQ_REMOVE_HEAD(&link->queue, next);
		free(out);
	}
	LIST_REMOVE(link, next);
	close(link->fd);
	free(link->payload);
	free(link);
}

void wire_forget(void)
{
	while (!LIST_EMPTY(&links))
		link_free(LIST_FIRST(&links));
	if (listener.fd >= 0)
		close(listener.fd);
	if (slot_fd >= 0)
		close(slot_fd);
	listener.fd = slot_fd = -1;
}

void wire_close(void)
{
	char path[sizeof(fake.wire) + 16];

	if (listener.fd >= 0 && !name_of(path, sizeof(path), fake.slot, "sock"))
		unlink(path);
	if (slot_fd >= 0 && ftruncate(slot_fd, 0))
		perror("fake verbs: the slot's file");
	wire_forget();
}

/* Complete before it is watched: from then on the engine thread may use it. */
static struct link *link_new(int fd, bool outgoing, uint32_t slot)
{
	struct link *link = calloc(1, sizeof(*link));

	if (!link) {
		close(fd);
		return NULL;
	}
	link->fd = fd;
	link->outgoing = outgoing;
	link->slot = slot;
	STAILQ_INIT(&link->queue);
	LIST_INSERT_HEAD(&links, link, next);
	if (!engine_watch(fd, EPOLLIN, link))
		return link;
	link_free(link);
	return NULL;
}

static struct link *link_to(uint32_t slot)
{
	struct sockaddr_un place = place_of(slot);
	struct link *link;
	int fd;

	LIST_FOREACH(link, &links, next)
	if (link->outgoing && link->slot == slot)
		return link;
	if (listener.fd < 0)
		return NULL;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	if (connect(fd, (struct sockaddr *)(void *)&place, sizeof(place))) {
		close(fd);
		return NULL;
	}
	return link_new(fd, true, slot);
}

/* What does not fit into the socket is sent when the engine thread learns that there is room. */
static void link_flush(struct link *link)
{
	struct out *out;

	while ((out = STAILQ_FIRST(&link->queue))) {
		ssize_t sent = send(link->fd, out->data + link->sent, out->bytes - link->sent,
				    MSG_NOSIGNAL);

		if (sent < 0)
			break; /* EAGAIN; other errors are noticed when reading */
		link->sent += (size_t)sent;
		if (link->sent < out->bytes)
			continue;
		STAILQ_REMOVE_HEAD(&link->queue, next);
		free(out);
		link->sent = 0;
	}
	engine_watch(link->fd, EPOLLIN | (out ? EPOLLOUT : 0), link);
}

static bool link_send(struct link *link, const struct message *message, const struct span *payload)
{
	struct out *out = malloc(sizeof(*out) + sizeof(*message) + (size_t)message->bytes);
	char *at;

	if (!out)
		return false;
	out->bytes = sizeof(*message) + (size_t)message->bytes;
	memcpy(out->data, message, sizeof(*message));
	at = out->data + sizeof(*message);
	for (size_t left = (size_t)message->bytes; left; payload++) {
		if (payload->bytes)
			memcpy(at, payload->at, payload->bytes);
		at += payload->bytes;
		left -= payload->bytes;
	}
	STAILQ_INSERT_TAIL(&link->queue, out, next);
	link_flush(link);
	return true;
}

bool wire_send(uint32_t slot, const struct request *request, const struct span *payload)
{
	struct message message = { .kind = MESSAGE_REQUEST };
	struct link *link = link_to(slot);

	message.request = *request;
	if (request->opcode != IBV_WR_RDMA_READ)
		message.bytes = request->length;
	return link && link_send(link, &message, payload);
}

static void on_request(struct link *link)
{
	const struct message *in = &link->message;
	struct span payload = { .at = link->payload, .bytes = (size_t)in->bytes }, data;
	struct message message = { .kind = MESSAGE_REPLY };
	struct reply reply = { .outcome = OUT_LOST };

	responder_serve(&in->request, &payload, &reply);
	if (reply.outcome == OUT_ACK)
		message.bytes = reply.length;
	/* only read from */
	memcpy(&data.at, &reply.data, sizeof(data.at));
	data.bytes = (size_t)message.bytes;
	message.reply = reply;
	link_send(link, &message, &data);
}

static void on_reply(struct link *link)
{
	struct reply reply = link->message.reply;

	reply.data = link->payload;
	qp_reply(&reply);
}

static void on_command(struct link *link)
{
	struct message message = { .kind = MESSAGE_ANSWER };

	if (link->payload) {
		link->payload[link->message.bytes - 1] = '\0';
		message.ret = obey(link->payload);
	}
	message.counts = counts_now();
	link_send(link, &message, NULL);
}

static void on_message(struct link *link)
{
	fake_lock();
	if (link->message.kind == MESSAGE_REQUEST)
		on_request(link);
	else if (link->message.kind == MESSAGE_REPLY)
		on_reply(link);
	else if (link->message.kind == MESSAGE_COMMAND)
		on_command(link);
	fake_unlock();
	free(link->payload);
	link->payload = NULL;
	link->got = 0;
}

/* > 0 = continue, 0 = no more for now, < 0 = end */
static int link_read(struct link *link)
{
	const size_t head = sizeof(link->message);
	char *to = (char *)&link->message + link->got;
	size_t room = head - link->got;
	ssize_t got;

	if (link->got >= head) {
		to = link->payload + (link->got - head);
		room = head + (size_t)link->message.bytes - link->got;
	}
	got = recv(link->fd, to, room, 0);
	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	link->got += (size_t)got;
	if (link->got == head && link->message.bytes) {
		link->payload = malloc((size_t)link->message.bytes);
		if (!link->payload)
			return -1;
	}
	if (link->got == head + link->message.bytes)
		on_message(link);
	return 1;
}

static void on_listener(void)
{
	int fd;

	while ((fd = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		fake_lock();
		link_new(fd, false, 0);
		fake_unlock();
	}
}

/* Only the engine thread reads and closes, so a link is safe here without the lock. */
void wire_turn(void *pointer, unsigned events)
{
	struct link *link = pointer;
	int more = 1;

	if (link == &listener) {
		on_listener();
		return;
	}
	if (events & EPOLLOUT) {
		fake_lock();
		link_flush(link);
		fake_unlock();
	}
	for (int i = 0; i < TURN_READS && more > 0; i++)
		more = link_read(link);
	if (more >= 0)
		return;
	fake_lock();
	if (link->outgoing) {
		uint32_t slot = link->slot;

		link_free(link);
		requester_cut_off(slot);
	} else {
		link_free(link);
	}
	fake_unlock();
}
