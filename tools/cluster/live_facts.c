/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the running jobs on this host; see live_facts.h. */
#include "live_facts.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/shared/stats/view.h"

#define PATHS_MAX     512
#define PROCESSES_MAX 256
#define PACKET        1400 /* bytes of payload per packet, assumed */
#define ADDRESS       64

/* --- processors --- */

struct cpu {
	uint32_t pid;
	uint64_t ran, waited; /* ns, sums over all threads: on a processor, runnable without one */
};

/* Reads /proc/PID/task/TID/schedstat of all threads. Returns false if there is none. */
static bool read_cpu(uint32_t pid, struct cpu *cpu)
{
	char path[300];
	struct dirent *task;
	DIR *tasks;
	bool any = false;

	*cpu = (struct cpu){ .pid = pid };
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = opendir(path);
	while (tasks && (task = readdir(tasks))) {
		uint64_t ran, waited;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%u/task/%s/schedstat", pid, task->d_name);
		file = *task->d_name == '.' ? NULL : fopen(path, "re");
		if (file && fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2) {
			cpu->ran += ran;
			cpu->waited += waited;
			any = true;
		}
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return any;
}

/* Stores the milliseconds since the last call for this process, or -1 for both if they are not known. */
static void cpu_since(uint32_t pid, json_int_t *ran_ms, json_int_t *waited_ms)
{
	static struct cpu known[PROCESSES_MAX];
	static size_t count;
	struct cpu now, before;
	size_t i = 0;

	*ran_ms = *waited_ms = -1;
	if (!read_cpu(pid, &now))
		return;
	while (i < count && known[i].pid != pid)
		i++;
	if (i == PROCESSES_MAX)
		i = pid % PROCESSES_MAX; /* replaces another process */
	before = i < count ? known[i] : (struct cpu){ 0 };
	known[i] = now;
	count = i < count ? count : i + 1;
	if (before.pid != pid || now.ran < before.ran || now.waited < before.waited)
		return;
	*ran_ms = (json_int_t)((now.ran - before.ran) / 1000000);
	*waited_ms = (json_int_t)((now.waited - before.waited) / 1000000);
}

/* --- paths --- */

struct path {
	const struct process *process;
	const struct anynet_stats_comm *comm; /* any comm of the path; identifies the peer */
	char device[24], address[ADDRESS];
	unsigned up, down, broke;
	uint64_t packets, resent, acked, busy_us, rtt_us;
};

/* Extracts the remote address: b of "a:1 -> b:2". */
static void other_end(const struct anynet_stats_stream *stream, char *address)
{
	const char *arrow = strstr(stream->path, "-> "), *port;

	arrow = arrow ? arrow + 3 : "";
	port = strrchr(arrow, ':');
	snprintf(address, ADDRESS, "%.*s", (int)(port ? port - arrow : 0), arrow);
}

static struct path *path_of(struct path *paths, size_t *count, const struct process *process,
			    const struct anynet_stats_comm *comm,
			    const struct anynet_stats_stream *stream)
{
	char address[ADDRESS];

	other_end(stream, address);
	for (size_t i = 0; i < *count; i++) {
		struct path *p = &paths[i];

		if (p->process == process && p->comm->peer_pid == comm->peer_pid &&
		    !strcmp(p->comm->peer_host, comm->peer_host) &&
		    !strcmp(p->device, stream->device) && !strcmp(p->address, address))
			return p;
	}
	if (*count == PATHS_MAX)
		return NULL;
	paths[*count] = (struct path){ .process = process, .comm = comm };
	snprintf(paths[*count].device, sizeof(paths->device), "%s", stream->device);
	snprintf(paths[*count].address, sizeof(paths->address), "%s", address);
	return &paths[(*count)++];
}

/* Returns the same stream at the last call, or NULL. */
static const struct anynet_stats_stream *stream_before(const struct page_list *before,
						       const struct process *process,
						       const struct anynet_stats_comm *comm,
						       int stream)
{
	const struct anynet_stats_comm *old = view_find(before, process->page, comm->id);

	return old && old->streams[stream].index == comm->streams[stream].index
		       ? &old->streams[stream]
		       : NULL;
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

static void take_stream(struct path *paths, size_t *count, const struct process *process,
			const struct anynet_stats_comm *comm, const struct page_list *before, int i)
{
	const struct anynet_stats_stream *old = stream_before(before, process, comm, i);
	struct path *p = path_of(paths, count, process, comm, &comm->streams[i]);

	if (p)
		add_stream(p, comm, i, old);
	if (!old || !old->kind || old->epoch == comm->streams[i].epoch ||
	    !was_given_up(process->page, comm, old))
		return;
	p = path_of(paths, count, process, comm, old);
	if (p)
		p->broke++;
}

static size_t gather_paths(struct path *paths, const struct view *view,
			   const struct page_list *before)
{
	size_t count = 0;

	for (size_t i = 0; i < view->count; i++) {
		const struct process *process = &view->processes[i];

		for (size_t k = 0; k < process->count; k++) {
			const struct anynet_stats_comm *comm = process->connections[k].comm;

			for (int s = 0; s < ANYNET_STATS_STREAMS && comm->streams[s].kind; s++)
				take_stream(paths, &count, process, comm, before, s);
		}
	}
	return count;
}

static json_t *paths_json(const struct view *view, const struct page_list *before)
{
	static struct path paths[PATHS_MAX];
	json_t *list = json_array();
	size_t count = gather_paths(paths, view, before);

	for (size_t i = 0; i < count; i++) {
		const struct path *p = &paths[i];
		const struct anynet_stats_process *head = &p->process->page->process;

		json_array_append_new(
			list,
			json_pack(
				"{s:s, s:I, s:s, s:I, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}",
				"host", head->host, "pid", (json_int_t)head->pid, "for_host",
				p->comm->peer_host, "for_pid", (json_int_t)p->comm->peer_pid,
				"device", p->device, "address", p->address, "up", (int)p->up,
				"down", (int)p->down, "broke", (int)p->broke, "packets",
				(json_int_t)p->packets, "resent", (json_int_t)p->resent, "acked",
				(json_int_t)p->acked, "busy_us", (json_int_t)p->busy_us, "rtt_us",
				(json_int_t)p->rtt_us));
	}
	return list;
}

/* --- all of it --- */

static json_t *processes_json(const struct view *view)
{
	json_t *list = json_array();

	for (size_t i = 0; i < view->count && i < PROCESSES_MAX; i++) {
		const struct process *process = &view->processes[i];
		const struct anynet_stats_process *head = &process->page->process;

		json_int_t ran_ms, waited_ms;

		cpu_since(head->pid, &ran_ms, &waited_ms);
		json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I}", "host",
						      head->host, "pid", (json_int_t)head->pid,
						      "rank", head->rank, "job", head->job,
						      "silent_ms", (json_int_t)process->silent_ms,
						      "ran_ms", ran_ms, "waited_ms", waited_ms));
	}
	return list;
}

static json_t *waits_json(const struct view *view)
{
	json_t *list = json_array();

	for (size_t i = 0; i < view->wait_count && i < PROCESSES_MAX; i++) {
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

json_t *live_facts(const char *dir)
{
	static struct page_list before;
	struct page_list now;
	struct view view;
	json_t *facts;

	if (page_read_all(&now, dir, &(struct page_wish){ .events = true }))
		return NULL;
	view_make(&view, &before, &now);
	facts = json_pack("{s:o, s:o, s:o}", "processes", processes_json(&view), "waits",
			  waits_json(&view), "paths", paths_json(&view, &before));
	view_free(&view);
	page_free_all(&before);
	before = now;
	return facts;
}
