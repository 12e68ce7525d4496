/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory, that of the fake libcuda.so.1, whose file is rig.cuda. */
#include "rig.h"

#include <errno.h>
#include <fakes/cuda/opened.h>
#include <unistd.h>

#define GPU_BYTES  ((size_t)64 << 10)
#define PAGE_BYTES 4096u
#define DEVICES                                                  \
	"device x dmabuf; port layer=eth gid=0,10.0.0.1,v2,lo; " \
	"device y; port layer=eth gid=0,10.0.0.2,v2,lo; "
#define FOR_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct opened_cuda fake_cuda;
static struct cuda_calls cuda;

/* A range that begins in the middle of a page. */
static struct gpu {
	CUdeviceptr memory;
	char *view;
} gpu;

static void open_cuda(void)
{
	CUcontext context;

	cuda_open(rig.cuda, &fake_cuda);
	cuda = fake_cuda.calls;
	check_ok(cuda.cuInit(0));
	check_ok(cuda.cuDevicePrimaryCtxRetain(&context, 0));
	check_ok(cuda.cuCtxPushCurrent_v2(context));
}

static void fill_ends(void)
{
	fill(rig.a.memory, GPU_BYTES, 2);
	fill(rig.b.memory, GPU_BYTES, 3);
}

void gpu_begin(void)
{
	open_cuda();
	fill_ends();
	order("gpu peer-memory");
	do {
		check_ok(cuda.cuMemAlloc_v2(&gpu.memory, GPU_BYTES));
	} while (gpu.memory % PAGE_BYTES == 0);
	gpu.view = fake_cuda.view((void *)gpu.memory, GPU_BYTES);
	check(gpu.view);
	fill(gpu.view, GPU_BYTES, 1);
}

void gpu_end(void)
{
	struct fake_cuda_counts counts;

	if (gpu.memory)
		check_ok(cuda.cuMemFree_v2(gpu.memory));
	fake_cuda.counts(&counts);
	check_int(counts.registrations, 0);
}

/* Between x's host memory and `remote`, which y has as `mr`. */
static void transfer(enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t remote,
		     uint32_t bytes, enum ibv_wc_status status)
{
	struct op op = { .opcode = opcode, .bytes = bytes, .rkey = mr->rkey, .remote = remote };

	end_fails(&rig.a, &op, status);
}

static struct ibv_mr *reg_at_y(CUdeviceptr memory, size_t bytes)
{
	struct ibv_mr *mr = rig.verbs.reg_mr(rig.b.pd, (void *)memory, bytes, FOR_ALL);

	check_that(mr, "GPU memory cannot be registered: %s", strerror(errno));
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	check_ok(rig.verbs.dereg_mr(mr));
}

static void without_peer_memory_it_cannot_be_registered(void)
{
	order("gpu");
	check(!rig.verbs.reg_mr(rig.a.pd, (void *)gpu.memory, 4096, 0));
	check_int(errno, EFAULT);
}

static void it_is_written_and_read(void)
{
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);

	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory + 100, 5000, IBV_WC_SUCCESS);
	check(!memcmp(gpu.view + 100, rig.a.memory, 5000));
	fill(gpu.view, GPU_BYTES, 4);
	transfer(IBV_WR_RDMA_READ, mr, gpu.memory + 8, 5000, IBV_WC_SUCCESS);
	check(!memcmp(gpu.view + 8, rig.a.memory, 5000));
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory + GPU_BYTES - 8, 9, IBV_WC_REM_ACCESS_ERR);
	dereg(mr);
}

static void it_is_sent_and_received(void)
{
	struct ibv_mr *from, *to;
	struct ibv_sge sge = { .length = 4096 };
	struct ibv_recv_wr recv = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 1,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	from = rig.verbs.reg_mr(rig.a.pd, (void *)gpu.memory, GPU_BYTES, 0);
	to = reg_at_y(gpu.memory, GPU_BYTES);
	check(from);
	sge.addr = gpu.memory + 8192;
	sge.lkey = to->lkey;
	check_ok(ibv_post_recv(rig.b.qp, &recv, &bad_recv));
	sge.addr = gpu.memory;
	sge.lkey = from->lkey;
	check_ok(ibv_post_send(rig.a.qp, &send, &bad));
	end_wait_opcode(&rig.b, IBV_WC_RECV);
	end_wait_opcode(&rig.a, IBV_WC_SEND);
	check(!memcmp(gpu.view, gpu.view + 8192, 4096));
	dereg(from);
	dereg(to);
}

static void its_whole_pages_can_be_registered(void)
{
	CUdeviceptr page = gpu.memory / PAGE_BYTES * PAGE_BYTES;
	struct ibv_mr *mr = reg_at_y(page, GPU_BYTES);

	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory, 64, IBV_WC_SUCCESS);
	check(!memcmp(gpu.view, rig.a.memory, 64));
	dereg(mr);
	check(!rig.verbs.reg_mr(rig.b.pd, (void *)page, 2 * GPU_BYTES, 0));
	check_int(errno, EFAULT);
}

static void freed_memory_is_not_reached(void)
{
	struct fake_cuda_counts before, after;
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);

	fake_cuda.counts(&before);
	check_ok(cuda.cuMemFree_v2(gpu.memory));
	gpu.memory = 0;
	fake_cuda.counts(&after);
	check_int(after.misuses, before.misuses + 1);
	transfer(IBV_WR_RDMA_WRITE, mr, (uintptr_t)mr->addr, 64, IBV_WC_REM_ACCESS_ERR);
	dereg(mr);
}

