/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NCCL PyTorch and CuPy load: finds their libraries that need NCCL, and follows the dynamic
 * loader's search. See copies.h.
 */
#include "copies.h"

#include <jansson.h>
#include <string.h>

#include "tools/shared/memory.h"

#define NCCL_NAME      "libnccl.so.2"
#define TEXT_MAX_BYTES ((size_t)64 << 10)

/* Returns the quoted string after `name` and '=' at the start of a line of Python source; "" = none. */
static const char *python_string(const char *source, const char *name)
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
	return "";
}

static struct nccl_user *add_user(struct nccl_copies *copies, const char *name,
				  const struct python_site *site)
{
	struct nccl_user *user;

	copies->users =
		memory_resize(copies->users, (copies->user_count + 1) * sizeof(*copies->users));
	user = &copies->users[copies->user_count++];
	*user = (struct nccl_user){ .name = name, .site = site };
	return user;
}

/* Removes the ".." components that $ORIGIN/../.. leaves in a path. */
static const char *tidy(const struct host *host, const char *path)
{
	const char *real = path && strstr(path, "/../") ? host_resolve(host, path) : NULL;

	return real ? real : path;
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
}

static void find_torch(struct nccl_copies *copies, const struct loader *loader,
		       const struct python_site *site)
{
	/* The second is PyTorch 1's. */
	static const char *const libraries[] = { "libtorch_cuda.so", "libtorch_cuda_cpp.so" };
	char *source = host_read(loader->host, text_format("%s/torch/version.py", site->path),
				 TEXT_MAX_BYTES, NULL);
	struct nccl_user *user;

	if (!source)
		return;
	user = add_user(copies, "PyTorch", site);
	user->version = python_string(source, "__version__");
	user->cuda = python_string(source, "cuda");
	for (size_t i = 0; i < ARRAY_SIZE(libraries) && !user->uses_nccl; i++)
		find_loaded(copies, loader,
			    text_format("%s/torch/lib/%s", site->path, libraries[i]), user);
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
	}
	return NULL;
}

/* Returns the CuPy module that calls NCCL; NULL = built without NCCL. */
static char *find_cupy_module(const struct host *host, const char *site)
{
	char *directory = text_format("%s/cupy_backends/cuda/libs", site);
	struct text_list entries = host_list(host, directory);

	for (size_t i = 0; i < entries.count; i++) {
		if (!strncmp(entries.items[i], "nccl.", 5) && strstr(entries.items[i], ".so"))
			return text_format("%s/%s", directory, entries.items[i]);
	}
	return NULL;
}

static void find_cupy(struct nccl_copies *copies, const struct loader *loader,
		      const struct python_site *site)
{
	const char *version = python_distribution(loader->host, site->path, "cupy*"), *cuda;
	char *source = host_read(loader->host, text_format("%s/cupy/.data/_wheel.json", site->path),
				 TEXT_MAX_BYTES, NULL);
	const char *module = find_cupy_module(loader->host, site->path), *preloaded;
	const struct nccl_copy *copy;
	struct nccl_user *user;
	json_t *wheel;

	if (!version)
		return;
	wheel = source ? json_loads(source, 0, NULL) : NULL;
	cuda = json_string_value(json_object_get(wheel, "cuda"));
	user = add_user(copies, "CuPy", site);
	user->version = version;
	user->cuda = text_format("%s", cuda ? cuda : "");
	if (module)
		find_loaded(copies, loader, module, user);
	preloaded = user->uses_nccl ? find_preloaded(loader->host, wheel) : NULL;
	if (preloaded) {
		user->path = preloaded;
		copy = copies_add(copies, loader->host, preloaded);
		if (copy)
			user->nccl = copy->version;
	}
	json_decref(wheel);
}

void copies_find_users(struct nccl_copies *copies, const struct loader *loader)
{
	for (size_t i = 0; i < copies->sites.count; i++) {
		find_torch(copies, loader, &copies->sites.list[i]);
		find_cupy(copies, loader, &copies->sites.list[i]);
	}
}
