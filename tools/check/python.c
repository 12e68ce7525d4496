/* SPDX-License-Identifier: Apache-2.0 */
/* Search for Python packages; see python.h. */
#include "python.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define SITES_MAX      256
#define LIST_MAX_BYTES ((size_t)64 << 10)

static const char *const conda_names[] = { "miniconda3", "anaconda3", "miniforge3",
					   "mambaforge", "conda",     "micromamba" };

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool ends(const char *text, const char *with)
{
	size_t bytes = strlen(text), tail = strlen(with);

	return bytes >= tail && !strcmp(text + bytes - tail, with);
}

/* Converts "nvidia_nccl_cu12-2.19.3.dist-info" to "nvidia-nccl-cu12 2.19.3". */
static char *distribution_text(const char *directory)
{
	size_t bytes = strlen(directory) - strlen(".dist-info");
	char *text = text_copy(directory, bytes), *dash = strchr(text, '-');

	for (char *at = text; at < dash; at++) {
		if (*at == '_')
			*at = '-';
	}
	if (dash)
		*dash = ' ';
	return text;
}

static bool names_distribution(const char *entry, const char *name)
{
	size_t bytes = strlen(name);

	if (!ends(entry, ".dist-info"))
		return false;
	if (bytes && name[bytes - 1] == '*')
		return !strncmp(entry, name, bytes - 1) && strchr(entry, '-');
	return begins(entry, name) && entry[bytes] == '-';
}

char *python_distribution(const struct host *host, const char *site, const char *name, char **full)
{
	struct text_list entries = host_list(host, site);
	char *version = NULL;

	for (size_t i = 0; i < entries.count && !version; i++) {
		char *text, *blank;

		if (!names_distribution(entries.items[i], name))
			continue;
		text = distribution_text(entries.items[i]);
		blank = strchr(text, ' ');
		version = text_copy(blank ? blank + 1 : "", blank ? strlen(blank + 1) : 0);
		if (full)
			*full = text;
		else
			free(text);
	}
	text_list_free(&entries);
	return version;
}

static void find_wheels(const struct host *host, struct python_site *site)
{
	struct text_list entries = host_list(host, site->path);

	for (size_t i = 0; i < entries.count; i++) {
		if (names_distribution(entries.items[i], "nvidia_nccl_cu*"))
			text_list_add(&site->nccl_wheels, distribution_text(entries.items[i]));
	}
	text_list_free(&entries);
}

static void add_site(const struct host *host, struct python_sites *sites, const char *path,
		     const char *prefix)
{
	char *real = host_is_directory(host, path) ? host_resolve(host, path) : NULL;
	struct python_site *site;

	for (size_t i = 0; real && i < sites->count; i++) {
		if (!strcmp(sites->list[i].path, real)) {
			free(real);
			real = NULL;
		}
	}
	if (!real || sites->count == SITES_MAX) {
		free(real);
		return;
	}
	sites->list = text_grow(sites->list, (sites->count + 1) * sizeof(*sites->list));
	site = &sites->list[sites->count++];
	*site = (struct python_site){ .path = real, .prefix = text_copy(prefix, strlen(prefix)) };
	find_wheels(host, site);
}

static void add_sites_of(const struct host *host, struct python_sites *sites, const char *prefix)
{
	static const char *const libs[] = { "lib", "lib64" };
	static const char *const packages[] = { "site-packages", "dist-packages" };

	for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
		char *lib = text_format("%s/%s", prefix, libs[i]);
		struct text_list entries = host_list(host, lib);

		for (size_t j = 0; j < entries.count; j++) {
			for (size_t k = 0; k < ARRAY_SIZE(packages); k++) {
				char *path;

				if (!begins(entries.items[j], "python3"))
					continue;
				path = text_format("%s/%s/%s", lib, entries.items[j], packages[k]);
				add_site(host, sites, path, prefix);
				free(path);
			}
		}
		text_list_free(&entries);
		free(lib);
	}
}

/* Adds each directory in `parent` as a prefix. */
static void add_each_in(const struct host *host, struct python_sites *sites, const char *parent)
{
	struct text_list entries = host_list(host, parent);

	for (size_t i = 0; i < entries.count; i++) {
		char *prefix = text_format("%s/%s", parent, entries.items[i]);

		add_sites_of(host, sites, prefix);
		free(prefix);
	}
	text_list_free(&entries);
}

