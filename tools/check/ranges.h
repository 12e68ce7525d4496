/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How releases of NCCL differ in finding and accepting a network plugin (net-api.md §1.1, §2.1 –
 * §2.7). `anynet check`, bench/real, and the tests that imitate NCCL use this table.
 */
#ifndef CHECK_RANGES_H
#define CHECK_RANGES_H

#include <stdbool.h>
#include <stddef.h>

enum plugin_naming {
	NAMING_FIXED,  /* libnccl-net.so; NCCL_NET_PLUGIN is ignored */
	NAMING_SUFFIX, /* libnccl-net-VALUE.so */
	NAMING_EITHER, /* VALUE, then libnccl-net-VALUE.so */
	NAMING_LIST,   /* as NAMING_EITHER for each item of a list; empty = no plugin */
};

enum net_filter {
	FILTER_NONE,
	FILTER_EXACT,
	FILTER_ANY_CASE,
};

/* Releases with the same behaviour, oldest first. */
struct release_range {
	int from, to; /* encoded as in NCCL, both inclusive */
	int api_newest, api_oldest;
	enum plugin_naming naming;
	bool none_word; /* "none" means no plugin */
	enum net_filter filter;
	int filter_first_from; /* from this release on, names are compared before init; 0 = always after it */
	bool rereads_name; /* the shim copies the plugin's name again after init, not only when loading */
};

/* The newest known release of the last range: its release notes show no change in loading plugins. */
#define RELEASE_NEWEST 23200

extern const struct release_range release_ranges[];
extern const size_t release_range_count;

/* Returns the range of this release; newer releases belong to the last range. NULL = older than all. */
const struct release_range *release_range_of(int code);

#endif
