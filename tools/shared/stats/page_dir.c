/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads all pages of a directory; see page.h. All users can write to the directory, so the limits
 * are divided among them: files of one user do not displace those of another.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "page.h"
#include "tools/shared/memory.h"
#include "tools/shared/text.h"

#define PAGES_MAX 1024
#define COMMS_MAX 16384 /* of all pages; beyond it, only the process record of a page is read */
#define PAUSES    1000  /* waits in all, since damaged records stay half-written forever */
#define NAMES_MAX 4096  /* files per user; many may belong to processes that have ended */

struct user {
	uid_t uid;
	struct text_list names;
	size_t next;
	struct page_bounds bounds;
};

struct users {
	struct user *of;
	size_t count, left_out;
};

static struct user *find_user(struct users *users, uid_t uid)
{
	for (size_t i = 0; i < users->count; i++) {
		if (users->of[i].uid == uid)
			return &users->of[i];
	}
	users->of = memory_resize(users->of, (users->count + 1) * sizeof(*users->of));
	users->of[users->count] = (struct user){ .uid = uid };
	return &users->of[users->count++];
}

static void add_name(struct users *users, uid_t uid, const char *name)
{
	struct user *user = find_user(users, uid);

	if (user->names.count < NAMES_MAX)
		text_list_add(&user->names, text_dup(name));
	else
		users->left_out++;
}

static void list_names(struct users *users, DIR *entries)
{
	struct dirent *entry;
	struct statx st;

	while ((entry = readdir(entries))) {
		if (!strncmp(entry->d_name, ANYNET_STATS_PREFIX, strlen(ANYNET_STATS_PREFIX)) &&
		    !statx(dirfd(entries), entry->d_name, AT_SYMLINK_NOFOLLOW,
			   STATX_TYPE | STATX_UID, &st) &&
		    S_ISREG(st.stx_mode) && (st.stx_uid == geteuid() || !geteuid()))
			add_name(users, st.stx_uid, entry->d_name);
	}
	for (size_t i = 0; i < users->count; i++)
		users->of[i].bounds = (struct page_bounds){
			.comms = anynet_max(1, COMMS_MAX / users->count),
			.pauses = (unsigned)anynet_max(1, PAUSES / users->count),
		};
}

static void add_page(struct page_list *list, struct page *page)
{
	struct page *grown = NULL;

	if (list->count < PAGES_MAX)
		grown = realloc(list->pages, (list->count + 1) * sizeof(*grown));
	if (!grown) {
		page_free(page);
		list->left_out++;
		return;
	}
	list->pages = grown;
	list->pages[list->count++] = *page;
}

/* Reads the next page of the user. Returns false if there is none. */
static bool read_next(struct page_list *list, struct user *user, int dir,
		      const struct page_wish *wish)
{
	struct page page;

	if (list->count == PAGES_MAX) {
		list->left_out += user->names.count - user->next;
		user->next = user->names.count;
	}
	while (user->next < user->names.count) {
		const char *name = user->names.items[user->next++];

		if (!page_read(&page, dir, name, &user->bounds, wish))
			continue;
		/* Another user's file has replaced it. */
		if (page.uid != user->uid) {
			page_free(&page);
			continue;
		}
		add_page(list, &page);
		return true;
	}
	return false;
}

static int by_pid(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	return (x->process.pid > y->process.pid) - (x->process.pid < y->process.pid);
}

int page_read_all(struct page_list *list, const char *dir, const struct page_wish *wish)
{
	DIR *entries = opendir(dir);
	uint64_t mark = memory_mark();
	struct users users = { 0 };
	bool any;

	*list = (struct page_list){ 0 };
	if (!entries)
		return -errno;
	list_names(&users, entries);
	do {
		any = false;
		for (size_t i = 0; i < users.count; i++)
			any |= read_next(list, &users.of[i], dirfd(entries), wish);
	} while (any);
	closedir(entries);
	list->left_out += users.left_out;
	for (size_t i = 0; i < users.count; i++)
		list->left_out += users.of[i].bounds.left_out;
	memory_release(mark);
	if (list->count)
		qsort(list->pages, list->count, sizeof(*list->pages), by_pid);
	return 0;
}

void page_free_all(struct page_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		page_free(&list->pages[i]);
	free(list->pages);
	*list = (struct page_list){ 0 };
}

size_t page_share(const size_t *wants, size_t count, size_t all)
{
	size_t low = 0, high = all;

	while (low < high) {
		size_t share = low + (high - low + 1) / 2, sum = 0;

		for (size_t i = 0; i < count; i++)
			sum += anynet_min(wants[i], share);
		if (sum <= all)
			low = share;
		else
			high = share - 1;
	}
	return low;
}
