/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver's own files share; users see driver.h only. */
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

#define DRIVER_ABI_FIRST 5
#define DRIVER_ABI_LAST  12

/* Every byte of the structure handed to getProperties, so that fields left out are seen. */
#define DRIVER_PROPS_POISON 0xa5

/* Where a table was found. */
struct driver_found {
	void *lib;         /* from dlopen; the caller owns it */
	const void *table; /* the net's table, laid out as ABI `abi` */
	int abi;
	char path[PATH_MAX]; /* of the file, absolute */
};

typedef enum anynet_nccl_result driver_result;
typedef struct anynet_net_device_handle driver_device_handle;

/*
 * A table's functions, sorted by signature: of each row separated by a blank line the one that the
 * table's version has is set, the others are NULL.
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

/* Sort the functions of a table of version `abi` (5 … 12) into *calls. */
void driver_bind(struct driver_calls *calls, const void *table, int abi);

/* getProperties through whichever version there is; see driver_properties. */
int driver_read_properties(const struct driver_calls *calls, int dev, struct driver_props *props);

/* Find the built-in `name` ("Socket" or "IB") in the libnccl.so.2 at `path`; path NULL = search for
 * one (driver.h). Returns 0, or -1 with a sentence in err. One call at a time. */
int driver_builtin_find(const char *name, const char *path, struct driver_found *found, char *err,
			size_t err_bytes);

/* Absolute path of the object a dlopen handle stands for, and its load address in *base (may be
 * NULL). Returns 0 or -1. */
int driver_lib_path(void *lib, char *path, size_t path_bytes, size_t *base);

#endif
