/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a root; see host.h. */
#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/shared/memory.h"

#define LINKS_MAX      40    /* maximum symbolic links in a path, as in the kernel */
#define NAMES_MAX      65536 /* maximum entries read from a directory */
#define LINE_MAX_BYTES 4096

const char *host_path(const struct host *host, const char *name)
{
	char directory[PATH_MAX];

	if (*name == '/')
		return name;
	if (*host->root || !getcwd(directory, sizeof(directory)))
		return NULL;
	return text_format("%s/%s", directory, name);
}

/* Returns the target of a symbolic link; NULL = not a link. */
static char *link_target(const char *name)
{
	char target[PATH_MAX];
	ssize_t bytes = readlink(name, target, sizeof(target) - 1);

	return bytes > 0 ? text_copy(target, (size_t)bytes) : NULL;
}

/* Appends one component to `*real`. If it is a link, puts its target before `*rest`, the remaining
 * components. Returns false if there are too many links. */
static bool step(const struct host *host, const char *part, char **real, const char **rest,
		 int *links)
{
	char *next, *target;

	if (!strcmp(part, "."))
		return true;
	if (!strcmp(part, "..")) {
		char *slash = strrchr(*real, '/');

		if (slash)
			*slash = 0;
		return true;
	}
	next = text_format("%s/%s", *real, part);
	target = link_target(text_format("%s%s", host->root, next));
	if (!target) {
		*real = next;
		return true;
	}
	if (++*links > LINKS_MAX || strlen(target) + strlen(*rest) >= PATH_MAX)
		return false;
	if (*target == '/')
		**real = 0;
	*rest = text_format("%s/%s", target, *rest);
	return true;
}

char *host_resolve(const struct host *host, const char *path)
{
	char *real = text_copy("", 0), *part;
	int links = 0;
	struct stat st;

	if (*path != '/')
		return NULL;
	while ((part = text_next(&path, "/"))) {
		if (!step(host, part, &real, &path, &links))
			return NULL;
	}
	if (!*real)
		real = text_copy("/", 1);
	return stat(text_format("%s%s", host->root, real), &st) ? NULL : real;
}

char *host_open_name(const struct host *host, const char *path)
{
	char *real = host_resolve(host, path);

	return real ? text_format("%s%s", host->root, real) : NULL;
}

bool host_stat(const struct host *host, const char *path, struct stat *st)
{
	char *name = host_open_name(host, path);

	return name && !stat(name, st);
}

bool host_is_file(const struct host *host, const char *path)
{
	struct stat st;

	return host_stat(host, path, &st) && S_ISREG(st.st_mode);
}

bool host_is_directory(const struct host *host, const char *path)
{
	struct stat st;

	return host_stat(host, path, &st) && S_ISDIR(st.st_mode);
}

static char *read_all(int fd, size_t most, size_t *bytes)
{
	size_t room = 0, used = 0;
	char *text = NULL;
	ssize_t got;

	do {
		if (room - used < 2) {
			room = room ? 2 * room : 4096;
			text = memory_resize(text, room);
		}
		got = read(fd, text + used, anynet_min(room - used - 1, most - used));
		if (got > 0)
			used += (size_t)got;
	} while (got > 0 && used < most);
	if (got < 0 && !used)
		return NULL;
	text = memory_resize(text, used + 1);
	text[used] = 0;
	if (bytes)
		*bytes = used;
	return text;
}

char *host_read(const struct host *host, const char *path, size_t most, size_t *bytes)
{
	char *name = host_open_name(host, path), *text = NULL;
	struct stat st;
	int fd;

	if (!name)
		return NULL;
	/* O_NONBLOCK: a FIFO in place of the file must not block the program. */
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		text = read_all(fd, most, bytes);
	close(fd);
	return text;
}

char *host_line(const struct host *host, const char *path)
{
	char *text = host_read(host, path, LINE_MAX_BYTES, NULL);
	size_t bytes;

	if (!text)
		return NULL;
	text += strspn(text, " \t");
	bytes = strcspn(text, "\n");
	while (bytes && strchr(" \t\r", text[bytes - 1]))
		bytes--;
	return text_copy(text, bytes);
}

long host_number(const struct host *host, const char *path, long otherwise)
{
	char *line = host_line(host, path), *end;
	long number;

	if (!line)
		return otherwise;
	errno = 0;
	number = strtol(line, &end, 0);
	if (end == line || errno)
		number = otherwise;
	return number;
}

struct text_list host_list(const struct host *host, const char *path)
{
	struct text_list list = { 0 };
	char *name = host_open_name(host, path);
	DIR *dir = name ? opendir(name) : NULL;
	struct dirent *entry;

	if (!dir)
		return list;
	while (list.count < NAMES_MAX && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			text_list_add(&list, text_dup(entry->d_name));
	}
	closedir(dir);
	text_list_sort(&list);
	return list;
}

const char *host_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}
