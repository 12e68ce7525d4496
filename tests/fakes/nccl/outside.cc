/* SPDX-License-Identifier: Apache-2.0 */
/* What else NCCL's host code takes from its device code. */
#include "comm.h"
#include "sym_kernels.h"

#include "kernels.hh"

/* There are no kernels for symmetric memory: NCCL does without them. */
extern int const ncclSymkKernelCount = 0;
void *ncclSymkKernelList[1];
int ncclSymkKernelRequirements[1];
int ncclSymkKernelMaxDynamicSmem[1];

int ncclSymkGetKernelIndex(ncclSymkKernelId kernel, int, ncclDataType_t)
{
	cannot("kernel for symmetric memory", (int)kernel);
}

ncclResult_t ncclGinResetSignalsAndCounters(struct ncclComm *, ncclDevComm_t const *)
{
	return ncclInvalidUsage;
}

/* A communicator of one rank. */
ncclResult_t ncclLaunchOneRank(void *dst, void const *src, size_t count, struct ncclDevRedOpFull op,
			       ncclDataType_t type, cudaStream_t stream)
{
	if (op.op == ncclDevPreMulSum)
		return ncclInvalidUsage;
	if (dst != src && cudaMemcpyAsync(dst, src, count * ncclTypeSize(type),
					  cudaMemcpyDeviceToDevice, stream) != cudaSuccess)
		return ncclUnhandledCudaError;
	return ncclSuccess;
}
