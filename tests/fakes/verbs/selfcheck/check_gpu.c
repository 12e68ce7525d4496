/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a GPU: that of the fake libcuda.so.1, whose file is rig.cuda. */
#include "rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <fakes/cuda/cuda_api.h>
#include <fakes/cuda/fake_cuda.h>
#include <stdio.h>
#include <unistd.h>

#define GPU_BYTES  ((size_t)64 << 10)
#define PAGE_BYTES 4096u
#define DEVICES                                                  \
	"device x dmabuf; port layer=eth gid=0,10.0.0.1,v2,lo; " \
	"device y; port layer=eth gid=0,10.0.0.2,v2,lo; "
#define FOR_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct cuda_calls cuda;
static void *(*view_at)(const void *device, size_t bytes);
static void (*count_cuda)(struct fake_cuda_counts *counts);
static char *saved;

/* Both devices are open, and there is a range of GPU memory that begins in the middle of a page. */
static struct gpu {
	struct ends ends;
	CUdeviceptr memory;
	char *view;
} gpu;

static void find(void *lib, const char *name, void *function)
{
	void *symbol = dlsym(lib, name);

	assert_non_null(symbol);
	memcpy(function, &symbol, sizeof(symbol));
}

static int open_cuda(void **state)
{
	void *lib = dlopen(rig.cuda, RTLD_NOW | RTLD_LOCAL);
	CUcontext context;

	(void)state;
	if (!lib)
		fail_msg("%s", dlerror());
#define CUDA_FIND(name, arguments) find(lib, #name, &cuda.name);
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
	find(lib, "fake_cuda_view", &view_at);
	find(lib, "fake_cuda_counts", &count_cuda);
	assert_int_equal(cuda.cuInit(0), 0);
	assert_int_equal(cuda.cuDevicePrimaryCtxRetain(&context, 0), 0);
	assert_int_equal(cuda.cuCtxPushCurrent_v2(context), 0);
	return 0;
}

static void open_described(const char *text)
{
	setenv("FAKE_VERBS", text, 1);
	end_open(&gpu.ends.a, "x");
	end_open(&gpu.ends.b, "y");
	pair_connect(&gpu.ends.a, &gpu.ends.b, NULL);
	fill(gpu.ends.a.memory, GPU_BYTES, 2);
	fill(gpu.ends.b.memory, GPU_BYTES, 3);
}

static int setup(void **state)
{
	(void)state;
	saved = getenv("FAKE_VERBS");
	saved = saved ? strdup(saved) : NULL;
	rig.control.reset();
	open_described(DEVICES);
	order("gpu peer-memory");
	do {
		assert_int_equal(cuda.cuMemAlloc_v2(&gpu.memory, GPU_BYTES), 0);
	} while (gpu.memory % PAGE_BYTES == 0);
	gpu.view = view_at((void *)gpu.memory, GPU_BYTES);
	assert_non_null(gpu.view);
	fill(gpu.view, GPU_BYTES, 1);
	return 0;
}

static int teardown(void **state)
{
	struct fake_cuda_counts counts;

	(void)state;
	if (gpu.memory)
		assert_int_equal(cuda.cuMemFree_v2(gpu.memory), 0);
	end_close(&gpu.ends.a);
	end_close(&gpu.ends.b);
	count_cuda(&counts);
	assert_int_equal(counts.registrations, 0);
	if (saved)
		setenv("FAKE_VERBS", saved, 1);
	else
		unsetenv("FAKE_VERBS");
	free(saved);
	expect_nothing_open();
	return 0;
}

/* Between x's host memory and `remote`, which y has as `mr`. */
static void transfer(enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t remote,
		     uint32_t bytes, enum ibv_wc_status status)
{
	struct op op = { .opcode = opcode, .bytes = bytes, .rkey = mr->rkey, .remote = remote };

	assert_int_equal(end_post(&gpu.ends.a, &op), 0);
	end_wait(&gpu.ends.a, status);
}

static struct ibv_mr *reg_at_y(CUdeviceptr memory, size_t bytes)
{
	struct ibv_mr *mr = rig.verbs.reg_mr(gpu.ends.b.pd, (void *)memory, bytes, FOR_ALL);

	if (!mr)
		fail_msg("GPU memory cannot be registered: %s", strerror(errno));
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
}

static void test_without_peer_memory_it_cannot_be_registered(void **state)
{
	(void)state;
	order("gpu");
	assert_null(rig.verbs.reg_mr(gpu.ends.a.pd, (void *)gpu.memory, 4096, 0));
	assert_int_equal(errno, EFAULT);
}

