/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes of what verbs devices have written to NCCL's memory. Any registered memory is suitable. */
#include "two_nics.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "support/capture.h"
#include "transports/base/os.h"
#include "transports/device/carrier.h"
#include "transports/memory/ib_flush.h"
#include "transports/message/recv_internal.h"

static struct gpu first_gpu; /* of the comm's first request */

/* In place of gpu.c: CUDA flushes, or cannot. */
static const struct gpu *flushed;
static int flush_result;

int __wrap_gpu_flush(struct gpu *which);

int __wrap_gpu_flush(struct gpu *which)
{
	flushed = which;
	return flush_result;
}

/* In place of os.c: a clock that a test stops and moves. */
static uint64_t stopped_ms; /* 0 = it goes */
static uint64_t ahead_ms;

uint64_t __real_os_now_ms(void);
uint64_t __wrap_os_now_ms(void);

uint64_t __wrap_os_now_ms(void)
{
	return stopped_ms ? stopped_ms : __real_os_now_ms() + ahead_ms;
}

static void stop_clock(void)
{
	stopped_ms = os_now_ms();
}

static void start_clock(void)
{
	ahead_ms = stopped_ms - __real_os_now_ms();
	stopped_ms = 0;
}

/* A second later, when a new queue pair may be made. */
static void mend_later(void)
{
	stop_clock();
	stopped_ms += 1000;
	ib_flush_mend();
	start_clock();
}

static int setup(void **state)
{
	two_nics_setup(state);
	flushed = NULL;
	flush_result = 0;
	for (int i = 0; i < 2; i++)
		ib_flush_prepare(nics[i]);
	return 0;
}

static uint64_t post_flush(struct ib_nic *nic, struct anynet_mr *mr)
{
	const struct ib_mr *made = ib_memory_on(mr, nic, why, sizeof(why));
	uint64_t ticket;

	assert_non_null(made);
	assert_int_equal(ib_flush_post(nic, data, made->rkey, &ticket), 0);
	return ticket;
}

static void complete(const struct ibv_qp *qp, enum ibv_wc_status status)
{
	stub_complete((struct ibv_qp *)(uintptr_t)qp, 1, status);
}

static void test_a_flush_is_done_when_its_own_read_is(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	uint64_t tickets[2];

	(void)state;
	ib_note_posted();
	for (int i = 0; i < 2; i++)
		tickets[i] = post_flush(nics[0], &mr);
	assert_int_equal(ib_flush_done(nics[0], tickets[0]), 0);
	complete(ib_posted[0].qp, IBV_WC_SUCCESS);
	assert_int_equal(ib_flush_done(nics[0], tickets[0]), 1);
	assert_int_equal(ib_flush_done(nics[0], tickets[1]), 0);
	complete(ib_posted[0].qp, IBV_WC_SUCCESS);
	assert_int_equal(ib_flush_done(nics[0], tickets[1]), 1);
	ib_memory_release(&mr);
}

/* CUDA then flushes; also if the next queue pair exists already, because it was not used. */
static void test_a_flush_ends_with_its_queue_pair(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	uint64_t old[2], fresh;

	(void)state;
	ib_note_posted();
	for (int i = 0; i < 2; i++)
		old[i] = post_flush(nics[0], &mr);
	complete(ib_posted[0].qp, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ib_flush_done(nics[0], old[0]), -EIO);
	assert_int_equal(ib_flush_done(nics[0], old[1]), -EIO);
	mend_later();
	fresh = post_flush(nics[0], &mr);
	assert_int_equal(ib_flush_done(nics[0], old[0]), -EIO);
	assert_int_equal(ib_flush_done(nics[0], fresh), 0);
	complete(ib_posted[2].qp, IBV_WC_SUCCESS);
	assert_int_equal(ib_flush_done(nics[0], fresh), 1);
	assert_int_equal(ib_flush_done(nics[0], old[1]), -EIO);
	ib_memory_release(&mr);
}

/* NCCL flushes thousands of times a second. */
static void test_a_queue_pair_that_breaks_again_is_made_a_second_later(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	uint64_t ticket;

	(void)state;
	anynet_log_start(capture_logger, ANYNET_LOG_INFO);
	stop_clock();
	stopped_ms += 1000;
	for (unsigned breaks = 0; breaks < 12; breaks++) {
		ib_note_posted();
		ticket = post_flush(nics[0], &mr);
		complete(ib_posted[0].qp, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ib_flush_done(nics[0], ticket), -EIO);
		assert_int_equal(ib_flush_is_due(), !breaks);
		stopped_ms += 1000;
		ib_flush_mend();
	}
	start_clock();
	assert_in_range(capture_count(CAPTURE_INFO, "flushes GPU memory broke"), 1, 4);
	assert_in_range(capture_count(CAPTURE_INFO, "flushed by a queue pair again"), 1, 4);
	anynet_log_set_sink(capture_logger);
	ib_memory_release(&mr);
}

static int query_port_with_another_lid(struct ibv_context *context, uint8_t port,
				       struct ibv_port_attr *attr)
{
	int ret = stub->query_port(context, port, attr);

