/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's state in a process: first init, devices, contexts, and the mapping of results to NCCL's. The API
 * versions (abi_v*.c) call only this and comm.h. Any thread may call any of these functions.
 */
#ifndef ANYNET_CORE_H
#define ANYNET_CORE_H

#include <nccl_net/abi/nccl_types.h>
#include <nccl_net/comm.h>
#include <nccl_net/util.h>

/* One NCCL communicator, v11+ (net-api.md §1.8). */
struct anynet_context;

/*
 * NCCL's init. The first call in a process probes the host and logs the result. Never fails (net-api.md §2.6). A NULL
 * logger or profiler keeps the current one; two profilers are none. `abi`: the API version that NCCL uses.
 */
void anynet_core_init(int abi, anynet_nccl_logger logger, anynet_nccl_profiler profiler);

/* The number of devices: the NICs, which never change, and the devices fused since NCCL loaded the plugin. Probes the
 * host if no init has (net-api.md §2.7). */
int anynet_core_devices(void);

/* Fuse the `count` NICs with these indices, at most `most`, into a new device. Returns its index or -errno (fused.h). */
int anynet_core_fuse(const int *indices, int count, int most);

/* The device with this index, or NULL after a WARN that names the caller's operation `what`. Probes the host if no init
 * has. Devices are never freed, and a valid index stays valid. */
const struct anynet_device *anynet_core_device(int index, const char *what);

/* Returns NULL without memory: all calls accept a NULL context and then use default options. `logger`: as in init. */
struct anynet_context *anynet_core_context_open(anynet_nccl_logger logger, uint64_t comm_hash,
						int traffic_class);

/* NULL and contexts that are already closed are allowed. Calls anynet_net_trim for the context. */
void anynet_core_context_close(struct anynet_context *ctx);

/* The connect options of a context; for NULL the defaults. */
struct anynet_connect_options anynet_core_options(const struct anynet_context *ctx);

/*
 * Call before creating a listener or comm. Returns false, with one WARN per process, in a forked child of a process
 * that had created listeners or comms: their sockets belong to the parent.
 */
bool anynet_core_may_open(void);

/* True in such a child. It must not use what it inherited, nor close it: a close sends BYE to the parent's peer. */
bool anynet_core_is_forked(void);

/* NCCL's result for an -errno. -EAGAIN ("not now") is success. */
enum anynet_nccl_result anynet_core_error(int err) ANYNET_COLD;

/* The same for 0 or an -errno. */
static inline enum anynet_nccl_result anynet_core_result(int err)
{
	return anynet_likely(!err) ? ANYNET_NCCL_SUCCESS : anynet_core_error(err);
}

#endif
