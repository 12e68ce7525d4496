/* SPDX-License-Identifier: Apache-2.0 */
/* What the software GPU does not have: other devices, other processes' memory, graphs. */
#include "runtime.h"

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

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
	(void)handle, (void)memory;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
	(void)memory, (void)handle, (void)flags;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
	(void)memory;
	return report(cudaErrorNotSupported);
}

/* Streams can be asked whether they are captured; none ever is. */
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

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
						const cudaGraphEdgeData *edges, size_t count,
						unsigned flags)
{
	(void)stream, (void)dependencies, (void)edges, (void)count, (void)flags;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
				     const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
				     size_t count)
{
	(void)graph, (void)from, (void)to, (void)edges, (void)count;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph,
					const cudaGraphNode_t *dependencies, size_t count,
					cudaEvent_t event)
{
	(void)node, (void)graph, (void)dependencies, (void)count, (void)event;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
				      unsigned flags)
{
	(void)graph, (void)object, (void)count, (void)flags;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *pointer, cudaHostFn_t destroy,
				 unsigned refs, unsigned flags)
{
	(void)object, (void)pointer, (void)destroy, (void)refs, (void)flags;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	(void)stream, (void)mode;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	(void)stream, (void)graph;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	(void)exec, (void)graph, (void)flags;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	(void)exec, (void)stream;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	(void)exec;
	return report(cudaErrorNotSupported);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	(void)graph;
	return report(cudaErrorNotSupported);
}
