/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of messages: host memory, or with TEST_MEMORY=cuda in the settings GPU memory, provided by the fake
 * libcuda.so.1 (tests/fakes/cuda) that ANYNET_CUDA_LIB names. GPU memory is passed to the net as NCCL does: registered
 * on the comm, by address or as a dma-buf, and flushed before it is read (net-api.md §3.6 - §3.8). The processor must
 * not access it directly: a test reads and writes it through memory_view.  Threads of the tests have no CUDA context;
 * the net must leave neither one nor a capture mode behind.
 */
#ifndef TESTS_SUPPORT_MEMORY_H
#define TESTS_SUPPORT_MEMORY_H

#include "harness.h"

#include <fakes/cuda/opened.h>

bool memory_is_cuda(void);
void memory_choose_gpu(int ordinal);

/* On GPU 0, or the one chosen last (FAKE_CUDA has to describe it). memory_free also deregisters what memory_mhandle has
 * registered of it. */
void *memory_alloc(size_t bytes);
void memory_free(void *memory);

/* For GPU memory that CUDA cannot free any more: counts as freed. */
void memory_forsake(void *memory);

/* The address at which a processor accesses it; for host memory the same. */
void *memory_view(const void *memory, size_t bytes);

/* CUDA calls of an application, in its own context on this thread. */
void memory_as_application(void (*run)(const struct cuda_calls *cuda, void *arg), void *arg);

/* Is it GPU memory? */
bool memory_is_device(const void *memory);

/* Does the device report GPU support? If not, NCCL may use it all the same, because others report on the NIC as
 * well. */
bool memory_is_offered(const struct test_net *net);

/* regMr as NCCL calls it: HOST; or for GPU memory CUDA, alternating with a dma-buf if the device supports those.
 * Returns the result of the call. */
int memory_reg(struct test_net *net, void *comm, void *data, size_t bytes, void **mhandle);

/* For memory that the test has not registered: `mhandle` if it is set or the memory is the host's, else a handle of the
 * whole allocation on this comm, made once. */
void *memory_mhandle(struct test_net *net, void *comm, const void *data, void *mhandle);

/* Before the comm is closed: deregisters what memory_mhandle has registered on it. */
void memory_leave(struct test_net *net, void *comm);

/* Checks that the net has left no CUDA state in this thread. */
void memory_check_thread(void);

/* Called by the harness when a net is opened and closed. At the end CUDA must not have been misused, and the last close
 * leaves only the pool that a GPU keeps. */
void memory_net_opened(const struct test_net *net);
void memory_net_closed(void);

/* From now on misuse that the fake reports is allowed. */
void memory_allow_misuse(void);

void memory_command(const char *script); /* orders the fake libcuda, or fails the test */
struct fake_cuda_counts memory_counts(void);

#endif
