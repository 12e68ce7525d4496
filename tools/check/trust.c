/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which directories root may load libraries from; see trust.h. */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "tools/shared/memory.h"

#define SEARCHED "LD_LIBRARY_PATH"
#define ASKED    "ANYNET_CHECK_LIBRARY_PATH" /* value of SEARCHED before the restart */

/* In a user namespace, the host's root appears as the overflow uid, which owns "/". */
static bool is_roots(const struct stat *st)
{
	struct stat top;

	return !st->st_uid || (!stat("/", &top) && st->st_uid == top.st_uid);
}

/* True if only root can replace the entry, or make it if there is none. In a sticky directory only a file's owner can
 * replace it, but all can make it. */
static bool is_safe(const char *path, bool is_last)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), error = errno;
	const char *name = strrchr(path, '/');
	struct stat st;
	bool known = fd >= 0 && !fstat(fd, &st);

	if (fd >= 0)
		close(fd);
	if (fd < 0 && error == ENOENT)
		return is_safe(name > path ? text_copy(path, (size_t)(name - path)) : "/", true);
	if (!known || !is_roots(&st))
		return false;
	return S_ISLNK(st.st_mode) || !(st.st_mode & (S_IWGRP | S_IWOTH)) ||
	       (!is_last && (st.st_mode & S_ISVTX));
}

/* Checks all directories of the path, without resolving links. */
static bool is_safe_way(const char *path)
{
	char *part = text_dup(path);
	bool safe = *path == '/';

	for (char *end = part + 1; safe && *end; end++) {
		if (*end != '/')
			continue;
		*end = 0;
		safe = is_safe(part, false);
		*end = '/';
	}
	safe = safe && is_safe(part, true);
	return safe;
}

/* The dynamic loader replaces $LIB and the like, so the path that it searches is not known here. */
static bool is_trusted(const char *directory)
{
	char real[PATH_MAX];

	return !strchr(directory, '$') && is_safe_way(directory) &&
	       (!realpath(directory, real) || is_safe_way(real));
}

/* Returns the directories of a list that are trusted, or those that are not. */
static struct text_list select_from(const char *list, bool trusted)
{
	struct text_list chosen = { 0 };

	while (list) {
		size_t bytes = strcspn(list, ":;");
		char *directory = text_copy(list, bytes);

		if (is_trusted(directory) == trusted)
			text_list_add(&chosen, directory);
		list = list[bytes] ? list + bytes + 1 : NULL;
	}
	return chosen;
}

static void set_searched(const struct text_list *trusted)
{
	const char *path = "";

	for (size_t i = 0; i < trusted->count; i++)
		path = text_format("%s%s%s", path, i ? ":" : "", trusted->items[i]);
	if (trusted->count)
		setenv(SEARCHED, path, 1);
	else
		unsetenv(SEARCHED);
}

static int start_again(char **arguments)
{
	static char name[] = "anynet", command[] = "check";
	size_t count = 0;
	char **all;

	while (arguments[count])
		count++;
	all = memory_get((count + 3) * sizeof(*all));
	all[0] = name;
	all[1] = command;
	memcpy(all + 2, arguments, (count + 1) * sizeof(*all));
	execv("/proc/self/exe", all);
	return errno;
}

int trust_begin(char **arguments)
{
	const char *searched = host_env(SEARCHED), *asked = getenv(ASKED);
	struct text_list trusted, left_out = { 0 };

	if (!geteuid())
		left_out = select_from(searched, false);
	if (left_out.count) {
		trusted = select_from(searched, true);
		setenv(ASKED, searched, 1);
		set_searched(&trusted);
		return start_again(arguments);
	}
	/* The dynamic loader has read the variable at start-up, so restoring it has no effect on
	 * this process. */
	if (asked && !geteuid())
		setenv(SEARCHED, asked, 1);
	unsetenv(ASKED);
	return 0;
}

struct text_list trust_left_out(void)
{
	if (geteuid())
		return (struct text_list){ 0 };
	return select_from(host_env(SEARCHED), false);
}
