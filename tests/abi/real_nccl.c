/* SPDX-License-Identifier: Apache-2.0 */
#include "real_nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <support/check.h>

/* A file that is named explicitly must be usable. */
static void add_named(struct nccl_copies *copies, const struct host *host, const char *list)
{
	const char *path;

	while (list && (path = text_next(&list, ":"))) {
		const struct nccl_copy *copy = copies_add(copies, host, path);

		check_that(copy && !copy->error && copy->version.code, "LIBNCCL_FILES: %s: %s",
			   path, copy && copy->error ? copy->error : "no libnccl");
	}
}

void real_nccl_find(struct nccl_copies *copies, const struct loader *loader)
{
	copies_find(copies, loader);
	copies_find_users(copies, loader);
	add_named(copies, loader->host, getenv("LIBNCCL_FILES"));
}

struct file_bytes file_bytes_read(const char *path)
{
	struct file_bytes file = { 0 };
	FILE *from = fopen(path, "re");
	struct stat st;

	check_that(from, "cannot open %s", path);
	check_ok(fstat(fileno(from), &st));
	file.size = (size_t)st.st_size;
	file.bytes = malloc(file.size);
	check(file.bytes && fread(file.bytes, file.size, 1, from) == 1 && !fclose(from));
	return file;
}
