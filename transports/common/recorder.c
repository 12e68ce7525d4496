/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to a comm; see recorder.h. */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "comm_internal.h"
#include "links.h"

#define LINE_BYTES 512

struct recorder *recorder_create(void)
{
	return calloc(1, sizeof(struct recorder));
}

static uint64_t clock_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint8_t carrier_of(const struct anynet_comm *comm, const struct anynet_rail *rail)
{
	return comm_is_ib(comm) && ib_rail_is_linked(rail) ? ANYNET_STATS_QP : ANYNET_STATS_TCP;
}

void recorder_note(struct anynet_comm *comm, const struct anynet_rail *rail,
		   enum anynet_stats_event_kind kind, int err, uint64_t number, const char *text)
{
	struct anynet_stats_events *page = &comm->recorder->page;
	struct anynet_stats_event *event = &page->events[page->count++ % ANYNET_STATS_EVENTS];

	memset(event, 0, sizeof(*event));
	event->at_ms = clock_of(CLOCK_MONOTONIC);
	event->kind = (uint8_t)kind;
	event->error = err;
	event->number = (uint32_t)anynet_min(number, (uint64_t)UINT32_MAX);
	event->rail = rail ? rail->index : ANYNET_STATS_NO_RAIL;
	if (rail) {
		event->epoch = rail->epoch;
		event->carrier = carrier_of(comm, rail);
	}
	if (text)
		memcpy(event->text, text, strnlen(text, sizeof(event->text) - 1));
}

void recorder_note_links(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->paths.own_count; i++) {
		const struct anynet_device *dev = comm->paths.own[i];
		bool down = link_is_down(dev) || link_port_is_down(dev);
		uint64_t bit = 1ull << i;

		if (!(comm->recorder->links_down & bit) == !down)
			continue;
		comm->recorder->links_down ^= bit;
		recorder_note(comm, NULL, down ? ANYNET_EVENT_LINK_DOWN : ANYNET_EVENT_LINK_UP, 0,
			      0, dev->name);
	}
}

/* --- when it fails --- */

static void put_line(const struct anynet_comm *comm, const struct anynet_stats_event *event,
		     uint64_t clock_offset_ms, char line[LINE_BYTES])
{
	char text[ANYNET_STATS_EVENT_BYTES];
	uint64_t at_ms = clock_offset_ms + event->at_ms;
	time_t seconds = (time_t)(at_ms / 1000);
	struct tm tm = { 0 };

	gmtime_r(&seconds, &tm);
	snprintf(line, LINE_BYTES,
		 "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ %s peer %s pid %u dev %s: %s",
		 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		 (unsigned)(at_ms % 1000), comm->is_send ? "send to" : "receive from",
		 comm->peer.host, comm->peer.pid, comm->dev->name,
		 anynet_stats_event_text(event, text, sizeof(text)));
}

/* In a directory of all users, another one may have put something in its place. */
static bool is_own_file(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1;
}

/* Of this process: "anynet-dump.HOST.PID" in the directory. -1 = it cannot be opened, which is said. */
static int open_file(void)
{
	char path[400];
	size_t dir = strlen(anynet_net.cfg->dump_dir);
	int fd;

	snprintf(path, sizeof(path), "%s/anynet-dump.%s.%u", anynet_net.cfg->dump_dir,
		 anynet_net.host, anynet_net.pid);
	for (char *at = path + dir + 1; *at; at++)
		if (*at == '/')
			*at = '_';
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd >= 0 && is_own_file(fd))
		return fd;
	anynet_info("what happened to the connection cannot be written to %s: %s", path,
		    fd < 0 ? strerror(errno) : "it is not a file of this user's alone");
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Lines of processes or threads that fail at the same time do not mix: in one piece. */
static void write_file(const char *text, size_t bytes)
{
	int fd = open_file();

	if (fd < 0)
		return;
	if (write(fd, text, bytes) != (ssize_t)bytes)
		anynet_info("what happened to the connection cannot be written: %s",
			    strerror(errno));
	close(fd);
}

void recorder_tell(const struct anynet_comm *comm)
{
	const struct anynet_stats_events *page = &comm->recorder->page;
	uint64_t offset_ms = clock_of(CLOCK_REALTIME) - clock_of(CLOCK_MONOTONIC);
	char text[ANYNET_STATS_EVENTS * LINE_BYTES + 1];
	size_t used = 0;

	for (uint64_t i = anynet_stats_first_event(page); i < page->count; i++) {
		const struct anynet_stats_event *event = &page->events[i % ANYNET_STATS_EVENTS];
		char line[LINE_BYTES];

		put_line(comm, event, offset_ms, line);
		/* That it was opened and has failed is in the log anyway. */
		if (event->kind != ANYNET_EVENT_OPENED && event->kind != ANYNET_EVENT_FAILED)
			anynet_info("before that: %s", line);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", line);
	}
	if (*anynet_net.cfg->dump_dir)
		write_file(text, used);
}
