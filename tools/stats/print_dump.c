/* SPDX-License-Identifier: Apache-2.0 */
/* All that pages tell, events as well, for people; see print.h. */
#include <string.h>

#include "print.h"
#include "words.h"

static void print_state(const struct connection *connection, const struct page *page, FILE *out)
{
	const struct anynet_stats_comm *comm = connection->comm;
	char text[WORDS_LINE];

	fprintf(out, "    %s%s, %s, %llu request%s", view_trouble_name(connection->trouble),
		comm->closing ? ", closing" : "", words_amount((double)comm->bytes),
		(unsigned long long)comm->requests, words_plural(comm->requests));
	if (comm->pending)
		fprintf(out, ", %u wait%s, the oldest for %.1f s", comm->pending,
			comm->pending == 1 ? "s" : "", words_seconds(connection->oldest_ms));
	if (comm->breaks)
		fprintf(out, ", broke %u, back %u", comm->breaks, comm->heals);
	if (comm->again)
		fprintf(out, ", %u frame%s sent again", comm->again, words_plural(comm->again));
	if (comm->stalls)
		fprintf(out, ", stalled %u", comm->stalls);
	fputc('\n', out);
	if (connection->stalled_ms)
		fprintf(out, "    nothing has moved for %.1f s: %s\n",
			words_seconds(connection->stalled_ms), comm->asked);
	if (comm->error)
		fprintf(out, "    failed: %s\n", strerror(-comm->error));
	for (int i = 0; i < ANYNET_STATS_RAILS; i++)
		if (comm->rails[i].kind)
			fprintf(out, "    %s\n", words_rail(connection, i, page, text));
}

static void print_events(const struct anynet_stats_events *events, const struct page *page,
			 FILE *out)
{
	uint64_t first = anynet_stats_first_event(events);
	char text[ANYNET_STATS_EVENT_BYTES], when[WORDS_TIME];

	fprintf(out, "    events");
	if (first)
		fprintf(out, ", the last %d of %llu", ANYNET_STATS_EVENTS,
			(unsigned long long)events->count);
	fputc('\n', out);
	for (uint64_t i = first; i < events->count; i++) {
		const struct anynet_stats_event *event = &events->events[i % ANYNET_STATS_EVENTS];

		fprintf(out, "      %s %s\n", words_time(page, event->at_ms, when),
			anynet_stats_event_text(event, text, sizeof(text)));
	}
}

static void print_connection(const struct connection *connection, const struct page *page,
			     FILE *out)
{
	const struct anynet_stats_comm *comm = connection->comm;

	fprintf(out, "  %s %s pid %u addr %s  %s -> %s\n", comm->is_send ? "to" : "from",
		comm->peer_host, comm->peer_pid, comm->peer_addr, comm->device, comm->peer_device);
	print_state(connection, page, out);
	if (page->events)
		print_events(&page->events[comm - page->comms], page, out);
}

static void print_process(const struct process *process, FILE *out)
{
	const struct page *page = process->page;
	const struct anynet_stats_process *head = &page->process;
	char when[WORDS_TIME];

	fprintf(out, "pid %u %s  host %s%s%s%s%s  user %u\n", head->pid, head->program, head->host,
		*head->job ? "  job " : "", head->job, *head->rank ? "  rank " : "", head->rank,
		(unsigned)page->uid);
	fprintf(out, "  anynet %s  net %s  NCCL %u  %u connection%s  since %s\n", head->plugin,
		head->net, head->nccl_version, head->comms, words_plural(head->comms),
		words_time(page, head->started_ms, when));
	if (page->ended)
		fprintf(out, "  the process is gone; it wrote this at %s\n",
			words_time(page, head->written_ms, when));
	else if (process->silent_ms)
		fprintf(out, "  has not said anything for %.1f s: it is stopped, or gets no time\n",
			words_seconds(process->silent_ms));
	for (size_t i = 0; i < process->count; i++)
		print_connection(&process->connections[i], page, out);
}

void print_dump(const struct view *view, FILE *out)
{
	for (size_t i = 0; i < view->count; i++)
		print_process(&view->processes[i], out);
}
