/* SPDX-License-Identifier: Apache-2.0 */
/* Reads statistics files; see page.h. */
#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/shared/now.h"

#define ERRNO_MAX  4095 /* largest errno value of the kernel */
#define READ_TRIES 10   /* reads of a half-written record */
#define PAUSE_NS   50000

uint64_t page_age(const struct page *page, uint64_t since_ms)
{
	return since_ms && since_ms < page->read_ms ? page->read_ms - since_ms : 0;
}

/* --- records --- */

static void clean(char *text, size_t room)
{
	text[room - 1] = 0;
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}
#define CLEAN(field) clean(field, sizeof(field))

/* Check a record and make its texts printable. False = half written or invalid. */
static bool check_process(struct anynet_stats_process *process)
{
	if (process->sum != anynet_stats_sum(process, sizeof(*process)) ||
	    process->magic != ANYNET_STATS_MAGIC || process->version != ANYNET_STATS_VERSION ||
	    process->comm_bytes != sizeof(struct anynet_stats_comm) ||
	    process->slots > ANYNET_STATS_COMMS)
		return false;
	CLEAN(process->plugin);
	CLEAN(process->net);
	CLEAN(process->host);
	CLEAN(process->program);
	CLEAN(process->job);
	CLEAN(process->rank);
	return true;
}

static bool check_stream(struct anynet_stats_stream *stream)
{
	CLEAN(stream->device);
	CLEAN(stream->path);
	return !stream->kind ||
	       (stream->kind <= ANYNET_STATS_QP && stream->state >= ANYNET_STATS_UP &&
		stream->state <= ANYNET_STATS_DOWN);
}

static bool check_comm(struct anynet_stats_comm *comm)
{
	if (comm->sum != anynet_stats_sum(comm, sizeof(*comm)) || !comm->id || comm->is_send > 1 ||
	    comm->error > 0 || comm->error < -ERRNO_MAX)
		return false;
	CLEAN(comm->peer_host);
	CLEAN(comm->peer_device);
	CLEAN(comm->peer_addr);
	CLEAN(comm->device);
	CLEAN(comm->asked);
	for (int i = 0; i < ANYNET_STATS_STREAMS; i++)
		if (!check_stream(&comm->streams[i]))
			return false;
	return true;
}

static bool check_events(struct anynet_stats_events *events)
{
	uint64_t end = events->count < ANYNET_STATS_EVENTS ? events->count : ANYNET_STATS_EVENTS;

	if (events->sum != anynet_stats_sum(events, sizeof(*events)) || !events->id)
		return false;
	for (uint64_t i = 0; i < end; i++) {
		struct anynet_stats_event *event = &events->events[i];

		CLEAN(event->text);
		if (!event->kind || event->kind >= ANYNET_EVENT_KINDS || event->error > 0 ||
		    event->error < -ERRNO_MAX)
			return false;
	}
	return true;
}

/* --- pages --- */

/* Source of a page's bytes: a file that its process may be writing, or memory. */
struct source {
	int fd; /* -1 = memory */
	const uint8_t *bytes;
	size_t count;
	unsigned *pauses; /* waits left */
};

static bool fetch(const struct source *from, size_t at, void *to, size_t bytes)
{
	if (from->fd >= 0)
		return pread(from->fd, to, bytes, (off_t)at) == (ssize_t)bytes;
	if (at > from->count || bytes > from->count - at)
		return false;
	memcpy(to, from->bytes + at, bytes);
	return true;
}

/* Waits a moment, in which the process usually completes a half-written record. False = give up. */
static bool again(const struct source *from, int *tries)
{
	static const struct timespec moment = { .tv_nsec = PAUSE_NS };

	if (from->fd < 0 || ++*tries == READ_TRIES || !*from->pauses)
		return false;
	--*from->pauses;
	nanosleep(&moment, NULL);
	return true;
}

static bool take_process(const struct source *from, struct anynet_stats_process *process)
{
	int tries = 0;

	do {
		if (!fetch(from, 0, process, sizeof(*process)) || !process->sum)
			return false;
		if (check_process(process))
			return true;
	} while (again(from, &tries));
	return false;
}

static bool take_comm(const struct source *from, unsigned slot, struct anynet_stats_comm *comm)
{
	int tries = 0;

	do {
		/* A slot is empty if it was never written (sum 0) or was released (id 0). */
		if (!fetch(from, anynet_stats_comm_at(slot), comm, sizeof(*comm)) || !comm->sum ||
		    !comm->id)
			return false;
		if (check_comm(comm))
			return true;
	} while (again(from, &tries));
	return false;
}

/* If the events cannot be read, *events is zeroed. */
static void take_events(const struct source *from, unsigned slot, uint64_t id,
			struct anynet_stats_events *events)
{
	int tries = 0;

	do {
		if (!fetch(from, anynet_stats_events_at(slot), events, sizeof(*events)))
			break;
		if (events->id == id && check_events(events))
			return;
	} while (again(from, &tries));
	memset(events, 0, sizeof(*events));
}

/* Makes room for one more comm. */
static bool grow(struct page *page, bool events)
{
	size_t step = page->count & (page->count - 1) ? 0 : page->count ? page->count * 2 : 1;
	void *grown = step ? realloc(page->comms, step * sizeof(*page->comms)) : page->comms;

	if (!grown)
		return false;
	page->comms = grown;
	if (!events)
		return true;
	grown = step ? realloc(page->events, step * sizeof(*page->events)) : page->events;
	if (!grown)
		return false;
	page->events = grown;
	return true;
}

static int take(struct page *page, const struct source *from, struct page_bounds *bounds,
		const struct page_wish *wish)
{
	struct anynet_stats_comm comm;

	memset(page, 0, sizeof(*page));
	if (!take_process(from, &page->process) || (wish->pid && wish->pid != page->process.pid))
		return -EINVAL;
	page->read_ms = now_ms();
	for (unsigned slot = 0; slot < page->process.slots; slot++) {
		if (!take_comm(from, slot, &comm))
			continue;
		if (page->count == bounds->comms) {
			bounds->left_out++;
			continue;
		}
		if (!grow(page, wish->events))
			break;
		if (wish->events)
			take_events(from, slot, comm.id, &page->events[page->count]);
		page->comms[page->count++] = comm;
	}
	return 0;
}

int page_parse(struct page *page, const void *bytes, size_t count)
{
	struct source from = { .fd = -1, .bytes = bytes, .count = count };

	return take(page, &from, &(struct page_bounds){ .comms = ANYNET_STATS_COMMS },
		    &(struct page_wish){ .events = true });
}

/* True if the process that writes the file is alive: it holds a lock on it. */
static bool is_held(int fd)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

bool page_read(struct page *page, int dir, const char *name, struct page_bounds *bounds,
	       const struct page_wish *wish)
{
	struct source from = { .fd = openat(dir, name,
					    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC),
			       .pauses = &bounds->pauses };
	bool held, good;
	struct stat st = { 0 };

	if (from.fd < 0)
		return false;
	held = is_held(from.fd);
	good = !fstat(from.fd, &st) && S_ISREG(st.st_mode) &&
	       (st.st_uid == geteuid() || !geteuid()) && (held || wish->ended) &&
	       !take(page, &from, bounds, wish);
	if (good)
		bounds->comms -= page->count;
	page->uid = st.st_uid;
	page->dev = st.st_dev;
	page->ino = st.st_ino;
	page->ended = !held;
	close(from.fd);
	return good;
}

void page_free(struct page *page)
{
	free(page->comms);
	free(page->events);
	*page = (struct page){ 0 };
}
