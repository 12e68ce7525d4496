/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"
#include "measure.h"

#include <nccl_net/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>

#define TEMPLATE_SHIFTS 8192 /* start positions of messages in the template */
#define TEMPLATE_BYTES  (MESSAGE_MAX + TEMPLATE_SHIFTS * 128u)
#define WRONG_TOLD_MAX  10

/* --- contents of message k --- */

static unsigned char *template;

void stream_template(void)
{
	if (template)
		return;
	template = aligned_alloc(128, TEMPLATE_BYTES);
	check(template);
	pattern_fill(template, TEMPLATE_BYTES, 77);
}

static uint64_t mixed(const struct stream *stream, uint64_t message, uint64_t what)
{
	uint64_t state = stream->plan->seed + what * 0x51ed270b7a1f39c5u;
	state ^= (stream->index + 1) * 0xd6e8feb86659fd93u;
	state += message * 0x2545f4914f6cdd1du;
	return random_next(&state);
}

/* Equally likely between 2^i and 2^(i+1) for every i; the ends of the range at times. */
static size_t size_of(const struct stream *stream, uint64_t message)
{
	if (stream->plan->bytes != SIZES_MIX)
		return stream->plan->bytes;
	uint64_t random = mixed(stream, message, 1);
	unsigned magnitude = (unsigned)(random % 24);
	if (magnitude == 23)
		return MESSAGE_MAX;
	if (!magnitude)
		return 0;
	size_t least = (size_t)1 << (magnitude - 1);
	return least + (random >> 16 & (least - 1));
}

static const unsigned char *content_of(const struct stream *stream, uint64_t message)
{
	return template + mixed(stream, message, 2) % TEMPLATE_SHIFTS * 128;
}

static unsigned tag_count(const struct stream *stream)
{
	return stream->plan->tags ? stream->plan->tags : 1;
}

static int tag_of(const struct stream *stream, uint64_t message)
{
	return (int)(message % tag_count(stream)) + 5;
}

/* The message for the receive posted as number `turn`: as many as there are tags are permuted. */
static uint64_t message_of_turn(const struct stream *stream, uint64_t turn)
{
	unsigned tags = tag_count(stream);
	uint64_t block = turn / tags;
	unsigned place = (unsigned)(turn % tags);
	uint64_t random = mixed(stream, block, 3);

	if (random >> 8 & 1)
		place = tags - 1 - place;
	return block * tags + (place + random) % tags;
}

static unsigned slot_of(const struct stream *stream, uint64_t message)
{
	return (unsigned)(message % stream->buffer_count);
}

/* --- set up --- */

void stream_init(struct stream *stream, const struct job_plan *plan, struct shared *shared,
		 int side, unsigned index, struct driver_net *net)
{
	*stream = (struct stream){
		.plan = plan,
		.shared = shared,
		.job = &shared->jobs[side],
		.state = &shared->jobs[side].streams[index],
		.net = net,
		.index = index,
		.is_send = plan_sender(plan, index) == side,
		.buffer_count = SLOTS * (plan->grouped ? plan->tags : 1),
	};
	size_t bytes = plan->bytes == SIZES_MIX ? MESSAGE_MAX : plan->bytes;
	for (unsigned i = 0; i < stream->buffer_count; i++)
		buffer_alloc(&stream->buffers[i], bytes);
	stream_template();
}

static int failed(struct stream *stream, int result)
{
	atomic_store(&stream->state->error_ns, real_ns());
	atomic_store(&stream->state->error, result);
	return -1;
}

static int register_buffers(struct stream *stream)
{
	for (unsigned i = 0; i < stream->buffer_count; i++) {
		struct buffer *buffer = &stream->buffers[i];
		int ret = driver_reg_mr(stream->net, stream->comm, buffer->data, buffer->bytes,
					ANYNET_PTR_HOST, &stream->mhandles[i]);
		if (ret)
			return failed(stream, ret);
	}
	return 1;
}

static int accept_step(struct stream *stream, void *ctx)
{
	int ret = 0;

	if (!stream->listener) {
		ret = driver_listen(stream->net, ctx, 0, stream->handle, &stream->listener);
		if (ret)
			return failed(stream, ret);
		memcpy(stream->shared->handles[stream->index], stream->handle,
		       sizeof(stream->handle));
		atomic_store(&stream->shared->listening[stream->index], true);
	}
	measured(stream->job, ret = driver_accept(stream->net, stream->listener, &stream->comm));
	if (ret)
		return failed(stream, ret);
	if (!stream->comm)
		return 0;
	check_ok(driver_close_listen(stream->net, stream->listener));
	stream->listener = NULL;
	return register_buffers(stream);
}

static int connect_step(struct stream *stream, void *ctx)
{
	static const unsigned char none[DRIVER_HANDLE_BYTES];
	int ret;

	if (!atomic_load(&stream->shared->listening[stream->index]))
		return 0;
	if (!memcmp(stream->handle, none, sizeof(none)))
		memcpy(stream->handle, stream->shared->handles[stream->index],
		       sizeof(stream->handle));
	measured(stream->job,
		 ret = driver_connect(stream->net, ctx, 0, stream->handle, &stream->comm));
	if (ret)
		return failed(stream, ret);
	return stream->comm ? register_buffers(stream) : 0;
}

