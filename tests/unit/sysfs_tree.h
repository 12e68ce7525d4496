/* SPDX-License-Identifier: Apache-2.0 */
/* A sysfs made by the test, in a temporary directory. All paths are below its root. */
#ifndef TESTS_UNIT_SYSFS_TREE_H
#define TESTS_UNIT_SYSFS_TREE_H

/* Setup and teardown for cmocka: an empty tree, which is removed. */
int tree_create(void **state);
int tree_remove(void **state);
#define with_tree(test) cmocka_unit_test_setup_teardown(test, tree_create, tree_remove)

const char *tree_root(void);
const char *tree_path(const char *path); /* with the root; valid until the next call */

/* Makes a directory, or a file with this text, and the directories above it. */
void tree_dir(const char *path);
void tree_file(const char *path, const char *text);

/* Makes a link in an existing directory; the target is used as it is. */
void tree_link(const char *target, const char *path);

#endif
