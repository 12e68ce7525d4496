/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: lifetime, descriptors, injected failures; see process.h. */
#include "sim/process.h"
#include "sim/file.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

static struct sim_process *acting;
static struct sim_process *to_bury;

struct sim_process *process_self(void)
{
	return sim_self ? sim_self->process : acting;
}

void process_act_as(struct sim_process *process)
{
	acting = process;
}

struct sim_process *process_new(struct sim_host *host, int pid)
{
	struct sim_process *process = calloc(1, sizeof(*process));

	if (!process)
		abort();
	process->host = host;
	process->pid = pid;
	TAILQ_INIT(&process->at_exit);
	TAILQ_INIT(&process->in_child);
	TAILQ_INIT(&process->poked);
	TAILQ_INIT(&process->threads);
	TAILQ_INIT(&process->held);
	return process;
}

/* --- threads --- */

void process_adopt(struct sim_process *process, struct sim_thread *thread)
{
	TAILQ_INSERT_TAIL(&process->threads, thread, of_process);
}

bool process_is_stopped(const struct sim_process *process)
{
	return process->stopped;
}

void process_hold(struct sim_process *process, struct sim_thread *thread)
{
	TAILQ_INSERT_TAIL(&process->held, thread, link);
}

/* Running threads continue only until they wait. */
void process_stop(struct sim_process *process)
{
	process->stopped = true;
}

void process_go_on(struct sim_process *process)
{
	struct sim_thread *thread;

	if (process->dead)
		return;
	process->stopped = false;
	while ((thread = TAILQ_FIRST(&process->held))) {
		TAILQ_REMOVE(&process->held, thread, link);
		thread->queued = false;
		thread_ready(thread);
	}
}

void process_poke(struct sim_process *process)
{
	waiters_wake(&process->poked);
}

/* --- exit --- */

static void close_all(struct sim_process *process)
{
	for (int fd = 0; fd < process->fd_room; fd++)
		if (process->fds[fd])
			process_fd_close(process, fd);
}

static void end_process(struct sim_process *process)
{
	if (process->dead)
		return;
	process->dead = true;
	close_all(process);
	to_bury = process;
}

void process_bury(void)
{
	struct sim_process *process = to_bury;
	struct sim_thread *thread;

	if (!process)
		return;
	to_bury = NULL;
	while ((thread = TAILQ_FIRST(&process->held))) {
		TAILQ_REMOVE(&process->held, thread, link);
		thread->queued = false;
	}
	process->stopped = false;
	while ((thread = TAILQ_FIRST(&process->threads))) {
		TAILQ_REMOVE(&process->threads, thread, of_process);
		thread_free(thread);
	}
}

_Noreturn void process_exit(struct sim_process *process)
{
	struct sim_handler *handler;

	while ((handler = TAILQ_FIRST(&process->at_exit))) {
		TAILQ_REMOVE(&process->at_exit, handler, link);
		handler->run(handler->arg);
		free(handler);
	}
	end_process(process);
	thread_leave_for_ever();
}

void process_kill(struct sim_process *process)
{
	end_process(process);
	process_bury();
}

/* --- fork --- */

/* The data segment of the plugin's copy that contains `address`. */
struct plugin_data {
	const void *address;
	char *data, *saved;
	size_t bytes;
};

static int find_data(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct plugin_data *plugin = arg;
	bool here = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + header->p_vaddr, address = (uintptr_t)plugin->address;

		if (header->p_type != PT_LOAD)
			continue;
		here = here || (address >= start && address < start + header->p_memsz);
		if (header->p_flags & PF_W) {
			plugin->data = (char *)start;
			plugin->bytes = header->p_memsz;
		}
	}
	return here;
}

static int find_relro(struct dl_phdr_info *info, size_t size, void *arg)
{
	size_t *bytes = arg;
	const char *data = *(char **)(void *)bytes;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_GNU_RELRO && (const char *)info->dlpi_addr + header->p_vaddr == data) {
			*bytes = header->p_memsz;
			return 1;
		}
	}
	return 0;
}

/* Size of the start of the segment that is read-only after relocation, in whole pages. */
static size_t read_only_bytes(const struct plugin_data *plugin)
{
	size_t found = (size_t)(uintptr_t)plugin->data;

	if (!dl_iterate_phdr(find_relro, &found))
		return 0;
	return ((uintptr_t)plugin->data + found) / 4096 * 4096 - (uintptr_t)plugin->data;
}

/* Otherwise a connection would outlive the process that had it. */
static void check_sockets_left(const struct sim_process *process, const struct sim_process *child)
{
	for (int fd = 0; fd < process->fd_room && fd < child->fd_room; fd++)
		if (process->fds[fd] && child->fds[fd] == process->fds[fd] &&
		    process->fds[fd]->kind == FILE_SOCKET)
			sim_fail("pid %d: a forked child keeps socket %d", process->pid, fd);
}

