/* SPDX-License-Identifier: Apache-2.0 */
/* Opening libraries; see library.h. */
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ISO C has no conversion from a data pointer to a function pointer. With POSIX their bytes are the same. */
static void keep(void *table, size_t offset, void *address)
{
	memcpy((char *)table + offset, &address, sizeof(address));
}

/* Returns the number of missing functions; `missing` names as many as fit. */
static size_t fill(void *library, const struct library_function *functions, size_t count, void *table,
		   char *missing, size_t bytes)
{
	size_t lacks = 0, used = 0;

	for (const struct library_function *f = functions; f != functions + count; f++) {
		void *address = f->version ? dlvsym(library, f->name, f->version) : dlsym(library, f->name);

		keep(table, f->offset, address);
		if (address || f->optional)
			continue;
		if (used < bytes)
			used += (size_t)snprintf(missing + used, bytes - used, "%s%s%s%s", lacks ? ", " : "", f->name,
						 f->version ? "@" : "", f->version ? f->version : "");
		lacks++;
	}
	return lacks;
}

int library_open(const char *file, const struct library_function *functions, size_t count, void *table,
		 char *why, size_t why_bytes)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	char missing[160];
	int ret = 0;

	if (!library) {
		const char *error = dlerror();

		snprintf(why, why_bytes, "%s", error ? error : file);
		ret = -ENOENT;
	} else if (fill(library, functions, count, table, missing, sizeof(missing))) {
		snprintf(why, why_bytes, "%s lacks %s", file, missing);
		dlclose(library);
		ret = -ENOSYS;
	}
	for (size_t i = 0; i < count && ret; i++)
		keep(table, functions[i].offset, NULL);
	keep(table, 0, ret ? NULL : library);
	return ret;
}
