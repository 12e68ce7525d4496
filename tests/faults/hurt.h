/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job does to itself while it runs: a thread that ends TCP connections of the process behind
 * the plugin's back, and lets clocks jump. shared->hurt says what, shared->hurt_us how often.
 */
#ifndef TESTS_FAULTS_HURT_H
#define TESTS_FAULTS_HURT_H

#include "shared.h"

#include <netinet/in.h>

void hurt_start(struct shared *shared, int side, uint64_t seed);
void hurt_stop(void);

/* Now, and once, to every connection of this process: how many there were. */
unsigned hurt_all(unsigned what);

/* The kernel ends the connection between two addresses; false if it cannot, errno says why. */
bool hurt_reset(int fd);

/* A TCP connection (no listening socket)? */
bool hurt_is_connection(int fd);

/* False if this kernel does not end sockets on demand, or does not let us. */
bool hurt_can_reset(void);

#endif
