/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet serve: waits for `anynet pair` on one port, greets clients side by side and serves one after another, each in a process
 * of its own, which is ended after SERVER_SESSION_MS at the latest. Who does not open as a client does
 * is closed and named on stdout.
 */
#ifndef PAIR_SERVER_H
#define PAIR_SERVER_H

#include <stdbool.h>
#include <sys/socket.h>

#include "host.h"

#define SERVER_GREET_MS   3000
#define SERVER_IDLE_MS    30000 /* between two requests */
#define SERVER_SESSION_MS 240000
#define SERVER_CROWD      64 /* connections at a time: one is served, the others greet or wait */
#define SERVER_SHARE      16 /* of them from one address */

struct server_options {
	const char *bind; /* numeric address; NULL = all of them */
	int port;         /* 0 = any */
	const char *plugin;
	int clients; /* end after so many sessions; 0 = never */
	bool json;   /* what is said */
};

/* Returns the exit status: 2 when it cannot listen; else ends by a signal or after `clients`. */
int server_run(const struct server_options *options);

/* Listens as told; *at is where. The socket, or -1 with errno. */
int server_listen(const struct server_options *options, struct sockaddr_storage *at);

/* Serves one client after another, those that ANYNET_ALLOW (allow_start) permits. */
void server_loop(int listener, const struct server_options *options);

/* One client on a connected socket: requests until it leaves. A text says how it ended. For a process
 * that is used for nothing else afterwards. */
const char *server_session(int fd, struct pair_host *host);

#endif
