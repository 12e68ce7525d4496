/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic loader's search for libraries; see loader.h. */
#include "loader.h"

#include <elf.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "ld_cache.h"

#define CACHE_MAX_BYTES ((size_t)16 << 20)

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#endif

/* Debian's and Fedora's; a real loader has only its own distribution's compiled in. */
static const char *const usual_directories[] = {
#ifdef TRIPLET
	"/lib/" TRIPLET, "/usr/lib/" TRIPLET,
#endif
	"/lib64",        "/usr/lib64",        "/lib", "/usr/lib",
};

/* A relative path, or an empty directory in a list, refers to the current directory. */
static char *absolute(const char *path, size_t bytes)
{
	char here[PATH_MAX] = "";

	if (bytes && *path == '/')
		return text_copy(path, bytes);
	return text_format("%s/%.*s", getcwd(here, sizeof(here)) ? here : "", (int)bytes, path);
}

static void read_library_path(struct text_list *list)
{
	const char *path = host_env("LD_LIBRARY_PATH");

	while (path) {
		size_t bytes = strcspn(path, ":;");

		text_list_add(list, absolute(path, bytes));
		path = path[bytes] ? path + bytes + 1 : NULL;
	}
}

void loader_open(struct loader *loader, const struct host *host)
{
	size_t bytes;
	char *cache = host_read(host, "/etc/ld.so.cache", CACHE_MAX_BYTES, &bytes);

	*loader = (struct loader){ .host = host };
	read_library_path(&loader->library_path);
	if (cache)
		ld_cache_read(cache, bytes, &loader->names, &loader->paths);
}

#define HEAD_BYTES (EI_NIDENT + 4) /* up to e_type and e_machine */

/* The loader silently skips files for other word sizes and processors. It tries everything else,
 * even a directory, and then fails. */
static bool is_taken(const struct loader *loader, const char *path)
{
	size_t bytes = 0;
	char *head;
	bool taken;

	if (host_is_directory(loader->host, path))
		return true;
	head = host_read(loader->host, path, HEAD_BYTES, &bytes);
	taken = head && !(bytes >= EI_NIDENT && !memcmp(head, ELFMAG, SELFMAG) &&
			  head[EI_CLASS] != ELFCLASS64);
#ifdef OUR_MACHINE
	if (taken && bytes == HEAD_BYTES && !memcmp(head, ELFMAG, SELFMAG))
		taken = ((unsigned char)head[18] | (unsigned char)head[19] << 8) == OUR_MACHINE;
#endif
	return taken;
}

/* Returns the file in this directory, or NULL. */
static char *in_directory(const struct loader *loader, const char *directory, const char *name)
{
	char *path = text_format("%s/%s", directory, name);

	return is_taken(loader, path) ? path : NULL;
}

/* Expands $ORIGIN, the directory of the library that needs another one. */
static char *expand_origin(const char *directory, const char *from_path)
{
	static const char *const marks[] = { "$ORIGIN", "${ORIGIN}" };
	const char *slash = strrchr(from_path, '/');

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		if (!strncmp(directory, marks[i], strlen(marks[i])))
			return text_format("%.*s%s", slash ? (int)(slash - from_path) : 0,
					   from_path, directory + strlen(marks[i]));
	}
	return absolute(directory, strlen(directory));
}

static char *in_list(const struct loader *loader, const struct text_list *list, const char *from,
		     const char *name)
{
	char *found = NULL;

	for (size_t i = 0; i < list->count && !found; i++)
		found = in_directory(loader,
				     from ? expand_origin(list->items[i], from) : list->items[i],
				     name);
	return found;
}

static char *in_cache(const struct loader *loader, const char *name)
{
	for (size_t i = 0; i < loader->names.count; i++) {
		const char *path = loader->paths.items[i];

		if (!strcmp(name, loader->names.items[i]) && *path == '/' && is_taken(loader, path))
			return text_dup(path);
	}
	return NULL;
}

char *loader_find(const struct loader *loader, const char *name, const struct library *from,
		  const char *from_path)
{
	char *found = NULL;

	if (strchr(name, '/')) {
		char *path = absolute(name, strlen(name));

		/* A file named by its path is returned even if it is unsuitable, so that the caller
		 * can report why. */
		return host_is_file(loader->host, path) || is_taken(loader, path) ? path : NULL;
	}
	/* RPATH is ignored if there is a RUNPATH. */
	if (from && !from->runpath.count)
		found = in_list(loader, &from->rpath, from_path, name);
	if (!found)
		found = in_list(loader, &loader->library_path, NULL, name);
	if (!found && from)
		found = in_list(loader, &from->runpath, from_path, name);
	if (!found)
		found = in_cache(loader, name);
	for (size_t i = 0; i < ARRAY_SIZE(usual_directories) && !found; i++)
		found = in_directory(loader, usual_directories[i], name);
	return found;
}

struct text_list loader_directories(const struct loader *loader)
{
	struct text_list list = { 0 };

	for (size_t i = 0; i < loader->library_path.count; i++)
		text_list_add_new(&list, loader->library_path.items[i]);
	for (size_t i = 0; i < loader->paths.count; i++) {
		const char *path = loader->paths.items[i], *slash = strrchr(path, '/');

		if (*path == '/' && slash > path)
			text_list_add_new(&list, text_copy(path, (size_t)(slash - path)));
	}
	for (size_t i = 0; i < ARRAY_SIZE(usual_directories); i++)
		text_list_add_new(&list, usual_directories[i]);
	return list;
}

char *loader_unreadable(const struct loader *loader, const struct text_list *names)
{
	struct text_list directories = loader_directories(loader);

	for (size_t i = 0; i < directories.count; i++) {
		for (size_t j = 0; j < names->count; j++) {
			char *path = text_format("%s/%s", directories.items[i], names->items[j]);

			if (host_is_file(loader->host, path) &&
			    access(host_open_name(loader->host, path), R_OK))
				return path;
		}
	}
	return NULL;
}
