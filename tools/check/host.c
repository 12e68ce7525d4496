/* SPDX-License-Identifier: Apache-2.0 */
/* Files below a root; see host.h. */
#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINKS_MAX      40    /* maximum symbolic links in a path, as in the kernel */
#define NAMES_MAX      65536 /* maximum entries read from a directory */
#define LINE_MAX_BYTES 4096

/* Returns the target of a symbolic link; NULL = not a link. The caller frees it. */
static char *link_target(const char *name)
{
	char target[PATH_MAX];
	ssize_t bytes = readlink(name, target, sizeof(target) - 1);

	return bytes > 0 ? text_copy(target, (size_t)bytes) : NULL;
}

/* Appends one component to `*real`. If it is a link, puts its target before `*rest`, the remaining
 * components. Returns false if there are too many links. */
static bool step(const struct host *host, const char *part, char **real, char **rest, int *links)
{
	char *next, *name, *target, *longer;

	if (!strcmp(part, ".") || !*part)
		return true;
	if (!strcmp(part, "..")) {
		char *slash = strrchr(*real, '/');

		if (slash)
			*slash = 0;
		return true;
	}
	next = text_format("%s/%s", *real, part);
	name = text_format("%s%s", host->root, next);
	target = link_target(name);
	free(name);
	if (!target) {
		free(*real);
		*real = next;
		return true;
	}
	free(next);
	if (++*links > LINKS_MAX || strlen(target) + strlen(*rest) >= PATH_MAX) {
		free(target);
		return false;
	}
	if (*target == '/')
		**real = 0;
	longer = text_format("%s/%s", target, *rest);
	free(target);
	free(*rest);
	*rest = longer;
	return true;
}

char *host_resolve(const struct host *host, const char *path)
{
	char *real = text_copy("", 0), *rest = text_copy(path, strlen(path));
	struct stat st;
	char *name;
	int links = 0;
	bool good = *path == '/';

	while (good && *rest) {
		size_t part_bytes = strcspn(rest, "/");
		char *part = text_copy(rest, part_bytes);

		memmove(rest, rest + part_bytes + (rest[part_bytes] == '/'),
			strlen(rest + part_bytes + (rest[part_bytes] == '/')) + 1);
		good = step(host, part, &real, &rest, &links);
		free(part);
	}
	free(rest);
	name = text_format("%s%s", host->root, *real ? real : "/");
	if (!good || stat(name, &st)) {
		free(real);
		real = NULL;
	} else if (!*real) {
		free(real);
		real = text_copy("/", 1);
	}
	free(name);
	return real;
}

char *host_open_name(const struct host *host, const char *path)
{
	char *real = host_resolve(host, path), *name;

	if (!real)
		return NULL;
	name = text_format("%s%s", host->root, real);
	free(real);
	return name;
}

bool host_stat(const struct host *host, const char *path, struct stat *st)
{
	char *name = host_open_name(host, path);
	bool there = name && !stat(name, st);

	free(name);
	return there;
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
			text = text_grow(text, room);
		}
		got = read(fd, text + used, anynet_min(room - used - 1, most - used));
		if (got > 0)
			used += (size_t)got;
	} while (got > 0 && used < most);
	if (got < 0 && !used) {
		free(text);
		return NULL;
	}
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
	free(name);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		text = read_all(fd, most, bytes);
	close(fd);
	return text;
}

char *host_line(const struct host *host, const char *path)
{
	char *text = host_read(host, path, LINE_MAX_BYTES, NULL), *line;
	size_t blanks, bytes;

	if (!text)
		return NULL;
	blanks = strspn(text, " \t");
	bytes = strcspn(text + blanks, "\n");
	while (bytes && strchr(" \t\r", text[blanks + bytes - 1]))
		bytes--;
	line = text_copy(text + blanks, bytes);
	free(text);
	return line;
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
	free(line);
	return number;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct text_list host_list(const struct host *host, const char *path)
{
	struct text_list list = { 0 };
	char *name = host_open_name(host, path);
	DIR *dir = name ? opendir(name) : NULL;
	struct dirent *entry;

	free(name);
	if (!dir)
		return list;
	while (list.count < NAMES_MAX && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			text_list_add(&list, text_copy(entry->d_name, strlen(entry->d_name)));
	}
	closedir(dir);
	if (list.count)
		qsort(list.items, list.count, sizeof(*list.items), by_name);
	return list;
}

const char *host_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}
