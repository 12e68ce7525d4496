/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a view as JSON; see print.h. */
#include <jansson.h>

#include "print.h"
#include "tools/shared/document.h"
#include "words.h"

/* null = unknown. Clamped, because a page may contain any byte count. */
static json_t *json_rate(double rate)
{
	return rate < 0 ? json_null() : json_integer(rate < 9e18 ? (json_int_t)rate : INT64_MAX);
}

/* Receivers do not count bytes per stream. */
static json_t *json_stream(const struct connection *connection, int i, const struct page *page)
{
	static const char *const states[] = { "", "up", "suspect", "down" };
	const struct anynet_stats_stream *stream = &connection->comm->streams[i];
	json_t *bytes =
		connection->comm->is_send ? json_integer((json_int_t)stream->bytes) : json_null();

	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "index", stream->index, "kind",
			 stream->kind == ANYNET_STATS_QP ? "queue pair" : "tcp", "state",
			 states[stream->state], "device", stream->device, "addresses", stream->path,
			 "bytes", bytes, "bytes_per_s", json_rate(connection->stream_rates[i]),
			 "frames", (json_int_t)stream->frames, "rtt_us", (json_int_t)stream->rtt_us,
			 "retransmitted_packets", (json_int_t)stream->resent,
			 "delivery_bytes_per_s", (json_int_t)stream->rate, "breaks",
			 (json_int_t)stream->breaks, "epoch", (json_int_t)stream->epoch, "down_ms",
			 (json_int_t)page_age(page, stream->down_ms));
}

static json_t *json_event(const struct anynet_stats_event *event, const struct page *page)
{
	static const char *const kinds[ANYNET_EVENT_KINDS] = {
		[ANYNET_EVENT_OPENED] = "opened",
		[ANYNET_EVENT_BROKE] = "broke",
		[ANYNET_EVENT_BACK] = "back",
		[ANYNET_EVENT_MOVED] = "moved",
		[ANYNET_EVENT_REPLAY] = "replay",
		[ANYNET_EVENT_SUSPECT] = "suspect",
		[ANYNET_EVENT_TRUSTED] = "trusted",
		[ANYNET_EVENT_CARRIER_DOWN] = "link_down",
		[ANYNET_EVENT_CARRIER_UP] = "link_up",
		[ANYNET_EVENT_STALLED] = "stalled",
		[ANYNET_EVENT_MOVING] = "moving",
		[ANYNET_EVENT_TCP_ONLY] = "tcp_only",
		[ANYNET_EVENT_PEER_CLOSED] = "peer_closed",
		[ANYNET_EVENT_LOST] = "lost",
		[ANYNET_EVENT_CANCELLED] = "cancelled",
		[ANYNET_EVENT_CLOSED] = "closed",
		[ANYNET_EVENT_FAILED] = "failed",
	};
	json_t *stream =
		event->stream == ANYNET_STATS_NO_STREAM ? json_null() : json_integer(event->stream);
	char text[ANYNET_STATS_EVENT_BYTES], when[WORDS_TIME];

	return json_pack("{s:s, s:I, s:s, s:o, s:I, s:i, s:I, s:s, s:s}", "time",
			 words_time(page, event->at_ms, when), "age_ms",
			 (json_int_t)page_age(page, event->at_ms), "kind", kinds[event->kind],
			 "path", stream, "epoch", (json_int_t)event->epoch, "error",
			 (int)event->error, "number", (json_int_t)event->number, "detail",
			 event->text, "text", anynet_stats_event_text(event, text, sizeof(text)));
}

static void add_events(json_t *connection, const struct anynet_stats_events *events,
		       const struct page *page)
{
	json_t *list = json_array();

	for (uint64_t i = anynet_stats_first_event(events); i < events->count; i++)
		json_array_append_new(list,
				      json_event(&events->events[i % ANYNET_STATS_EVENTS], page));
	json_object_set_new(connection, "events", list);
	json_object_set_new(connection, "event_count",
			    json_integer(events->count < INT64_MAX ? (json_int_t)events->count
								   : INT64_MAX));
}

