/* SPDX-License-Identifier: Apache-2.0 */
/* The file behind a descriptor of a simulated process, and epoll. */
#ifndef TESTS_SIM_FILE_H
#define TESTS_SIM_FILE_H

#include "sim/process.h"

#include <sys/epoll.h>
#include <sys/types.h>

enum sim_file_kind {
	FILE_SOCKET,
	FILE_NETLINK,
	FILE_EPOLL,
	FILE_EVENT,
	FILE_NULL
};

struct sim_epoll_item;
TAILQ_HEAD(sim_epoll_items, sim_epoll_item);

/* The first member of each kind of file. */
struct sim_file {
	enum sim_file_kind kind;
	int refs;
	bool nonblocking;
	const struct sim_file_ops *ops;
	struct sim_process *owner;
	struct sim_epoll_items watched_by;
	struct sim_waiters waiters; /* for blocking calls */
};

struct sim_file_ops {
	uint32_t (*poll)(struct sim_file *file); /* the EPOLL… events that are ready now */
	ssize_t (*read)(struct sim_file *file, void *data, size_t bytes); /* or -errno */
	ssize_t (*write)(struct sim_file *file, const void *data, size_t bytes);
	void (*release)(struct sim_file *file);
};

void file_init(struct sim_file *file, enum sim_file_kind kind, const struct sim_file_ops *ops);
struct sim_file *file_hold(struct sim_file *file);
void file_release(struct sim_file *file);

/* These events have become ready, or have occurred again: wakes the waiters, as edge-triggered sets require. */
void file_notify(struct sim_file *file, uint32_t events);

/* Waits until one of the events is ready. False: timed out. */
bool file_wait(struct sim_file *file, uint32_t events, uint64_t until);

struct sim_file *event_new(unsigned count);
struct sim_file *null_new(void);

struct sim_file *epoll_new(void);
int epoll_change(struct sim_file *epoll, int op, int fd, struct epoll_event *event);
int epoll_take(struct sim_file *epoll, struct epoll_event *events, int most, uint64_t until);

extern int files_open; /* in all processes together */

#endif
