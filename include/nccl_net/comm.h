/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between plugin/ and transports/: NCCL's calls from listen to close, on comms over streams
 * (docs/architecture.md). transports/ implements it.
 *
 * Results are 0 or -errno. -EAGAIN never leaves this layer: "not now" is 0 with a NULL output, as NCCL expects
 * (net-api.md §3.3, §3.5). Outputs are always written. Calls do not wait for the network, except as anynet_close says.
 * Ending a queue pair may poll for up to 30 ms, opening a verbs port or registering memory takes as long as the driver
 * takes, and reg, dereg, iflush and close may wait for another thread that works on the comm. dereg waits until nothing
 * accesses the memory: 10 s for a NIC that does not answer a flush's READ. dereg and close wait for copies of GPU memory,
 * 20 s if the GPU does not make them.
 *
 * Threads (net-api.md §3.1): isend, irecv, iflush and test of one comm come from one thread at a time. reg and dereg
 * of that comm may run concurrently with them. All other calls may come from any thread, concurrently for different
 * objects.
 */
#ifndef ANYNET_COMM_H
#define ANYNET_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

#define ANYNET_HANDLE_BYTES 128 /* net-api.md §1.5 */
#define ANYNET_REQUESTS	    32	/* receive requests of a comm; NCCL_NET_MAX_REQUESTS */
#define ANYNET_RECVS_MAX    8	/* buffers in a grouped receive */
#define ANYNET_SENDS	    (ANYNET_REQUESTS * ANYNET_RECVS_MAX) /* send requests of a comm */
#define ANYNET_MESSAGE_MAX  ((size_t)INT32_MAX) /* largest message, bytes: `test` reports sizes as int */

struct anynet_listener;
struct anynet_comm;
struct anynet_request;
struct anynet_mr;

/*
 * Called once per process, before any other function here but anynet_net_set_nccl and anynet_net_forks. Keeps pointers
 * to the settings and the device list, which must stay valid and unchanged until the process exits. Reads the secret
 * file, for which it waits up to 10 s. Opens no socket and no device.
 */
void anynet_net_start(const struct anynet_config *cfg, const struct anynet_device *devices,
		      int device_count);

/* The number of forks between the process that loaded the library and this one. A pid does not tell a forked child from its
 * parent: in a PID namespace of its own the child may have the same. Async-signal-safe. */
unsigned anynet_net_forks(void);

/* The NCCL of this process, for the hello and for warnings. `version`: NCCL_VERSION_CODE, 0 = not found. `path`: the
 * file that contains it, copied; NULL = not known. */
void anynet_net_set_nccl(int version, const char *path);

/* NCCL has destroyed the communicator `owner`. Frees its unfinished connects and accepts and, if no listener or receive
 * comm is left, the listening sockets. */
void anynet_net_trim(const void *owner);

/* Options of one connect, from NCCL's context. */
struct anynet_connect_options {
	uint64_t comm_hash; /* NCCL's commId (v11+), 0 = not known; sent in the hello for diagnostics */
	int traffic_class;  /* -1 = unset */
	const void *owner;  /* NCCL's context; NULL = none: anynet_net_trim does not end the connect */
};

/* Start to listen. Fills the ANYNET_HANDLE_BYTES of `handle`, which NCCL carries to the peer. `owner` as in the
 * options. The caller ends *listener with anynet_close_listener. */
int anynet_listen(const struct anynet_device *dev, const void *owner, void *handle,
		  struct anynet_listener **listener);

/*
 * One step of connecting device `dev` to the listener that `handle` names. *comm stays NULL until the comm is
 * established; until then NCCL calls again with the same handle buffer, whose field `local` identifies the connect in
 * progress. An error ends the connect.
 */
int anynet_connect(const struct anynet_device *dev, const struct anynet_connect_options *opts,
		   void *handle, struct anynet_comm **comm);

/* One step of accepting. *comm stays NULL until the comm is established. A listener accepts at most one comm. */
int anynet_accept(struct anynet_listener *listener, struct anynet_comm **comm);

void anynet_close_listener(struct anynet_listener *listener); /* NULL is allowed */

/* The dma-buf that contains a memory region. */
struct anynet_dmabuf {
	int fd; /* stays the caller's */
	uint64_t offset;
};

/* Register memory. `type` is ANYNET_PTR_HOST or ANYNET_PTR_CUDA; other types return -EOPNOTSUPP. `dmabuf`: the one that
 * contains the memory; NULL = not known. It is used for GPU memory if the device can. On success *mr is not
 * NULL and is valid for every comm of the same device. Every device accepts GPU memory, whatever its ptr_support says.
 * Memory that a NIC cannot register is not an error: the comm uses TCP from then on. One exception: GPU memory, if the
 * NIC has registered other GPU memory for this comm: -ENOMEM, and NCCL continues without GPUDirect. */
int anynet_reg_mr(struct anynet_comm *comm, void *addr, size_t bytes, int type,
		  const struct anynet_dmabuf *dmabuf, struct anynet_mr **mr);

/* When it returns, no request of any comm accesses the buffer. If requests that use this registration are not done,
 * they fail and so do their comms. mr == NULL is allowed. */
void anynet_dereg_mr(struct anynet_comm *comm, struct anynet_mr *mr);

/* One message to send. */
struct anynet_send {
	const void *data;
	size_t bytes;
	int tag;
	struct anynet_mr *mr; /* NULL = not registered: the plugin registers it if needed */
	void *phandle;        /* NCCL's profiler handle or NULL */
};

/* A grouped receive of `n` buffers. Sends fill the buffers of their tag in posting order. */
struct anynet_recv {
	int n;
	bool polled; /* the GPU polls the buffers for flags while they are filled: LL, LL128 (net-api.md §3.5) */
	void *const *data;
	const size_t *bytes;
	const int *tags;
	void *const *mrs;      /* n pointers to struct anynet_mr, as anynet_send.mr; NULL = all are */
	void *const *phandles; /* may be NULL */
};

/* Post a send or a receive. The struct and its arrays are read during the call only. 0 with *req = NULL: no free
 * request, try again. A message that is too large for its receive fails in anynet_test with -EMSGSIZE. */
int anynet_isend(struct anynet_comm *comm, const struct anynet_send *send, struct anynet_request **req);
int anynet_irecv(struct anynet_comm *comm, const struct anynet_recv *recv, struct anynet_request **req);

/* Make the data of `n` filled buffers visible to the GPU. 0 with *req = NULL: nothing to wait for. */
int anynet_iflush(struct anynet_comm *comm, int n, void *const *data, struct anynet_mr *const *mrs,
		  struct anynet_request **req);

/* Set *done to 0 or 1. With 1, `sizes` (may be NULL) gets the bytes received or sent for each buffer, and the request
 * is free again. */
int anynet_test(struct anynet_request *req, int *done, int *sizes);

/* Close a comm. Sends reported done are still delivered, by the background thread: the call does not wait for the peer.
 * Without that thread it drains the comm itself, for up to a second. NULL is allowed. */
void anynet_close(struct anynet_comm *comm);

/*
 * NCCL's profiler callback (net-api.md §4.3). `type`: 0 = start, 1 = stop. NULL disables events. It is called in the
 * thread that calls isend, irecv or test.
 */
typedef int (*anynet_profiler)(void **event, int type, void *phandle, int64_t plugin_id, void *ext);
void anynet_net_set_profiler(anynet_profiler profiler);

#endif
