/* SPDX-License-Identifier: Apache-2.0 */
/* Files, eventfd, and epoll like fs/eventpoll.c: a list of ready items, from which a wait takes its events; see
 * file.h. */
#include "sim/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int files_open;

void file_init(struct sim_file *file, enum sim_file_kind kind, const struct sim_file_ops *ops)
{
	file->kind = kind;
	file->refs = 1;
	file->ops = ops;
	file->owner = process_self();
	TAILQ_INIT(&file->watched_by);
	TAILQ_INIT(&file->waiters);
	files_open++;
}

struct sim_file *file_hold(struct sim_file *file)
{
	file->refs++;
	return file;
}

bool file_wait(struct sim_file *file, uint32_t events, uint64_t until)
{
	while (!(file->ops->poll(file) & (events | EPOLLERR | EPOLLHUP)))
		if (sim_now >= until || (!thread_wait(&file->waiters, until) && sim_now >= until))
			return (file->ops->poll(file) & (events | EPOLLERR | EPOLLHUP)) != 0;
	return true;
}

/* --- eventfd, /dev/null --- */

struct event_file {
	struct sim_file file;
	uint64_t count;
};

static uint32_t event_poll(struct sim_file *file)
{
	return EPOLLOUT | (((struct event_file *)file)->count ? EPOLLIN : 0u);
}

static ssize_t event_read(struct sim_file *file, void *data, size_t bytes)
{
	struct event_file *event = (struct event_file *)file;

	if (bytes < sizeof(event->count))
		return -EINVAL;
	if (!event->count)
		return -EAGAIN;
	memcpy(data, &event->count, sizeof(event->count));
	event->count = 0;
	return sizeof(event->count);
}

static ssize_t event_write(struct sim_file *file, const void *data, size_t bytes)
{
	struct event_file *event = (struct event_file *)file;
	uint64_t more;

	if (bytes < sizeof(more))
		return -EINVAL;
	memcpy(&more, data, sizeof(more));
	event->count += more;
	file_notify(file, EPOLLIN);
	return sizeof(more);
}

static void plain_release(struct sim_file *file)
{
	free(file);
}

struct sim_file *event_new(unsigned count)
{
	static const struct sim_file_ops ops = { event_poll, event_read, event_write, plain_release };
	struct event_file *event = calloc(1, sizeof(*event));

	if (!event)
		abort();
	file_init(&event->file, FILE_EVENT, &ops);
	event->count = count;
	return &event->file;
}

static uint32_t null_poll(struct sim_file *file)
{
	(void)file;
	return EPOLLIN | EPOLLOUT;
}

static ssize_t null_read(struct sim_file *file, void *data, size_t bytes)
{
	(void)file, (void)data, (void)bytes;
	return 0;
}

static ssize_t null_write(struct sim_file *file, const void *data, size_t bytes)
{
	(void)file, (void)data;
	return (ssize_t)bytes;
}

struct sim_file *null_new(void)
{
	static const struct sim_file_ops ops = { null_poll, null_read, null_write, plain_release };
	struct sim_file *file = calloc(1, sizeof(*file));

	if (!file)
		abort();
	file_init(file, FILE_NULL, &ops);
	return file;
}

/* --- epoll --- */

struct sim_epoll_item {
	struct sim_file *file;
	struct epoll_file *epoll;
	int fd;
	struct epoll_event event;
	bool ready;
	TAILQ_ENTRY(sim_epoll_item) of_file, of_epoll, of_ready;
};

struct epoll_file {
	struct sim_file file;
	struct sim_epoll_items items, ready;
};

static uint32_t item_events(const struct sim_epoll_item *item)
{
	return item->file->ops->poll(item->file) & (item->event.events | EPOLLERR | EPOLLHUP);
}

static uint32_t epoll_poll(struct sim_file *file)
{
	struct epoll_file *epoll = (struct epoll_file *)file;
	struct sim_epoll_item *item;

	TAILQ_FOREACH(item, &epoll->ready, of_ready)
		if (item_events(item))
			return EPOLLIN;
	return 0;
}

static void item_not_ready(struct sim_epoll_item *item)
{
	if (item->ready)
		TAILQ_REMOVE(&item->epoll->ready, item, of_ready);
	item->ready = false;
}

static void item_ready(struct sim_epoll_item *item)
{
	if (!item->ready)
		TAILQ_INSERT_TAIL(&item->epoll->ready, item, of_ready);
	item->ready = true;
}

static void item_free(struct sim_epoll_item *item)
{
	item_not_ready(item);
	TAILQ_REMOVE(&item->epoll->items, item, of_epoll);
	TAILQ_REMOVE(&item->file->watched_by, item, of_file);
	free(item);
}

