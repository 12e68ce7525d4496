/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that a job causes in itself: a thread that ends TCP connections of the process without the plugin, and makes
 * clocks jump. shared->hurt says which, shared->hurt_us how often.
 */
#ifndef TESTS_FAULTS_HURT_H
#define TESTS_FAULTS_HURT_H

#include "shared.h"

#include <netinet/in.h>

void hurt_start(struct shared *shared, int side, uint64_t seed);
void hurt_stop(void);

/* Once, for every connection of this process; returns their number. */
unsigned hurt_all(unsigned what);

/* The kernel ends the connection between two addresses; false if it cannot, errno has the reason. */
bool hurt_reset(int fd);

/* A TCP connection, not a listening socket? */
bool hurt_is_connection(int fd);

/* False if this kernel cannot end sockets, or refuses it to this process. */
bool hurt_can_reset(void);

#endif