static int dmabuf(size_t bytes)
{
	int fd;

	check_ok(cuda.cuMemGetHandleForAddressRange(&fd, gpu.memory / PAGE_BYTES * PAGE_BYTES,
						    bytes, 1, 0));
	return fd;
}

static struct ibv_mr *reg_dmabuf(uint64_t offset, size_t bytes, uint64_t iova)
{
	int fd = dmabuf(GPU_BYTES);
	struct ibv_mr *mr = rig.verbs.reg_dmabuf_mr(rig.a.pd, offset, bytes, iova, fd, FOR_ALL);
	int error = errno;

	close(fd);
	errno = error;
	return mr;
}

static void by_dmabuf_it_is_written(void)
{
	uint64_t offset = gpu.memory % PAGE_BYTES;
	struct ibv_mr *mr;
	struct ibv_sge sge = { .addr = gpu.memory + 64, .length = 4096 };
	struct ibv_send_wr read = { .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_READ,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	order("gpu"); /* needs no peer memory */
	mr = reg_dmabuf(offset, 8192, gpu.memory);
	check(mr);
	sge.lkey = mr->lkey;
	read.wr.rdma.remote_addr = (uintptr_t)rig.b.memory;
	read.wr.rdma.rkey = rig.b.mr->rkey;
	check_ok(ibv_post_send(rig.a.qp, &read, &bad));
	end_wait_opcode(&rig.a, IBV_WC_RDMA_READ);
	check(!memcmp(gpu.view + 64, rig.b.memory, 4096));
	dereg(mr);
}

static void a_dmabuf_that_does_not_fit_is_refused(void)
{
	uint64_t offset = gpu.memory % PAGE_BYTES;

	check(!reg_dmabuf(offset, GPU_BYTES, gpu.memory)); /* its end is on the next page */
	check_int(errno, EINVAL);
	check(!reg_dmabuf(0, 4096, gpu.memory)); /* other places in the page */
	check_int(errno, EINVAL);
	check(!reg_dmabuf(0, 0, 0));
	check_int(errno, EINVAL);
}

/* A READ makes writes visible, as does CUDA. */
static void what_is_written_may_be_seen_late(void)
{
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);
	char before[64];

	order("gpu peer-memory unflushed");
	memcpy(before, gpu.view, 64);
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory, 64, IBV_WC_SUCCESS);
	check(!memcmp(gpu.view, before, 64));
	transfer(IBV_WR_RDMA_READ, rig.b.mr, (uintptr_t)rig.b.memory, 1, IBV_WC_SUCCESS);
	check(!memcmp(gpu.view, before, 64)); /* that was host memory */
	fill(rig.a.memory, GPU_BYTES, 2);
	transfer(IBV_WR_RDMA_READ, mr, gpu.memory + 8192, 1, IBV_WC_SUCCESS);
	fill(rig.a.memory, GPU_BYTES, 2);
	check(!memcmp(gpu.view, rig.a.memory, 64));
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory + 100, 64, IBV_WC_SUCCESS);
	check(memcmp(gpu.view + 100, rig.a.memory, 64));
	check_ok(cuda.cuFlushGPUDirectRDMAWrites(0, 200));
	check(!memcmp(gpu.view + 100, rig.a.memory, 64));
	dereg(mr);
}

static void what_is_written_may_be_lost(void)
{
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);
	char before[64];

	order("gpu peer-memory lossy");
	memcpy(before, gpu.view, 64);
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory, 64, IBV_WC_SUCCESS);
	check_ok(cuda.cuFlushGPUDirectRDMAWrites(0, 200));
	check(!memcmp(gpu.view, before, 64));
	dereg(mr);
}

/* No record of the old one remains. */
static void a_new_description_loses_nothing(void)
{
	struct op write = { .opcode = IBV_WR_RDMA_WRITE, .bytes = 64, .remote = gpu.memory };
	struct ibv_mr *mr;

	order("gpu peer-memory lossy unreadable");
	ends_close();
	check_ok(setenv("FAKE_VERBS", DEVICES "# another one", 1));
	ends_open();
	ends_connect(&usual);
	fill_ends();
	mr = reg_dmabuf(gpu.memory % PAGE_BYTES, 8192, gpu.memory);
	check(mr);
	write.rkey = mr->rkey;
	end_fails(&rig.b, &write, IBV_WC_SUCCESS);
	check(!memcmp(gpu.view, rig.b.memory, 64));
	dereg(mr);
}

const struct selfcheck gpu_checks[] = {
	{ CHECK(without_peer_memory_it_cannot_be_registered), .description = DEVICES,
	  .setting = GPU },
	{ CHECK(it_is_written_and_read), .description = DEVICES, .setting = GPU },
	{ CHECK(it_is_sent_and_received), .description = DEVICES, .setting = GPU },
	{ CHECK(its_whole_pages_can_be_registered), .description = DEVICES, .setting = GPU },
	{ CHECK(freed_memory_is_not_reached), .description = DEVICES, .setting = GPU },
	{ CHECK(by_dmabuf_it_is_written), .description = DEVICES, .setting = GPU },
	{ CHECK(a_dmabuf_that_does_not_fit_is_refused), .description = DEVICES, .setting = GPU },
	{ CHECK(what_is_written_may_be_seen_late), .description = DEVICES, .setting = GPU },
	{ CHECK(what_is_written_may_be_lost), .description = DEVICES, .setting = GPU },
	{ CHECK(a_new_description_loses_nothing), .description = DEVICES, .setting = GPU },
	{ 0 },
};
