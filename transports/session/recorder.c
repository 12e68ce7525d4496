/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder; see recorder.h. */
#include "session/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nccl_net/log.h>

#include "base/dump.h"
#include "base/libc_text.h"
#include "device/carrier.h"
#include "session/comm.h"

#define LINE_BYTES 512

static uint64_t clock_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void recorder_note(struct anynet_comm *comm, const struct anynet_stream *stream,
		   enum anynet_stats_event_kind kind, int err, uint64_t number, const char *text)
{
	struct anynet_stats_events *page = &comm->session->recorder.page;
	struct anynet_stats_event *event = &page->events[page->count++ % ANYNET_STATS_EVENTS];

	memset(event, 0, sizeof(*event));
	event->at_ms = clock_of(CLOCK_MONOTONIC);
	event->kind = (uint8_t)kind;
	event->error = err;
	event->number = (uint32_t)anynet_min(number, (uint64_t)UINT32_MAX);
	event->stream = stream ? stream->index : ANYNET_STATS_NO_STREAM;
	if (stream) {
		event->epoch = stream->epoch;
		event->carrier = stream->qp.carries ? ANYNET_STATS_QP : ANYNET_STATS_TCP;
	}
	if (text)
		memcpy(event->text, text, strnlen(text, sizeof(event->text) - 1));
}

void recorder_note_carriers(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->session->paths.own_count; i++) {
		const struct anynet_device *dev = comm->session->paths.own[i];
		bool down = carrier_is_lost(dev);
		uint64_t bit = 1ull << i;

		if (!(comm->session->recorder.links_down & bit) == !down)
			continue;
		comm->session->recorder.links_down ^= bit;
		recorder_note(comm, NULL, down ? ANYNET_EVENT_CARRIER_DOWN : ANYNET_EVENT_CARRIER_UP, 0,
			      0, dev->name);
	}
}

/* --- when it fails --- */

static void put_line(const struct anynet_comm *comm, const struct anynet_stats_event *event,
		     uint64_t clock_offset_ms, char line[LINE_BYTES])
{
	char text[ANYNET_STATS_EVENT_BYTES], at[UTC_TEXT_BYTES];

	snprintf(line, LINE_BYTES, "%s %s peer %s pid %u dev %s: %s",
		 utc_text(clock_offset_ms + event->at_ms, at), comm_direction(comm),
		 comm->peer.host, comm->peer.pid, comm->dev->name,
		 anynet_stats_event_text(event, text, sizeof(text)));
}

void recorder_tell(const struct anynet_comm *comm)
{
	const struct anynet_stats_events *page = &comm->session->recorder.page;
	uint64_t offset_ms = clock_of(CLOCK_REALTIME) - clock_of(CLOCK_MONOTONIC);
	/* Not on the stack: the calling thread's may be small. */
	size_t room = ANYNET_STATS_EVENTS * LINE_BYTES + 1, used = 0;
	char *text = *anynet_net.cfg->dump_dir ? malloc(room) : NULL;

	for (uint64_t i = anynet_stats_first_event(page); i < page->count; i++) {
		const struct anynet_stats_event *event = &page->events[i % ANYNET_STATS_EVENTS];
		char line[LINE_BYTES];

		put_line(comm, event, offset_ms, line);
		/* These two are in the log anyway. */
		if (event->kind != ANYNET_EVENT_OPENED && event->kind != ANYNET_EVENT_FAILED)
			anynet_info("before that: %s", line);
		if (text)
			used += (size_t)snprintf(text + used, room - used, "%s\n", line);
	}
	if (text)
		dump_append(text, used);
}
