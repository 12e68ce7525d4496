/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the running jobs on this host; see live_facts.h. */
#include "live_facts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "index.h"
#include "live_cpu.h"
#include "tools/shared/memory.h"
#include "tools/shared/stats/view.h"

#define PATHS_MAX 32768 /* of this host; 4,032 are all to all over 64 hosts with 8 NICs each */
#define PACKET    1400  /* bytes of payload per packet, assumed */
#define ADDRESS   64

/* --- paths --- */

struct path {
	const struct anynet_stats_comm *comm; /* any comm of the path; identifies the peer */
	char device[24], address[ADDRESS];
	unsigned up, down, broke;
	uint64_t packets, resent, acked, busy_us, rtt_us;
};

struct paths {
	struct path *list;
	size_t count, left_out;
	json_t *index;
};

/* Extracts the remote address: b of "a:1 -> b:2". */
static void other_end(const struct anynet_stats_stream *stream, char *address)
{
	const char *arrow = strstr(stream->path, "-> "), *port;

	arrow = arrow ? arrow + 3 : "";
	port = strrchr(arrow, ':');
	snprintf(address, ADDRESS, "%.*s", (int)(port ? port - arrow : 0), arrow);
}

/* Returns NULL if there are too many paths. */
static struct path *path_of(struct paths *paths, const struct anynet_stats_comm *comm,
			    const struct anynet_stats_stream *stream)
{
	struct path p = { .comm = comm };
	size_t i;

	snprintf(p.device, sizeof(p.device), "%s", stream->device);
	other_end(stream, p.address);
	i = index_put(paths->index, paths->count, "%u\n%s\n%s\n%s", comm->peer_pid, comm->peer_host,
		      p.device, p.address);
	if (i == PATHS_MAX)
		return NULL;
	if (i == paths->count) {
		paths->list = memory_resize(paths->list, ++paths->count * sizeof(p));
		paths->list[i] = p;
	}
	return &paths->list[i];
}

static void add_stream(struct path *p, const struct anynet_stats_comm *comm, int i,
		       const struct anynet_stats_stream *old)
{
	const struct anynet_stats_stream *stream = &comm->streams[i];

	p->up += stream->state == ANYNET_STATS_UP;
	p->down += stream->state != ANYNET_STATS_UP;
	if (!old || !comm->is_send || stream->epoch != old->epoch || stream->bytes < old->bytes ||
	    stream->resent < old->resent)
		return;
	p->packets += (stream->bytes - old->bytes) / PACKET;
	p->resent += stream->resent - old->resent;
	if (stream->acked <= old->acked || stream->busy_us <= old->busy_us)
		return;
	p->acked += stream->acked - old->acked;
	p->busy_us += stream->busy_us - old->busy_us;
	if (stream->rtt_us > p->rtt_us)
		p->rtt_us = stream->rtt_us;
}

/* Whether the connection of old->epoch broke or was suspect. Otherwise the plugin only returned to the planned path. */
static bool was_given_up(const struct page *page, const struct anynet_stats_comm *comm,
			 const struct anynet_stats_stream *old)
{
	const struct anynet_stats_events *events =
		page->events ? &page->events[comm - page->comms] : NULL;

	for (uint64_t i = events ? anynet_stats_first_event(events) : 0;
	     events && i < events->count; i++) {
		const struct anynet_stats_event *e = &events->events[i % ANYNET_STATS_EVENTS];

		if (e->stream == old->index && e->epoch == old->epoch &&
		    (e->kind == ANYNET_EVENT_BROKE || e->kind == ANYNET_EVENT_SUSPECT))
			return true;
	}
	return false;
}

static void take_stream(struct paths *paths, const struct process *process,
			const struct anynet_stats_comm *comm,
			const struct anynet_stats_comm *before, int i)
{
	const struct anynet_stats_stream *now = &comm->streams[i];
	const struct anynet_stats_stream *old =
		before && before->streams[i].index == now->index ? &before->streams[i] : NULL;
	struct path *p = path_of(paths, comm, now);

	if (p)
		add_stream(p, comm, i, old);
	else
		paths->left_out++;
	if (!old || !old->kind || old->epoch == now->epoch ||
	    !was_given_up(process->page, comm, old))
		return;
	p = path_of(paths, comm, old);
	if (p)
		p->broke++;
}

