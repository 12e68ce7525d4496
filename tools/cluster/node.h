/* SPDX-License-Identifier: Apache-2.0 */
/* The conductor's side of a worker, and the two ways to come by workers: ssh, and a meeting place. */
#ifndef CLUSTER_NODE_H
#define CLUSTER_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "order.h"
#include "worker.h"

#define NODE_ERROR 300

struct node {
	char name[HOST_NAME];
	char address[ADDRESS_MAX]; /* for others to dial */
	int port;
	int fd;                 /* -1 = no worker */
	pid_t pid;              /* of its ssh, or of the worker in this host; 0 = none */
	int errors;             /* what that says on stderr; -1 = not ours */
	char error[NODE_ERROR]; /* why there is no worker; "" */
	json_t *facts, *launcher;
};

/* The first reason counts; the worker is let go. What it said on stderr at last is added. */
void node_fail(struct node *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ends what was started for it. */
void node_end(struct node *node);

struct remote {
	const char *ssh;     /* "ssh -o BatchMode=yes": words */
	const char *command; /* what runs this tool there, for its shell */
};

/* Starts a worker on each (names are set) and waits until it has joined. Where that fails, error says why. */
void nodes_login(struct node *nodes, size_t count, const struct remote *remote, int wait_ms);

struct meeting {
	const char *host; /* name or address, of the conductor */
	int port;
	size_t nodes;
	int wait_ms;
};

/*
 * Whether this process conducts: the address is this host's and nobody listens there yet. Then the
 * listening socket, else -1. -2: the name has no address; `why` (CONTROL_TEXT bytes) says so.
 */
int meeting_open(const struct meeting *meeting, char *why);

/* The conductor: waits for all, itself (a process of its own) included. Names are
 * made unlike, and nodes are in their order. */
void meeting_wait(int listener, const struct meeting *meeting, const struct worker_options *own,
		  struct node *nodes);

/* Another one: goes there and obeys. The exit status. */
int meeting_go(const struct meeting *meeting, const struct worker_options *own);

#endif
