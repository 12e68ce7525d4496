/* SPDX-License-Identifier: Apache-2.0 */
/* The worker on one host of a run: it joins the coordinator, and does what this asks for. */
#ifndef HOSTS_WORKER_H
#define HOSTS_WORKER_H

#include <jansson.h>

struct worker_options {
	const char *who;  /* "anynet cluster", for messages */
	const char *self; /* path of this program, for workers that ssh starts; "" = unknown */
	/* Prepares the worker. Returns the port for its join, or a negative errno. NULL = nothing to prepare. */
	int (*begin)(void *arg);
	/* Carries out one order. Returns 0 to continue, 1 after the last, -1 if the coordinator has left or the order is
	 * not valid. */
	int (*obey)(void *arg, int control, const json_t *order);
	void *arg;
};

#define WORKER_SEND_MS 10000 /* limit for a message to the coordinator */

/* Runs on a connected socket. Returns 0 after the last order, 1 if the coordinator leaves or the worker cannot start. */
int worker_run(int control, const struct worker_options *options);

/* The same on standard input and output, for a worker started by ssh. */
int worker_run_stdio(const struct worker_options *options);

#endif
