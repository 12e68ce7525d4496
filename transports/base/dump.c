/* SPDX-License-Identifier: Apache-2.0 */
/* The dump file; see dump.h. */
#include "base/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/net.h"
#include "base/os.h"
#include "base/thread.h"

#define EXIT_WAIT_MS 1000

struct piece {
	STAILQ_ENTRY(piece) link;
	char *text;
	size_t bytes;
};

static struct {
	pthread_mutex_t lock;
	STAILQ_HEAD(, piece) pieces; /* to be written */
	bool writing;                /* the thread exists */
	bool exit_watched;
	unsigned forks; /* fd_forks when the thread was last started */
} dump = { .lock = PTHREAD_MUTEX_INITIALIZER, .pieces = STAILQ_HEAD_INITIALIZER(dump.pieces) };

/* In a directory that all users may write to, another user may have created a file of this name. */
static bool is_own_file(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1;
}

/* Open "anynet-dump.HOST.PID" in the directory. Returns -1, after a log line, if that fails. */
static int open_file(void)
{
	size_t dir = strlen(anynet_net.cfg->dump_dir);
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/anynet-dump.%s.%u", anynet_net.cfg->dump_dir,
		 anynet_net.host, anynet_net.pid);
	for (char *at = path + dir + 1; *at; at++)
		if (*at == '/')
			*at = '_';
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd >= 0 && is_own_file(fd))
		return fd;
	anynet_info("cannot write the events of the connection to %s: %s; they are in this log only", path,
		    fd < 0 ? error_text(errno) : "other users have access to the file");
	if (fd >= 0)
		close(fd);
	return -1;
}

/* One write for each piece, so that lines of processes or threads that fail at the same time do not mix. */
static void write_piece(struct piece *piece)
{
	int fd = open_file();
	ssize_t written = fd < 0 ? (ssize_t)piece->bytes : write(fd, piece->text, piece->bytes);

	if (written != (ssize_t)piece->bytes)
		anynet_info("cannot write the events of the connection: %s; they are in this log only",
			    error_text(written < 0 ? errno : ENOSPC));
	if (fd >= 0)
		close(fd);
	free(piece->text);
	free(piece);
}

/* The next piece. NULL: there is none, and the thread must end, because dump_append will start a new one. */
static struct piece *take_piece(void)
{
	struct piece *piece;

	pthread_mutex_lock(&dump.lock);
	piece = STAILQ_FIRST(&dump.pieces);
	if (piece)
		STAILQ_REMOVE_HEAD(&dump.pieces, link);
	else
		dump.writing = false;
	pthread_mutex_unlock(&dump.lock);
	return piece;
}

static void *write_all(void *arg)
{
	struct piece *piece;

	while ((piece = take_piece()))
		write_piece(piece);
	return arg;
}

bool dump_flush(unsigned ms)
{
	bool writing = true;

	for (unsigned i = 0; writing && i <= ms; i++) {
		if (i)
			os_sleep_us(1000);
		pthread_mutex_lock(&dump.lock);
		writing = dump.writing;
		pthread_mutex_unlock(&dump.lock);
	}
	return !writing;
}

static void finish(void)
{
	if (dump.forks == fd_forks())
		dump_flush(EXIT_WAIT_MS);
}

/* With dump.lock. */
static void start(void)
{
	pthread_t thread;

	if (!dump.exit_watched)
		atexit(finish);
	dump.exit_watched = true;
	dump.forks = fd_forks();
	dump.writing = !thread_start(&thread, "anynet-dump", write_all, NULL);
	if (dump.writing)
		pthread_detach(thread);
}

void dump_append(char *text, size_t bytes)
{
	struct piece *piece = malloc(sizeof(*piece));

	if (!piece) {
		free(text);
		return;
	}
	piece->text = text;
	piece->bytes = bytes;
	pthread_mutex_lock(&dump.lock);
	STAILQ_INSERT_TAIL(&dump.pieces, piece, link);
	if (!dump.writing)
		start();
	pthread_mutex_unlock(&dump.lock);
}
