/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NCCL PyTorch and CuPy load: finds their libraries that need NCCL, and follows the dynamic
 * loader's search. See copies.h.
 */
#include "copies.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NCCL_NAME      "libnccl.so.2"
#define TEXT_MAX_BYTES ((size_t)64 << 10)

/* Returns the quoted string after `name` and '=' at the start of a line of Python source; "" = none. */
static char *python_string(const char *source, const char *name)
{
	for (const char *line = source; line; line = strchr(line, '\n')) {
		const char *equals, *quote;

		line += *line == '\n';
		if (strncmp(line, name, strlen(name)) != 0 || !strchr(" :=", line[strlen(name)]))
			continue;
		equals = line + strcspn(line, "=\n");
		quote = equals + strcspn(equals, "'\"\n");
		if (*equals == '=' && (*quote == '\'' || *quote == '"'))
			return text_copy(quote + 1, strcspn(quote + 1, "'\"\n"));
	}
	return text_copy("", 0);
}

static struct nccl_user *add_user(struct nccl_copies *copies, const char *name,
				  const struct python_site *site)
{
	struct nccl_user *user;

	copies->users = text_grow(copies->users, (copies->user_count + 1) * sizeof(*copies->users));
	user = &copies->users[copies->user_count++];
	*user = (struct nccl_user){ .name = name, .site = site };
	return user;
}

/* Removes the ".." components that $ORIGIN/../.. leaves in a path. */
static char *tidy(const struct host *host, char *path)
{
	char *real = path && strstr(path, "/../") ? host_resolve(host, path) : NULL;

	if (!real)
		return path;
	free(path);
	return real;
}

/* Records which NCCL the dynamic loader loads for the user's library at `path`. */
static void find_loaded(struct nccl_copies *copies, const struct loader *loader, const char *path,
			struct nccl_user *user)
{
	char *real = host_resolve(loader->host, path);
	const struct nccl_copy *copy;
	struct library library;

	if (!real)
		return;
	library_read(loader->host, real, &library);
	if (text_list_has(&library.needed, NCCL_NAME)) {
		user->uses_nccl = true;
		user->path = tidy(loader->host, loader_find(loader, NCCL_NAME, &library, real));
	} else if (library.nccl.code) {
		user->uses_nccl = true;
		user->nccl = library.nccl;
	}
	copy = user->path ? copies_add(copies, loader->host, user->path) : NULL;
	if (copy)
		user->nccl = copy->version;
	library_free(&library);
	free(real);
}

static void find_torch(struct nccl_copies *copies, const struct loader *loader,
		       const struct python_site *site)
{
	/* The second is PyTorch 1's. */
	static const char *const libraries[] = { "libtorch_cuda.so", "libtorch_cuda_cpp.so" };
	char *path = text_format("%s/torch/version.py", site->path);
	char *source = host_read(loader->host, path, TEXT_MAX_BYTES, NULL);
	struct nccl_user *user;

	free(path);
	if (!source)
		return;
	user = add_user(copies, "PyTorch", site);
	user->version = python_string(source, "__version__");
	user->cuda = python_string(source, "cuda");
	free(source);
	for (size_t i = 0; i < ARRAY_SIZE(libraries) && !user->uses_nccl; i++) {
		path = text_format("%s/torch/lib/%s", site->path, libraries[i]);
		find_loaded(copies, loader, path, user);
		free(path);
	}
}

/* Returns the file that CuPy loads explicitly, before the dynamic loader's search: _wheel.json
 * names version and file. */
static char *find_preloaded(const struct host *host, const json_t *wheel)
{
	const char *cuda = json_string_value(json_object_get(wheel, "cuda"));
	const json_t *nccl = json_object_get(wheel, "nccl");
	const char *version = json_string_value(json_object_get(nccl, "version"));
	const json_t *files = json_object_get(nccl, "filenames");
	const char *base = host_env("CUPY_CUDA_LIB_PATH");

	for (size_t i = 0; cuda && version && i < json_array_size(files); i++) {
		const char *file = json_string_value(json_array_get(files, i));
		char *path;

		if (!file)
			continue;
		path = base ? text_format("%s/%s/nccl/%s/lib/%s", base, cuda, version, file)
			    : text_format("%s/.cupy/cuda_lib/%s/nccl/%s/lib/%s", host->home, cuda,
					  version, file);
		if (host_is_file(host, path))
			return path;
		free(path);
	}
	return NULL;
}

/* Returns the CuPy module that calls NCCL; NULL = built without NCCL. */
static char *find_cupy_module(const struct host *host, const char *site)
{
	char *directory = text_format("%s/cupy_backends/cuda/libs", site), *path = NULL;
	struct text_list entries = host_list(host, directory);

	for (size_t i = 0; i < entries.count && !path; i++) {
		if (!strncmp(entries.items[i], "nccl.", 5) && strstr(entries.items[i], ".so"))
			path = text_format("%s/%s", directory, entries.items[i]);
	}
	text_list_free(&entries);
	free(directory);
	return path;
}

static void find_cupy(struct nccl_copies *copies, const struct loader *loader,
		      const struct python_site *site)
{
	char *version = python_distribution(loader->host, site->path, "cupy*", NULL);
	char *path = text_format("%s/cupy/.data/_wheel.json", site->path), *module, *preloaded;
	char *source = host_read(loader->host, path, TEXT_MAX_BYTES, NULL);
	json_t *wheel = source ? json_loads(source, 0, NULL) : NULL;
	const char *cuda = json_string_value(json_object_get(wheel, "cuda"));
	struct nccl_user *user;

	free(path);
	free(source);
	if (!version) {
		json_decref(wheel);
		return;
	}
	user = add_user(copies, "CuPy", site);
	user->version = version;
	user->cuda = text_copy(cuda ? cuda : "", cuda ? strlen(cuda) : 0);
	module = find_cupy_module(loader->host, site->path);
	if (module)
		find_loaded(copies, loader, module, user);
	preloaded = user->uses_nccl ? find_preloaded(loader->host, wheel) : NULL;
	if (preloaded) {
		const struct nccl_copy *copy = copies_add(copies, loader->host, preloaded);

		free(user->path);
		user->path = preloaded;
		if (copy)
			user->nccl = copy->version;
	}
	free(module);
	json_decref(wheel);
}

void copies_find_users(struct nccl_copies *copies, const struct loader *loader)
{
	for (size_t i = 0; i < copies->sites.count; i++) {
		find_torch(copies, loader, &copies->sites.list[i]);
		find_cupy(copies, loader, &copies->sites.list[i]);
	}
}
