/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where messages are: in host memory, or with TEST_MEMORY=cuda in the settings in that of a GPU, which
 * the fake libcuda.so.1 (tests/fakes/cuda) plays, the one that ANYNET_CUDA_LIB names. GPU memory is given to the
 * net as NCCL does it: registered on the comm, by its address or as a dma-buf, and flushed before it is
 * looked at (net-api.md §3.6 - §3.8). No processor may touch it: what a test reads or writes itself goes
 * through memory_view.
 *
 * Threads of the tests have no CUDA context; the net may leave none behind, and no capture mode.
 */
#ifndef TESTS_SUPPORT_MEMORY_H
#define TESTS_SUPPORT_MEMORY_H

#include "harness.h"

#include <fakes/cuda/opened.h>

bool memory_is_cuda(void);
void memory_choose_gpu(int ordinal);

/* On GPU 0, or the one chosen last (FAKE_CUDA has to describe it). Freed by memory_free, which ends what memory_mhandle has registered of it. */
void *memory_alloc(size_t bytes);
void memory_free(void *memory);

/* Of GPU memory that CUDA cannot free any more: as if it had. */
void memory_forsake(void *memory);

/* Where a processor reads and writes it; host memory is its own view. */
void *memory_view(const void *memory, size_t bytes);

/* What an application does with CUDA, in a context of its own on this thread. */
void memory_as_application(void (*run)(const struct cuda_calls *cuda, void *arg), void *arg);

/* Is it a GPU's? */
bool memory_is_device(const void *memory);

/* Does the device report that it takes a GPU's? If not NCCL may use it all the same: what others say of the NIC
 * counts as well. */
bool memory_is_offered(const struct test_net *net);

/* regMr as NCCL does it: HOST, or of GPU memory CUDA, in turn with a dma-buf if the device reports that it
 * takes those. The result of the call. */
int memory_reg(struct test_net *net, void *comm, void *data, size_t bytes, void **mhandle);

/* For what the test has not registered: `mhandle` as it is for host memory or if there is one, else one of
 * the whole allocation on this comm, made once. */
void *memory_mhandle(struct test_net *net, void *comm, const void *data, void *mhandle);

/* Before the comm is closed: deregisters what memory_mhandle has registered on it. */
void memory_leave(struct test_net *net, void *comm);

/* Nothing that is CUDA's has been left in this thread by the net. */
void memory_check_thread(void);

/* Of a net, by the harness: opened; closed. At the end there has been no misuse of CUDA, and the last one
 * leaves no more than the pool that a GPU has for the life of the process. */
void memory_net_opened(const struct test_net *net);
void memory_net_closed(void);

/* From now on calls that the fake complains of are fine. */
void memory_allow_misuse(void);

void memory_command(const char *script); /* the fake libcuda obeys, or the test fails */
struct fake_cuda_counts memory_counts(void);

#endif
