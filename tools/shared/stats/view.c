/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a view: rates, order, and which process waits for which; see view.h. */
#include "view.h"

#include <stdlib.h>

#include "tools/shared/memory.h"

#define SILENT_MS (10 * ANYNET_STATS_LOOK_MS)

const char *view_trouble_name(enum trouble trouble)
{
	static const char *const names[] = { "fine", "flaps",  "path",  "stalled",
					     "cut",  "silent", "failed" };

	return names[trouble];
}

/* --- one connection --- */

static enum trouble trouble_of(const struct anynet_stats_comm *comm)
{
	unsigned streams = 0, good = 0, down = 0;

	for (int i = 0; i < ANYNET_STATS_STREAMS; i++) {
		streams += comm->streams[i].kind != 0;
		good += comm->streams[i].kind && comm->streams[i].state == ANYNET_STATS_UP;
		down += comm->streams[i].kind && comm->streams[i].state == ANYNET_STATS_DOWN;
	}
	if (comm->error)
		return TROUBLE_ERROR;
	if (streams && down == streams && streams >= comm->stream_count)
		return TROUBLE_CUT;
	if (comm->stalled_ms)
		return TROUBLE_STALL;
	if (good < streams)
		return TROUBLE_PATH;
	return comm->breaks ? TROUBLE_FLAPS : TROUBLE_NONE;
}

static const struct anynet_stats_comm *find_comm(const struct page *page, uint64_t id)
{
	for (size_t i = 0; page && i < page->count; i++)
		if (page->comms[i].id == id)
			return &page->comms[i];
	return NULL;
}

/* Finds the page of the same process. Compares the start time too, since pids are reused. */
static const struct page *find_page(const struct page_list *list, const struct page *page)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->pages[i].process.pid == page->process.pid &&
		    list->pages[i].process.started_ms == page->process.started_ms &&
		    list->pages[i].uid == page->uid)
			return &list->pages[i];
	return NULL;
}

const struct anynet_stats_comm *view_find(const struct page_list *list, const struct page *page,
					  uint64_t id)
{
	return find_comm(find_page(list, page), id);
}

static double rate(uint64_t before, uint64_t now, uint64_t ms)
{
	return ms && now >= before ? (double)(now - before) * 1000 / (double)ms : -1;
}

static void measure(struct connection *connection, const struct page *before,
		    const struct page *now)
{
	const struct anynet_stats_comm *comm = connection->comm;
	const struct anynet_stats_comm *old = find_comm(before, comm->id);
	uint64_t ms = old && now->process.written_ms > before->process.written_ms
			      ? now->process.written_ms - before->process.written_ms
			      : 0;

	connection->rate = old ? rate(old->bytes, comm->bytes, ms) : -1;
	for (int i = 0; i < ANYNET_STATS_STREAMS; i++)
		connection->stream_rates[i] =
			old && comm->is_send && old->streams[i].index == comm->streams[i].index
				? rate(old->streams[i].bytes, comm->streams[i].bytes, ms)
				: -1;
}

static int by_trouble(const void *a, const void *b)
{
	const struct connection *x = a, *y = b;

	if (x->trouble != y->trouble)
		return x->trouble < y->trouble ? 1 : -1;
	if (x->stalled_ms != y->stalled_ms)
		return x->stalled_ms < y->stalled_ms ? 1 : -1;
	return (x->comm->id > y->comm->id) - (x->comm->id < y->comm->id);
}

/* --- processes --- */

/* -1 = unknown rate. */
static void add_rate(double *sum, double rate)
{
	if (rate >= 0)
		*sum = rate + (*sum > 0 ? *sum : 0);
}

static void look_at_process(struct process *process, const struct page *before,
			    const struct page *page)
{
	uint64_t silent = page_age(page, page->process.written_ms);

	process->page = page;
	process->sent = process->received = -1;
	process->silent_ms = silent > SILENT_MS ? silent : 0;
	process->connections = memory_get(page->count * sizeof(struct connection));
	if (process->silent_ms)
		process->trouble = TROUBLE_SILENT;
	for (; process->count < page->count; process->count++) {
		struct connection *connection = &process->connections[process->count];

		connection->comm = &page->comms[process->count];
		connection->trouble = trouble_of(connection->comm);
		connection->oldest_ms = page_age(page, connection->comm->oldest_ms);
		connection->stalled_ms = page_age(page, connection->comm->stalled_ms);
		measure(connection, before, page);
		add_rate(connection->comm->is_send ? &process->sent : &process->received,
			 connection->rate);
		if (connection->trouble > process->trouble)
			process->trouble = connection->trouble;
	}
	qsort(process->connections, process->count, sizeof(struct connection), by_trouble);
}

