/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of NCCL and the CUDA runtime that real_bench uses. Both libraries are opened at run
 * time, so that it builds without them. The declarations match all versions since NCCL 2.8 and CUDA
 * 11. Results are int, 0 = success.
 */
#ifndef BENCH_REAL_LIBS_H
#define BENCH_REAL_LIBS_H

#include <stddef.h>

#define NCCL_ID_BYTES     128
#define NCCL_REMOTE_ERROR 6
#define NCCL_IN_PROGRESS  7
#define NCCL_INT8         0 /* ncclDataType_t */
#define NCCL_FLOAT32      7
#define NCCL_SUM          0 /* ncclRedOp_t */

#define CUDA_NOT_READY   600 /* cudaErrorNotReady */
#define CUDA_TO_DEVICE   1   /* cudaMemcpyKind */
#define CUDA_TO_HOST     2
#define CUDA_NONBLOCKING 1 /* cudaStreamNonBlocking */

struct nccl_id {
	char bytes[NCCL_ID_BYTES];
};

struct nccl_calls {
	int (*get_version)(int *version);
	const char *(*get_error_string)(int result);
	int (*get_unique_id)(struct nccl_id *id);
	int (*comm_init_rank)(void **comm, int size, struct nccl_id id, int rank);
	int (*comm_destroy)(void *comm);
	int (*comm_abort)(void *comm);
	int (*comm_get_async_error)(void *comm, int *result);
	int (*group_start)(void);
	int (*group_end)(void);
	int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, void *comm,
			  void *stream);
	int (*all_gather)(const void *send, void *recv, size_t count, int type, void *comm,
			  void *stream);
	int (*reduce_scatter)(const void *send, void *recv, size_t count, int type, int op,
			      void *comm, void *stream);
	int (*broadcast)(const void *send, void *recv, size_t count, int type, int root, void *comm,
			 void *stream);
	int (*send)(const void *data, size_t count, int type, int peer, void *comm, void *stream);
	int (*recv)(void *data, size_t count, int type, int peer, void *comm, void *stream);
	/* NULL before NCCL 2.18. */
	int (*comm_split)(void *comm, int color, int key, void **part, void *config);
	/* NULL before NCCL 2.19. */
	int (*comm_register)(void *comm, void *data, size_t bytes, void **handle);
	int (*comm_deregister)(void *comm, void *handle);
};

struct cuda_calls {
	const char *(*get_error_string)(int result);
	int (*get_device_count)(int *count);
	int (*set_device)(int device);
	int (*device_synchronize)(void);
	int (*mem_get_info)(size_t *free, size_t *total);
	int (*malloc)(void **data, size_t bytes);
	int (*free)(void *data);
	int (*memcpy)(void *to, const void *from, size_t bytes, int kind);
	int (*memset)(void *data, int value, size_t bytes);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*stream_query)(void *stream);
};

struct libs {
	struct nccl_calls nccl;
	struct cuda_calls cuda;
	char nccl_path[512], cuda_path[512]; /* paths of the opened files */
};

/* Opens both libraries. If a name is NULL, the library is searched on the library search path, then
 * in the usual places of CUDA and Python; ANYNET_LIBNCCL names another libnccl. Returns 0, or -1
 * with a sentence in err. The libraries stay open, also after an error. */
int libs_open(struct libs *libs, const char *nccl, const char *cuda, char *err, size_t err_bytes);

#endif
