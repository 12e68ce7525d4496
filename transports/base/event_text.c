/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the flight recorder's events, for the log and for `anynet dump`. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/stats.h>

#include "base/libc_text.h"

static const char *plural(uint32_t number)
{
	return number == 1 ? "" : "s";
}

static const char *carrier_name(const struct anynet_stats_event *event)
{
	return event->carrier == ANYNET_STATS_QP ? "queue pair" : "TCP";
}

/* Events that concern one stream. */
static int stream_text(const struct anynet_stats_event *event, char *text, size_t bytes)
{
	const char *carrier = carrier_name(event);
	char seconds[SECONDS_TEXT_BYTES];

	switch (event->kind) {
	case ANYNET_EVENT_BROKE:
		return snprintf(text, bytes, "path %u (%s, epoch %u) broke: %s", event->stream,
				carrier, event->epoch, error_text(-event->error));
	case ANYNET_EVENT_BACK:
		return snprintf(text, bytes, "path %u (%s, epoch %u) recovered after %s s: %s",
				event->stream, carrier, event->epoch,
				seconds_text(event->number, 3, seconds), event->text);
	case ANYNET_EVENT_MOVED:
		return snprintf(text, bytes, "path %u (%s, epoch %u) has moved to %s",
				event->stream, carrier, event->epoch, event->text);
	case ANYNET_EVENT_REPLAY:
		return snprintf(text, bytes, "path %u: %u frame%s to retransmit", event->stream,
				event->number, plural(event->number));
	case ANYNET_EVENT_SUSPECT:
		return snprintf(text, bytes, "path %u suspect: %s", event->stream, event->text);
	default: /* ANYNET_EVENT_TRUSTED */
		return snprintf(text, bytes, "path %u no longer suspect", event->stream);
	}
}

static int comm_text(const struct anynet_stats_event *event, char *text, size_t bytes)
{
	char stream[32] = "", seconds[SECONDS_TEXT_BYTES];

	switch (event->kind) {
	case ANYNET_EVENT_OPENED:
		return snprintf(text, bytes, "opened with %u path%s, first %s %s",
				event->number, plural(event->number), carrier_name(event),
				event->text);
	case ANYNET_EVENT_CARRIER_DOWN:
		return snprintf(text, bytes, "dev %s: link down", event->text);
	case ANYNET_EVENT_CARRIER_UP:
		return snprintf(text, bytes, "dev %s: link up", event->text);
	case ANYNET_EVENT_STALLED:
		return snprintf(text, bytes, "stalled: no progress for %s s: %s",
				seconds_text(event->number, 1, seconds), event->text);
	case ANYNET_EVENT_MOVING:
		return snprintf(text, bytes, "progress again after %s s",
				seconds_text(event->number, 1, seconds));
	case ANYNET_EVENT_TCP_ONLY:
		return snprintf(text, bytes, "TCP only from now on: %s", event->text);
	case ANYNET_EVENT_PEER_CLOSED:
		return snprintf(text, bytes, "closed by the peer");
	case ANYNET_EVENT_LOST:
		return snprintf(text, bytes, "lost while idle: %s", event->text);
	case ANYNET_EVENT_CANCELLED:
		return snprintf(text, bytes, "cancelled: memory was deregistered while in use");
	case ANYNET_EVENT_CLOSED:
		return snprintf(text, bytes, "closed by NCCL, %u request%s pending", event->number,
				plural(event->number));
	case ANYNET_EVENT_FAILED:
		if (event->stream != ANYNET_STATS_NO_STREAM)
			snprintf(stream, sizeof(stream), " on path %u", event->stream);
		return snprintf(text, bytes, "failed%s with %u request%s pending: %s (%s)", stream,
				event->number, plural(event->number), event->text,
				error_text(-event->error));
	default:
		return snprintf(text, bytes, "event %u", event->kind);
	}
}

const char *anynet_stats_event_text(const struct anynet_stats_event *event, char *text,
				    size_t bytes)
{
	bool of_stream = event->kind >= ANYNET_EVENT_BROKE && event->kind <= ANYNET_EVENT_TRUSTED;

	(of_stream ? stream_text : comm_text)(event, text, bytes);
	return text;
}