static bool same_job(const struct page *a, const struct page *b)
{
	return a->uid == b->uid && !strcmp(a->process.job, b->process.job);
}

static void judge_jobs(struct view *view)
{
	for (size_t i = 0; i < view->count; i++)
		for (size_t k = 0; k < view->count; k++)
			if (same_job(view->processes[i].page, view->processes[k].page) &&
			    view->processes[k].trouble > view->processes[i].job_trouble)
				view->processes[i].job_trouble = view->processes[k].trouble;
}

static int by_job(const void *a, const void *b)
{
	const struct process *x = a, *y = b;
	int names = strcmp(x->page->process.job, y->page->process.job);

	if (x->job_trouble != y->job_trouble)
		return x->job_trouble < y->job_trouble ? 1 : -1;
	if (names || x->page->uid != y->page->uid)
		return names ? names : x->page->uid > y->page->uid ? 1 : -1;
	if (x->trouble != y->trouble)
		return x->trouble < y->trouble ? 1 : -1;
	return (x->page->process.pid > y->page->process.pid) -
	       (x->page->process.pid < y->page->process.pid);
}

/* --- who waits for whom --- */

static const struct process *find_peer(const struct view *view,
				       const struct anynet_stats_comm *comm)
{
	for (size_t i = 0; i < view->count; i++)
		if (view->processes[i].page->process.pid == comm->peer_pid &&
		    !strcmp(view->processes[i].page->process.host, comm->peer_host))
			return &view->processes[i];
	return NULL;
}

static bool same_peer(const struct anynet_stats_comm *a, const struct anynet_stats_comm *b)
{
	return a->peer_pid == b->peer_pid && !strcmp(a->peer_host, b->peer_host);
}

/* Connections are sorted by trouble before age, so the first one to a peer need not have waited longest. */
static void note_wait(struct view *view, size_t first, const struct process *process,
		      const struct connection *connection)
{
	struct wait *wait = NULL;

	for (size_t i = first; i < view->wait_count && !wait; i++)
		if (same_peer(view->waits[i].comm, connection->comm))
			wait = &view->waits[i];
	if (!wait) {
		wait = &view->waits[view->wait_count++];
		*wait = (struct wait){ .process = process,
				       .peer = find_peer(view, connection->comm),
				       .comm = connection->comm };
	}
	wait->connections++;
	if (connection->stalled_ms > wait->ms) {
		wait->ms = connection->stalled_ms;
		wait->comm = connection->comm;
	}
}

static int by_age(const void *a, const void *b)
{
	const struct wait *x = a, *y = b;

	return (x->ms < y->ms) - (x->ms > y->ms);
}

static void find_waits(struct view *view)
{
	for (size_t i = 0; i < view->count; i++) {
		const struct process *process = &view->processes[i];
		size_t first = view->wait_count;

		for (size_t k = 0; k < process->count; k++)
			if (process->connections[k].comm->stalled_ms &&
			    !process->connections[k].comm->error)
				note_wait(view, first, process, &process->connections[k]);
	}
	for (size_t i = 0; i < view->wait_count; i++)
		for (size_t k = 0; k < view->wait_count; k++)
			view->waits[i].peer_waits |= view->waits[i].peer == view->waits[k].process;
	qsort(view->waits, view->wait_count, sizeof(*view->waits), by_age);
}

/* --- all of it --- */

static void add_up(struct view *view)
{
	view->sent = view->received = view->count ? -1 : 0;
	for (size_t i = 0; i < view->count; i++) {
		const struct process *process = &view->processes[i];

		add_rate(&view->sent, process->sent);
		add_rate(&view->received, process->received);
		if (process->trouble > view->trouble)
			view->trouble = process->trouble;
	}
}

void view_make(struct view *view, const struct page_list *before, const struct page_list *now)
{
	*view = (struct view){ .mark = memory_mark() };
	view->processes = memory_get(now->count * sizeof(*view->processes));
	for (size_t i = 0; i < now->count; i++) {
		const struct page *page = &now->pages[i];

		look_at_process(&view->processes[view->count++], find_page(before, page), page);
		view->connections += page->count;
	}
	view->waits = memory_get(view->connections * sizeof(*view->waits));
	judge_jobs(view);
	qsort(view->processes, view->count, sizeof(*view->processes), by_job);
	find_waits(view);
	add_up(view);
}

void view_free(struct view *view)
{
	memory_release(view->mark);
	*view = (struct view){ 0 };
}