static void test_it_is_written_and_read(void **state)
{
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);

	(void)state;
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory + 100, 5000, IBV_WC_SUCCESS);
	assert_memory_equal(gpu.view + 100, gpu.ends.a.memory, 5000);
	fill(gpu.view, GPU_BYTES, 4);
	transfer(IBV_WR_RDMA_READ, mr, gpu.memory + 8, 5000, IBV_WC_SUCCESS);
	assert_memory_equal(gpu.view + 8, gpu.ends.a.memory, 5000);
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory + GPU_BYTES - 8, 9, IBV_WC_REM_ACCESS_ERR);
	dereg(mr);
}

static void test_it_is_sent_and_received(void **state)
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

	(void)state;
	from = rig.verbs.reg_mr(gpu.ends.a.pd, (void *)gpu.memory, GPU_BYTES, 0);
	to = reg_at_y(gpu.memory, GPU_BYTES);
	assert_non_null(from);
	sge.addr = gpu.memory + 8192;
	sge.lkey = to->lkey;
	assert_int_equal(ibv_post_recv(gpu.ends.b.qp, &recv, &bad_recv), 0);
	sge.addr = gpu.memory;
	sge.lkey = from->lkey;
	assert_int_equal(ibv_post_send(gpu.ends.a.qp, &send, &bad), 0);
	end_wait_opcode(&gpu.ends.b, IBV_WC_RECV);
	end_wait_opcode(&gpu.ends.a, IBV_WC_SEND);
	assert_memory_equal(gpu.view, gpu.view + 8192, 4096);
	dereg(from);
	dereg(to);
}

static void test_its_whole_pages_can_be_registered(void **state)
{
	CUdeviceptr page = gpu.memory / PAGE_BYTES * PAGE_BYTES;
	struct ibv_mr *mr = reg_at_y(page, GPU_BYTES);

	(void)state;
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory, 64, IBV_WC_SUCCESS);
	assert_memory_equal(gpu.view, gpu.ends.a.memory, 64);
	dereg(mr);
	assert_null(rig.verbs.reg_mr(gpu.ends.b.pd, (void *)page, 2 * GPU_BYTES, 0));
	assert_int_equal(errno, EFAULT);
}

static void test_freed_memory_is_not_reached(void **state)
{
	struct fake_cuda_counts before, after;
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);

	(void)state;
	count_cuda(&before);
	assert_int_equal(cuda.cuMemFree_v2(gpu.memory), 0);
	gpu.memory = 0;
	count_cuda(&after);
	assert_int_equal(after.misuses, before.misuses + 1);
	transfer(IBV_WR_RDMA_WRITE, mr, (uintptr_t)mr->addr, 64, IBV_WC_REM_ACCESS_ERR);
	dereg(mr);
}

static int dmabuf(size_t bytes)
{
	int fd;

	assert_int_equal(cuda.cuMemGetHandleForAddressRange(&fd,
							    gpu.memory / PAGE_BYTES * PAGE_BYTES,
							    bytes, 1, 0),
			 0);
	return fd;
}

static struct ibv_mr *reg_dmabuf(uint64_t offset, size_t bytes, uint64_t iova)
{
	int fd = dmabuf(GPU_BYTES);
	struct ibv_mr *mr =
		rig.verbs.reg_dmabuf_mr(gpu.ends.a.pd, offset, bytes, iova, fd, FOR_ALL);
	int error = errno;

	close(fd);
	errno = error;
	return mr;
}

