/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time; see live_cpu.h. */
#include "live_cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PROCESSES_MAX 1024
#define PATH_BYTES    300

struct owner {
	uint32_t pid;
	uint64_t started_ms; /* of the page */
	dev_t dev;
	ino_t ino;
	bool is_it;           /* the process with this pid owns the page */
	uint64_t ran, waited; /* ns, since it began; 0 = not known */
};

/* Only pages are followed: a file of a network that does not answer would block. */
static bool is_page(int dir, const char *name, const struct page *page)
{
	char path[PATH_BYTES];
	ssize_t n = readlinkat(dir, name, path, sizeof(path) - 1);
	struct statx link, file;

	path[n > 0 ? n : 0] = '\0';
	return strstr(path, "/" ANYNET_STATS_PREFIX) &&
	       !statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_MODE, &link) &&
	       link.stx_mode & S_IWUSR && !statx(dir, name, 0, STATX_INO, &file) &&
	       makedev(file.stx_dev_major, file.stx_dev_minor) == page->dev &&
	       file.stx_ino == page->ino;
}

/* Whether /proc/PID has the page open for writing. Only its owner has. */
static bool owns(const struct page *page)
{
	char path[PATH_BYTES];
	struct dirent *entry;
	bool found = false;
	DIR *files;

	snprintf(path, sizeof(path), "/proc/%u/fd", page->process.pid);
	files = opendir(path);
	while (files && !found && (entry = readdir(files)))
		found = *entry->d_name != '.' && is_page(dirfd(files), entry->d_name, page);
	if (files)
		closedir(files);
	return found;
}

/* Sums up /proc/PID/task/TID/schedstat of all threads. */
static void read_times(struct owner *owner)
{
	char path[PATH_BYTES];
	struct dirent *task;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%u/task", owner->pid);
	tasks = opendir(path);
	while (tasks && (task = readdir(tasks))) {
		uint64_t ran, waited;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%u/task/%s/schedstat", owner->pid,
			 task->d_name);
		file = *task->d_name == '.' ? NULL : fopen(path, "re");
		if (file && fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2) {
			owner->ran += ran;
			owner->waited += waited;
		}
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
}

/* Returns what is known of the page's owner. The oldest entry makes room for a new page. */
static struct owner *owner_of(const struct page *page)
{
	static struct owner known[PROCESSES_MAX];
	static size_t count;
	struct owner *owner;

	for (size_t i = 0; i < count && i < PROCESSES_MAX; i++) {
		owner = &known[i];
		if (owner->pid == page->process.pid && owner->dev == page->dev &&
		    owner->ino == page->ino && owner->started_ms == page->process.started_ms)
			return owner;
	}
	owner = &known[count++ % PROCESSES_MAX];
	*owner = (struct owner){ .pid = page->process.pid,
				 .started_ms = page->process.started_ms,
				 .dev = page->dev,
				 .ino = page->ino,
				 .is_it = owns(page) };
	return owner;
}

struct live_cpu live_cpu_since(const struct page *page)
{
	struct owner *owner = owner_of(page), before = *owner;

	if (!owner->is_it)
		return (struct live_cpu){ -1, -1 };
	owner->ran = owner->waited = 0;
	read_times(owner);
	if (!before.ran || owner->ran < before.ran || owner->waited < before.waited)
		return (struct live_cpu){ -1, -1 };
	return (struct live_cpu){ (int64_t)((owner->ran - before.ran) / 1000000),
				  (int64_t)((owner->waited - before.waited) / 1000000) };
}