int stream_connect(struct stream *stream, void *ctx)
{
	if (stream->comm)
		return 1;
	if (atomic_load(&stream->state->error))
		return -1;
	return stream->is_send ? connect_step(stream, ctx) : accept_step(stream, ctx);
}

/* --- posting --- */

static void prepare_send(struct stream *stream, uint64_t message, void **data)
{
	size_t bytes = size_of(stream, message);
	const unsigned char *content = content_of(stream, message);

	if (stream->plan->fast) {
		*data = (void *)(uintptr_t)content; /* only read */
		return;
	}
	*data = stream->buffers[slot_of(stream, message)].data;
	memcpy(*data, content, bytes);
}

static int post_send(struct stream *stream, struct request *request)
{
	void *data;
	int ret;

	prepare_send(stream, request->first, &data);
	measured(stream->job,
		 ret = driver_isend(stream->net, stream->comm,
				    &(struct driver_send){
					    data, size_of(stream, request->first),
					    tag_of(stream, request->first),
					    stream->mhandles[slot_of(stream, request->first)],
					    NULL },
				    &request->req));
	return ret;
}

/* The buffer is unchanged since it was blanked. */
static void check_blank(struct stream *stream, unsigned slot)
{
	const struct buffer *buffer = &stream->buffers[slot];
	static unsigned char blank[64 << 10];
	uint64_t wrong = 0;

	if (stream->plan->fast)
		return;
	memset(blank, BUFFER_BLANK, sizeof(blank));
	for (size_t at = 0; at < stream->used[slot]; at += sizeof(blank)) {
		size_t bytes = stream->used[slot] - at;
		bytes = bytes < sizeof(blank) ? bytes : sizeof(blank);
		if (!memcmp(buffer->data + at, blank, bytes))
			continue;
		for (size_t i = 0; i < bytes; i++)
			wrong += buffer->data[at + i] != BUFFER_BLANK;
	}
	stream->used[slot] = 0;
	if (!wrong)
		return;
	atomic_fetch_add(&stream->job->wrong_bytes, wrong);
	fprintf(stderr, "stream %u: %lu bytes written to a buffer whose receive was done\n",
		stream->index, (unsigned long)wrong);
}

/* Room is the size, or at times more. */
static size_t room_of(const struct stream *stream, uint64_t message)
{
	size_t bytes = size_of(stream, message), most = stream->buffers[0].bytes;
	uint64_t random = mixed(stream, message, 4);

	if (random % 4)
		return bytes;
	return bytes + (random >> 8) % (most - bytes + 1);
}

static int post_recv(struct stream *stream, struct request *request)
{
	void *data[TAGS_MAX], *mhandles[TAGS_MAX];
	size_t bytes[TAGS_MAX];
	int tags[TAGS_MAX], ret;

	for (int i = 0; i < request->n; i++) {
		uint64_t message = request->n > 1 ? request->first + (unsigned)i : request->first;
		unsigned slot = slot_of(stream, message);
		check_blank(stream, slot);
		data[i] = stream->buffers[slot].data;
		mhandles[i] = stream->mhandles[slot];
		bytes[i] = room_of(stream, message);
		tags[i] = tag_of(stream, message);
	}
	measured(stream->job, ret = driver_irecv(stream->net, stream->comm,
						 &(struct driver_recv){ request->n, data, bytes,
									tags, mhandles, NULL },
						 &request->req));
	return ret;
}

static bool may_post(const struct stream *stream)
{
	uint64_t limit = atomic_load_explicit(&stream->shared->limit, memory_order_acquire);

	if (stream->posted - stream->tested >= WINDOW ||
	    atomic_load_explicit(&stream->shared->hold, memory_order_acquire))
		return false;
	if (!stream->is_send && limit != LIMIT_NONE)
		limit += atomic_load(&stream->shared->ahead);
	return stream->posted_messages < limit;
}

/* A sender does not write to a buffer that a message still uses: the window is smaller than the number of buffers, and
 * requests complete in order. */
static bool post(struct stream *stream)
{
	struct request *request = &stream->requests[stream->posted % WINDOW];
	bool grouped = !stream->is_send && stream->plan->grouped;

	*request = (struct request){ .n = grouped ? (int)stream->plan->tags : 1 };
	request->first = stream->posted_messages;
	if (!stream->is_send && !grouped)
		request->first = message_of_turn(stream, stream->posted);
	int ret = stream->is_send ? post_send(stream, request) : post_recv(stream, request);
	if (ret) {
		failed(stream, ret);
		return false;
	}
	if (!request->req)
		return false;
	if (stream->posted++ == stream->tested)
		atomic_store(&stream->state->waits_since_ns, real_ns());
	stream->posted_messages += (unsigned)request->n;
	atomic_store(&stream->state->posted, stream->posted_messages);
	return true;
}

/* --- completion --- */

