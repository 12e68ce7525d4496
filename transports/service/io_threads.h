/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optional I/O threads, a few per process whatever the number of comms. They help: whenever a stream
 * has become readable or writable they run the same turn that NCCL's own thread runs from test, under
 * the comm's lock. They start with the first comm and end with the last.
 */
#ifndef ANYNET_IO_THREADS_H
#define ANYNET_IO_THREADS_H

#include "session/comm.h"

/* For comms in the registry only. Without threads both do nothing. */
void io_threads_add(struct anynet_comm *comm);
void io_threads_remove(struct anynet_comm *comm);

#endif
