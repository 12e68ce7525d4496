/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each release of NCCL (ranges.h) finds its network plugin: the names it tries, the table it
 * takes, the names it lets pass. Pure functions of NCCL_NET_PLUGIN and NCCL_NET
 * and of a search for files.
 */
#ifndef CHECK_RELEASES_H
#define CHECK_RELEASES_H

#include "loader.h"
#include "ranges.h"

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