static void gather_paths(struct paths *paths, const struct view *view,
			 const struct page_list *before)
{
	for (size_t i = 0; i < view->count; i++) {
		const struct process *process = &view->processes[i];

		for (size_t k = 0; k < process->count; k++) {
			const struct anynet_stats_comm *comm = process->connections[k].comm;
			const struct anynet_stats_comm *old =
				view_find(before, process->page, comm->id);

			for (int s = 0; s < ANYNET_STATS_STREAMS && comm->streams[s].kind; s++)
				take_stream(paths, process, comm, old, s);
		}
	}
}

static json_t *path_json(const struct path *p)
{
	return json_pack("{s:s, s:I, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "for_host",
			 p->comm->peer_host, "for_pid", (json_int_t)p->comm->peer_pid, "device",
			 p->device, "address", p->address, "up", (int)p->up, "down", (int)p->down,
			 "broke", (int)p->broke, "packets", (json_int_t)p->packets, "resent",
			 (json_int_t)p->resent, "acked", (json_int_t)p->acked, "busy_us",
			 (json_int_t)p->busy_us, "rtt_us", (json_int_t)p->rtt_us);
}

/* Adds to `left_out` the connections that are on no path. */
static json_t *paths_json(const struct view *view, const struct page_list *before, size_t *left_out)
{
	struct paths paths = { .index = json_object() };
	json_t *list = json_array();

	gather_paths(&paths, view, before);
	for (size_t i = 0; i < paths.count; i++)
		json_array_append_new(list, path_json(&paths.list[i]));
	json_decref(paths.index);
	*left_out += paths.left_out;
	return list;
}

/* --- all of it --- */

static json_t *processes_json(const struct view *view)
{
	json_t *list = json_array();

	for (size_t i = 0; i < view->count; i++) {
		const struct process *process = &view->processes[i];
		const struct anynet_stats_process *head = &process->page->process;
		struct live_cpu cpu = live_cpu_since(process->page);

		json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I}", "host",
						      head->host, "pid", (json_int_t)head->pid,
						      "rank", head->rank, "job", head->job,
						      "silent_ms", (json_int_t)process->silent_ms,
						      "ran_ms", (json_int_t)cpu.ran_ms, "waited_ms",
						      (json_int_t)cpu.waited_ms));
	}
	return list;
}

static json_t *waits_json(const struct view *view)
{
	json_t *list = json_array();

	for (size_t i = 0; i < view->wait_count; i++) {
		const struct wait *wait = &view->waits[i];
		const struct anynet_stats_process *head = &wait->process->page->process;

		json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:I, s:I}", "host",
						      head->host, "pid", (json_int_t)head->pid,
						      "for_host", wait->comm->peer_host, "for_pid",
						      (json_int_t)wait->comm->peer_pid, "ms",
						      (json_int_t)wait->ms));
	}
	return list;
}

/* Connections without a record in the statistics file. */
static size_t count_unrecorded(const struct page_list *pages)
{
	size_t count = 0;

	for (size_t i = 0; i < pages->count; i++) {
		if (pages->pages[i].process.comms > ANYNET_STATS_COMMS)
			count += pages->pages[i].process.comms - ANYNET_STATS_COMMS;
	}
	return count;
}

json_t *live_facts(const char *dir)
{
	static struct page_list before;
	struct page_list now;
	struct view view;
	size_t left_out;
	json_t *facts, *paths;

	if (page_read_all(&now, dir, &(struct page_wish){ .events = true }))
		return NULL;
	view_make(&view, &before, &now);
	left_out = now.left_out + count_unrecorded(&now);
	paths = paths_json(&view, &before, &left_out);
	facts = json_pack("{s:o, s:o, s:o, s:I}", "processes", processes_json(&view), "waits",
			  waits_json(&view), "paths", paths, "left_out", (json_int_t)left_out);
	view_free(&view);
	page_free_all(&before);
	before = now;
	return facts;
}
