/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's lists of device names, as in NCCL_SOCKET_IFNAME and NCCL_IB_HCA (net-api.md §5.3, §5.4): "a,b" selects names
 * that start with a or b, "=a,b" exactly a and b; a leading "^" excludes them instead. ":port", ":rail" and ":plane"
 * may follow a name in this order; each may be empty.
 */
#ifndef ANYNET_NAME_FILTER_H
#define ANYNET_NAME_FILTER_H

#include <stdbool.h>

/* Does `filter` select this name and port? An empty filter selects everything. port -1: only the name is compared. */
bool name_filter_pass(const char *filter, const char *name, int port);

/* Does it exclude names ("^")? */
bool name_filter_excludes(const char *filter);

/* Rail and plane in the first item that matches this port (NCCL src/misc/utils.cc, parseStringList@v2.30.7). -1 = none,
 * or a number that does not fit NCCL's properties. */
void name_filter_place(const char *filter, const char *name, int port, int *rail, int *plane);

/* Does it select this name by an item that is the full name? */
bool name_filter_names(const char *filter, const char *name);

#endif
