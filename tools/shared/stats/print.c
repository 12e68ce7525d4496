/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a view as text, or everything in it with events; see print.h. */
#include "print.h"

#include <stdarg.h>
#include <string.h>

#include "words.h"

#define INDENT 8 /* columns of continuation lines */

struct printer {
	FILE *out;
	bool colour;
	bool wraps; /* lines longer than `width` are continued, else truncated */
	int width;  /* columns; if it wraps, 0 = unlimited */
	int lines;  /* that may still be printed; -1 = unlimited */
	int indent; /* columns before the state of a connection */
};

static const char *colour_of(enum trouble trouble)
{
	return trouble >= TROUBLE_STALL ? "\033[31m" : trouble > TROUBLE_FLAPS ? "\033[33m" : "";
}

static void line(struct printer *printer, enum trouble trouble, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void line(struct printer *printer, enum trouble trouble, const char *fmt, ...)
{
	bool coloured = printer->colour && *colour_of(trouble);
	char text[2 * WORDS_LINE];
	va_list args;

	if (!printer->lines)
		return;
	printer->lines -= printer->lines > 0;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fputs(coloured ? colour_of(trouble) : "", printer->out);
	if (printer->wraps)
		terminal_wrap(printer->out, printer->width, 0, INDENT, text);
	else
		fprintf(printer->out, "%.*s\n", printer->width, text);
	fputs(coloured ? "\033[0m" : "", printer->out);
}

/* --- connections --- */

/* What it waits for, and what has happened to it: ", 2 pending, oldest 4.1 s, broke 1, recovered 1". */
static const char *history(const struct connection *connection, char *text)
{
	const struct anynet_stats_comm *comm = connection->comm;
	char pending[64] = "", flaps[64] = "", again[48] = "", stalls[48] = "";

	if (comm->pending)
		snprintf(pending, sizeof(pending), ", %u pending, oldest %.1f s", comm->pending,
			 words_seconds(connection->oldest_ms));
	if (comm->breaks)
		snprintf(flaps, sizeof(flaps), ", broke %u, recovered %u", comm->breaks,
			 comm->recoveries);
	if (comm->again)
		snprintf(again, sizeof(again), ", %u frame%s retransmitted", comm->again,
			 words_plural(comm->again));
	if (comm->stalls)
		snprintf(stalls, sizeof(stalls), ", stalled %u time%s", comm->stalls,
			 words_plural(comm->stalls));
	snprintf(text, WORDS_LINE, "%s%s%s%s%s", pending, flaps, again, stalls,
		 comm->closing ? ", closing" : "");
	return text;
}

/* Why it does not work, and its paths. */
static void print_state(struct printer *printer, const struct connection *connection,
			const struct page *page, bool streams)
{
	const struct anynet_stats_comm *comm = connection->comm;
	char text[WORDS_LINE];

	if (connection->stalled_ms)
		line(printer, connection->trouble, "%*sno progress for %.1f s: %s", printer->indent,
		     "", words_seconds(connection->stalled_ms), comm->asked);
	if (comm->error)
		line(printer, connection->trouble, "%*sfailed: %s", printer->indent, "",
		     strerror(-comm->error));
	for (int i = 0; i < ANYNET_STATS_STREAMS && streams; i++)
		if (comm->streams[i].kind)
			line(printer,
			     comm->streams[i].state == ANYNET_STATS_UP ? TROUBLE_NONE
								       : TROUBLE_PATH,
			     "%*s%s", printer->indent, "", words_stream(connection, i, page, text));
}

static void print_connection(struct printer *printer, const struct connection *connection,
			     const struct page *page, bool streams)
{
	const struct anynet_stats_comm *comm = connection->comm;
	bool troubled = connection->trouble > TROUBLE_FLAPS;
	char text[WORDS_LINE];

	line(printer, connection->trouble, "   %s %s %s pid %u  %s -> %s  %s/s, %s in all%s%s%s",
	     troubled ? "!" : " ", comm->is_send ? "to  " : "from", comm->peer_host, comm->peer_pid,
	     comm->device, comm->peer_device, words_amount(connection->rate),
	     words_amount((double)comm->bytes), troubled ? ", " : "",
	     troubled ? view_trouble_name(connection->trouble) : "", history(connection, text));
	print_state(printer, connection, page, troubled || streams);
}

/* --- processes --- */

static void print_silence(struct printer *printer, const struct process *process)
{
	if (process->silent_ms)
		line(printer, process->trouble,
		     "     ! no statistics for %.1f s: the process is stopped, or gets no CPU "
		     "time",
		     words_seconds(process->silent_ms));
}

static void print_process(struct printer *printer, const struct process *process, bool streams)
{
	const struct anynet_stats_process *head = &process->page->process;
	size_t open = head->comms > process->count ? head->comms : process->count;
	char rank[32] = "";

	if (*head->rank)
		snprintf(rank, sizeof(rank), "rank %s ", head->rank);
	line(printer, process->silent_ms ? process->trouble : TROUBLE_NONE,
	     "  %spid %u %s  net %s  %zu connection%s  %s/s out, %s/s in", rank, head->pid,
	     head->program, head->net, open, words_plural(open), words_amount(process->sent),
	     words_amount(process->received));
	print_silence(printer, process);
	for (size_t i = 0; i < process->count; i++)
		print_connection(printer, &process->connections[i], process->page, streams);
}

static void print_wait(struct printer *printer, const struct wait *wait)
{
	const struct anynet_stats_process *head = &wait->process->page->process;
	const char *says = !wait->peer             ? ""
			   : wait->peer->silent_ms ? "; that process is stopped, or gets no CPU "
						     "time"
			   : wait->peer_waits      ? "; that process waits as well"
						   : "; that process waits for no other";

	line(printer, TROUBLE_STALL, "  %s pid %u, for %s pid %u, %.1f s, over %u connection%s%s",
	     head->host, head->pid, wait->comm->peer_host, wait->comm->peer_pid,
	     words_seconds(wait->ms), wait->connections, words_plural(wait->connections), says);
}

static bool begins_job(const struct view *view, size_t i)
{
	const struct page *page = view->processes[i].page;

	return !i || page->uid != view->processes[i - 1].page->uid ||
	       strcmp(page->process.job, view->processes[i - 1].page->process.job) != 0;
}

void print_view(const struct view *view, const struct print_style *style, FILE *out)
{
	struct printer printer = { .out = out,
				   .colour = style->colour,
				   .width = style->width,
				   .lines = style->lines ? style->lines : -1,
				   .indent = 7 };

	line(&printer, view->trouble, "%zu process%s, %zu connection%s, %s/s out, %s/s in: %s",
	     view->count, view->count == 1 ? "" : "es", view->connections,
	     words_plural(view->connections), words_amount(view->sent),
	     words_amount(view->received), view_trouble_name(view->trouble));
	if (view->wait_count)
		line(&printer, TROUBLE_STALL, "who waits for whom");
	for (size_t i = 0; i < view->wait_count; i++)
		print_wait(&printer, &view->waits[i]);
	for (size_t i = 0; i < view->count; i++) {
		const struct page *page = view->processes[i].page;

		if (begins_job(view, i))
			line(&printer, TROUBLE_NONE, "%s%s, user %u",
			     *page->process.job ? "job " : "no job number", page->process.job,
			     (unsigned)page->uid);
		print_process(&printer, &view->processes[i], style->streams);
	}
}

/* --- everything, with events --- */

static void print_events(const struct anynet_stats_events *events, const struct page *page,
			 struct printer *printer)
{
	uint64_t first = anynet_stats_first_event(events);
	char text[ANYNET_STATS_EVENT_BYTES], when[WORDS_TIME];

	if (first)
		line(printer, TROUBLE_NONE, "    events, the last %d of %llu", ANYNET_STATS_EVENTS,
		     (unsigned long long)events->count);
	else
		line(printer, TROUBLE_NONE, "    events");
	for (uint64_t i = first; i < events->count; i++) {
		const struct anynet_stats_event *event = &events->events[i % ANYNET_STATS_EVENTS];

		line(printer, TROUBLE_NONE, "      %s %s", words_time(page, event->at_ms, when),
		     anynet_stats_event_text(event, text, sizeof(text)));
	}
}

static void dump_connection(const struct connection *connection, const struct page *page,
			    struct printer *printer)
{
	const struct anynet_stats_comm *comm = connection->comm;
	char text[WORDS_LINE];

	line(printer, TROUBLE_NONE, "  %s %s pid %u addr %s  %s -> %s",
	     comm->is_send ? "to" : "from", comm->peer_host, comm->peer_pid, comm->peer_addr,
	     comm->device, comm->peer_device);
	line(printer, connection->trouble, "    %s, %s, %llu request%s%s",
	     view_trouble_name(connection->trouble), words_amount((double)comm->bytes),
	     (unsigned long long)comm->requests, words_plural(comm->requests),
	     history(connection, text));
	print_state(printer, connection, page, true);
	if (page->events)
		print_events(&page->events[comm - page->comms], page, printer);
}

static void dump_process(const struct process *process, struct printer *printer)
{
	const struct page *page = process->page;
	const struct anynet_stats_process *head = &page->process;
	char when[WORDS_TIME];

	line(printer, TROUBLE_NONE, "pid %u %s  host %s%s%s%s%s  user %u", head->pid, head->program,
	     head->host, *head->job ? "  job " : "", head->job, *head->rank ? "  rank " : "",
	     head->rank, (unsigned)page->uid);
	line(printer, TROUBLE_NONE, "  anynet %s  net %s  NCCL %u  %u connection%s  since %s",
	     head->plugin, head->net, head->nccl_version, head->comms, words_plural(head->comms),
	     words_time(page, head->started_ms, when));
	if (page->ended)
		line(printer, TROUBLE_NONE, "  the process has ended; it wrote this at %s",
		     words_time(page, head->written_ms, when));
	else
		print_silence(printer, process);
	for (size_t i = 0; i < process->count; i++)
		dump_connection(&process->connections[i], page, printer);
}

void print_dump(const struct view *view, const struct terminal *terminal, FILE *out)
{
	struct printer printer = { .out = out,
				   .colour = terminal->colour,
				   .width = terminal_width(terminal, 0),
				   .wraps = true,
				   .lines = -1,
				   .indent = 4 };

	for (size_t i = 0; i < view->count; i++)
		dump_process(&view->processes[i], &printer);
}
