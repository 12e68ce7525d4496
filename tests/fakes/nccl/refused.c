/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features that the software GPU lacks: other devices, memory of other processes, graphs. Functions that only refuse
 * are all `cuda_refuse`, by the names that runtime.sh gives it.
 */
#include "runtime.h"

cudaError_t cuda_refuse(void);
cudaError_t cuda_refuse(void)
{
	return report(cudaErrorNotSupported);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	if (!can || device || peer)
		return report(can ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
	*can = 0;
	return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	(void)flags;
	return report(peer ? cudaErrorInvalidDevice : cudaErrorPeerAccessUnsupported);
}

/* Streams can be queried for a capture; there never is one. */
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	unsigned long long id;
	cudaError_t ret;

	if (!status)
		return report(cudaErrorInvalidValue);
	ret = cudaStreamGetId(stream, &id);
	if (!ret)
		*status = cudaStreamCaptureStatusNone;
	return ret;
}

/* The rest is filled in only for a capture. */
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				     unsigned long long *id, cudaGraph_t *graph,
				     const cudaGraphNode_t **dependencies,
				     const cudaGraphEdgeData **edges, size_t *count)
{
	(void)id, (void)graph, (void)dependencies, (void)edges;
	if (count)
		*count = 0;
	return cudaStreamIsCapturing(stream, status);
}
