/* SPDX-License-Identifier: Apache-2.0 */
/* The worker on one host of a run, which carries out the conductor's orders (order.h). */
#ifndef CLUSTER_WORKER_H
#define CLUSTER_WORKER_H

struct worker_options {
	const char *plugin;
	int port; /* on which pairs are served; 0 = one of ANYNET_PORT_RANGE, or any */
};

/* Runs on a connected socket. Returns 0 when the conductor says bye, 1 if it leaves or the worker cannot start. */
int worker_run(int control, const struct worker_options *options);

/* The same on standard input and output, for a worker started by ssh. */
int worker_run_stdio(const struct worker_options *options);

#endif
