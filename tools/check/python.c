/* SPDX-License-Identifier: Apache-2.0 */
/* Search for Python packages; see python.h. */
#include "python.h"

#include <string.h>

#include "tools/shared/memory.h"

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

const char *python_distribution(const struct host *host, const char *site, const char *name)
{
	struct text_list entries = host_list(host, site);

	for (size_t i = 0; i < entries.count; i++) {
		const char *blank;

		if (!names_distribution(entries.items[i], name))
			continue;
		blank = strchr(distribution_text(entries.items[i]), ' ');
		return blank ? blank + 1 : "";
	}
	return NULL;
}

static void find_wheels(const struct host *host, struct python_site *site)
{
	struct text_list entries = host_list(host, site->path);

	for (size_t i = 0; i < entries.count; i++) {
		if (names_distribution(entries.items[i], "nvidia_nccl_cu*"))
			text_list_add(&site->nccl_wheels, distribution_text(entries.items[i]));
	}
}

static void add_site(const struct host *host, struct python_sites *sites, const char *path,
		     const char *prefix)
{
	const char *real = host_is_directory(host, path) ? host_resolve(host, path) : NULL;
	struct python_site *site;

	for (size_t i = 0; real && i < sites->count; i++) {
		if (!strcmp(sites->list[i].path, real))
			return;
	}
	if (!real || sites->count == SITES_MAX)
		return;
	sites->list = memory_resize(sites->list, (sites->count + 1) * sizeof(*sites->list));
	site = &sites->list[sites->count++];
	*site = (struct python_site){ .path = real, .prefix = prefix };
	find_wheels(host, site);
}

static void add_sites_of(const struct host *host, struct python_sites *sites, const char *prefix)
{
	static const char *const libs[] = { "lib", "lib64" };

	for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
		char *lib = text_format("%s/%s", prefix, libs[i]);
		struct text_list entries = host_list(host, lib);

		for (size_t j = 0; j < entries.count; j++) {
			char *python = text_format("%s/%s", lib, entries.items[j]);

			if (!begins(entries.items[j], "python3"))
				continue;
			add_site(host, sites, text_format("%s/site-packages", python), prefix);
			add_site(host, sites, text_format("%s/dist-packages", python), prefix);
		}
	}
}

/* Adds each directory in `parent` as a prefix. */
static void add_each_in(const struct host *host, struct python_sites *sites, const char *parent)
{
	struct text_list entries = host_list(host, parent);

	for (size_t i = 0; i < entries.count; i++)
		add_sites_of(host, sites, text_format("%s/%s", parent, entries.items[i]));
}

static void add_conda(const struct host *host, struct python_sites *sites, const char *parent)
{
	for (size_t i = 0; i < ARRAY_SIZE(conda_names); i++) {
		char *base = text_format("%s/%s", parent, conda_names[i]);

		add_sites_of(host, sites, base);
		add_each_in(host, sites, text_format("%s/envs", base));
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
	const char *const files[] = { path, host_resolve(host, path) };

	for (size_t i = 0; files[1] && i < ARRAY_SIZE(files); i++) {
		char *prefix = text_dup(files[i]);

		for (int up = 0; up < 2 && strrchr(prefix, '/'); up++)
			*strrchr(prefix, '/') = 0;
		add_sites_of(host, sites, prefix);
	}
}

/* Returns whether the directory has an interpreter. */
static bool add_interpreters(const struct host *host, struct python_sites *sites,
			     const char *directory)
{
	struct text_list entries = { 0 };
	bool any = false;

	if (*directory == '/')
		entries = host_list(host, directory);
	for (size_t i = 0; i < entries.count; i++) {
		if (!is_interpreter(entries.items[i]))
			continue;
		add_interpreter(host, sites, text_format("%s/%s", directory, entries.items[i]));
		any = true;
	}
	return any;
}

static void add_python_path(const struct host *host, struct python_sites *sites, const char *path)
{
	const char *directory;

	while (path && (directory = text_next(&path, ":"))) {
		if (*directory == '/')
			add_site(host, sites, directory, "");
	}
}

/* Adds conda's own list of environments, one path per line. */
static void add_conda_list(const struct host *host, struct python_sites *sites)
{
	const char *text = host_read(host, text_format("%s/.conda/environments.txt", host->home),
				     LIST_MAX_BYTES, NULL);
	const char *line;

	while (text && (line = text_next(&text, "\r\n"))) {
		if (*line == '/')
			add_sites_of(host, sites, line);
	}
}

static void add_home(const struct host *host, struct python_sites *sites)
{
	add_sites_of(host, sites, text_format("%s/.local", host->home));
	add_conda(host, sites, host->home);
	add_conda_list(host, sites);
	add_each_in(host, sites, text_format("%s/.pyenv/versions", host->home));
}

/* Adds the environment that the variables name, or else that of the first interpreter on PATH, with the packages of the
 * user and, as Debian has it, of /usr/local. */
static void add_active(const struct host *host, struct python_sites *sites)
{
	static const char *const names[] = { "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME" };
	const char *path = host_env("PATH"), *directory;
	bool any = false;

	add_python_path(host, sites, host_env("PYTHONPATH"));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!host_env(names[i]))
			continue;
		add_sites_of(host, sites, host_env(names[i]));
		any = true;
	}
	if (any)
		return;
	while (path && (directory = text_next(&path, ":")) && !any)
		any = add_interpreters(host, sites, directory);
	if (*host->home)
		add_sites_of(host, sites, text_format("%s/.local", host->home));
	add_sites_of(host, sites, "/usr/local");
}

struct python_sites python_find(const struct host *host)
{
	const char *path = host_env("PATH"), *directory;
	struct python_sites sites = { 0 };

	add_active(host, &sites);
	for (size_t i = 0; i < sites.count; i++)
		sites.list[i].active = true;
	while (path && (directory = text_next(&path, ":")))
		add_interpreters(host, &sites, directory);
	if (*host->home)
		add_home(host, &sites);
	add_sites_of(host, &sites, "/usr/local");
	add_sites_of(host, &sites, "/usr");
	add_conda(host, &sites, "/opt");
	return sites;
}
