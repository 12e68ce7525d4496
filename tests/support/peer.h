/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a test. A peer is forked before the test has threads or has opened the net, runs one function and exits;
 * it dies with its parent. A socket between the two plays NCCL's bootstrap network.
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

/* `run` gets the peer's end of the socket. The peer exits with 0 when it returns; a failed check (check.h) ends it
 * otherwise. */
void peer_start(struct peer *peer, void (*run)(int fd, void *arg), void *arg);

/* Whole messages over the socket, within TEST_PATIENCE_MS. */
void peer_send(int fd, const void *data, size_t bytes);
void peer_recv(int fd, void *data, size_t bytes);

/* One byte as a signal to continue. */
void peer_signal(int fd);
void peer_await(int fd);

/* kill -9, and wait. */
void peer_kill(struct peer *peer);

/* Waits up to `ms` for it to exit by itself; returns its status as of waitpid. */
int peer_wait(struct peer *peer, int ms);

/* … and checks that it succeeded. A skipped peer skips the caller. */
void peer_wait_ok(struct peer *peer);

/* Two peers, each with one end of a socket as its fd; waits for both. */
void peer_duo(void (*first)(int fd, void *arg), void (*second)(int fd, void *arg), void *arg);

/* waitpid with a time limit; false if the process still runs then. */
bool peer_reap(pid_t pid, int ms, int *status);

#endif
