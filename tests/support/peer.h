/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a test. A peer is forked while the test has no threads and has not opened the net
 * yet, runs one function and exits; it dies with its parent. A socket between the two carries what
 * NCCL's bootstrap network carries.
 */
#ifndef TESTS_SUPPORT_PEER_H
#define TESTS_SUPPORT_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct peer {
	pid_t pid;
	int fd; /* to the peer */
};

/* `run` gets the peer's end of the socket. When it returns the peer exits 0; check.h ends it with
 * a failure otherwise. */
void peer_start(struct peer *peer, void (*run)(int fd, void *arg), void *arg);

/* Whole messages over the socket, bounded by TEST_PATIENCE_MS. */
void peer_send(int fd, const void *data, size_t bytes);
void peer_recv(int fd, void *data, size_t bytes);

/* A byte to go on. */
void peer_signal(int fd);
void peer_await(int fd);

/* kill -9, and gone. */
void peer_kill(struct peer *peer);

/* Exited by itself: returns its status, as from waitpid, within `ms`. */
int peer_wait(struct peer *peer, int ms);

/* … and successfully. A skipped peer skips the caller. */
void peer_wait_ok(struct peer *peer);

/* Two peers with a socket between them, which each gets as its fd; waits for both. */
void peer_duo(void (*first)(int fd, void *arg), void (*second)(int fd, void *arg), void *arg);

/* waitpid with a bound; false when it is over and the process still runs. */
bool peer_reap(pid_t pid, int ms, int *status);

#endif
