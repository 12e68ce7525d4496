/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: streams between ranks; see perf_stream.h. */
#include "perf_stream.h"

#include <string.h>

#include "tools/shared/memory.h"

static size_t step_bytes_of(const struct perf_stream *s, uint64_t step)
{
	size_t at = step * PERF_P2P_STEP;

	return s->bytes - at < PERF_P2P_STEP ? s->bytes - at : PERF_P2P_STEP;
}

static int send_step(struct perf_rank *r, struct perf_stream *s)
{
	struct link *l = s->link;
	uint64_t step = l->posted - s->first;
	int ret;

	if (link_has_room(l)) {
		size_t bytes = step_bytes_of(s, step);
		const char *data = s->relays ? r->output : r->input;
		const char *from = data + s->offset + step * PERF_P2P_STEP;

		memcpy(link_slot_data(l, l->posted), from, bytes);
		ret = link_post(l, bytes);
		if (ret)
			return ret;
	}
	return l->done < l->posted ? link_test(l) : 0;
}

static int recv_step(struct perf_rank *r, struct perf_stream *s)
{
	struct link *l = s->link;
	uint64_t done = l->done, step = done - s->first;
	int ret = link_step(l, PERF_P2P_STEP);

	if (l->done == done)
		return ret;
	if (link_expect(l, done, step_bytes_of(s, step)))
		return -GROUP_ERROR;
	memcpy((char *)r->output + s->offset + step * PERF_P2P_STEP, link_slot_data(l, done),
	       step_bytes_of(s, step));
	return ret;
}

void stream_start(struct perf_stream *s, size_t offset, size_t bytes)
{
	s->offset = offset;
	s->bytes = bytes;
	s->first = s->link->done;
	/* An empty run sends a message, too. */
	s->link->total = s->first + (bytes ? (bytes + PERF_P2P_STEP - 1) / PERF_P2P_STEP : 1);
}

static int stream_part(struct perf_rank *r, int i)
{
	struct perf_stream *s = &r->streams[i];

	if (s->link->done == s->link->total)
		return PERF_DONE;
	return s->link->is_send ? send_step(r, s) : recv_step(r, s);
}

int streams_run(struct perf_rank *r)
{
	return perf_drive(r, r->link_count, stream_part);
}

int streams_exchange(struct perf_rank *r, size_t count)
{
	const struct perf_pattern *p = r->opts->pattern;
	size_t bytes = count / (p->has_parts ? (size_t)r->group->size : 1) * PERF_ELEMENT;
	size_t mine = (size_t)r->group->rank * bytes;

	for (int i = 0; i < r->link_count; i++) {
		const struct link *l = &r->links[i];
		bool at_part = l->is_send ? p->sends_parts : p->keeps_parts;

		stream_start(&r->streams[i], at_part ? (size_t)l->peer * bytes : 0, bytes);
	}
	if (p->shape == PERF_TO_ALL || (p->shape != PERF_TO_NEXT && r->group->rank == PERF_ROOT))
		memcpy((char *)r->output + (p->keeps_parts ? mine : 0),
		       (const char *)r->input + (p->sends_parts ? mine : 0), bytes);
	return streams_run(r);
}

void stream_add(struct perf_rank *r, int peer, bool is_send)
{
	int i = r->link_count++, me = r->group->rank;

	r->links[i] = (struct link){
		.ep = &r->ep,
		.slot = &r->area->slots[is_send ? peer : me][is_send ? me : peer],
		.is_send = is_send,
		.peer = peer,
	};
	r->streams[i].link = &r->links[i];
}

void streams_allocate(struct perf_rank *r, int peers)
{
	r->links = memory_get(2 * (size_t)peers * sizeof(*r->links));
	r->streams = memory_get(2 * (size_t)peers * sizeof(*r->streams));
}
