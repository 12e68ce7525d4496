/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each release of NCCL finds its network plugin (net-api.md §1.1, §2.1 – §2.7): the names it
 * tries, the tables it knows, the names it lets pass. Pure functions of NCCL_NET_PLUGIN and NCCL_NET
 * and of a search for files.
 */
#ifndef CHECK_RELEASES_H
#define CHECK_RELEASES_H

#include <stdbool.h>
#include <stddef.h>

#include "loader.h"

enum plugin_naming {
	NAMING_FIXED,  /* libnccl-net.so, whatever NCCL_NET_PLUGIN says */
	NAMING_SUFFIX, /* libnccl-net-VALUE.so */
	NAMING_EITHER, /* VALUE, then libnccl-net-VALUE.so */
	NAMING_LIST,   /* the same for each item of a list; empty = no plugin */
};

enum net_filter {
	FILTER_NONE,
	FILTER_EXACT,
	FILTER_ANY_CASE,
};

/* Releases that go about it in the same way, oldest first. */
struct release_range {
	int from, to; /* as NCCL counts, both included */
	int api_newest, api_oldest;
	enum plugin_naming naming;
	bool none_word; /* "none" means no plugin */
	enum net_filter filter;
};

extern const struct release_range release_ranges[];
extern const size_t release_range_count;

/* The range with this release; newer ones than all belong to the last. */
const struct release_range *release_range_of(int code);

enum plugin_state {
	PLUGIN_LOADED,    /* selected, as far as one can see from outside */
	PLUGIN_NOT_FOUND, /* no file; NCCL goes on with its own networks */
	PLUGIN_UNUSABLE,  /* a file that cannot be loaded, or has no table this release knows */
	PLUGIN_FILTERED,  /* anynet, but NCCL_NET asks for another network */
	PLUGIN_OFF,       /* "none", or an empty list */
	PLUGIN_STATIC,    /* looked for in the program itself */
};

struct plugin_outcome {
	enum plugin_state state;
	char *file; /* that decides; NULL = none */
	int api;    /* newest table that both know; 0 = none */
	bool anynet;
	char anynet_version[32];
	char *why;              /* of PLUGIN_UNUSABLE; NULL = it has no table for this release */
	struct text_list tried; /* names, in order */
};

/* What happens in this range with these values; NULL = the variable is not set. */
void plugin_resolve(const struct release_range *range, const struct loader *loader,
		    const char *net_plugin, const char *net, struct plugin_outcome *outcome);
void plugin_outcome_free(struct plugin_outcome *outcome);

#endif
