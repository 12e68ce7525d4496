/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hosts and what lies between them, made of network namespaces: each path is a NIC at either
 * host (anyp0, anyp1, …; shaped), joined by a bridge in a third namespace, so that a link can go
 * down at one host without the other one noticing, or be cut in the middle with nobody noticing.
 */
#ifndef TESTS_FAULTS_WORLD_H
#define TESTS_FAULTS_WORLD_H

#include <stdbool.h>

#define WORLD_IFNAME    "anyp"
#define WORLD_PATHS_MAX 4
#define WORLD_BOTH      2 /* for `side`: at both hosts */

struct world {
	int host[2], middle; /* descriptors of namespaces */
	unsigned paths;
};

/* Moves this process into namespaces of its own. Skips the test if it may not. */
void world_make(struct world *world, unsigned paths, unsigned mbit);

/* Waits until all paths carry packets again: the kernel may take seconds to notice that a carrier is back. */
void world_settle(const struct world *world);

/* The host's own doing: `ip link set … down`. The other host does not notice. */
void world_link(const struct world *world, int side, unsigned path, bool up);

/* The carrier at that host comes or goes, because the other end of its cable does. */
void world_carrier(const struct world *world, int side, unsigned path, bool on);

/* Packets towards that host disappear, and nobody is told. */
void world_drop(const struct world *world, int side, unsigned path, bool on);

/* So many of a thousand packets disappear, either way, each by chance. */
void world_lose(const struct world *world, unsigned path, unsigned permille);

/* Packets larger than WORLD_MTU, either way, disappear, and nobody is told; or all but handshakes do: those
 * as small as acknowledgements, and those with a hello of `hello_bytes`. */
#define WORLD_MTU 1023
void world_drop_large(const struct world *world, unsigned path);
void world_drop_data(const struct world *world, unsigned path, unsigned hello_bytes);

/* Somebody on the path ends the next connection that has traffic, with an RST to that host. False if
 * there was none within `ms`. */
bool world_rst(const struct world *world, int side, unsigned path, int ms);

/* Somebody listens from now on, and ends the connection that he saw traffic of last once nothing has
 * passed for `ms`: the other host is not asked, and does not notice. False if he saw none. */
struct world_tap {
	int fd, port;
};
struct world_tap world_tap(const struct world *world, int side, unsigned path);
bool world_rst_silent(const struct world_tap *tap, int ms);
void world_untap(const struct world_tap *tap);

#endif
