/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a view as text; see print.h. */
#include "print.h"

#include <stdarg.h>
#include <string.h>

#include "words.h"

struct printer {
	const struct print_style *style;
	FILE *out;
	int lines;
};

const char *print_colour(enum trouble trouble)
{
	return trouble >= TROUBLE_STALL ? "\033[31m" : trouble > TROUBLE_FLAPS ? "\033[33m" : "";
}

static void line(struct printer *printer, enum trouble trouble, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void line(struct printer *printer, enum trouble trouble, const char *fmt, ...)
{
	const char *colour = print_colour(trouble);
	bool coloured = printer->style->colour && *colour;
	char text[WORDS_LINE];
	va_list args;

	if (printer->style->lines && printer->lines >= printer->style->lines)
		return;
	printer->lines++;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (strlen(text) > (size_t)printer->style->width)
		text[printer->style->width] = 0;
	fprintf(printer->out, "%s%s%s\n", coloured ? colour : "", text, coloured ? "\033[0m" : "");
}

/* --- connections --- */

static void print_connection(struct printer *printer, const struct connection *connection,
			     const struct page *page)
{
	const struct anynet_stats_comm *comm = connection->comm;
	bool troubled = connection->trouble > TROUBLE_FLAPS;
	char waits[64] = "", flaps[96] = "", again[48] = "", stalls[48] = "", trouble[32] = "";
	char stream[WORDS_LINE];

	if (comm->pending)
		snprintf(waits, sizeof(waits), "  %u pending, oldest %.1f s", comm->pending,
			 words_seconds(connection->oldest_ms));
	if (comm->breaks)
		snprintf(flaps, sizeof(flaps), "  broke %u, recovered %u", comm->breaks,
			 comm->recoveries);
	if (comm->again)
		snprintf(again, sizeof(again), "  %u frame%s retransmitted", comm->again,
			 words_plural(comm->again));
	if (comm->stalls)
		snprintf(stalls, sizeof(stalls), "  stalled %u time%s", comm->stalls,
			 words_plural(comm->stalls));
	if (troubled)
		snprintf(trouble, sizeof(trouble), "  %s", view_trouble_name(connection->trouble));
	line(printer, connection->trouble,
	     "   %s %s %s pid %u  %s -> %s  %s/s, %s in all%s%s%s%s%s%s", troubled ? "!" : " ",
	     comm->is_send ? "to  " : "from", comm->peer_host, comm->peer_pid, comm->device,
	     comm->peer_device, words_amount(connection->rate), words_amount((double)comm->bytes),
	     trouble, waits, flaps, again, stalls, comm->closing ? "  closing" : "");
	if (connection->stalled_ms)
		line(printer, connection->trouble, "       no progress for %.1f s: %s",
		     words_seconds(connection->stalled_ms), comm->asked);
	if (comm->error)
		line(printer, connection->trouble, "       failed: %s", strerror(-comm->error));
	for (int i = 0; i < ANYNET_STATS_STREAMS; i++)
		if (comm->streams[i].kind && (troubled || printer->style->streams))
			line(printer,
			     comm->streams[i].state == ANYNET_STATS_UP ? TROUBLE_NONE
								       : TROUBLE_PATH,
			     "       %s", words_stream(connection, i, page, stream));
}

/* --- processes --- */

static void print_process(struct printer *printer, const struct process *process)
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
	if (process->silent_ms)
		line(printer, process->trouble,
		     "     ! no statistics for %.1f s: the process is stopped, or gets no CPU "
		     "time",
		     words_seconds(process->silent_ms));
	for (size_t i = 0; i < process->count; i++)
		print_connection(printer, &process->connections[i], process->page);
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
	struct printer printer = { .style = style, .out = out };

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
		print_process(&printer, &view->processes[i]);
	}
}