static json_t *json_connection(const struct connection *connection, const struct page *page)
{
	const struct anynet_stats_comm *comm = connection->comm;
	json_t *streams = json_array(), *all;

	for (int i = 0; i < ANYNET_STATS_STREAMS; i++)
		if (comm->streams[i].kind)
			json_array_append_new(streams, json_stream(connection, i, page));
	all = json_pack(
		"{s:s, s:s, s:s, s:{s:s, s:I, s:s, s:s}, s:I, s:o, s:I, s:I, s:I, s:I, s:s, s:I, "
		"s:I, s:I, s:I, s:i, s:b, s:i, s:o}",
		"direction", comm->is_send ? "send" : "receive", "trouble",
		view_trouble_name(connection->trouble), "device", comm->device, "peer", "host",
		comm->peer_host, "pid", (json_int_t)comm->peer_pid, "device", comm->peer_device,
		"address", comm->peer_addr, "bytes", (json_int_t)comm->bytes, "bytes_per_s",
		json_rate(connection->rate), "requests", (json_int_t)comm->requests, "pending",
		(json_int_t)comm->pending, "oldest_ms", (json_int_t)connection->oldest_ms,
		"stalled_ms", (json_int_t)connection->stalled_ms, "asked", comm->asked, "breaks",
		(json_int_t)comm->breaks, "recoveries", (json_int_t)comm->recoveries,
		"retransmitted_frames", (json_int_t)comm->again, "stalls", (json_int_t)comm->stalls,
		"error", (int)comm->error, "closing", comm->closing != 0, "path_count",
		(int)comm->stream_count, "paths", streams);
	if (all && page->events)
		add_events(all, &page->events[comm - page->comms], page);
	return all;
}

static json_t *json_process(const struct process *process)
{
	const struct anynet_stats_process *head = &process->page->process;
	json_t *list = json_array();

	for (size_t i = 0; i < process->count; i++)
		json_array_append_new(list,
				      json_connection(&process->connections[i], process->page));
	return json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:b, s:I, s:o, "
			 "s:o, s:o}",
			 "pid", (json_int_t)head->pid, "uid", (json_int_t)process->page->uid,
			 "host", head->host, "program", head->program, "job", head->job, "rank",
			 head->rank, "net", head->net, "anynet", head->plugin, "nccl",
			 (json_int_t)head->nccl_version, "trouble",
			 view_trouble_name(process->trouble), "silent_ms",
			 (json_int_t)process->silent_ms, "ended", process->page->ended,
			 "open_connections", (json_int_t)head->comms, "sent_bytes_per_s",
			 json_rate(process->sent), "received_bytes_per_s",
			 json_rate(process->received), "connections", list);
}

static json_t *json_wait(const struct wait *wait)
{
	return json_pack("{s:I, s:s, s:I, s:I, s:I, s:s, s:b, s:b}", "pid",
			 (json_int_t)wait->process->page->process.pid, "for_host",
			 wait->comm->peer_host, "for_pid", (json_int_t)wait->comm->peer_pid, "ms",
			 (json_int_t)wait->ms, "connections", (json_int_t)wait->connections,
			 "asked", wait->comm->asked, "for_is_here", wait->peer != NULL,
			 "for_waits_too", wait->peer_waits);
}

void print_view_json(const struct view *view, const char *command, FILE *out)
{
	json_t *processes = json_array(), *waits = json_array(), *all;

	for (size_t i = 0; i < view->count; i++)
		json_array_append_new(processes, json_process(&view->processes[i]));
	for (size_t i = 0; i < view->wait_count; i++)
		json_array_append_new(waits, json_wait(&view->waits[i]));
	all = json_pack("{s:s, s:o, s:o}", "trouble", view_trouble_name(view->trouble), "processes",
			processes, "waits", waits);
	document_print(command, all, out);
}
