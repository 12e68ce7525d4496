/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics file; see stats_page.h. Its directory, name and layout are in <nccl_net/stats.h>. It is written by
 * pwrite and not mapped, because a full file system then causes an error instead of a SIGBUS.
 */
#include "service/stats_page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <nccl_net/stats.h>

#include "base/fd.h"
#include "base/os.h"

#define NAME_TRIES 8

static bool is_page(const char *name)
{
	return !strncmp(name, ANYNET_STATS_PREFIX, strlen(ANYNET_STATS_PREFIX));
}

/* Is the page without a lock? One that was written to recently may have been created just now and not be locked yet. */
static bool is_stale(int fd)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };
	struct timespec now;
	struct stat st;

	clock_gettime(CLOCK_REALTIME, &now);
	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (now.tv_sec - st.st_mtim.tv_sec) * 1000 > ANYNET_STATS_STALE_MS &&
	       !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

static void remove_stale(const char *dir)
{
	DIR *list = opendir(dir);
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		int fd;

		if (!is_page(entry->d_name))
			continue;
		fd = openat(dirfd(list), entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (is_stale(fd))
			unlinkat(dirfd(list), entry->d_name, 0);
		close(fd);
	}
	if (list)
		closedir(list);
}

static int create(struct stats_page *page, const char *dir)
{
	for (int i = 0; i < NAME_TRIES; i++) {
		uint32_t number;
		int n = os_random(&number, sizeof(number));

		if (n)
			return n;
		n = snprintf(page->path, sizeof(page->path), "%s/" ANYNET_STATS_PREFIX "%d.%08x",
			     dir, (int)getpid(), number);
		if (n < 0 || (size_t)n >= sizeof(page->path))
			return -ENAMETOOLONG;
		page->fd = fd_note(open(page->path,
					O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
		if (page->fd >= 0)
			return 0;
		if (page->fd != -EEXIST)
			return page->fd;
	}
	return -EEXIST;
}

int stats_page_open(struct stats_page *page, const char *dir)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int ret;

	page->fd = -1;
	page->forks = fd_forks();
	remove_stale(dir);
	ret = create(page, dir);
	if (!ret && fcntl(page->fd, F_OFD_SETLK, &lock)) {
		ret = -errno;
		stats_page_close(page);
	}
	return ret;
}

int stats_page_put(struct stats_page *page, size_t at, void *record, size_t bytes)
{
	uint64_t sum = anynet_stats_sum(record, bytes);
	ssize_t n;

	if (page->fd < 0)
		return 0;
	memcpy(record, &sum, sizeof(sum));
	n = pwrite(page->fd, record, bytes, (off_t)at);
	return n == (ssize_t)bytes ? 0 : n < 0 ? -errno : -ENOSPC;
}

void stats_page_close(struct stats_page *page)
{
	if (page->fd < 0)
		return;
	if (page->forks == fd_forks())
		unlink(page->path);
	fd_close(&page->fd);
}
