/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet serve: waits for `anynet pair` on one port. It greets clients concurrently and serves one
 * at a time, each in its own process, for at most SERVER_SESSION_MS. Connections that do not open
 * like a client are closed and reported on stdout.
 */
#ifndef PAIR_SERVER_H
#define PAIR_SERVER_H

#include <stdbool.h>
#include <sys/socket.h>

#include "facts.h"

#define SERVER_GREET_MS   3000
#define SERVER_IDLE_MS    30000 /* between two requests */
#define SERVER_SESSION_MS 240000
#define SERVER_CROWD      64 /* maximum connections; one is served, the others greet or wait */
#define SERVER_SHARE      16 /* maximum connections from one address */

struct server_options {
	const char *bind; /* numeric address; NULL = all */
	int port;         /* 0 = any */
	const char *plugin;
	int clients; /* exit after this many connections, without those refused at once; 0 = never */
	bool json;   /* print JSON lines */
	bool bare;   /* leave out the facts that require loading libraries */
};

/* Returns the exit status: 2 if it cannot listen. Otherwise runs until a signal or `clients` connections. */
int server_run(const struct server_options *options);

/* Listens on the address and port in `options`; *at receives the actual ones. Returns the socket,
 * or a negative errno. */
int server_listen(const struct server_options *options, struct sockaddr_storage *at);

/* Serves clients one after another, if ANYNET_ALLOW (allow_start) permits them. */
void server_loop(int listener, const struct server_options *options);

/* Serves one client on a connected socket until it leaves. Returns a text that describes the end.
 * The process cannot be used for anything else afterwards. */
const char *server_session(int fd, struct pair_host *host);

#endif