static void epoll_release(struct sim_file *file)
{
	struct epoll_file *epoll = (struct epoll_file *)file;

	while (!TAILQ_EMPTY(&epoll->items))
		item_free(TAILQ_FIRST(&epoll->items));
	free(epoll);
}

void file_release(struct sim_file *file)
{
	if (--file->refs)
		return;
	while (!TAILQ_EMPTY(&file->watched_by))
		item_free(TAILQ_FIRST(&file->watched_by));
	files_open--;
	file->ops->release(file);
}

void file_notify(struct sim_file *file, uint32_t events)
{
	struct sim_epoll_item *item;

	waiters_wake(&file->waiters);
	TAILQ_FOREACH(item, &file->watched_by, of_file)
		if (events & (item->event.events | EPOLLERR | EPOLLHUP)) {
			item_ready(item);
			file_notify(&item->epoll->file, EPOLLIN);
		}
	if (file->owner)
		process_poke(file->owner);
}

struct sim_file *epoll_new(void)
{
	static const struct sim_file_ops ops = { epoll_poll, NULL, NULL, epoll_release };
	struct epoll_file *epoll = calloc(1, sizeof(*epoll));

	if (!epoll)
		abort();
	file_init(&epoll->file, FILE_EPOLL, &ops);
	TAILQ_INIT(&epoll->items);
	TAILQ_INIT(&epoll->ready);
	return &epoll->file;
}

/* An entry is found by descriptor and file. The entry of a file that survives only in a child is no longer found. */
static struct sim_epoll_item *find(struct epoll_file *epoll, int fd, const struct sim_file *file)
{
	struct sim_epoll_item *item;

	TAILQ_FOREACH(item, &epoll->items, of_epoll)
		if (item->fd == fd && item->file == file)
			return item;
	return NULL;
}

static void set_item(struct sim_epoll_item *item, const struct epoll_event *event)
{
	item->event = *event;
	if (item_events(item)) {
		item_ready(item);
		file_notify(&item->epoll->file, EPOLLIN);
	}
}

static int add(struct epoll_file *epoll, int fd, struct sim_file *file, const struct epoll_event *event)
{
	struct sim_epoll_item *item = calloc(1, sizeof(*item));

	if (!item)
		abort();
	item->file = file;
	item->epoll = epoll;
	item->fd = fd;
	TAILQ_INSERT_TAIL(&epoll->items, item, of_epoll);
	TAILQ_INSERT_TAIL(&file->watched_by, item, of_file);
	set_item(item, event);
	return 0;
}

int epoll_change(struct sim_file *file, int op, int fd, struct epoll_event *event)
{
	struct epoll_file *epoll = (struct epoll_file *)file;
	struct sim_file *watched = process_file(process_self(), fd);
	struct sim_epoll_item *item;

	if (file->kind != FILE_EPOLL)
		return -EINVAL;
	if (!watched)
		return -EBADF;
	if (watched->kind == FILE_NULL)
		return -EPERM;
	item = find(epoll, fd, watched);
	if (op == EPOLL_CTL_ADD)
		return item ? -EEXIST : add(epoll, fd, watched, event);
	if (!item)
		return -ENOENT;
	if (op == EPOLL_CTL_DEL)
		item_free(item);
	else
		set_item(item, event);
	return 0;
}

static int take_ready(struct epoll_file *epoll, struct epoll_event *events, int most)
{
	struct sim_epoll_items again = TAILQ_HEAD_INITIALIZER(again);
	struct sim_epoll_item *item;
	int n = 0;

	while (n < most && (item = TAILQ_FIRST(&epoll->ready))) {
		uint32_t now = item_events(item);

		TAILQ_REMOVE(&epoll->ready, item, of_ready);
		item->ready = false;
		if (!now)
			continue;
		events[n++] = (struct epoll_event){ .events = now, .data = item->event.data };
		if (!(item->event.events & EPOLLET))
			TAILQ_INSERT_TAIL(&again, item, of_ready);
	}
	while ((item = TAILQ_FIRST(&again))) {
		TAILQ_REMOVE(&again, item, of_ready);
		item_ready(item);
	}
	return n;
}

int epoll_take(struct sim_file *file, struct epoll_event *events, int most, uint64_t until)
{
	struct epoll_file *epoll = (struct epoll_file *)file;
	int n;

	if (file->kind != FILE_EPOLL)
		return -EINVAL;
	file_hold(file);
	for (;;) {
		n = take_ready(epoll, events, most);
		if (n || sim_now >= until)
			break;
		thread_wait(&file->waiters, until);
	}
	file_release(file);
	return n;
}
