/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two hosts and the network between them, made of network namespaces. Each path is a NIC at either host (anyp0, anyp1,
 * …; shaped), joined by a bridge in a third namespace, so that a link can go down at one host without notice to the
 * other, or be cut in the middle without notice to either.
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

/* Moves this process into its own namespaces. Skips the test if it is not allowed. */
void world_make(struct world *world, unsigned paths, unsigned mbit);

/* Waits until all paths carry packets again: the kernel may take seconds to notice a carrier. */
void world_settle(const struct world *world);

/* `ip link set … down` on the host. The other host does not notice. */
void world_link(const struct world *world, int side, unsigned path, bool up);

/* The carrier at that host is lost or returns, because of the other end of its cable. */
void world_carrier(const struct world *world, int side, unsigned path, bool on);

/* Packets towards that host are lost without notice. */
void world_drop(const struct world *world, int side, unsigned path, bool on);

/* Of a thousand packets this many are lost, in both directions, at random. */
void world_lose(const struct world *world, unsigned path, unsigned permille);

/* Packets larger than WORLD_MTU are lost without notice, in both directions; or all except handshakes are: those as
 * small as acknowledgements, and those with a hello of `hello_bytes`. */
#define WORLD_MTU 1023
void world_drop_large(const struct world *world, unsigned path);
void world_drop_data(const struct world *world, unsigned path, unsigned hello_bytes);

/* A middlebox ends the next connection with traffic, by an RST to that host. False if there was none within `ms`. */
bool world_rst(const struct world *world, int side, unsigned path, int ms);

/* A middlebox listens from now on, and resets the connection whose traffic it saw last once nothing has passed for
 * `ms`: the other host does not notice. False if it saw none. */
struct world_tap {
	int fd, port;
};
struct world_tap world_tap(const struct world *world, int side, unsigned path);
bool world_rst_silent(const struct world_tap *tap, int ms);
void world_untap(const struct world_tap *tap);

/* Waits for a message, or a large part of one, from the sender's host (0) on this path. `port`: those of its connection, at
 * each host. False if there was none within `ms`. */
bool world_see_data(const struct world *world, unsigned path, int ms, unsigned port[2]);

/* A middlebox loses its state of the next connection with messages, and drops its packets in both directions from then on, until
 * it is told to remember. False if there were no messages within `ms`. */
bool world_forget(const struct world *world, unsigned path, int ms);
void world_remember(const struct world *world);

#endif
