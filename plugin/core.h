/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one instance of the plugin in a process: first init, devices, contexts, and the translation of
 * the message layer's results into NCCL's. The ABI adapters (abi_v*.c) call this and comm.h, nothing
 * else. Every function may be called from any thread.
 */
#ifndef ANYNET_CORE_H
#define ANYNET_CORE_H

#include <nccl_net/abi/nccl_types.h>
#include <nccl_net/comm.h>

/* One NCCL communicator, v11+ (net-api.md §1.8). */
struct anynet_context;

/*
 * NCCL's init: the first one probes the host and logs what was found; later ones find it done. Never
 * fails (net-api.md §2.6). A NULL logger or profiler leaves the one there is. `abi`: the version NCCL
 * came in by.
 */
void anynet_core_init(int abi, anynet_nccl_logger logger, anynet_nccl_profiler profiler);

/* Count of devices: the NICs, the same for the whole process, and those fused of them since NCCL has
 * begun. Initialises if nobody has (net-api.md §2.7). */
int anynet_core_devices(void);

/* Fuse `count` NICs to one more device, given by their indices: its index, or -errno (fused.h). */
int anynet_core_fuse(const int *indices, int count);

/* The device, or NULL after a WARN that names `what`, the caller's operation. Initialises if nobody
 * has. Immortal; an index that was good once stays so. */
const struct anynet_device *anynet_core_device(int index, const char *what);

/* NULL = no memory: calls with a NULL context work, without its hints. */
struct anynet_context *anynet_core_context_open(uint64_t comm_hash, int traffic_class);

/* NULL or a context that is closed already are fine. The last one to close gives back what idles. */
void anynet_core_context_close(struct anynet_context *ctx);

/* The connection options that go with a context; NULL: none are known. */
struct anynet_connect_options anynet_core_options(const struct anynet_context *ctx);

/*
 * Call before a listener or comm is made. False, after one WARN, in the forked child of a process
 * that had listeners or comms: their sockets are shared with the parent, whose they remain.
 */
bool anynet_core_may_open(void);

/* True in such a child: what it inherited must be left alone, not even be closed (a close says
 * goodbye to the parent's peer). */
bool anynet_core_is_forked(void);

/* 0 or -errno as NCCL's result. -EAGAIN is success: "not now". */
enum anynet_nccl_result anynet_core_result(int err);

#endif
