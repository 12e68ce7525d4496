/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include "transports/session/listen.h"
#include "transports/session/registry.h"

void buffer_make(struct anynet_comm *comm, struct buffer *buffer, enum buffer_kind kind,
		 size_t bytes)
{
	*buffer = (struct buffer){ .bytes = bytes };
	if (kind == BUFFER_NONE)
		return;
	buffer->data = malloc(anynet_max(bytes, 1));
	must(buffer->data);
	memset(buffer->data, BLANK_BYTE, bytes);
	if (kind == BUFFER_REGISTERED)
		must(!anynet_reg_mr(comm, buffer->data, bytes, ANYNET_PTR_HOST, NULL, &buffer->mr));
}

void buffer_free(struct anynet_comm *comm, struct buffer *buffer)
{
	anynet_dereg_mr(comm, buffer->mr);
	free(buffer->data);
	memset(buffer, 0, sizeof(*buffer));
}

static void take_back(struct anynet_comm *comm, struct buffer *buffer)
{
	anynet_dereg_mr(comm, buffer->mr);
	buffer->mr = NULL;
	if (!comm_error(comm))
		return;
	free(buffer->data);
	buffer->data = NULL;
}

/* --- sends --- */

int sent_post(struct anynet_comm *comm, struct sent *sent, int tag)
{
	struct buffer *buffer = &sent->buffer;
	int ret =
		anynet_isend(comm, &(struct anynet_send){ buffer->data, buffer->bytes, tag, buffer->mr, NULL }, &sent->req);

	must(ret == comm_error(comm));
	must(!ret || !sent->req);
	if (!sent->req)
		buffer_free(comm, buffer);
	return ret;
}

bool sent_test(struct anynet_comm *comm, struct sent *sent)
{
	int done, got = -1, ret;

	if (!sent->req)
		return false;
	ret = anynet_test(sent->req, &done, &got);
	must(ret == comm_error(comm));
	if (!done)
		return false;
	must(!ret && (size_t)got == sent->buffer.bytes);
	sent->req = NULL;
	buffer_free(comm, &sent->buffer);
	must(!comm_error(comm)); /* nothing was in flight any more */
	return true;
}

void sent_take_back(struct anynet_comm *comm, struct sent *sent)
{
	if (sent->req)
		take_back(comm, &sent->buffer);
}

void sent_close(struct anynet_comm *comm)
{
	bool drains;

	comm_enter(comm);
	drains = drain_start(comm);
	for (int i = 0; i < 3 && drains; i++) {
		comm_turn(comm);
		drains = !drain_over(comm);
	}
	comm_leave(comm);
	registry_remove(comm);
	listen_destroy_comm(comm);
}

/* --- receives --- */

struct posted *posted_free_one(struct posted *all)
{
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		if (!all[i].req)
			return &all[i];
	return NULL;
}

void posted_add(struct anynet_comm *comm, struct posted *posted, enum buffer_kind kind,
		size_t bytes, int tag)
{
	buffer_make(comm, &posted->buffers[posted->n], kind, bytes);
	posted->tags[posted->n++] = tag;
}

int posted_post(struct anynet_comm *comm, struct posted *posted)
{
	void *data[ANYNET_RECVS_MAX];
	size_t bytes[ANYNET_RECVS_MAX];
	void *mrs[ANYNET_RECVS_MAX];
	int ret;

	for (int i = 0; i < posted->n; i++) {
		data[i] = posted->buffers[i].data;
		bytes[i] = posted->buffers[i].bytes;
		mrs[i] = posted->buffers[i].mr;
	}
	ret = anynet_irecv(comm, &(struct anynet_recv){ .n = posted->n, .data = data, .bytes = bytes, .tags = posted->tags, .mrs = mrs }, &posted->req);
	must(!ret || (comm_error(comm) && !posted->req));
	return ret;
}

static void check_rest_blank(const struct buffer *buffer, int got)
{
	must(got >= 0 && (size_t)got <= buffer->bytes);
	for (size_t i = (size_t)got; i < buffer->bytes; i++)
		must(buffer->data[i] == BLANK_BYTE);
}

bool posted_test(struct anynet_comm *comm, struct posted *posted, int *got)
{
	int done, ret;

	if (!posted->req)
		return false;
	ret = anynet_test(posted->req, &done, got);
	must(ret == comm_error(comm));
	must(!done || !ret);
	for (int i = 0; done && i < posted->n; i++)
		check_rest_blank(&posted->buffers[i], got[i]);
	return done;
}

void posted_check_written(const struct posted *posted, const int *got)
{
	for (int i = 0; i < posted->n; i++)
		must(!got[i] || !memchr(posted->buffers[i].data, NEVER_BYTE, (size_t)got[i]));
}

void posted_blank(struct anynet_comm *comm, struct posted *posted)
{
	for (int i = 0; i < posted->n; i++)
		buffer_free(comm, &posted->buffers[i]);
	memset(posted, 0, sizeof(*posted));
}

void posted_take_back(struct anynet_comm *comm, struct posted *posted)
{
	for (int i = 0; posted->req && i < posted->n; i++)
		take_back(comm, &posted->buffers[i]);
}

void posted_close(struct anynet_comm *comm, struct posted *all)
{
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		posted_take_back(comm, &all[i]);
	comm_destroy(comm);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		for (int k = 0; k < all[i].n; k++)
			free(all[i].buffers[k].data);
}
