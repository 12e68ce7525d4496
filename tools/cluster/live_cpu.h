/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time of the processes that own statistics files. */
#ifndef CLUSTER_LIVE_CPU_H
#define CLUSTER_LIVE_CPU_H

#include "tools/shared/stats/page.h"

struct live_cpu {
	int64_t ran_ms, waited_ms; /* on a processor; runnable without one */
};

/*
 * Returns the sums over all threads of the page's process since the last call for it; -1 = not known. The pid in a page
 * counts in its process's own PID namespace, and containers may share the directory of the pages. So it is not known
 * unless the process of this number here has the page open for writing. Keeps static state: call it from one thread.
 */
struct live_cpu live_cpu_since(const struct page *page);

#endif
