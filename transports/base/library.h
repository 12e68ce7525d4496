/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is opened at run time, and the caller's table of its functions: a struct that begins with `void *library`, its
 * handle (NULL = not open). */
#ifndef ANYNET_LIBRARY_H
#define ANYNET_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct library_function {
	const char *name;
	size_t offset;       /* of the pointer to it in the table */
	const char *version; /* of the symbol; NULL = any */
	bool optional;       /* NULL in the table if the library lacks it */
};

/* Opens `file` and fills the table. 0; -ENOENT: the file cannot be opened; -ENOSYS: functions are missing. On an error the
 * table has no library and no functions, and `why`, of `why_bytes`, gets the reason. */
int library_open(const char *file, const struct library_function *functions, size_t count, void *table,
		 char *why, size_t why_bytes);

#endif
