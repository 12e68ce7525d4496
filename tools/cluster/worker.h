/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker of anynet cluster does on its host: the orders of order.h. */
#ifndef CLUSTER_WORKER_H
#define CLUSTER_WORKER_H

#include <sys/types.h>

#include "tools/hosts/worker.h"

struct cluster_worker {
	const char *self, *plugin; /* paths of this program and of the plugin */
	int port; /* on which pairs are served; 0 = one of ANYNET_PORT_RANGE, or any */

	int listener; /* private */
	pid_t server; /* 0 = none */
};

struct worker_options cluster_worker(struct cluster_worker *worker);

#endif
