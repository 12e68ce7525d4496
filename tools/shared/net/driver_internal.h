/* SPDX-License-Identifier: Apache-2.0 */
/* Internals shared by the driver's files. Users include driver.h only. */
#ifndef ANYNET_DRIVER_INTERNAL_H
#define ANYNET_DRIVER_INTERNAL_H

#include "driver.h"

#include <limits.h>
#include <nccl_net/abi/net_v10.h>
#include <nccl_net/abi/net_v11.h>
#include <nccl_net/abi/net_v12.h>
#include <nccl_net/abi/net_v5.h>
#include <nccl_net/abi/net_v6.h>
#include <nccl_net/abi/net_v7.h>
#include <nccl_net/abi/net_v8.h>
#include <nccl_net/abi/net_v9.h>
#include <stddef.h>

/* Fill byte of the structure passed to getProperties: reveals fields that the plugin leaves unset. */
#define DRIVER_PROPS_POISON 0xa5

/* A function table and its origin. */
struct driver_found {
	void *lib;         /* handle of dlopen; the caller owns it */
	const void *table; /* the net's function table, in the layout of version `abi` */
	int abi;
	char path[PATH_MAX]; /* absolute path of the file */
};

typedef enum anynet_nccl_result driver_result;
typedef struct anynet_net_device_handle driver_device_handle;

/*
 * The functions of a table, sorted by signature. In each group (between blank lines), the member of
 * the table's version is set and the others are NULL.
 */
struct driver_calls {
	driver_result (*init_v5)(anynet_nccl_logger);
	driver_result (*init_v10)(anynet_nccl_logger, anynet_nccl_profiler);
	driver_result (*init_v11)(void **, uint64_t, struct anynet_net_config_v10 *,
				  anynet_nccl_logger, anynet_nccl_profiler);

	driver_result (*devices)(int *);

	driver_result (*get_properties_v5)(int, struct anynet_net_props_v5 *);
	driver_result (*get_properties_v7)(int, struct anynet_net_props_v7 *);
	driver_result (*get_properties_v8)(int, struct anynet_net_props_v8 *);
	driver_result (*get_properties_v9)(int, struct anynet_net_props_v9 *);
	driver_result (*get_properties_v11)(int, struct anynet_net_props_v11 *);
	driver_result (*get_properties_v12)(int, struct anynet_net_props_v12 *);

	driver_result (*listen_v5)(int, void *, void **);
	driver_result (*listen_v11)(void *, int, void *, void **);

	driver_result (*connect_v5)(int, void *, void **);
	driver_result (*connect_v7)(int, void *, void **, driver_device_handle **);
	driver_result (*connect_v10)(int, struct anynet_net_config_v10 *, void *, void **,
				     driver_device_handle **);
	driver_result (*connect_v11)(void *, int, void *, void **, driver_device_handle **);

	driver_result (*accept_v5)(void *, void **);
	driver_result (*accept_v7)(void *, void **, driver_device_handle **);

	driver_result (*reg_mr_v5)(void *, void *, int, int, void **);
	driver_result (*reg_mr_v8)(void *, void *, size_t, int, void **);

	driver_result (*reg_mr_dmabuf)(void *, void *, size_t, int, uint64_t, int, void **);

	driver_result (*dereg_mr)(void *, void *);

	driver_result (*isend_v5)(void *, void *, int, int, void *, void **);
	driver_result (*isend_v9)(void *, void *, size_t, int, void *, void **);
	driver_result (*isend_v10)(void *, void *, size_t, int, void *, void *, void **);

	driver_result (*irecv_v5)(void *, int, void **, int *, int *, void **, void **);
	driver_result (*irecv_v9)(void *, int, void **, size_t *, int *, void **, void **);
	driver_result (*irecv_v10)(void *, int, void **, size_t *, int *, void **, void **,
				   void **);

	driver_result (*iflush)(void *, int, void **, int *, void **, void **);

	driver_result (*test)(void *, int *, int *);

	driver_result (*close_send)(void *);

	driver_result (*close_recv)(void *);

	driver_result (*close_listen)(void *);

	driver_result (*make_vdevice_v9)(int *, struct anynet_net_vprops_v9 *);
	driver_result (*make_vdevice_v12)(int *, struct anynet_net_vprops_v12 *);

	driver_result (*finalize)(void *);
};

/* Copies the functions of a table of version `abi` (5 … 12) into *calls. */
void driver_bind(struct driver_calls *calls, const void *table, int abi);

/* Calls getProperties of the version present; see driver_properties. */
int driver_read_properties(const struct driver_calls *calls, int dev, struct driver_props *props);

/* Finds the built-in `name` ("Socket" or "IB") in the libnccl.so.2 at `path`, or searches for one
 * if `path` is NULL (driver.h). Returns 0, or -1 with a sentence in err. Not thread-safe. */
int driver_builtin_find(const char *name, const char *path, struct driver_found *found, char *err,
			size_t err_bytes);

/* Returns the absolute path of the object behind a dlopen handle, and its load address in *base
 * (may be NULL). Returns 0 or -1. */
int driver_lib_path(void *lib, char *path, size_t path_bytes, size_t *base);

#endif
