/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each release of NCCL (ranges.h) finds its network plugin: the names it tries, the API version it
 * uses, the network names it accepts. Pure functions of NCCL_NET_PLUGIN, NCCL_NET and a search for files.
 */
#ifndef CHECK_RELEASES_H
#define CHECK_RELEASES_H

#include "loader.h"
#include "ranges.h"

enum plugin_state {
	PLUGIN_LOADED,    /* loaded, as far as its files show */
	PLUGIN_NOT_FOUND, /* no file; NCCL continues with its own networks */
	PLUGIN_UNUSABLE,  /* the file cannot be loaded, or exports no API version of this release */
	PLUGIN_FILTERED,  /* anynet, but NCCL_NET requests another network */
	PLUGIN_OFF,       /* "none", or an empty list */
	PLUGIN_STATIC,    /* NCCL looks for the plugin in the program itself */
};

struct plugin_outcome {
	enum plugin_state state;
	const char *file; /* the deciding file; NULL = none */
	int api;          /* newest API version that both support; 0 = none */
	bool anynet;
	char anynet_version[32];
	const char *why;        /* for PLUGIN_UNUSABLE; NULL = no API version of this release */
	struct text_list tried; /* names, in order */
};

/* Determines what a release of this range does with these values; NULL = variable unset. */
void plugin_resolve(const struct release_range *range, const struct loader *loader,
		    const char *net_plugin, const char *net, struct plugin_outcome *outcome);

#endif
