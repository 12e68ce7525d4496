/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver's side of resuming a rail: connections that said RESUME, or LINK, are handed over by the accept
 * engine and answered by whoever works on the comm next. Answering fences the rail: its old connection
 * is closed first, so that nothing can be placed through it any more, and only then the sender is told
 * what it has brought.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/socket.h"
#include "path/ib/rail_link.h"
#include "session/recovery.h"

struct rail_mail {
	struct rail_mail *next;
	int fd;
	bool proven; /* auth is to be continued in the answer */
	struct auth auth;
	struct anynet_wire_hello hello;
};

int recovery_post(struct anynet_comm *comm, int fd, const struct anynet_wire_hello *hello,
	      const struct auth *auth)
{
	struct rail_mail *mail = malloc(sizeof(*mail));

	if (!mail)
		return -ENOMEM;
	mail->fd = fd;
	mail->hello = *hello;
	mail->proven = auth != NULL;
	if (auth)
		mail->auth = *auth;
	mail->next = atomic_load(&comm->session->mail);
	while (!atomic_compare_exchange_weak(&comm->session->mail, &mail->next, mail))
		;
	return 0;
}

/* All that wait, oldest first. */
static struct rail_mail *take_all(struct anynet_comm *comm)
{
	struct rail_mail *newest = atomic_exchange(&comm->session->mail, NULL), *oldest = NULL;

	while (newest) {
		struct rail_mail *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

void recovery_drop_posted(struct anynet_comm *comm)
{
	struct rail_mail *mail = take_all(comm);

	while (mail) {
		struct rail_mail *next = mail->next;

		fd_hang_up(&mail->fd, -1);
		free(mail);
		mail = next;
	}
}

static bool send_answer(struct rail_mail *mail, struct anynet_wire_hello *answer)
{
	size_t done = 0;

	if (mail->proven) {
		answer->features |= ANYNET_FEATURE_SECRET;
		if (auth_prove(&mail->auth, answer))
			return false;
	}
	return !socket_send_some(mail->fd, answer, sizeof(*answer), &done);
}

/* Epochs count tries: is this hello the newest? */
static bool is_newest(const struct anynet_rail *rail, const struct anynet_wire_hello *hello)
{
	return (int32_t)(hello->epoch - rail->epoch) > 0 &&
	       (hello->kind != ANYNET_KIND_LINK ||
		(int32_t)(hello->epoch - rail->link_epoch) > 0);
}

/* The rail that a hello may take over; NULL: answer->status says why not. */
static struct anynet_rail *find_rail(struct anynet_comm *comm,
				     const struct anynet_wire_hello *hello,
				     struct anynet_wire_hello *answer)
{
	struct anynet_rail *rail = hello->rail < comm->rail_count ? comm->rails[hello->rail] : NULL;

	if (comm_error(comm) || comm->peer_closed) {
		answer->status = ANYNET_STATUS_GONE;
		if (comm_error(comm))
			snprintf(answer->reason, sizeof(answer->reason), "%s",
				 error_text(-comm_error(comm)));
	} else if (!rail || !is_newest(rail, hello)) {
		answer->status = ANYNET_STATUS_STALE;
	}
	return answer->status ? NULL : rail;
}

static void begin_answer(const struct anynet_comm *comm, const struct rail_mail *mail,
			 struct anynet_wire_hello *answer)
{
	hello_fill(answer, comm->dev, NULL, 0);
	hello_answer(answer, &mail->hello);
}

/* Make the end of a queue pair that is to be proven while the rail goes on as it does. It is kept for the RESUME
 * that may follow; the connection is of no further use. */
static void offer_link(struct anynet_comm *comm, struct rail_mail *mail)
{
	struct anynet_wire_hello answer;
	struct anynet_rail *rail;

	begin_answer(comm, mail, &answer);
	rail = find_rail(comm, &mail->hello, &answer);
	if (rail) {
		ib_link_retire(rail->next_link);
		rail->next_link = NULL;
		rail->link_epoch = mail->hello.epoch;
		if (comm->unlinked)
			snprintf(answer.reason, sizeof(answer.reason),
				 "memory cannot be registered on %s", anynet_net.host);
		else
			rail->next_link = ib_link_accept(comm_device_at(comm, mail->fd),
							 &mail->hello, &answer);
	}
	send_answer(mail, &answer);
}

/* The link that has been proven, if the sender means it. */
static struct ib_link *take_link(struct anynet_rail *rail, const struct anynet_wire_hello *hello)
{
	struct ib_link *link = rail->next_link;

	rail->next_link = NULL;
	if (!link || (hello->qp.link && ib_link_is_with(link, &hello->qp)))
		return link;
	ib_link_retire(link);
	return NULL;
}

/* Takes mail->fd if it becomes the rail's connection. */
static void resume(struct anynet_comm *comm, struct rail_mail *mail)
{
	struct anynet_wire_hello answer;
	struct anynet_rail *rail;
	struct ib_link *link;

	begin_answer(comm, mail, &answer);
	rail = find_rail(comm, &mail->hello, &answer);
	if (!rail) {
		send_answer(mail, &answer);
		return;
	}
	if (rail_stands(rail))
		comm_sever(comm, rail, 0);
	rail->epoch = mail->hello.epoch;
	rail->ops->position(rail, &answer.frames, &answer.part);
	link = take_link(rail, &mail->hello);
	if (link)
		ib_link_describe(link, &answer);
	else if (mail->hello.qp.link)
		snprintf(answer.reason, sizeof(answer.reason), "%s has closed its end",
			 anynet_net.host);
	if (!send_answer(mail, &answer)) {
		ib_link_retire(link);
		return; /* the sender tries again */
	}
	rail->next_link = link;
	comm_rail_back(comm, rail, mail->fd, mail->hello.epoch, rail->home, answer.frames,
		       answer.part);
	mail->fd = -1;
}

static void answer(struct anynet_comm *comm, struct rail_mail *mail)
{
	if (mail->hello.kind == ANYNET_KIND_LINK)
		offer_link(comm, mail);
	else
		resume(comm, mail);
}

void recovery_take_posted(struct anynet_comm *comm)
{
	struct rail_mail *mail = take_all(comm);

	while (mail) {
		struct rail_mail *next = mail->next;

		answer(comm, mail);
		fd_hang_up(&mail->fd, -1);
		free(mail);
		mail = next;
	}
}
