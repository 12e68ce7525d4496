/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's side of a worker. Workers are started by ssh (login.c) or by a launcher (rendezvous.c). */
#ifndef HOSTS_NODE_H
#define HOSTS_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "join.h"
#include "worker.h"

#define ADDRESS_MAX 256
#define NODE_ERROR  300

struct node {
	char name[HOST_NAME];
	char address[ADDRESS_MAX]; /* other hosts dial this address */
	int port;
	int fd;                 /* control connection; -1 = no worker */
	pid_t pid;              /* its ssh, or the worker of this host; 0 = none */
	int errors;             /* stderr of its ssh; -1 = none */
	char error[NODE_ERROR]; /* why the worker failed; "" = it has not */
	json_t *facts, *launcher;
};

/* Records the reason with the last line of its stderr, and ends the worker. Does nothing if it has failed before. */
void node_fail(struct node *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sends the message, and releases it. Or does nothing, if there is no worker. */
void node_send(struct node *node, json_t *message);
/* Returns the next message, or NULL if there is none until `end` (now_ms), or no worker. A worker that does not
 * answer has failed, as one has that has ended. */
json_t *node_recv(struct node *node, uint64_t end);

/* Closes the control connection and ends the child process. */
void node_end(struct node *node);

struct remote {
	const char *ssh;     /* "ssh -o BatchMode=yes"; split at blanks, without a shell */
	const char *command; /* command line for the remote shell that runs the worker */
};

/* Starts a worker on each node, whose names are set, and waits until all have joined or failed (node->error). */
void nodes_login(struct node *nodes, size_t count, const struct remote *remote, int wait_ms);

struct rendezvous {
	const char *host; /* name or address of the coordinator */
	int port;
	size_t nodes;
	int wait_ms;
};

/*
 * Returns a listening socket if this process is the coordinator: the address belongs to this host, and the port is
 * free. Otherwise returns a negative errno; -ENOENT, with the reason in `why` (CONTROL_TEXT bytes): the name has no
 * address.
 */
int rendezvous_open(const struct rendezvous *rendezvous, char *why);

/*
 * The coordinator waits for all workers, including the one of its own host, which it starts as a child process. Makes
 * the names unique and sorts the nodes by name.
 */
void rendezvous_wait(int listener, const struct rendezvous *rendezvous,
		     const struct worker_options *own, struct node *nodes);

/* Any other process connects to the coordinator and runs as a worker. Returns the exit status. */
int rendezvous_join(const struct rendezvous *rendezvous, const struct worker_options *own);

#endif
