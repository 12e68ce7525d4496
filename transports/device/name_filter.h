/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's lists of device names, as in NCCL_SOCKET_IFNAME and NCCL_IB_HCA (net-api.md §5.3, §5.4):
 * "a,b" names starting with a or b; "=a,b" exactly a or b; a "^" before either excludes them
 * instead. A name may be followed by ":port", and that by ":rail" and ":plane", any of them empty.
 */
#ifndef ANYNET_NAME_FILTER_H
#define ANYNET_NAME_FILTER_H

#include <stdbool.h>

/* Does `filter` let this name and port pass? An empty filter lets everything pass. port -1 = the
 * name alone is asked for. */
bool name_filter_pass(const char *filter, const char *name, int port);

/* Is it a list of names to exclude? */
bool name_filter_excludes(const char *filter);

/* The rail and the plane that the first item which lets this port pass gives it (NCCL
 * src/misc/utils.cc, parseStringList@v2.30.7); -1 = none, or not a number that NCCL's properties have room for. */
void name_filter_place(const char *filter, const char *name, int port, int *rail, int *plane);

/* Does it ask for this very name, in full? */
bool name_filter_names(const char *filter, const char *name);

#endif