static void add_conda(const struct host *host, struct python_sites *sites, const char *parent)
{
	for (size_t i = 0; i < ARRAY_SIZE(conda_names); i++) {
		char *base = text_format("%s/%s", parent, conda_names[i]);
		char *envs = text_format("%s/envs", base);

		add_sites_of(host, sites, base);
		add_each_in(host, sites, envs);
		free(envs);
		free(base);
	}
}

/* Matches "python", "python3", "python3.11". */
static bool is_interpreter(const char *name)
{
	return begins(name, "python") && strspn(name + 6, "0123456789.") == strlen(name + 6);
}

/* Adds the prefix of bin/python: two levels up, both with and without resolving links. */
static void add_interpreter(const struct host *host, struct python_sites *sites, const char *path)
{
	char *real = host_resolve(host, path);
	const char *const files[] = { path, real };

	for (size_t i = 0; real && i < ARRAY_SIZE(files); i++) {
		char *prefix = text_copy(files[i], strlen(files[i]));

		for (int up = 0; up < 2 && strrchr(prefix, '/'); up++)
			*strrchr(prefix, '/') = 0;
		add_sites_of(host, sites, prefix);
		free(prefix);
	}
	free(real);
}

static void add_from_path(const struct host *host, struct python_sites *sites, const char *path)
{
	while (path && *path) {
		size_t bytes = strcspn(path, ":");
		char *directory = text_copy(path, bytes);
		struct text_list entries = { 0 };

		if (*directory == '/')
			entries = host_list(host, directory);
		for (size_t i = 0; i < entries.count; i++) {
			char *file;

			if (!is_interpreter(entries.items[i]))
				continue;
			file = text_format("%s/%s", directory, entries.items[i]);
			add_interpreter(host, sites, file);
			free(file);
		}
		text_list_free(&entries);
		free(directory);
		path += bytes + (path[bytes] == ':');
	}
}

static void add_python_path(const struct host *host, struct python_sites *sites, const char *path)
{
	while (path && *path) {
		size_t bytes = strcspn(path, ":");
		char *directory = text_copy(path, bytes);

		if (*directory == '/')
			add_site(host, sites, directory, "");
		free(directory);
		path += bytes + (path[bytes] == ':');
	}
}

/* Adds conda's own list of environments, one path per line. */
static void add_conda_list(const struct host *host, struct python_sites *sites)
{
	char *path = text_format("%s/.conda/environments.txt", host->home), *next;
	char *text = host_read(host, path, LIST_MAX_BYTES, NULL);

	for (char *line = text; line && *line; line = next) {
		size_t bytes = strcspn(line, "\r\n");

		next = line + bytes + strspn(line + bytes, "\r\n");
		line[bytes] = 0;
		if (*line == '/')
			add_sites_of(host, sites, line);
	}
	free(text);
	free(path);
}

static void add_home(const struct host *host, struct python_sites *sites)
{
	char *local = text_format("%s/.local", host->home);
	char *pyenv = text_format("%s/.pyenv/versions", host->home);

	add_sites_of(host, sites, local);
	add_conda(host, sites, host->home);
	add_conda_list(host, sites);
	add_each_in(host, sites, pyenv);
	free(pyenv);
	free(local);
}

struct python_sites python_find(const struct host *host)
{
	static const char *const active[] = { "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME" };
	struct python_sites sites = { 0 };

	add_python_path(host, &sites, host_env("PYTHONPATH"));
	for (size_t i = 0; i < ARRAY_SIZE(active); i++) {
		if (host_env(active[i]))
			add_sites_of(host, &sites, host_env(active[i]));
	}
	add_from_path(host, &sites, host_env("PATH"));
	if (*host->home)
		add_home(host, &sites);
	add_sites_of(host, &sites, "/usr/local");
	add_sites_of(host, &sites, "/usr");
	add_conda(host, &sites, "/opt");
	return sites;
}

void python_free(struct python_sites *sites)
{
	for (size_t i = 0; i < sites->count; i++) {
		free(sites->list[i].path);
		free(sites->list[i].prefix);
		text_list_free(&sites->list[i].nccl_wheels);
	}
	free(sites->list);
	*sites = (struct python_sites){ 0 };
}
