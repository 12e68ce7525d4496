/* SPDX-License-Identifier: Apache-2.0 */
/* How NCCL searches for its network plugin in each release; see releases.h. */
#include "releases.h"

#include <string.h>
#include <strings.h>

#include "plugin/selector.h"

#define DEFAULT_NAME "libnccl-net.so"
#define ITEM_BYTES   254 /* NCCL skips longer items */
#define ITEMS_MAX    14

static bool passes(const struct release_range *range, const char *net, const char *name)
{
	if (!net || range->filter == FILTER_NONE)
		return true;
	return range->filter == FILTER_EXACT ? !strcmp(net, name) : !strcasecmp(net, name);
}

/* Finds a library that lacks a required symbol version. Returns the reason; NULL = none. */
static char *too_old(const struct loader *loader, const struct library *library, const char *path)
{
	for (size_t i = 0; i < library->versions.count; i++) {
		const char *both = library->versions.items[i], *blank = strchr(both, ' ');
		char *name = text_copy(both, (size_t)(blank - both));
		char *found = loader_find(loader, name, library, path);

		if (found && !library_has_version(loader->host, found, blank + 1))
			return text_format("it needs version %s of %s, which %s does not have",
					   blank + 1, name, found);
	}
	return NULL;
}

/* Returns why dlopen would fail: a needed library is missing or too old. NULL = it would work. */
static char *obstacle(const struct loader *loader, const struct library *library, const char *path)
{
	for (size_t i = 0; i < library->needed.count; i++) {
		if (!loader_find(loader, library->needed.items[i], library, path))
			return text_format("it needs %s, which is not found",
					   library->needed.items[i]);
	}
	return too_old(loader, library, path);
}

/* Determines whether this release can use the file. */
static void judge(const struct release_range *range, const struct loader *loader, const char *file,
		  const char *net, struct plugin_outcome *outcome)
{
	struct library library;

	outcome->file = file;
	outcome->api = 0;
	library_read(loader->host, file, &library);
	outcome->anynet = library.anynet;
	memcpy(outcome->anynet_version, library.anynet_version, sizeof(outcome->anynet_version));
	for (int api = range->api_oldest; api <= range->api_newest; api++) {
		if (library.net_apis >> api & 1)
			outcome->api = api;
	}
	outcome->why = library.error ? library.error : obstacle(loader, &library, file);
	if (outcome->why || !outcome->api)
		outcome->state = PLUGIN_UNUSABLE;
	else if (library.anynet && !passes(range, net, anynet_selector_name_for(net)))
		outcome->state = PLUGIN_FILTERED;
	else
		outcome->state = PLUGIN_LOADED;
}

/* Tries a name. Returns true if NCCL stops searching. */
static bool try_name(const struct release_range *range, const struct loader *loader,
		     const char *name, const char *net, struct plugin_outcome *outcome)
{
	char *file = loader_find(loader, name, NULL, NULL);

	text_list_add(&outcome->tried, name);
	if (!file)
		return false;
	judge(range, loader, file, net, outcome);
	return outcome->state == PLUGIN_LOADED;
}

static char *with_suffix(const char *item)
{
	return text_format("libnccl-net-%s.so", item);
}

/* "s", "stat", "STATIC_PLUGIN": NCCL 2.22 and newer search the program itself then. */
static bool is_static(const struct release_range *range, const char *item)
{
	static const char word[] = "STATIC_PLUGIN";
	size_t bytes = strlen(item);

	return range->from >= 22200 && bytes && bytes < sizeof(word) &&
	       !strncasecmp(item, word, bytes);
}

static bool is_library_name(const char *item)
{
	size_t bytes = strlen(item);

	return strchr(item, '/') ||
	       (!strncmp(item, "lib", 3) && bytes > 6 && !strcmp(item + bytes - 3, ".so"));
}

static bool try_item(const struct release_range *range, const struct loader *loader,
		     const char *item, const char *net, struct plugin_outcome *outcome)
{
	if (is_static(range, item)) {
		outcome->state = PLUGIN_STATIC;
		return true;
	}
	if (try_name(range, loader, item, net, outcome))
		return true;
	/* 2.26 and older always try the second name; for a path it never exists. */
	if (range->naming == NAMING_LIST && is_library_name(item))
		return false;
	return try_name(range, loader, with_suffix(item), net, outcome);
}

static void try_list(const struct release_range *range, const struct loader *loader,
		     const char *list, const char *net, struct plugin_outcome *outcome)
{
	for (int items = 0; *list && items < ITEMS_MAX; items++) {
		size_t bytes = strcspn(list, ",");

		if (bytes && bytes <= ITEM_BYTES &&
		    try_item(range, loader, text_copy(list, bytes), net, outcome))
			return;
		list += bytes + (list[bytes] == ',');
	}
}

void plugin_resolve(const struct release_range *range, const struct loader *loader,
		    const char *net_plugin, const char *net, struct plugin_outcome *outcome)
{
	*outcome = (struct plugin_outcome){ .state = PLUGIN_NOT_FOUND };
	if (net_plugin && range->naming == NAMING_LIST &&
	    (!*net_plugin || (range->none_word && !strcasecmp(net_plugin, "none")))) {
		outcome->state = PLUGIN_OFF;
		return;
	}
	if (range->naming == NAMING_FIXED || !net_plugin || !*net_plugin)
		try_name(range, loader, DEFAULT_NAME, net, outcome);
	else if (range->naming == NAMING_SUFFIX)
		try_name(range, loader, with_suffix(net_plugin), net, outcome);
	else if (range->naming == NAMING_EITHER)
		try_item(range, loader, net_plugin, net, outcome);
	else
		try_list(range, loader, net_plugin, net, outcome);
}
