/* SPDX-License-Identifier: Apache-2.0 */
/* One host of a run: does what the conductor orders (order.h). */
#ifndef CLUSTER_WORKER_H
#define CLUSTER_WORKER_H

struct worker_options {
	const char *plugin;
	int port; /* where pairs are served; 0 = one of ANYNET_PORT_RANGE, or any */
};

/* On a connected socket, until the conductor says bye (0) or leaves (1). */
int worker_run(int control, const struct worker_options *options);

/* The same on standard input and output, as a login by ssh has them. */
int worker_run_stdio(const struct worker_options *options);

#endif