	attr->lid++;
	return ret;
}

/* Each READ to the old one would wait for all retries. Last, because the LID stays. */
static void test_with_another_lid_there_is_another_queue_pair_for_flushes(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	uint64_t ticket;

	(void)state;
	ticket = post_flush(nics[0], &mr);
	verbs.query_port = query_port_with_another_lid;
	assert_int_equal(ib_nic_refresh(nics[0]), 0);
	assert_int_equal(ib_flush_done(nics[0], ticket), 0);
	mend_later();
	assert_int_equal(ib_flush_done(nics[0], ticket), -EIO);
	ib_note_posted();
	ticket = post_flush(nics[0], &mr);
	complete(ib_posted[0].qp, IBV_WC_SUCCESS);
	assert_int_equal(ib_flush_done(nics[0], ticket), 1);
	assert_false(ib_flush_is_due());
	ib_memory_release(&mr);
}

/* It reports no completions any more, not even failed ones. CUDA then flushes. */
static void test_a_flush_ends_with_its_device(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	uint64_t old, fresh;

	(void)state;
	ib_note_posted();
	old = post_flush(nics[0], &mr);
	atomic_store(&nics[0]->failed, true);
	assert_int_equal(ib_flush_done(nics[0], old), -EIO);
	assert_int_equal(ib_flush_post(nics[0], data, mr.ib[0]->rkey, &fresh), -EIO);
	atomic_store(&nics[0]->failed, false);
	complete(ib_posted[0].qp, IBV_WC_SUCCESS);
	assert_int_equal(ib_flush_done(nics[0], old), 1);
	ib_memory_release(&mr);
}

static void test_every_nic_that_has_written_is_asked(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 },
			 *mrs[] = { &mr };
	void *buffers[] = { data };
	struct anynet_request *req;
	struct recv_comm *comm;

	(void)state;
	ib_open_recv(&pair, 1, 1);
	comm = (struct recv_comm *)pair.recv;
	for (int i = 0; i < 2; i++) {
		assert_non_null(ib_memory_on(&mr, nics[i], why, sizeof(why)));
		comm->wrote |= ib_memory_bit(nics[i]);
	}
	mr.gpu = &gpu;
	ib_note_posted();
	assert_int_equal(anynet_iflush(pair.recv, 1, buffers, mrs, &req), 0);
	assert_non_null(req);
	for (unsigned asked = 1; asked <= 2; asked++) {
		assert_false(pair_done(req, NULL));
		assert_int_equal(ib_posted_count, asked);
		complete(ib_posted[asked - 1].qp, IBV_WC_SUCCESS);
	}
	assert_ptr_not_equal(ib_posted[0].qp, ib_posted[1].qp);
	assert_true(pair_done(req, NULL));
	mr.gpu = NULL;
	ib_memory_release(&mr);
}

static struct ib_flush *volatile flushes[2]; /* never freed, as in the product */

static void test_a_nic_gets_its_queue_pair_for_flushes_when_one_is_wanted(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) },
				.gpu = &gpu,
				.dmabuf.fd = -1 };
	struct ib_flush *flush = atomic_exchange(&nics[0]->flush, NULL);
	const struct ib_mr *made = ib_memory_on(&mr, nics[0], why, sizeof(why));
	uint64_t ticket;

	(void)state;
	assert_false(ib_flush_is_due());
	assert_int_equal(ib_flush_post(nics[0], data, made->rkey, &ticket), -EIO);
	assert_true(ib_flush_is_due());
	ib_flush_mend();
	assert_false(ib_flush_is_due());
	assert_int_equal(ib_flush_post(nics[0], data, made->rkey, &ticket), 0);
	ib_memory_release(&mr);
	flushes[0] = atomic_exchange(&nics[0]->flush, flush);
}

static void test_without_a_queue_pair_for_flushes_memory_is_registered(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) },
				.gpu = &gpu,
				.dmabuf.fd = -1 };
	struct ib_flush *flush = atomic_exchange(&nics[0]->flush, NULL);
	uint64_t ticket;

	(void)state;
	stub_refused_mrs = 1;
	assert_int_equal(ib_memory_register(&mr, &local_dev, true, why, sizeof(why)), 0);
	assert_int_equal(stub_refused_mrs, 0);
	assert_non_null(mr.ib[0]);
	assert_int_equal(ib_flush_post(nics[0], data, mr.ib[0]->rkey, &ticket), -EIO);
	ib_memory_release(&mr);
	flushes[1] = atomic_exchange(&nics[0]->flush, flush);
}

/* Begins one in `mr` of what the nic has written. */
static int flush_of(struct ib_nic *nic, struct anynet_mr *mr, struct anynet_request **req)
{
	struct recv_comm *comm = (struct recv_comm *)pair.recv;
	struct anynet_mr *mrs[] = { mr };
	void *buffers[] = { data };

	comm->wrote = ib_memory_bit(nic);
	assert_int_not_equal(comm->wrote, 0);
	comm->base.gpu = &first_gpu;
	mr->gpu = &gpu;
	return anynet_iflush(pair.recv, 1, buffers, mrs, req);
}

