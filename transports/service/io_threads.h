/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optional I/O threads, a fixed number per process. When a stream becomes readable or writable, they run the same turn
 * as NCCL's thread in anynet_test, with the comm's lock. They start with the first comm and end with the last.
 */
#ifndef ANYNET_IO_THREADS_H
#define ANYNET_IO_THREADS_H

#include "session/comm.h"

/* Let the I/O threads serve a comm, and end that. Only for comms in the registry. Both do nothing if no I/O threads are
 * configured. */
void io_threads_add(struct anynet_comm *comm);
void io_threads_remove(struct anynet_comm *comm);

#endif
