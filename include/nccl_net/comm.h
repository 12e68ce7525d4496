/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message layer as the plugin core sees it: NCCL's listen … close* on comms over streams
 * (docs/architecture.md). Implemented in transports/.
 *
 * Results: 0 or -errno. -EAGAIN never leaves this layer: "not now" is 0 with a NULL output, as
 * NCCL wants it (net-api.md §3.3, §3.5). Outputs are always written. No call blocks or sleeps, but
 * that ending a queue pair may poll for up to 30 ms, and that opening a verbs port or registering
 * memory takes what the driver takes.
 *
 * Threads (net-api.md §3.1): isend/irecv/iflush/test of one comm come from one thread at a time;
 * reg/dereg of the same comm may run beside them; everything else may run in any thread, for
 * different objects side by side.
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
#define ANYNET_MESSAGE_MAX  ((size_t)1 << 31) /* largest message, bytes; sizes in test are int */

struct anynet_listener;
struct anynet_comm;
struct anynet_request;
struct anynet_mr;

/*
 * Called once per process, before anything else here: takes the settings and the device list, which
 * stay valid and unchanged for the life of the process. Opens nothing yet.
 */
void anynet_net_start(const struct anynet_config *cfg, const struct anynet_device *devices,
		      int device_count);

/* The NCCL found in this process, for the hello: NCCL_VERSION_CODE (0 = not found) and its file. */
void anynet_net_set_nccl(int version, const char *path);

/* The name that NCCL knows us by, for `anynet top`. */
void anynet_net_set_name(const char *name);

/* NCCL has ended a communicator: gives back half-open connects and accepts of this owner, closed comms
 * whose peer has everything, and the listening sockets if no listener or receive comm is left. */
void anynet_net_trim(const void *owner);

/* Per connection, from NCCL's context. */
struct anynet_connect_options {
	uint64_t comm_hash; /* NCCL's commId (v11+), 0 = not known; in the hello, for messages */
	int traffic_class;  /* -1 = unset */
	const void *owner;  /* NCCL's context; NULL = none, and no trim ends the connect */
};

/* `handle` is 128 bytes that NCCL carries to the peer; all of them are written. `owner` as in the options. */
int anynet_listen(const struct anynet_device *dev, const void *owner, void *handle,
		  struct anynet_listener **listener);

/*
 * One step of connecting to the listener behind `handle`, from device `dev`. *comm stays NULL until
 * the connection stands; NCCL calls again with the same handle buffer, whose local area names the
 * connect in progress. An error ends it.
 */
int anynet_connect(const struct anynet_device *dev, const struct anynet_connect_options *opts,
		   void *handle, struct anynet_comm **comm);

/* One step of accepting; at most one comm comes out of a listener. */
int anynet_accept(struct anynet_listener *listener, struct anynet_comm **comm);

void anynet_close_listener(struct anynet_listener *listener); /* NULL is fine */

/* Where memory lies in a dma-buf. */
struct anynet_dmabuf {
	int fd; /* the caller's */
	uint64_t offset;
};

/* `type` is ANYNET_PTR_HOST or ANYNET_PTR_CUDA; -EOPNOTSUPP: another. *mr is never NULL on success and is
 * valid for every comm of the same device. GPU memory is taken on every device, whatever it reports. Memory
 * that a NIC cannot register is no error: the comm goes over TCP from then on. */
int anynet_reg_mr(struct anynet_comm *comm, void *addr, size_t bytes, int type,
		  struct anynet_mr **mr);
int anynet_reg_mr_dmabuf(struct anynet_comm *comm, void *addr, size_t bytes, int type,
			 const struct anynet_dmabuf *dmabuf, struct anynet_mr **mr);

/* When it returns, no request of `comm` reads or writes the buffer any more: those that used this
 * registration and were not done fail, and the comm with them. mr == NULL is fine. */
void anynet_dereg_mr(struct anynet_comm *comm, struct anynet_mr *mr);

/* A message as NCCL posts it. */
struct anynet_send {
	const void *data;
	size_t bytes;
	int tag;
	struct anynet_mr *mr; /* NULL = none: it is registered as needed */
	void *phandle;        /* NCCL's profiler handle or NULL */
};

/* `n` buffers, to be filled by n sends matched by tag in posting order. */
struct anynet_recv {
	int n;
	bool polled; /* the GPU polls them for flags while they are filled, LL or LL128 (net-api.md §3.5) */
	void *const *data;
	const size_t *bytes;
	const int *tags;
	struct anynet_mr *const *mrs; /* NULL = none, as above */
	void *const *phandles;        /* may be NULL */
};

/* Post one. It, and its arrays, are read during the call only. *req NULL = no room now, try again. -EMSGSIZE
 * comes from test, not from here. */
int anynet_isend(struct anynet_comm *comm, const struct anynet_send *send, struct anynet_request **req);
int anynet_irecv(struct anynet_comm *comm, const struct anynet_recv *recv, struct anynet_request **req);

/* Of `n` buffers that were filled. *req NULL with 0 = nothing to wait for. */
int anynet_iflush(struct anynet_comm *comm, int n, void *const *data, struct anynet_mr *const *mrs,
		  struct anynet_request **req);

/* *done 0 or 1; when 1, `sizes` (may be NULL) gets the bytes received (sent) per buffer and the
 * request is free for reuse. */
int anynet_test(struct anynet_request *req, int *done, int *sizes);

/* Returns at once, whatever the peer does. Sends reported done are still delivered. NULL is fine. */
void anynet_close(struct anynet_comm *comm);

/*
 * NCCL's profiler (net-api.md §4.3): type 0 start, 1 stop. NULL = none. Called from the thread that
 * calls isend/irecv/test.
 */
typedef int (*anynet_profiler)(void **event, int type, void *phandle, int64_t plugin_id, void *ext);
void anynet_net_set_profiler(anynet_profiler profiler);

#endif
