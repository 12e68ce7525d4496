/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf over several hosts: the coordinator. It numbers the ranks, carries handles between hosts, and prints. */
#ifndef PERF_COORDINATOR_H
#define PERF_COORDINATOR_H

#include "perf.h"
#include "tools/hosts/node.h"

/* Ends the workers. Returns a GROUP_ code. */
int perf_coordinate(struct node *nodes, size_t count, const struct perf_options *o);

#endif
