/* SPDX-License-Identifier: Apache-2.0 */
/* Search for libnccl; see copies.h. */
#include "copies.h"

#include <stdlib.h>
#include <string.h>

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
	copies->list = text_grow(copies->list, (copies->count + 1) * sizeof(*copies->list));
	copy = &copies->list[copies->count++];
	*copy = (struct nccl_copy){
		.path = text_copy(path, strlen(path)),
		.real = host_resolve(host, path),
		.version = library.nccl,
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	if (library.error)
		copy->error = text_copy(library.error, strlen(library.error));
	library_free(&library);
	return copy;
}

static void add_directory(struct nccl_copies *copies, const struct host *host,
			  const char *directory)
{
	struct text_list entries = host_list(host, directory);

	for (size_t i = 0; i < entries.count; i++) {
		char *path;

		if (!is_name(entries.items[i]))
			continue;
		path = text_format("%s/%s", directory, entries.items[i]);
		copies_add(copies, host, path);
		free(path);
	}
	text_list_free(&entries);
}

/* Adds the library directories below `prefix`. */
static void add_prefix(struct nccl_copies *copies, const struct host *host, const char *prefix)
{
	static const char *const libs[] = { "lib", "lib64", "build/lib", "targets/x86_64-linux/lib",
					    "targets/sbsa-linux/lib" };

	for (size_t i = 0; prefix && i < ARRAY_SIZE(libs); i++) {
		char *directory = text_format("%s/%s", prefix, libs[i]);

		add_directory(copies, host, directory);
		free(directory);
	}
}

/* Adds each directory in `parent` whose name begins with `beginning`, as a prefix. */
static void add_prefixes(struct nccl_copies *copies, const struct host *host, const char *parent,
			 const char *beginning)
{
	struct text_list entries = host_list(host, parent);

	for (size_t i = 0; i < entries.count; i++) {
		char *prefix;

		if (strncmp(entries.items[i], beginning, strlen(beginning)) != 0)
			continue;
		prefix = text_format("%s/%s", parent, entries.items[i]);
		add_prefix(copies, host, prefix);
		free(prefix);
	}
	text_list_free(&entries);
}

static void add_preloaded(struct nccl_copies *copies, const struct loader *loader)
{
	const char *list = host_env("LD_PRELOAD");

	while (list && *list) {
		size_t bytes = strcspn(list, ": ");
		char *name = text_copy(list, bytes);
		const char *slash = strrchr(name, '/');

		if (is_name(slash ? slash + 1 : name)) {
			char *path = loader_find(loader, name, NULL, NULL);

			if (path)
				copies_add(copies, loader->host, path);
			free(path);
		}
		free(name);
		list += bytes + (list[bytes] != 0);
	}
}

static void add_sites(struct nccl_copies *copies, const struct host *host)
{
	static const char *const places[] = { "nvidia/nccl/lib", "torch/lib", "cupy/.data/lib" };

	for (size_t i = 0; i < copies->sites.count; i++) {
		const struct python_site *site = &copies->sites.list[i];

		for (size_t j = 0; j < ARRAY_SIZE(places); j++) {
			char *directory = text_format("%s/%s", site->path, places[j]);

			add_directory(copies, host, directory);
			free(directory);
		}
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
	text_list_free(&directories);
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

void copies_free(struct nccl_copies *copies)
{
	for (size_t i = 0; i < copies->count; i++) {
		free(copies->list[i].path);
		free(copies->list[i].real);
		free(copies->list[i].error);
	}
	for (size_t i = 0; i < copies->user_count; i++) {
		free(copies->users[i].version);
		free(copies->users[i].cuda);
		free(copies->users[i].path);
	}
	free(copies->list);
	free(copies->users);
	free(copies->by_default);
	python_free(&copies->sites);
	*copies = (struct nccl_copies){ 0 };
}