struct sim_process *process_fork(struct sim_process *process)
{
	struct sim_process *child = process_new(process->host, process->pid + 100000);
	struct plugin_data plugin = { .address = NULL };
	struct sim_process *before = acting;
	struct sim_thread *self = sim_self;
	struct sim_handler *handler;
	size_t fixed;

	for (int fd = 0; fd < process->fd_room; fd++)
		if (process->fds[fd]) {
			int to = process_fd_new(child, file_hold(process->fds[fd]));

			if (to != fd)
				process_fd_replace(child, to, fd), process_fd_close(child, to);
		}
	handler = TAILQ_FIRST(&process->in_child);
	if (!handler)
		return child;
	memcpy(&plugin.address, &handler->run, sizeof(plugin.address));
	if (!dl_iterate_phdr(find_data, &plugin))
		abort();
	fixed = read_only_bytes(&plugin);
	plugin.data += fixed;
	plugin.bytes -= fixed;
	plugin.saved = malloc(plugin.bytes);
	if (!plugin.saved)
		abort();
	memcpy(plugin.saved, plugin.data, plugin.bytes);
	acting = child;
	sim_self = NULL;
	TAILQ_FOREACH(handler, &process->in_child, link)
		handler->run(NULL);
	acting = before;
	sim_self = self;
	memcpy(plugin.data, plugin.saved, plugin.bytes);
	free(plugin.saved);
	check_sockets_left(process, child);
	return child;
}

/* --- descriptors --- */

static bool grow_fds(struct sim_process *process, int fd)
{
	int room = process->fd_room ? process->fd_room : 64;

	while (fd >= room)
		room *= 2;
	if (fd < process->fd_room)
		return true;
	if (room > PROCESS_FDS_MAX)
		return false;
	process->fds = realloc(process->fds, (size_t)room * sizeof(*process->fds));
	if (!process->fds)
		abort();
	memset(process->fds + process->fd_room, 0, (size_t)(room - process->fd_room) * sizeof(*process->fds));
	process->fd_room = room;
	return true;
}

/* The program itself uses 0 to 2. */
int process_fd_new(struct sim_process *process, struct sim_file *file)
{
	int fd = 3;

	while (fd < process->fd_room && process->fds[fd])
		fd++;
	if (!grow_fds(process, fd)) {
		file_release(file);
		return -EMFILE;
	}
	process->fds[fd] = file;
	process->fd_open++;
	return fd;
}

struct sim_file *process_file(struct sim_process *process, int fd)
{
	return fd >= 0 && fd < process->fd_room ? process->fds[fd] : NULL;
}

int process_fd_close(struct sim_process *process, int fd)
{
	struct sim_file *file = process_file(process, fd);

	if (!file)
		return -EBADF;
	process->fds[fd] = NULL;
	process->fd_open--;
	file_release(file);
	return 0;
}

int process_fd_replace(struct sim_process *process, int from, int to)
{
	struct sim_file *file = process_file(process, from);

	if (!file || !grow_fds(process, to))
		return -EBADF;
	if (process->fds[to])
		process_fd_close(process, to);
	process->fds[to] = file_hold(file);
	process->fd_open++;
	return to;
}

/* --- injected failures --- */

int process_call_fails(struct sim_process *process, enum sim_call call)
{
	static const int errors[CALLS][3] = {
		[CALL_SOCKET] = { EMFILE, ENFILE, ENOBUFS },
		[CALL_ACCEPT] = { EMFILE, ENOBUFS, ECONNABORTED },
		[CALL_CONNECT] = { EADDRNOTAVAIL, ENETUNREACH, ENOBUFS },
		[CALL_BIND] = { EADDRINUSE, ENOMEM, EADDRNOTAVAIL },
		[CALL_SETSOCKOPT] = { ENOMEM, EINVAL, ENOPROTOOPT },
		[CALL_EPOLL_CREATE] = { EMFILE, ENFILE, ENOMEM },
		[CALL_EPOLL_CTL] = { ENOMEM, ENOSPC, ENOMEM },
		[CALL_EVENTFD] = { EMFILE, ENFILE, ENOMEM },
		[CALL_THREAD] = { EAGAIN, EAGAIN, EAGAIN },
		[CALL_SEND] = { EINTR, EINTR, EINTR },
		[CALL_RECV] = { EINTR, EINTR, EINTR },
	};

	if (!process->is_set_up || !random_chance(&sched_random, process->failing[call]))
		return 0;
	return errors[call][random_below(&sched_random, 3)];
}

size_t process_shorten(struct sim_process *process, size_t bytes)
{
	if (bytes < 2 || !random_chance(&sched_random, process->shortens))
		return bytes;
	switch (random_below(&sched_random, 8)) {
	case 0:
		return 1;
	case 1:
		return bytes - 1; /* all but the last byte of a frame */
	default:
		return 1 + random_below(&sched_random, bytes - 1);
	}
}
