/* SPDX-License-Identifier: Apache-2.0 */
/* Prints everything in the pages as text, with events; see print.h. */
#include <stdarg.h>
#include <string.h>

#include "print.h"
#include "words.h"

#define INDENT 8 /* columns of continuation lines */

struct paper {
	const struct terminal *terminal;
	FILE *out;
};

static void line(const struct paper *paper, enum trouble trouble, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void line(const struct paper *paper, enum trouble trouble, const char *fmt, ...)
{
	bool coloured = paper->terminal->colour && *print_colour(trouble);
	char text[2 * WORDS_LINE];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fputs(coloured ? print_colour(trouble) : "", paper->out);
	terminal_wrap(paper->out, terminal_width(paper->terminal, 0), 0, INDENT, text);
	fputs(coloured ? "\033[0m" : "", paper->out);
}

static void print_state(const struct connection *connection, const struct page *page,
			const struct paper *paper)
{
	const struct anynet_stats_comm *comm = connection->comm;
	char waits[64] = "", flaps[64] = "", again[48] = "", stalls[48] = "", text[WORDS_LINE];

	if (comm->pending)
		snprintf(waits, sizeof(waits), ", %u wait%s, the oldest for %.1f s", comm->pending,
			 comm->pending == 1 ? "s" : "", words_seconds(connection->oldest_ms));
	if (comm->breaks)
		snprintf(flaps, sizeof(flaps), ", broke %u, recovered %u", comm->breaks,
			 comm->recoveries);
	if (comm->again)
		snprintf(again, sizeof(again), ", %u frame%s retransmitted", comm->again,
			 words_plural(comm->again));
	if (comm->stalls)
		snprintf(stalls, sizeof(stalls), ", stalled %u", comm->stalls);
	line(paper, connection->trouble, "    %s%s, %s, %llu request%s%s%s%s%s",
	     view_trouble_name(connection->trouble), comm->closing ? ", closing" : "",
	     words_amount((double)comm->bytes), (unsigned long long)comm->requests,
	     words_plural(comm->requests), waits, flaps, again, stalls);
	if (connection->stalled_ms)
		line(paper, connection->trouble, "    no progress for %.1f s: %s",
		     words_seconds(connection->stalled_ms), comm->asked);
	if (comm->error)
		line(paper, connection->trouble, "    failed: %s", strerror(-comm->error));
	for (int i = 0; i < ANYNET_STATS_STREAMS; i++)
		if (comm->streams[i].kind)
			line(paper,
			     comm->streams[i].state == ANYNET_STATS_UP ? TROUBLE_NONE
								       : TROUBLE_PATH,
			     "    %s", words_stream(connection, i, page, text));
}

static void print_events(const struct anynet_stats_events *events, const struct page *page,
			 const struct paper *paper)
{
	uint64_t first = anynet_stats_first_event(events);
	char text[ANYNET_STATS_EVENT_BYTES], when[WORDS_TIME];

	if (first)
		line(paper, TROUBLE_NONE, "    events, the last %d of %llu", ANYNET_STATS_EVENTS,
		     (unsigned long long)events->count);
	else
		line(paper, TROUBLE_NONE, "    events");
	for (uint64_t i = first; i < events->count; i++) {
		const struct anynet_stats_event *event = &events->events[i % ANYNET_STATS_EVENTS];

		line(paper, TROUBLE_NONE, "      %s %s", words_time(page, event->at_ms, when),
		     anynet_stats_event_text(event, text, sizeof(text)));
	}
}

static void print_connection(const struct connection *connection, const struct page *page,
			     const struct paper *paper)
{
	const struct anynet_stats_comm *comm = connection->comm;

	line(paper, TROUBLE_NONE, "  %s %s pid %u addr %s  %s -> %s", comm->is_send ? "to" : "from",
	     comm->peer_host, comm->peer_pid, comm->peer_addr, comm->device, comm->peer_device);
	print_state(connection, page, paper);
	if (page->events)
		print_events(&page->events[comm - page->comms], page, paper);
}

static void print_process(const struct process *process, const struct paper *paper)
{
	const struct page *page = process->page;
	const struct anynet_stats_process *head = &page->process;
	char when[WORDS_TIME];

	line(paper, TROUBLE_NONE, "pid %u %s  host %s%s%s%s%s  user %u", head->pid, head->program,
	     head->host, *head->job ? "  job " : "", head->job, *head->rank ? "  rank " : "",
	     head->rank, (unsigned)page->uid);
	line(paper, TROUBLE_NONE, "  anynet %s  net %s  NCCL %u  %u connection%s  since %s",
	     head->plugin, head->net, head->nccl_version, head->comms, words_plural(head->comms),
	     words_time(page, head->started_ms, when));
	if (page->ended)
		line(paper, TROUBLE_NONE, "  the process has ended; it wrote this at %s",
		     words_time(page, head->written_ms, when));
	else if (process->silent_ms)
		line(paper, process->trouble,
		     "  no statistics for %.1f s: the process is stopped, or gets no CPU time",
		     words_seconds(process->silent_ms));
	for (size_t i = 0; i < process->count; i++)
		print_connection(&process->connections[i], page, paper);
}

void print_dump(const struct view *view, const struct terminal *terminal, FILE *out)
{
	const struct paper paper = { terminal, out };

	for (size_t i = 0; i < view->count; i++)
		print_process(&view->processes[i], &paper);
}
