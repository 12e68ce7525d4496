/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf over several hosts: the worker of a host. It starts the ranks of its host when the coordinator says so:
 *
 *   run    "first", "ranks" (of all hosts), "options" (perf_words) -> the messages of perf_meet.h, and in between
 *          said "text": a line that a rank has printed
 *          ended "status": a GROUP_ code
 *   bye    ends the worker, and the ranks if they still run
 */
#ifndef PERF_WORKER_H
#define PERF_WORKER_H

#include "perf.h"
#include "tools/hosts/worker.h"

/* `o` is this worker's own command line; the order adds the number of ranks. */
struct worker_options perf_worker(struct perf_options *o, const char *self);

#endif
