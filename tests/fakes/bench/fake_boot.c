/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting point of a communicator's ranks: a named socket, and a thread that sends the bytes of all ranks to all,
 * once. */
#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

struct greeting {
	int size, rank;
	size_t bytes;
};

static socklen_t name_socket(const struct fake_id *id, struct sockaddr_un *addr)
{
	size_t bytes = strnlen(id->name, sizeof(addr->sun_path) - 1);

	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(addr->sun_path + 1, id->name, bytes); /* an abstract socket name */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}

static bool read_all(int fd, void *data, size_t bytes)
{
	return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
	const char *from = data;

	while (bytes) {
		ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		from += sent;
		bytes -= (size_t)sent;
	}
	return true;
}

/* Stores one rank's bytes. The first one determines the number of ranks. */
static bool take(int fd, struct greeting *first, int *fds, char **all)
{
	struct greeting g;

	if (!read_all(fd, &g, sizeof(g)) || g.size < 1 || g.size > FAKE_RANKS_MAX || g.rank < 0 ||
	    g.rank >= g.size)
		return false;
	if (!*all) {
		*first = g;
		*all = malloc((size_t)g.size * g.bytes);
	}
	if (!*all || g.size != first->size || g.bytes != first->bytes)
		return false;
	fds[g.rank] = fd;
	return read_all(fd, *all + (size_t)g.rank * g.bytes, g.bytes);
}

static void *serve(void *arg)
{
	int listener = (int)(intptr_t)arg, fds[FAKE_RANKS_MAX], met = 0;
	struct greeting first = { .size = 1 };
	char *all = NULL;

	while (met < first.size) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || !take(fd, &first, fds, &all))
			break;
		met++;
	}
	for (int i = 0; met == first.size && i < met; i++) {
		write_all(fds[i], all, (size_t)first.size * first.bytes);
		close(fds[i]);
	}
	close(listener);
	free(all);
	return NULL;
}

int boot_create(struct fake_id *id)
{
	static _Atomic unsigned ids;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr;
	pthread_t thread;
	socklen_t bytes;

	memset(id, 0, sizeof(*id));
	snprintf(id->name, sizeof(id->name), "fake-nccl-%d-%u", (int)getpid(),
		 atomic_fetch_add(&ids, 1));
	bytes = name_socket(id, &addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, bytes) || listen(fd, BACKLOG) ||
	    pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd)) {
		close(fd);
		return -1;
	}
	pthread_detach(thread);
	return 0;
}

int boot_gather(const struct fake_id *id, int size, int rank, const void *mine, void *all,
		size_t bytes)
{
	struct greeting g = { size, rank, bytes };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr;
	socklen_t addr_bytes = name_socket(id, &addr);
	bool met = fd >= 0 && !connect(fd, (struct sockaddr *)&addr, addr_bytes) &&
		   write_all(fd, &g, sizeof(g)) && write_all(fd, mine, bytes) &&
		   read_all(fd, all, (size_t)size * bytes);

	close(fd);
	return met ? 0 : -1;
}
