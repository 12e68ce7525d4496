/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver's side of resuming a stream. The accept engine hands over connections with RESUME or QP, and the next
 * thread that works on the comm answers them. Answering RESUME fences the stream: its old connection is closed before
 * the sender gets the position, so nothing can be placed through it afterwards.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/socket.h"
#include "path/ib/ib_setup.h"
#include "session/recovery.h"

struct stream_mail {
	struct stream_mail *next;
	int fd;
	bool proven; /* there is a secret: `auth` adds the proof to the answer */
	struct auth auth;
	struct anynet_wire_hello hello;
};

int recovery_post(struct anynet_comm *comm, int fd, const struct anynet_wire_hello *hello,
	      const struct auth *auth)
{
	struct stream_mail *mail = malloc(sizeof(*mail));

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

/* Takes all that wait, oldest first. */
static struct stream_mail *take_all(struct anynet_comm *comm)
{
	struct stream_mail *newest = atomic_exchange(&comm->session->mail, NULL), *oldest = NULL;

	while (newest) {
		struct stream_mail *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

/* Closes the connection, unless a stream has taken it over. Returns the next one. */
static struct stream_mail *done_with(struct stream_mail *mail)
{
	struct stream_mail *next = mail->next;

	fd_hang_up(&mail->fd, -1);
	free(mail);
	return next;
}

void recovery_drop_posted(struct anynet_comm *comm)
{
	struct stream_mail *mail = take_all(comm);

	while (mail)
		mail = done_with(mail);
}

static bool send_answer(struct stream_mail *mail, struct anynet_wire_hello *answer)
{
	size_t done = 0;

	if (mail->proven && auth_prove(&mail->auth, answer))
		return false;
	return !socket_send_some(mail->fd, answer, sizeof(*answer), &done);
}

/* Is this hello the newest of its stream? Each try has a larger epoch, modulo 2^32. */
static bool is_newest(const struct anynet_stream *stream, const struct anynet_wire_hello *hello)
{
	return (int32_t)(hello->epoch - stream->epoch) > 0 &&
	       (hello->kind != ANYNET_KIND_QP || (int32_t)(hello->epoch - stream->qp.epoch) > 0);
}

/* Begins the answer to a hello. Returns the stream that it may take over; NULL: answer->status says why not. */
static struct anynet_stream *begin_answer(const struct anynet_comm *comm,
					  const struct anynet_wire_hello *hello,
					  struct anynet_wire_hello *answer)
{
	struct anynet_stream *stream =
		hello->stream < comm->stream_count ? comm->streams[hello->stream] : NULL;

	hello_fill(answer, comm->dev, NULL, 0);
	hello_answer(answer, hello);
	/* A stream ends before the others if its BYE comes first. */
	if (comm_error(comm) || comm->peer_closed ||
	    (!stream && hello->stream < comm->stream_count)) {
		answer->status = ANYNET_STATUS_GONE;
		if (comm_error(comm))
			snprintf(answer->reason, sizeof(answer->reason), "%s",
				 error_text(-comm_error(comm)));
	} else if (!stream || !is_newest(stream, hello)) {
		answer->status = ANYNET_STATUS_STALE;
	}
	return answer->status ? NULL : stream;
}

/* QP hello: creates this end of a queue pair, which the sender then proves while the stream continues on its path. The
 * RESUME that may follow takes it. The connection is closed after the answer. */
static void offer_qp(struct anynet_stream *stream, struct stream_mail *mail,
		     struct anynet_wire_hello *answer)
{
	const struct anynet_comm *comm = stream->comm;
	const struct anynet_device *dev = comm_device_at(comm, mail->fd);

	ib_qp_retire(stream->qp.next);
	stream->qp.next = NULL;
	stream->qp.epoch = mail->hello.epoch;
	if (comm->tcp.only || (dev && !comm_may_use_nic(comm, dev)))
		snprintf(answer->reason, sizeof(answer->reason),
			 "memory cannot be registered on %s", anynet_net.host);
	else
		stream->qp.next = ib_qp_accept(dev, &mail->hello, answer);
	send_answer(mail, answer);
}

/* Takes the queue pair that was made for a QP hello, if this RESUME names it; else retires it. NULL = none. */
static struct ib_qp *take_qp(struct anynet_stream *stream, const struct anynet_wire_hello *hello)
{
	struct ib_qp *qp = stream->qp.next;

	stream->qp.next = NULL;
	if (!qp || (hello->qp.kind && ib_qp_is_with(qp, &hello->qp)))
		return qp;
	ib_qp_retire(qp);
	return NULL;
}

/* RESUME: sets mail->fd to -1 if the stream takes it over. */
static void resume(struct anynet_stream *stream, struct stream_mail *mail,
		   struct anynet_wire_hello *answer)
{
	struct anynet_comm *comm = stream->comm;
	struct stream_position position;
	struct ib_qp *qp;

	if (stream_stands(stream))
		comm_sever(comm, stream, 0);
	position = stream->ops->position(stream);
	answer->frames = position.frames;
	answer->part = position.part;
	qp = take_qp(stream, &mail->hello);
	if (qp)
		ib_qp_describe(qp, answer);
	else if (mail->hello.qp.kind)
		snprintf(answer->reason, sizeof(answer->reason), "%s has closed its end",
			 anynet_net.host);
	if (!send_answer(mail, answer)) {
		ib_qp_retire(qp);
		return; /* the sender tries again; the epoch stays, for a SUSPECT of the connection that it may still use */
	}
	stream->qp.next = qp;
	comm_stream_back(comm, stream, mail->fd, mail->hello.epoch,
			 comm_pair_at(comm, mail->fd, stream->home), position);
	mail->fd = -1;
}

void recovery_take_posted(struct anynet_comm *comm)
{
	for (struct stream_mail *mail = take_all(comm); mail; mail = done_with(mail)) {
		struct anynet_wire_hello answer;
		struct anynet_stream *stream = begin_answer(comm, &mail->hello, &answer);

		if (!stream)
			send_answer(mail, &answer);
		else if (mail->hello.kind == ANYNET_KIND_QP)
			offer_qp(stream, mail, &answer);
		else
			resume(stream, mail, &answer);
	}
}
