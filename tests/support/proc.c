/* SPDX-License-Identifier: Apache-2.0 */
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static size_t list(const char *path, bool fds, int *numbers, size_t room)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	size_t count = 0;

	check_that(dir, "%s: %s", path, strerror(errno));
	while ((entry = readdir(dir))) {
		int number = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || (fds && number == dirfd(dir)))
			continue;
		check(!numbers || count < room);
		if (numbers)
			numbers[count] = number;
		count++;
	}
	closedir(dir);
	return count;
}

size_t proc_fds(int *numbers, size_t room)
{
	return list("/proc/self/fd", true, numbers, room);
}

size_t proc_threads(int *numbers, size_t room)
{
	return list("/proc/self/task", false, numbers, room);
}