/* The nic may have written another buffer of the group only. */
static void test_memory_that_a_nic_does_not_know_is_flushed(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	struct anynet_request *req;

	(void)state;
	ib_open_recv(&pair, 1, 1);
	assert_non_null(ib_memory_on(&mr, nics[0], why, sizeof(why)));
	ib_note_posted();
	assert_int_equal(flush_of(nics[1], &mr, &req), 0);
	assert_non_null(req);
	assert_int_equal(ib_posted_count, 1);
	complete(ib_posted[0].qp, IBV_WC_SUCCESS);
	assert_true(pair_done(req, NULL));
	assert_null(flushed);
	ib_memory_release(&mr);
}

/* It has no byte that could be read. What the nic has written is left to the next flush. */
static void test_an_empty_buffer_is_not_flushed(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 },
			 empty = { .range = { .addr = data }, .dmabuf.fd = -1 };
	struct anynet_request *req;

	(void)state;
	ib_open_recv(&pair, 1, 1);
	assert_non_null(ib_memory_on(&mr, nics[0], why, sizeof(why)));
	ib_note_posted();
	assert_int_equal(flush_of(nics[0], &empty, &req), 0);
	assert_null(req);
	assert_int_equal(ib_posted_count, 0);
	assert_null(flushed);
	assert_int_equal(((struct recv_comm *)pair.recv)->wrote, ib_memory_bit(nics[0]));
	ib_memory_release(&mr);
}

static void test_cuda_flushes_the_gpu_of_the_memory(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	struct anynet_request *req;

	(void)state;
	ib_open_recv(&pair, 1, 1);
	atomic_store(&nics[0]->failed, true);
	assert_int_equal(flush_of(nics[0], &mr, &req), 0);
	assert_null(req);
	assert_ptr_equal(flushed, &gpu);
	atomic_store(&nics[0]->failed, false);
}

/* A comm that outlives a failure, and memory that nics[0] knows. */
static void open_with_recovery(struct anynet_mr *mr)
{
	local_cfg.recovery_timeout_ms = 600000;
	ib_open_recv(&pair, 1, 1);
	assert_non_null(ib_memory_on(mr, nics[0], why, sizeof(why)));
}

/* The READ may wait for all retries. CUDA flushes if it can; if not, the READ may yet be done: without a link, too. */
static void test_a_port_that_is_down_is_not_waited_for(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	struct anynet_request *req;

	(void)state;
	open_with_recovery(&mr);
	for (int can = 1; can >= 0; can--) {
		ib_note_posted();
		assert_int_equal(flush_of(nics[0], &mr, &req), 0);
		carrier_set_port(nics[0]->dev, true);
		flush_result = can ? 0 : -EOPNOTSUPP;
		assert_int_equal(pair_done(req, NULL), can);
		complete(ib_posted[0].qp, IBV_WC_SUCCESS);
		if (!can)
			assert_true(pair_done(req, NULL));
		carrier_set_port(nics[0]->dev, false);
	}
	pair_close(&pair);
	ib_memory_release(&mr);
}

/* Its queue pair for flushes is not made again. */
static void test_a_device_that_has_failed_is_not_waited_for(void **state)
{
	struct anynet_mr mr = { .range = { .addr = data, .bytes = sizeof(data) }, .dmabuf.fd = -1 };
	struct anynet_request *req;

	(void)state;
	open_with_recovery(&mr);
	ib_note_posted();
	assert_int_equal(flush_of(nics[0], &mr, &req), 0);
	assert_int_equal(ib_posted_count, 1);
	flush_result = -EOPNOTSUPP;
	assert_false(pair_done(req, NULL));
	atomic_store(&nics[0]->failed, true);
	capture_allow_warn();
	pair_fails(req, -EIO);
	assert_int_equal(capture_count(CAPTURE_WARN, "has reset GPU 1"), 1);
	pair_close(&pair);
	atomic_store(&nics[0]->failed, false);
	complete(ib_posted[0].qp, IBV_WC_SUCCESS);
	ib_memory_release(&mr);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, two_nics_teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_flush_is_done_when_its_own_read_is),
		T(test_a_flush_ends_with_its_queue_pair),
		T(test_a_queue_pair_that_breaks_again_is_made_a_second_later),
		T(test_a_flush_ends_with_its_device),
		T(test_every_nic_that_has_written_is_asked),
		T(test_a_nic_gets_its_queue_pair_for_flushes_when_one_is_wanted),
		T(test_without_a_queue_pair_for_flushes_memory_is_registered),
		T(test_memory_that_a_nic_does_not_know_is_flushed),
		T(test_an_empty_buffer_is_not_flushed),
		T(test_cuda_flushes_the_gpu_of_the_memory),
		T(test_a_port_that_is_down_is_not_waited_for),
		T(test_a_device_that_has_failed_is_not_waited_for),
		T(test_with_another_lid_there_is_another_queue_pair_for_flushes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
