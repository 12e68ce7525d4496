/* SPDX-License-Identifier: Apache-2.0 */
/* See load.h. */
#include "sim/load.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "/proc/self/fd/"

struct copy {
	char path[32];
	struct sim_process *constructors; /* a process that did nothing else */
};

static struct {
	struct copy *copies;
	unsigned count, taken;
} load;

/* In memory: nothing is left behind. */
static int copy_file(const char *plugin)
{
	int from = open(plugin, O_RDONLY | O_CLOEXEC), to = memfd_create("anynet-sim", MFD_CLOEXEC);
	struct stat st;
	ssize_t n = 1;

	if (from < 0 || to < 0 || fstat(from, &st))
		return -1;
	for (off_t done = 0; done < st.st_size && n > 0;)
		n = sendfile(to, from, &done, (size_t)(st.st_size - done));
	close(from);
	return n > 0 ? to : -1;
}

static void load_copy(struct copy *copy, const char *plugin)
{
	int fd = copy_file(plugin);
	void *library;

	if (fd < 0) {
		perror(plugin);
		exit(2);
	}
	snprintf(copy->path, sizeof(copy->path), PREFIX "%d", fd);
	copy->constructors = process_new(NULL, 0);
	process_act_as(copy->constructors);
	library = dlopen(copy->path, RTLD_NOW | RTLD_LOCAL);
	process_act_as(NULL);
	if (!library) {
		fprintf(stderr, "%s: %s\n", plugin, dlerror());
		exit(2);
	}
}

void load_copies(const char *plugin, unsigned count)
{
	load.copies = calloc(count, sizeof(*load.copies));
	load.count = count;
	for (unsigned i = 0; load.copies && i < count; i++)
		load_copy(&load.copies[i], plugin);
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
