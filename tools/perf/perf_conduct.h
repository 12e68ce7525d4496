/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf over several hosts: the conductor. It numbers the ranks, carries handles between hosts, and prints. */
#ifndef PERF_CONDUCT_H
#define PERF_CONDUCT_H

#include "perf.h"
#include "tools/hosts/node.h"

/* Ends the workers. Returns a GROUP_ code. */
int perf_conduct(struct node *nodes, size_t count, const struct perf_options *o);

#endif
