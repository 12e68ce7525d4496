/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported symbols ncclNetPlugin_vN and the functions that they share. abi_v12.c has a function for every entry of
 * the newest version. abi_vN.c has those that differ from version N + 1, and may call only those of newer versions.
 * For a new version, see docs/architecture.md, "Adding things".
 *
 * Every function writes its outputs, also on failure (get_properties: on success only), and checks when it converts to a
 * narrower type.
 */
#ifndef ANYNET_ABI_H
#define ANYNET_ABI_H

#include <nccl_net/abi/net_v10.h>
#include <nccl_net/abi/net_v11.h>
#include <nccl_net/abi/net_v12.h>
#include <nccl_net/abi/net_v5.h>
#include <nccl_net/abi/net_v6.h>
#include <nccl_net/abi/net_v7.h>
#include <nccl_net/abi/net_v8.h>
#include <nccl_net/abi/net_v9.h>
#include <nccl_net/comm.h>

#define ANYNET_EXPORT __attribute__((visibility("default")))

/* Writable: the constructor in abi.c sets `name` (net-api.md §2.5). */
extern ANYNET_EXPORT struct anynet_net_v5 ncclNetPlugin_v5;
extern ANYNET_EXPORT struct anynet_net_v6 ncclNetPlugin_v6;
extern ANYNET_EXPORT struct anynet_net_v7 ncclNetPlugin_v7;
extern ANYNET_EXPORT struct anynet_net_v8 ncclNetPlugin_v8;
extern ANYNET_EXPORT struct anynet_net_v9 ncclNetPlugin_v9;
extern ANYNET_EXPORT struct anynet_net_v10 ncclNetPlugin_v10;
extern ANYNET_EXPORT struct anynet_net_v11 ncclNetPlugin_v11;
extern ANYNET_EXPORT struct anynet_net_v12 ncclNetPlugin_v12;

/* The entries that are the same in all tables. */
#define ABI_SAME_ENTRIES                                                             \
	.name = "anynet", .devices = abi_v12_devices, .dereg_mr = abi_v12_dereg_mr,  \
	.iflush = abi_v12_iflush, .test = abi_v12_test, .close_send = abi_v12_close, \
	.close_recv = abi_v12_close, .close_listen = abi_v12_close_listen

/* --- abi_v12.c --- */

enum anynet_nccl_result abi_v12_devices(int *count);
enum anynet_nccl_result abi_v12_get_properties(int dev, struct anynet_net_props_v12 *props);
enum anynet_nccl_result abi_v12_listen(void *ctx, int dev, void *handle, void **lcomm);
enum anynet_nccl_result abi_v12_connect(void *ctx, int dev, void *handle, void **scomm,
					struct anynet_net_device_handle **dev_handle);
enum anynet_nccl_result abi_v12_accept(void *lcomm, void **rcomm,
				       struct anynet_net_device_handle **dev_handle);
enum anynet_nccl_result abi_v12_reg_mr(void *comm, void *data, size_t bytes, int type,
				       void **mhandle);
enum anynet_nccl_result abi_v12_reg_mr_dmabuf(void *comm, void *data, size_t bytes, int type,
					      uint64_t offset, int fd, void **mhandle);
enum anynet_nccl_result abi_v12_dereg_mr(void *comm, void *mhandle);
enum anynet_nccl_result abi_v12_isend(void *scomm, void *data, size_t bytes, int tag, void *mhandle,
				      void *phandle, void **request);
enum anynet_nccl_result abi_v12_irecv(void *rcomm, int n, void **data, size_t *bytes, int *tags,
				      void **mhandles, void **phandles, void **request);
enum anynet_nccl_result abi_v12_iflush(void *rcomm, int n, void **data, int *bytes, void **mhandles,
				       void **request);
enum anynet_nccl_result abi_v12_test(void *request, int *done, int *bytes);
enum anynet_nccl_result abi_v12_close(void *comm); /* closeSend and closeRecv */
enum anynet_nccl_result abi_v12_close_listen(void *lcomm);
enum anynet_nccl_result abi_v12_finalize(void *ctx);

/* init of v11 and v12. `abi` is the version to log. */
enum anynet_nccl_result abi_v12_init_context(int abi, void **ctx, uint64_t comm_id,
					     const struct anynet_net_config_v10 *config,
					     anynet_nccl_logger logger,
					     anynet_nccl_profiler profiler);

/* One step of a connect; each API version passes the options that it has. */
enum anynet_nccl_result abi_v12_connect_step(const struct anynet_connect_options *opts, int dev,
					     void *handle, void **scomm);

/* makeVDevice. `most`: the API version's limit for `count`. */
enum anynet_nccl_result abi_v12_fuse(int *dev, int count, const int *devs, int most);

/* --- abi_v11.c --- */

enum anynet_nccl_result abi_v11_get_properties(int dev, struct anynet_net_props_v11 *props);
enum anynet_nccl_result abi_v11_make_vdevice(int *dev, struct anynet_net_vprops_v9 *vprops);

/* --- abi_v10.c --- */

enum anynet_nccl_result abi_v10_get_properties(int dev, struct anynet_net_props_v9 *props);
enum anynet_nccl_result abi_v10_listen(int dev, void *handle, void **lcomm);

/* --- abi_v9.c --- */

enum anynet_nccl_result abi_v9_connect(int dev, void *handle, void **scomm,
				       struct anynet_net_device_handle **dev_handle);

/* --- abi_v8.c --- */

enum anynet_nccl_result abi_v8_isend(void *scomm, void *data, int bytes, int tag, void *mhandle,
				     void **request);
enum anynet_nccl_result abi_v8_irecv(void *rcomm, int n, void **data, int *bytes, int *tags,
				     void **mhandles, void **request);

/* --- abi_v7.c --- */

enum anynet_nccl_result abi_v7_reg_mr(void *comm, void *data, int bytes, int type, void **mhandle);

/* --- abi_v6.c --- */

enum anynet_nccl_result abi_v6_get_properties(int dev, struct anynet_net_props_v5 *props);
enum anynet_nccl_result abi_v6_connect(int dev, void *handle, void **scomm);
enum anynet_nccl_result abi_v6_accept(void *lcomm, void **rcomm);

#endif
