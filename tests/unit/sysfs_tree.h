/* SPDX-License-Identifier: Apache-2.0 */
/* A sysfs of the test's own making, in a temporary directory. All paths are below its root. */
#ifndef TESTS_UNIT_SYSFS_TREE_H
#define TESTS_UNIT_SYSFS_TREE_H

/* cmocka's setup and teardown: an empty tree, and nothing left of it. */
int tree_create(void **state);
int tree_remove(void **state);
#define with_tree(test) cmocka_unit_test_setup_teardown(test, tree_create, tree_remove)

const char *tree_root(void);
const char *tree_path(const char *path); /* with the root; good until the next call */

/* Make a directory, or a file with this text. What is above them is made as well. */
void tree_dir(const char *path);
void tree_file(const char *path, const char *text);

/* Make a link in a directory that is there; the target is taken as it is. */
void tree_link(const char *target, const char *path);

#endif
