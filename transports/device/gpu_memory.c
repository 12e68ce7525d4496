/* SPDX-License-Identifier: Apache-2.0 */
/* Whether verbs devices can reach GPU memory; see gpu_memory.h. */
#include "device/gpu_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/device.h>
#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "device/sysfs.h"

/* The modules in sysfs, and the names under which they register with the RDMA stack. */
static const char *const peers[] = {
	"module/nvidia_peermem",
	"module/nvidia_peermem_nc",
	"module/nv_peer_mem",
	"module/nv_peer_mem_nc",
	"kernel/mm/memory_peers/nv_mem",
	"kernel/mm/memory_peers/nv_mem_nc",
	"kernel/mm/memory_peers/nvidia-peermem",
	"kernel/mm/memory_peers/nvidia-peermem_nc",
};

bool gpu_peer_memory(const char *root, char *why, size_t why_bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		const char *name = strrchr(peers[i], '/') + 1;
		char path[PATH_MAX], version[48];

		if ((size_t)snprintf(path, sizeof(path), "%s/%s/version", root, peers[i]) >=
			    sizeof(path) ||
		    access(path, F_OK)) /* as NCCL does */
			continue;
		sysfs_line(version, sizeof(version), "%s", path);
		snprintf(why, why_bytes, "%s%s%s is loaded", name, *version ? " " : "", version);
		return true;
	}
	snprintf(why, why_bytes,
		 "no GPU peer-memory module is loaded; try modprobe nvidia_peermem");
	return false;
}

bool gpu_dmabuf(const struct verbs *verbs, struct ibv_pd *pd, char *why, size_t why_bytes)
{
	struct ibv_mr *mr;
	int error;

	if (!verbs->reg_dmabuf_mr) {
		snprintf(why, why_bytes,
			 "libibverbs is older than rdma-core 34 and does not support dma-buf");
		return false;
	}
	errno = 0;
	mr = verbs->reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
	error = errno;
	if (mr) {
		verbs->dereg_mr(mr);
		snprintf(why, why_bytes, "the device registers a dma-buf that does not exist");
		return false;
	}
	if (error == EBADF) {
		snprintf(why, why_bytes, "the device supports dma-buf");
		return true;
	}
	/* NCCL takes other errors for support. If that is wrong, the communicator fails at its first buffer. A wrong
	 * "no" only costs a copy. */
	if (error == EOPNOTSUPP)
		snprintf(why, why_bytes, "the device's driver does not support dma-buf (%s)",
			 error_text(error));
	else if (error == EPROTONOSUPPORT)
		snprintf(why, why_bytes,
			 "the kernel does not support dma-buf for verbs; Linux 5.12 does (%s)",
			 error_text(error));
	else
		snprintf(why, why_bytes, "it is not known whether the device supports dma-buf: %s",
			 error ? error_text(error) : "no reason given");
	return false;
}

static bool has_peer_memory(const struct anynet_config *cfg, const char *root, char *why,
			    size_t why_bytes)
{
	if (cfg->ib_peer_memory == ANYNET_SWITCH_AUTO)
		return gpu_peer_memory(root, why, why_bytes);
	snprintf(why, why_bytes, "ANYNET_IB_PEER_MEMORY=%s",
		 cfg->ib_peer_memory == ANYNET_SWITCH_ON ? "on" : "off");
	return cfg->ib_peer_memory == ANYNET_SWITCH_ON;
}

static bool takes_dmabufs(const struct verbs *verbs, struct ibv_context *context, char *why,
			  size_t why_bytes)
{
	struct ibv_pd *pd = verbs->alloc_pd(context);
	bool takes;

	if (!pd) {
		snprintf(why, why_bytes, "cannot allocate a protection domain");
		return false;
	}
	takes = gpu_dmabuf(verbs, pd, why, why_bytes);
	verbs->dealloc_pd(pd);
	return takes;
}

int gpu_ptr_support(const struct anynet_config *cfg, const struct verbs *verbs,
		    struct ibv_context *context, const char *root, char *text, size_t text_bytes)
{
	char peer[96], dmabuf[96];
	bool by_peer = has_peer_memory(cfg, root, peer, sizeof(peer));
	bool by_dmabuf = takes_dmabufs(verbs, context, dmabuf, sizeof(dmabuf));

	snprintf(text, text_bytes, "%s: %s; %s", by_peer || by_dmabuf ? "accessible" : "not accessible",
		 peer, dmabuf);
	return (by_peer ? ANYNET_PTR_CUDA : 0) | (by_dmabuf ? ANYNET_PTR_DMABUF : 0);
}
