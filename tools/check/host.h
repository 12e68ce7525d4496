/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as `anynet check` sees it: the environment, and files below a root directory that tests
 * can choose. Paths are absolute and as the host's processes use them; links are resolved within the
 * root. Nothing here reports errors: a file that cannot be read counts as missing. Single-threaded.
 */
#ifndef CHECK_HOST_H
#define CHECK_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "tools/shared/text.h"

struct host {
	const char *root; /* "" = the real root; else a directory without a final '/' */
	const char *home; /* home directory from the password file; "" = none */
};

/* Returns the path that this process means by a name of the environment: a relative one begins at its working directory.
 * NULL = relative, and `root` is another host's, whose working directory is not known. */
const char *host_path(const struct host *host, const char *name);

/* Returns the path with all links resolved; NULL = does not exist. */
char *host_resolve(const struct host *host, const char *path);

/* Returns the path by which this process can open the file; NULL = does not exist. */
char *host_open_name(const struct host *host, const char *path);

/* As stat(2); false = does not exist. */
bool host_stat(const struct host *host, const char *path, struct stat *st);
bool host_is_file(const struct host *host, const char *path);
bool host_is_directory(const struct host *host, const char *path);

/* Returns the first `most` bytes of a regular file, or a file of /proc or /sys, with a final zero
 * byte; NULL = unreadable. *bytes may be NULL. */
char *host_read(const struct host *host, const char *path, size_t most, size_t *bytes);

/* Returns the first line of a small file, trimmed; NULL = unreadable. */
char *host_line(const struct host *host, const char *path);

/* Returns the first line as a number; `otherwise` if it is not one. */
long host_number(const struct host *host, const char *path, long otherwise);

/* Returns the sorted names in a directory, without "." and ".."; empty if it cannot be read. */
struct text_list host_list(const struct host *host, const char *path);

/* Returns a variable of the environment; NULL = unset or empty. */
const char *host_env(const char *name);

#endif
