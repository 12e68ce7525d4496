/* SPDX-License-Identifier: Apache-2.0 */
#include "sysfs_tree.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OPEN_DIRS 16 /* open at a time, to remove the tree */

static char root[32];

int tree_create(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/anynet-sysfs-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int tree_remove(void **state)
{
	(void)state;
	return nftw(root, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS);
}

const char *tree_root(void)
{
	return root;
}

static void complete(const char *path, char full[PATH_MAX])
{
	assert_true(snprintf(full, PATH_MAX, "%s/%s", root, path) < PATH_MAX);
}

const char *tree_path(const char *path)
{
	static char full[PATH_MAX];

	complete(path, full);
	return full;
}

/* Makes the directories that lead to `full`. */
static void make_way(char *full)
{
	for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		assert_true(!mkdir(full, 0700) || errno == EEXIST);
		*slash = '/';
	}
}

void tree_dir(const char *path)
{
	char full[PATH_MAX];

	complete(path, full);
	make_way(full);
	assert_true(!mkdir(full, 0700) || errno == EEXIST);
}

void tree_file(const char *path, const char *text)
{
	char full[PATH_MAX];
	FILE *file;

	complete(path, full);
	make_way(full);
	file = fopen(full, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

void tree_link(const char *target, const char *path)
{
	char full[PATH_MAX];

	complete(path, full);
	assert_int_equal(symlink(target, full), 0);
}