static void test_by_dmabuf_it_is_written(void **state)
{
	uint64_t offset = gpu.memory % PAGE_BYTES;
	struct ibv_mr *mr;
	struct ibv_sge sge = { .addr = gpu.memory + 64, .length = 4096 };
	struct ibv_send_wr read = { .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_READ,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	(void)state;
	order("gpu"); /* needs no peer memory */
	mr = reg_dmabuf(offset, 8192, gpu.memory);
	assert_non_null(mr);
	sge.lkey = mr->lkey;
	read.wr.rdma.remote_addr = (uintptr_t)gpu.ends.b.memory;
	read.wr.rdma.rkey = gpu.ends.b.mr->rkey;
	assert_int_equal(ibv_post_send(gpu.ends.a.qp, &read, &bad), 0);
	end_wait_opcode(&gpu.ends.a, IBV_WC_RDMA_READ);
	assert_memory_equal(gpu.view + 64, gpu.ends.b.memory, 4096);
	dereg(mr);
}

static void test_a_dmabuf_that_does_not_fit_is_refused(void **state)
{
	uint64_t offset = gpu.memory % PAGE_BYTES;

	(void)state;
	assert_null(reg_dmabuf(offset, GPU_BYTES, gpu.memory)); /* its end is on the next page */
	assert_int_equal(errno, EINVAL);
	assert_null(reg_dmabuf(0, 4096, gpu.memory)); /* other places in the page */
	assert_int_equal(errno, EINVAL);
	assert_null(reg_dmabuf(0, 0, 0));
	assert_int_equal(errno, EINVAL);
}

/* A READ makes writes visible, as does CUDA. */
static void test_what_is_written_may_be_seen_late(void **state)
{
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);
	char before[64];

	(void)state;
	order("gpu peer-memory unflushed");
	memcpy(before, gpu.view, 64);
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory, 64, IBV_WC_SUCCESS);
	assert_memory_equal(gpu.view, before, 64);
	transfer(IBV_WR_RDMA_READ, gpu.ends.b.mr, (uintptr_t)gpu.ends.b.memory, 1, IBV_WC_SUCCESS);
	assert_memory_equal(gpu.view, before, 64); /* that was host memory */
	fill(gpu.ends.a.memory, GPU_BYTES, 2);
	transfer(IBV_WR_RDMA_READ, mr, gpu.memory + 8192, 1, IBV_WC_SUCCESS);
	fill(gpu.ends.a.memory, GPU_BYTES, 2);
	assert_memory_equal(gpu.view, gpu.ends.a.memory, 64);
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory + 100, 64, IBV_WC_SUCCESS);
	assert_memory_not_equal(gpu.view + 100, gpu.ends.a.memory, 64);
	assert_int_equal(cuda.cuFlushGPUDirectRDMAWrites(0, 200), 0);
	assert_memory_equal(gpu.view + 100, gpu.ends.a.memory, 64);
	dereg(mr);
}

static void test_what_is_written_may_be_lost(void **state)
{
	struct ibv_mr *mr = reg_at_y(gpu.memory, GPU_BYTES);
	char before[64];

	(void)state;
	order("gpu peer-memory lossy");
	memcpy(before, gpu.view, 64);
	transfer(IBV_WR_RDMA_WRITE, mr, gpu.memory, 64, IBV_WC_SUCCESS);
	assert_int_equal(cuda.cuFlushGPUDirectRDMAWrites(0, 200), 0);
	assert_memory_equal(gpu.view, before, 64);
	dereg(mr);
}

/* Of the old one nothing holds any more. */
static void test_a_new_description_loses_nothing(void **state)
{
	struct op write = { .opcode = IBV_WR_RDMA_WRITE, .bytes = 64, .remote = gpu.memory };
	struct ibv_mr *mr;

	(void)state;
	order("gpu peer-memory lossy unreadable");
	end_close(&gpu.ends.a);
	end_close(&gpu.ends.b);
	open_described(DEVICES "# another one");
	mr = reg_dmabuf(gpu.memory % PAGE_BYTES, 8192, gpu.memory);
	assert_non_null(mr);
	write.rkey = mr->rkey;
	assert_int_equal(end_post(&gpu.ends.b, &write), 0);
	end_wait(&gpu.ends.b, IBV_WC_SUCCESS);
	assert_memory_equal(gpu.view, gpu.ends.b.memory, 64);
	dereg(mr);
}

#define GPU_CHECK(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int check_gpu(void)
{
	const struct CMUnitTest gpus[] = {
		GPU_CHECK(test_without_peer_memory_it_cannot_be_registered),
		GPU_CHECK(test_it_is_written_and_read),
		GPU_CHECK(test_it_is_sent_and_received),
		GPU_CHECK(test_its_whole_pages_can_be_registered),
		GPU_CHECK(test_freed_memory_is_not_reached),
		GPU_CHECK(test_by_dmabuf_it_is_written),
		GPU_CHECK(test_a_dmabuf_that_does_not_fit_is_refused),
		GPU_CHECK(test_what_is_written_may_be_seen_late),
		GPU_CHECK(test_what_is_written_may_be_lost),
		GPU_CHECK(test_a_new_description_loses_nothing),
	};

	return cmocka_run_group_tests(gpus, open_cuda, NULL);
}