static void tell_wrong(const struct stream *stream, uint64_t message, size_t at, size_t bytes,
		       uint64_t wrong, unsigned char got)
{
	static int told;

	if (told++ < WRONG_TOLD_MAX)
		fprintf(stderr,
			"stream %u message %lu of %zu bytes: wrong from byte %zu on, %lu in all, first is 0x%02x\n",
			stream->index, (unsigned long)message, bytes, at, (unsigned long)wrong,
			got);
}

static void check_content(struct stream *stream, uint64_t message)
{
	size_t bytes = size_of(stream, message), at = 0;
	unsigned slot = slot_of(stream, message);
	const unsigned char *wanted = content_of(stream, message);
	unsigned char *got = stream->buffers[slot].data;
	uint64_t wrong = 0;

	if (memcmp(got, wanted, bytes)) {
		for (size_t i = 0; i < bytes; i++) {
			if (got[i] != wanted[i] && !wrong++)
				at = i;
		}
		atomic_fetch_add(&stream->job->wrong_bytes, wrong);
		tell_wrong(stream, message, at, bytes, wrong, got[at]);
	}
	if (stream->plan->fast)
		return;
	memset(got, BUFFER_BLANK, bytes);
	stream->used[slot] = stream->buffers[slot].bytes < bytes + 4096
				     ? stream->buffers[slot].bytes
				     : bytes + 4096; /* the bytes behind it, too */
	buffer_check_guards(&stream->buffers[slot]);
}

static void finish(struct stream *stream, const struct request *request, const int *sizes)
{
	uint64_t now = real_ns();
	uint64_t bytes = 0;

	for (int i = 0; i < request->n; i++) {
		uint64_t message = request->first + (request->n > 1 ? (unsigned)i : 0);
		size_t wanted = size_of(stream, message);
		bytes += wanted;
		if (stream->is_send) {
			/* Done: NCCL may reuse the buffer. */
			if (!stream->plan->fast)
				memset(stream->buffers[slot_of(stream, message)].data, 0x5a,
				       wanted);
			continue;
		}
		check_that((size_t)sizes[i] == wanted, "stream %u message %lu: size %d, not %zu",
			   stream->index, (unsigned long)message, sizes[i], wanted);
		check_content(stream, message);
	}
	uint64_t waited = now - atomic_load(&stream->state->waits_since_ns);
	if (waited > atomic_load(&stream->state->stall_ns))
		atomic_store(&stream->state->stall_ns, waited);
	stream->tested++;
	atomic_store(&stream->state->waits_since_ns, stream->tested == stream->posted ? 0 : now);
	atomic_store(&stream->state->done_ns, now);
	atomic_fetch_add(&stream->state->bytes, bytes);
	stream->done_messages += (unsigned)request->n;
	atomic_store_explicit(&stream->state->done, stream->done_messages, memory_order_release);
}

static bool test(struct stream *stream)
{
	struct request *oldest = &stream->requests[stream->tested % WINDOW];
	int done = 0, sizes[TAGS_MAX] = { 0 }, ret;

	measured(stream->job, ret = driver_test(stream->net, oldest->req, &done, sizes));
	if (ret) {
		failed(stream, ret);
		return false;
	}
	if (done)
		finish(stream, oldest, sizes);
	return done;
}

bool stream_turn(struct stream *stream)
{
	bool moved = false;

	if (atomic_load_explicit(&stream->state->error, memory_order_relaxed))
		return false;
	while (may_post(stream) && post(stream))
		moved = true;
	if (stream->tested < stream->posted && !atomic_load(&stream->state->error))
		moved = test(stream) || moved;
	return moved;
}

/* --- the end --- */

static void note_close(struct stream *stream, int ret, uint64_t began)
{
	uint64_t now = real_ns();

	check_int(ret, 0);
	atomic_store(&stream->job->closed_ns, now);
	if (now - began > atomic_load(&stream->job->close_ns))
		atomic_store(&stream->job->close_ns, now - began);
}

#define timed_close(stream, call)                     \
	do {                                          \
		uint64_t began_ = real_ns();          \
		int ret_;                             \
		measured((stream)->job, ret_ = call); \
		note_close(stream, ret_, began_);     \
	} while (0)

void stream_close(struct stream *stream)
{
	for (unsigned i = 0; i < stream->buffer_count; i++) {
		timed_close(stream,
			    driver_dereg_mr(stream->net, stream->comm, stream->mhandles[i]));
		/* From here on the memory is NCCL's, even if a receive was in flight. */
		if (!stream->is_send && !stream->plan->fast) {
			buffer_blank(&stream->buffers[i]);
			stream->used[i] = stream->buffers[i].bytes;
		}
	}
	timed_close(stream, stream->is_send ? driver_close_send(stream->net, stream->comm)
					    : driver_close_recv(stream->net, stream->comm));
	stream->comm = NULL;
	timed_close(stream, driver_close_listen(stream->net, stream->listener));
	stream->listener = NULL;
}

void stream_free(struct stream *stream)
{
	for (unsigned i = 0; i < stream->buffer_count; i++) {
		if (!stream->is_send)
			check_blank(stream, i);
		buffer_free(&stream->buffers[i]);
	}
}
