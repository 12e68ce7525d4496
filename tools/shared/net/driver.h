/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver: opens any NCCL net - a plugin file by any ABI v5 … v12, or a built-in of a real
 * libnccl.so.2 - and calls it as NCCL does, through one interface in the widest types. The tool, the
 * benchmarks and the tests use it.
 *
 * For ABIs older than v11 the calls behave like NCCL 2.30's shims (net-api.md §1.6): sizes that do not
 * fit an int are refused with ncclInternalError before the plugin sees them, the optional-completion
 * marker in *req is reset to NULL below v9, and contexts exist only from v11 on.
 *
 * Results are ncclResult_t values as int, 0 = success.
 */
#ifndef ANYNET_DRIVER_H
#define ANYNET_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define DRIVER_HANDLE_BYTES 128
#define DRIVER_ABI_FIRST    5
#define DRIVER_ABI_LAST     12
#define DRIVER_ABI_NEWEST   0

struct driver_net; /* one opened net; several may be open at once, also of the same file */

/* The v12 properties. Fields that an older version lacks hold the values of NCCL's shims
 * (net-api.md §1.6). */
struct driver_props {
	const char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, force_flush, speed_mbps, port;
	float latency_us;
	int max_comms, max_recvs, net_device_type, net_device_version;
	int vdev_count, vdevs[8];
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request;
	int16_t rail_id, plane_id;
};

/* Arguments of NCCL's calls, in its order. */
struct driver_region {
	void *data;
	size_t bytes;
	int type;
	uint64_t offset;
	int fd;
};
struct driver_send {
	void *data;
	size_t bytes;
	int tag;
	void *mhandle, *phandle;
};
struct driver_recv {
	int n;
	void **data;
	size_t *bytes;
	int *tags;
	void **mhandles, **phandles;
};
struct driver_flush {
	int n;
	void **data;
	int *bytes;
	void **mhandles;
};

typedef void (*driver_logger)(int level, unsigned long flags, const char *file, int line,
			      const char *fmt, ...);

/*
 * Opens a net. `spec` is a file or name for dlopen (RTLD_NOW | RTLD_LOCAL, as in NCCL), or
 * "nccl:Socket" or "nccl:IB", optionally followed by ":PATH" of a libnccl.so.2 (default: the library
 * search path, then the usual CUDA and Python places). A built-in is found by its name in .symtab
 * (NCCL 2.28 … 2.29, v11 layout; other releases are refused). `abi`: 5 … 12, or DRIVER_ABI_NEWEST =
 * the newest exported version. On failure returns NULL and writes a sentence to err.
 */
struct driver_net *driver_open(const char *spec, int abi, char *err, size_t err_bytes);
void driver_close(struct driver_net *net); /* calls dlclose */

/* Calls try() for libnccl.so.2 on the library search path, then in the usual places, until it returns 0. Returns 0,
 * or the last result. */
int driver_each_libnccl(int (*try)(const char *file, void *arg), void *arg);

int driver_abi(const struct driver_net *net);
const char *driver_name(const struct driver_net *net); /* reads the name from the function table at
						        * each call */
const char *driver_path(const struct driver_net *net); /* path of the file it was loaded from */

/* Sets *ctx, the argument of driver_listen, driver_connect and driver_finalize; NULL below v11. */
int driver_init(struct driver_net *net, void **ctx, uint64_t comm_id, int traffic_class,
		driver_logger logger, void *profiler);
int driver_devices(struct driver_net *net, int *count);
int driver_properties(struct driver_net *net, int dev, struct driver_props *props);
int driver_listen(struct driver_net *net, void *ctx, int dev, void *handle, void **listener);
int driver_connect(struct driver_net *net, void *ctx, int dev, void *handle, void **scomm);
int driver_accept(struct driver_net *net, void *listener, void **rcomm);
int driver_reg_mr(struct driver_net *net, void *comm, void *data, size_t bytes, int type,
		  void **mhandle);
int driver_reg_mr_dmabuf(struct driver_net *net, void *comm, const struct driver_region *region,
			 void **mhandle);
int driver_dereg_mr(struct driver_net *net, void *comm, void *mhandle);
int driver_isend(struct driver_net *net, void *scomm, const struct driver_send *send, void **req);
int driver_irecv(struct driver_net *net, void *rcomm, const struct driver_recv *recv, void **req);
int driver_iflush(struct driver_net *net, void *rcomm, const struct driver_flush *flush,
		  void **req);
int driver_test(struct driver_net *net, void *req, int *done, int *sizes);
int driver_close_send(struct driver_net *net, void *scomm);
int driver_close_recv(struct driver_net *net, void *rcomm);
int driver_close_listen(struct driver_net *net, void *listener);
int driver_finalize(struct driver_net *net, void *ctx); /* does nothing below v11 */

/* Makes one virtual device of physical ones (v9 and later). Returns ncclInvalidUsage if the version
 * has no such call. */
int driver_make_vdevice(struct driver_net *net, int *dev, int count, const int *devs);

#endif
