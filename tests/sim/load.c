/* SPDX-License-Identifier: Apache-2.0 */
/* See load.h. */
#include "sim/load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "/proc/self/fd/"

struct copy {
	char path[LOAD_PATH_BYTES];
	struct link_map *map;
	struct sim_process *constructors; /* as which the constructors run */
};

static struct {
	struct copy *copies;
	unsigned count, taken;
} load;

/* In memory, so that no file is left. */
static int copy_file(const char *library)
{
	int from = open(library, O_RDONLY | O_CLOEXEC), to = memfd_create("anynet-sim", MFD_CLOEXEC);
	struct stat st;
	ssize_t n = 1;

	if (from < 0 || to < 0 || fstat(from, &st))
		return -1;
	for (off_t done = 0; done < st.st_size && n > 0;)
		n = sendfile(to, from, &done, (size_t)(st.st_size - done));
	close(from);
	return n > 0 ? to : -1;
}

void *load_copy(const char *library, struct sim_process *constructors, char path[LOAD_PATH_BYTES])
{
	int fd = copy_file(library);
	void *handle;

	if (fd < 0) {
		perror(library);
		exit(2);
	}
	snprintf(path, LOAD_PATH_BYTES, PREFIX "%d", fd);
	process_act_as(constructors);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	process_act_as(NULL);
	if (!handle) {
		fprintf(stderr, "%s: %s\n", library, dlerror());
		exit(2);
	}
	return handle;
}

void load_copies(const char *plugin, unsigned count)
{
	load.copies = calloc(count, sizeof(*load.copies));
	load.count = count;
	for (unsigned i = 0; load.copies && i < count; i++) {
		load.copies[i].constructors = process_new(NULL, 0);
		dlinfo(load_copy(plugin, load.copies[i].constructors, load.copies[i].path),
		       RTLD_DI_LINKMAP, &load.copies[i].map);
	}
}

bool load_is_plugin(const void *address)
{
	struct dl_find_object found;

	if (_dl_find_object((void *)(uintptr_t)address, &found))
		return false;
	for (unsigned i = 0; i < load.count; i++)
		if (load.copies[i].map == found.dlfo_link_map)
			return true;
	return false;
}

bool load_is_copy(const char *path)
{
	return !strncmp(path, PREFIX, strlen(PREFIX));
}

const char *load_take(struct sim_process *process)
{
	struct copy *copy;

	if (load.taken == load.count)
		return NULL;
	copy = &load.copies[load.taken++];
	TAILQ_CONCAT(&process->at_exit, &copy->constructors->at_exit, link);
	TAILQ_CONCAT(&process->in_child, &copy->constructors->in_child, link);
	return copy->path;
}
