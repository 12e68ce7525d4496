/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of NCCL's and CUDA's functions in bench/real against the headers that are installed here: the types of
 * every call, and the constants. All at compile time. */
#include <assert.h>
#include <stdio.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "bench/real/libs.h"

#define CALL(name, result, ...)                                                            \
	static_assert(__builtin_types_compatible_p(__typeof__(name), result(__VA_ARGS__)), \
		      #name " has other arguments")
/* Parameters that are declared as int or pointer have that size. */
#define LIKE(type, ours)   static_assert(sizeof(type) == sizeof(ours), #type " has another size")
#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

LIKE(ncclUniqueId, struct nccl_id);
LIKE(ncclComm_t, void *);
LIKE(cudaStream_t, void *);
LIKE(ncclResult_t, int);
LIKE(ncclDataType_t, int);
LIKE(ncclRedOp_t, int);
LIKE(cudaError_t, int);
LIKE(enum cudaMemcpyKind, int);

SAME(NCCL_INT8, ncclInt8);
SAME(NCCL_FLOAT32, ncclFloat32);
SAME(NCCL_SUM, ncclSum);
SAME(CUDA_NOT_READY, cudaErrorNotReady);
SAME(CUDA_TO_DEVICE, cudaMemcpyHostToDevice);
SAME(CUDA_TO_HOST, cudaMemcpyDeviceToHost);
SAME(CUDA_NONBLOCKING, cudaStreamNonBlocking);
#if NCCL_VERSION_CODE >= 21300
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
#endif
#if NCCL_VERSION_CODE >= 21400
SAME(NCCL_IN_PROGRESS, ncclInProgress);
#endif

CALL(ncclGetVersion, ncclResult_t, int *);
CALL(ncclGetErrorString, const char *, ncclResult_t);
CALL(ncclGetUniqueId, ncclResult_t, ncclUniqueId *);
CALL(ncclCommInitRank, ncclResult_t, ncclComm_t *, int, ncclUniqueId, int);
CALL(ncclCommDestroy, ncclResult_t, ncclComm_t);
CALL(ncclCommAbort, ncclResult_t, ncclComm_t);
CALL(ncclCommGetAsyncError, ncclResult_t, ncclComm_t, ncclResult_t *);
CALL(ncclGroupStart, ncclResult_t, void);
CALL(ncclGroupEnd, ncclResult_t, void);
CALL(ncclAllReduce, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
     ncclComm_t, cudaStream_t);
CALL(ncclAllGather, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclComm_t,
     cudaStream_t);
CALL(ncclReduceScatter, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
     ncclComm_t, cudaStream_t);
CALL(ncclBroadcast, ncclResult_t, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
     cudaStream_t);
CALL(ncclSend, ncclResult_t, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
CALL(ncclRecv, ncclResult_t, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
#if NCCL_VERSION_CODE >= 21800
CALL(ncclCommSplit, ncclResult_t, ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
#endif
#if NCCL_VERSION_CODE >= 21900
CALL(ncclCommRegister, ncclResult_t, ncclComm_t, void *, size_t, void **);
CALL(ncclCommDeregister, ncclResult_t, ncclComm_t, void *);
#endif

CALL(cudaGetErrorString, const char *, cudaError_t);
CALL(cudaGetDeviceCount, cudaError_t, int *);
CALL(cudaSetDevice, cudaError_t, int);
CALL(cudaDeviceSynchronize, cudaError_t, void);
CALL(cudaMemGetInfo, cudaError_t, size_t *, size_t *);
CALL(cudaMalloc, cudaError_t, void **, size_t);
CALL(cudaFree, cudaError_t, void *);
CALL(cudaMemcpy, cudaError_t, void *, const void *, size_t, enum cudaMemcpyKind);
CALL(cudaMemset, cudaError_t, void *, int, size_t);
CALL(cudaStreamCreateWithFlags, cudaError_t, cudaStream_t *, unsigned);
CALL(cudaStreamDestroy, cudaError_t, cudaStream_t);
CALL(cudaStreamQuery, cudaError_t, cudaStream_t);

int main(void)
{
	printf("compared with nccl.h of NCCL %d, CUDA %d\n", NCCL_VERSION_CODE, CUDART_VERSION);
	return 0;
}
