/* SPDX-License-Identifier: Apache-2.0 */
/* Search for libnccl; see copies.h. */
#include "copies.h"

#include <string.h>

#include "tools/shared/memory.h"

#define COPIES_MAX 256

static bool is_name(const char *name)
{
	return !strncmp(name, "libnccl.so", 10) && (!name[10] || name[10] == '.');
}

const struct nccl_copy *copies_at(const struct nccl_copies *copies, const struct host *host,
				  const char *path)
{
	struct stat st;

	if (!path || !host_stat(host, path, &st))
		return NULL;
	for (size_t i = 0; i < copies->count; i++) {
		if (copies->list[i].dev == st.st_dev && copies->list[i].ino == st.st_ino)
			return &copies->list[i];
	}
	return NULL;
}

const struct nccl_copy *copies_add(struct nccl_copies *copies, const struct host *host,
				   const char *path)
{
	const struct nccl_copy *known = copies_at(copies, host, path);
	struct nccl_copy *copy;
	struct library library;
	struct stat st;

	if (known || copies->count == COPIES_MAX || !host_stat(host, path, &st) ||
	    !S_ISREG(st.st_mode))
		return known;
	library_read(host, path, &library);
	copies->list = memory_resize(copies->list, (copies->count + 1) * sizeof(*copies->list));
	copy = &copies->list[copies->count++];
	*copy = (struct nccl_copy){
		.path = path,
		.version = library.nccl,
		.error = library.error,
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	return copy;
}

static void add_directory(struct nccl_copies *copies, const struct host *host,
			  const char *directory)
{
	struct text_list entries = host_list(host, directory);

	for (size_t i = 0; i < entries.count; i++) {
		if (is_name(entries.items[i]))
			copies_add(copies, host, text_format("%s/%s", directory, entries.items[i]));
	}
}

/* Adds the library directories below `prefix`. */
static void add_prefix(struct nccl_copies *copies, const struct host *host, const char *prefix)
{
	static const char *const libs[] = { "lib", "lib64", "build/lib", "targets/x86_64-linux/lib",
					    "targets/sbsa-linux/lib" };

	for (size_t i = 0; prefix && i < ARRAY_SIZE(libs); i++)
		add_directory(copies, host, text_format("%s/%s", prefix, libs[i]));
}

/* Adds each directory in `parent` whose name begins with `beginning`, as a prefix. */
static void add_prefixes(struct nccl_copies *copies, const struct host *host, const char *parent,
			 const char *beginning)
{
	struct text_list entries = host_list(host, parent);

	for (size_t i = 0; i < entries.count; i++) {
		if (!strncmp(entries.items[i], beginning, strlen(beginning)))
			add_prefix(copies, host, text_format("%s/%s", parent, entries.items[i]));
	}
}

static void add_preloaded(struct nccl_copies *copies, const struct loader *loader)
{
	const char *list = host_env("LD_PRELOAD"), *name;

	while (list && (name = text_next(&list, ": "))) {
		const char *slash = strrchr(name, '/'), *path;

		if (!is_name(slash ? slash + 1 : name))
			continue;
		path = loader_find(loader, name, NULL, NULL);
		if (path)
			copies_add(copies, loader->host, path);
	}
}

static void add_sites(struct nccl_copies *copies, const struct host *host)
{
	static const char *const places[] = { "nvidia/nccl/lib", "torch/lib", "cupy/.data/lib" };

	for (size_t i = 0; i < copies->sites.count; i++) {
		const struct python_site *site = &copies->sites.list[i];

		for (size_t j = 0; j < ARRAY_SIZE(places); j++)
			add_directory(copies, host, text_format("%s/%s", site->path, places[j]));
		if (*site->prefix)
			add_prefix(copies, host, site->prefix);
	}
}

void copies_find(struct nccl_copies *copies, const struct loader *loader)
{
	static const char *const variables[] = { "NCCL_HOME", "NCCL_ROOT", "CUDA_HOME",
						 "CUDA_PATH" };
	const struct host *host = loader->host;
	struct text_list directories = loader_directories(loader);

	*copies = (struct nccl_copies){ .sites = python_find(host) };
	copies->by_default = loader_find(loader, "libnccl.so.2", NULL, NULL);
	if (copies->by_default)
		copies_add(copies, host, copies->by_default);
	add_preloaded(copies, loader);
	for (size_t i = 0; i < directories.count; i++)
		add_directory(copies, host, directories.items[i]);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		add_prefix(copies, host, host_env(variables[i]));
	add_prefixes(copies, host, "/usr/local", "nccl");
	add_prefixes(copies, host, "/usr/local", "cuda");
	add_prefixes(copies, host, "/opt", "nccl");
	add_sites(copies, host);
}

bool copies_in_range(const struct nccl_copies *copies, int from, int to)
{
	for (size_t i = 0; i < copies->count; i++) {
		if (copies->list[i].version.code >= from && copies->list[i].version.code <= to)
			return true;
	}
	for (size_t i = 0; i < copies->user_count; i++) {
		if (copies->users[i].nccl.code >= from && copies->users[i].nccl.code <= to)
			return true;
	}
	return false;
}
