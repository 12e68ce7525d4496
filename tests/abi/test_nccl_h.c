/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of the plugin against those of the nccl.h that is installed here. */
#include <assert.h>
#include <stdio.h>

#include <nccl.h>

#include <nccl_net/abi/nccl_types.h>

static_assert(sizeof(ncclResult_t) == sizeof(enum anynet_nccl_result), "ncclResult_t");

int main(void)
{
	static const struct {
		const char *name;
		int ours, nccls;
	} constants[] = {
		{ "ncclSuccess", ANYNET_NCCL_SUCCESS, ncclSuccess },
		{ "ncclUnhandledCudaError", ANYNET_NCCL_UNHANDLED_CUDA_ERROR,
		  ncclUnhandledCudaError },
		{ "ncclSystemError", ANYNET_NCCL_SYSTEM_ERROR, ncclSystemError },
		{ "ncclInternalError", ANYNET_NCCL_INTERNAL_ERROR, ncclInternalError },
		{ "ncclInvalidArgument", ANYNET_NCCL_INVALID_ARGUMENT, ncclInvalidArgument },
		{ "ncclInvalidUsage", ANYNET_NCCL_INVALID_USAGE, ncclInvalidUsage },
#if NCCL_VERSION_CODE >= 21300
		{ "ncclRemoteError", ANYNET_NCCL_REMOTE_ERROR, ncclRemoteError },
#endif
	};
	int bad = 0;

	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
		if (constants[i].ours == constants[i].nccls)
			continue;
		printf("%s is %d, ours is %d\n", constants[i].name, constants[i].nccls,
		       constants[i].ours);
		bad = 1;
	}
	printf("compared with nccl.h of NCCL %d\n", NCCL_VERSION_CODE);
	return bad;
}
