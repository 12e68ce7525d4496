/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between releases of NCCL in how they find and take a network plugin (net-api.md §1.1, §2.1
 * – §2.7). `anynet check`, the tests that play NCCL and what runs it go by this table.
 */
#ifndef CHECK_RANGES_H
#define CHECK_RANGES_H

#include <stdbool.h>
#include <stddef.h>

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
	int filter_first_from; /* from this one on names are compared before init; 0 = after it */
	bool rereads_name;     /* a shim copies the name again after init, not only at the load */
};

/* Of the last range, the newest that is known: its notes say that plugins are loaded as before. */
#define RELEASE_NEWEST 23200

extern const struct release_range release_ranges[];
extern const size_t release_range_count;

/* The range with this release; newer ones than all belong to the last. */
const struct release_range *release_range_of(int code);

#endif
