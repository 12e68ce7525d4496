/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as `anynet check` sees it: its files, below a root directory that a test can choose, and
 * the environment. Paths are absolute and as the host's processes know them; links are followed
 * within the root. Nothing here fails loudly: what cannot be read is not there. One thread.
 */
#ifndef CHECK_HOST_H
#define CHECK_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "text.h"

struct host {
	const char *root; /* "" = the host itself; else a directory, without '/' at its end */
	const char *home; /* the user's home directory as the password file tells it; "" = none */
};

/* Where the path leads when all links are followed; NULL = nowhere. The caller's. */
char *host_resolve(const struct host *host, const char *path);

/* The name by which this process can open the file; NULL = there is none. The caller's. */
char *host_open_name(const struct host *host, const char *path);

/* stat(2); false = there is none. */
bool host_stat(const struct host *host, const char *path, struct stat *st);
bool host_is_file(const struct host *host, const char *path);
bool host_is_directory(const struct host *host, const char *path);

/* The first `most` bytes of a regular file or one of /proc or /sys, with a zero behind them; NULL =
 * it cannot be read. The caller's; *bytes may be NULL. */
char *host_read(const struct host *host, const char *path, size_t most, size_t *bytes);

/* The first line of a small file without blanks around it; NULL = none. The caller's. */
char *host_line(const struct host *host, const char *path);

/* The first line as a number; `otherwise` if it is none. */
long host_number(const struct host *host, const char *path, long otherwise);

/* Names in a directory without "." and "..", sorted. An empty list if it cannot be read. */
struct text_list host_list(const struct host *host, const char *path);

/* A variable of the environment; NULL = unset or empty. */
const char *host_env(const char *name);

#endif
