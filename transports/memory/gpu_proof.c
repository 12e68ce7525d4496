/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that a NIC reaches a GPU's memory; see gpu_proof.h. */
#include "memory/gpu_proof.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/os.h"
#include "base/pinned.h"
#include "device/ib_self.h"

#define PROOF_BYTES 256
#define DEADLINE_MS 10000
#define POLL_NS     100000

enum verdict {
	NOT_TRIED,
	REACHED,
	NOT_REACHED
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one proof at a time */

struct proof {
	struct ib_nic *nic;
	struct gpu *gpu;
	uint8_t *verdict;
	struct ib_self self;
	uint8_t *page;   /* PROOF_BYTES to write, then room for PROOF_BYTES read back */
	uint64_t memory; /* address of the GPU memory */
	uint32_t rkey;   /* its registration */
	unsigned downs;  /* nic->downs when the proof began */
	char *why;
	size_t why_bytes;
};

/* Writes the reason. -ENOMEM. */
static int not_reached(const struct proof *proof, const char *what)
{
	*proof->verdict = NOT_REACHED;
	snprintf(proof->why, proof->why_bytes,
		 "GPUDirect RDMA cannot access GPU %d: %s (check PCI ACS and the IOMMU)",
		 gpu_ordinal(proof->gpu), what);
	return -ENOMEM;
}

/* The proof could not be run. Writes the reason. -EAGAIN. */
static int unproven(const struct proof *proof, const char *what)
{
	snprintf(proof->why, proof->why_bytes, "%s", what);
	return -EAGAIN;
}

/* Instead of a completion's status. */
enum {
	NOT_DONE = -1,
	NOT_POSTED = -2,
};

/* Waits for the posted request. Its completion's status, or NOT_DONE. */
static int await(const struct proof *proof)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	uint64_t until = os_now_ms() + DEADLINE_MS;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(proof->self.cq, 1, &wc)) && os_now_ms() < until)
		nanosleep(&pause, NULL);
	return n > 0 ? (int)wc.status : NOT_DONE;
}

/* Moves PROOF_BYTES between the page and registered memory. The completion's status, NOT_DONE or NOT_POSTED. */
static int move(struct proof *proof, enum ibv_wr_opcode opcode, uint8_t *local, uint64_t remote,
		uint32_t rkey)
{
	int ret = ib_self_post(&proof->self, opcode, local, PROOF_BYTES, remote, rkey);

	return ret ? NOT_POSTED : await(proof);
}

/* Has the port gone down, or the device failed, meanwhile? Then requests fail whatever the GPU. */
static bool lost_port(const struct proof *proof)
{
	return atomic_load(&proof->nic->failed) || atomic_load(&proof->nic->downs) != proof->downs;
}

static int move_gpu(struct proof *proof, enum ibv_wr_opcode opcode, uint8_t *local,
		    const char *verb)
{
	int status = move(proof, opcode, local, proof->memory, proof->rkey);
	char what[80];

	if (status == IBV_WC_SUCCESS)
		return 0;
	if (lost_port(proof))
		return unproven(proof, "the port went down during the test");
	if (status == NOT_POSTED)
		return unproven(proof, "the request of the test could not be posted");
	snprintf(what, sizeof(what), "an RDMA %s of its memory fails with status %d", verb, status);
	return not_reached(proof, what);
}

/* Writes random bytes by RDMA, and compares what an RDMA READ and CUDA return. */
static int try(struct proof *proof)
{
	uint8_t *out = proof->page, *in = proof->page + PROOF_BYTES;
	int ret;

	if (os_random(out, PROOF_BYTES))
		return unproven(proof, "no random bytes for the test");
	ret = move_gpu(proof, IBV_WR_RDMA_WRITE, out, "WRITE");
	if (!ret)
		ret = move_gpu(proof, IBV_WR_RDMA_READ, in, "READ");
	if (ret)
		return ret;
	if (memcmp(out, in, PROOF_BYTES))
		return not_reached(proof,
				   "an RDMA READ of its memory returns other data than an RDMA "
				   "WRITE stored");
	memset(in, 0, PROOF_BYTES);
	if (gpu_fetch(proof->gpu, in, (void *)(uintptr_t)proof->memory, PROOF_BYTES))
		return unproven(proof, "CUDA cannot read the memory of the test");
	if (memcmp(out, in, PROOF_BYTES))
		return not_reached(proof, "CUDA reads other data from its memory than an RDMA "
					  "WRITE stored");
	*proof->verdict = REACHED;
	return 0;
}

/* Does the queue pair work, within host memory? The port may be down. */
static bool works(struct proof *proof)
{
	return !move(proof, IBV_WR_RDMA_READ, proof->page + PROOF_BYTES, (uintptr_t)proof->page,
		     proof->self.mr->rkey);
}

static int prove(struct proof *proof, struct ib_mr_cache *cache, const struct anynet_mr *mr)
{
	struct anynet_mr probe = { .gpu = mr->gpu, .way = mr->way, .dmabuf.fd = -1 };
	struct ib_mr *made;
	char why[160];
	int ret;

	proof->memory = (uintptr_t)gpu_scratch(proof->gpu);
	proof->page = pinned_alloc(2 * PROOF_BYTES);
	if (!proof->memory || !proof->page) {
		pinned_free(proof->page, 2 * PROOF_BYTES);
		return unproven(proof, "out of memory for the test");
	}
	probe.range.addr = (void *)(uintptr_t)proof->memory;
	probe.range.bytes = GPU_SCRATCH_BYTES;
	probe.range.id = gpu_memory_id(probe.range.addr, probe.range.bytes);
	ret = ib_mr_register(cache, &probe, &made, proof->why, proof->why_bytes);
	if (ret) {
		ret = ret == -EIO || ret == -ENODEV || lost_port(proof)
			      ? unproven(proof, "the device failed during the test")
			      : -ENOMEM;
	} else {
		proof->rkey = made->rkey;
		ret = ib_self_make(proof->nic, proof->page, &proof->self, why, sizeof(why));
		if (ret)
			ret = unproven(proof, why);
		else
			ret = works(proof)
				      ? try(proof)
				      : unproven(proof, "the loopback queue pair delivers nothing");
		ib_self_unmake(proof->nic, &proof->self);
		ib_mr_put(made);
	}
	pinned_free(proof->page, 2 * PROOF_BYTES);
	return ret;
}

void gpu_proof_prepare(struct gpu *gpu)
{
	pthread_mutex_lock(&lock);
	gpu_scratch(gpu);
	pthread_mutex_unlock(&lock);
}

int gpu_prove(struct nic_memory *memory, const struct anynet_mr *mr, bool must_know, char *why,
	      size_t why_bytes)
{
	struct proof proof = {
		.nic = memory->nic,
		.gpu = mr->gpu,
		.verdict = &memory->proofs[gpu_ordinal(mr->gpu)],
		.downs = atomic_load(&memory->nic->downs),
		.why = why,
		.why_bytes = why_bytes,
	};
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (*proof.verdict == NOT_TRIED) {
		ret = prove(&proof, memory->cache, mr);
		if (ret == -EAGAIN && must_know) {
			anynet_info("dev %s: GPU %d: GPUDirect RDMA is used untested: %s",
				    memory->nic->dev->name, gpu_ordinal(mr->gpu), why);
			*proof.verdict = REACHED;
			ret = 0;
		}
	} else if (*proof.verdict == NOT_REACHED) {
		not_reached(&proof, "as logged before");
		ret = -EALREADY;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}
