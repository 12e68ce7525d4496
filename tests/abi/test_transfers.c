/* SPDX-License-Identifier: Apache-2.0 */
/* The transfers of the exported tables: what each version passes down and returns. */
#include "tables.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <plugin/abi.h>

static void test_isend_widens_and_passes_on(void **state)
{
	char data[4];
	void *req = STALE;

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.isend(FAKE_COMM, data, INT_MAX, 12, FAKE_MR, &req),
			 ANYNET_NCCL_SUCCESS);
	assert_ptr_equal(req, FAKE_REQUEST);
	assert_ptr_equal(fake.data, data);
	assert_true(fake.bytes[0] == INT_MAX);
	assert_int_equal(fake.tag[0], 12);
	assert_ptr_equal(fake.mr[0], FAKE_MR);
	assert_null(fake.phandle);
	ncclNetPlugin_v9.isend(FAKE_COMM, data, (size_t)3 << 30, 12, NULL, &req);
	assert_true(fake.bytes[0] == (size_t)3 << 30); /* the message layer rejects it, not a cast */
	ncclNetPlugin_v10.isend(FAKE_COMM, data, 0, 12, NULL, NULL, &req);
	assert_true(fake.bytes[0] == 0);
	assert_ptr_equal(req, FAKE_REQUEST);
}

static void test_isend_hands_the_profiler_handle_down(void **state)
{
	void *req = STALE;
	int phandle;

	(void)state;
	ncclNetPlugin_v10.isend(FAKE_COMM, &phandle, 4, 1, FAKE_MR, &phandle, &req);
	assert_ptr_equal(fake.phandle, &phandle);
	ncclNetPlugin_v12.isend(FAKE_COMM, &phandle, 4, 1, FAKE_MR, NULL, &req);
	assert_null(fake.phandle);
}

static void test_no_room_now_is_success_with_a_null_request(void **state)
{
	int bytes = 8, tag = 0;
	size_t wide = 8;
	void *req = STALE, *data = &bytes, *mr = FAKE_MR;

	(void)state;
	fake.nothing_yet = true;
	assert_int_equal(ncclNetPlugin_v8.isend(FAKE_COMM, data, 8, 0, mr, &req),
			 ANYNET_NCCL_SUCCESS);
	assert_null(req);
	req = ANYNET_NCCL_OPTIONAL_COMPLETION; /* stale contents */
	assert_int_equal(ncclNetPlugin_v8.irecv(FAKE_COMM, 1, &data, &bytes, &tag, &mr, &req),
			 ANYNET_NCCL_SUCCESS);
	assert_null(req);
	assert_false(fake.polled);
	req = ANYNET_NCCL_OPTIONAL_COMPLETION;
	assert_int_equal(ncclNetPlugin_v9.irecv(FAKE_COMM, 1, &data, &wide, &tag, &mr, &req),
			 ANYNET_NCCL_SUCCESS);
	assert_null(req);
	req = STALE;
	assert_int_equal(ncclNetPlugin_v8.iflush(FAKE_COMM, 1, &data, &bytes, &mr, &req),
			 ANYNET_NCCL_SUCCESS);
	assert_null(req);
}

static void test_errors_leave_a_null_request(void **state)
{
	int bytes = 8, tag = 0;
	void *req = STALE, *data = &bytes, *mr = FAKE_MR;

	(void)state;
	fake.ret = -ECONNRESET;
	assert_int_equal(ncclNetPlugin_v8.isend(FAKE_COMM, data, 8, 0, mr, &req),
			 ANYNET_NCCL_REMOTE_ERROR);
	assert_null(req);
	req = STALE;
	assert_int_equal(ncclNetPlugin_v8.irecv(FAKE_COMM, 1, &data, &bytes, &tag, &mr, &req),
			 ANYNET_NCCL_REMOTE_ERROR);
	assert_null(req);
	req = STALE;
	fake.ret = 0;
	assert_int_equal(ncclNetPlugin_v8.isend(NULL, data, 8, 0, mr, &req),
			 ANYNET_NCCL_INVALID_ARGUMENT);
	assert_null(req);
	req = STALE;
	assert_int_equal(ncclNetPlugin_v8.irecv(NULL, 1, &data, &bytes, &tag, &mr, &req),
			 ANYNET_NCCL_INVALID_ARGUMENT);
	assert_null(req);
}

static void test_v8_refuses_negative_sizes(void **state)
{
	int bytes[2] = { 8, INT_MIN }, tags[2] = { 0, 1 };
	void *req = STALE, *data[2] = { bytes, bytes }, *mrs[2] = { FAKE_MR, FAKE_MR };

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.isend(FAKE_COMM, bytes, -1, 0, NULL, &req),
			 ANYNET_NCCL_INVALID_USAGE);
	assert_null(req);
	assert_int_equal(fake_log.warnings, 1);
	req = STALE;
	assert_int_equal(ncclNetPlugin_v5.irecv(FAKE_COMM, 2, data, bytes, tags, mrs, &req),
			 ANYNET_NCCL_INVALID_USAGE);
	assert_null(req);
	assert_int_equal(fake_log.warnings, 2);
	assert_int_equal(fake.calls, 0);
}

static void test_irecv_widens_a_group(void **state)
{
	int bytes[3] = { 0, 4096, INT_MAX }, tags[3] = { 5, 6, 5 };
	void *data[3] = { bytes, tags, data }, *mrs[3] = { FAKE_MR, NULL, FAKE_MR };
	void *req = STALE;

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.irecv(FAKE_COMM, 3, data, bytes, tags, mrs, &req),
			 ANYNET_NCCL_SUCCESS);
	assert_ptr_equal(req, FAKE_REQUEST);
	assert_int_equal(fake.n, 3);
	assert_ptr_equal(fake.data, bytes);
	for (int i = 0; i < 3; i++) {
		assert_true(fake.bytes[i] == (size_t)bytes[i]);
		assert_int_equal(fake.tag[i], tags[i]);
		assert_ptr_equal(fake.mr[i], mrs[i]);
	}
	assert_null(fake.phandles);
}

static void test_irecv_from_v9_on(void **state)
{
	size_t bytes = (size_t)3 << 30;
	int tag = 9;
	void *data = &tag, *mr = FAKE_MR, *phandle = &bytes;
	void *req = ANYNET_NCCL_OPTIONAL_COMPLETION;

	(void)state;
	assert_int_equal(ncclNetPlugin_v9.irecv(FAKE_COMM, 1, &data, &bytes, &tag, &mr, &req),
			 ANYNET_NCCL_SUCCESS);
	assert_ptr_equal(req, FAKE_REQUEST); /* a normal request, hint or not */
	assert_true(fake.polled);
	assert_true(fake.bytes[0] == bytes);
	assert_null(fake.phandles);
	ncclNetPlugin_v10.irecv(FAKE_COMM, 1, &data, &bytes, &tag, &mr, &phandle, &req);
	assert_false(fake.polled);
	assert_ptr_equal(fake.phandles[0], phandle);
	ncclNetPlugin_v12.irecv(FAKE_COMM, 1, &data, &bytes, &tag, NULL, NULL, &req);
	assert_null(fake.mr[0]);
	assert_null(fake.phandles);
}

static void test_irecv_bounds_the_group(void **state)
{
	static const int bad[] = { 0, -1, ANYNET_RECVS_MAX + 1, INT_MAX, INT_MIN };
	int bytes[ANYNET_RECVS_MAX + 1] = { 0 }, tags[ANYNET_RECVS_MAX + 1] = { 0 };
	void *data[ANYNET_RECVS_MAX + 1] = { NULL }, *mrs[ANYNET_RECVS_MAX + 1] = { NULL };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		void *req = STALE;

		assert_int_equal(ncclNetPlugin_v8.irecv(FAKE_COMM, bad[i], data, bytes, tags, mrs,
							&req),
				 ANYNET_NCCL_INVALID_USAGE);
		assert_null(req);
	}
	assert_int_equal(fake.calls, 0);
	assert_int_equal(fake_log.warnings, ARRAY_SIZE(bad));
}

static void test_test_always_writes_done(void **state)
{
	int done = 77, size = 0;

	(void)state;
	fake.nothing_yet = true;
	assert_int_equal(ncclNetPlugin_v8.test(FAKE_REQUEST, &done, &size), ANYNET_NCCL_SUCCESS);
	assert_int_equal(done, 0);
	assert_int_equal(size, 0);
	fake.nothing_yet = false;
	assert_int_equal(ncclNetPlugin_v8.test(FAKE_REQUEST, &done, &size), ANYNET_NCCL_SUCCESS);
	assert_int_equal(done, 1);
	assert_int_equal(size, FAKE_BYTES);
	assert_int_equal(ncclNetPlugin_v8.test(FAKE_REQUEST, &done, NULL), ANYNET_NCCL_SUCCESS);
	fake.ret = -EMSGSIZE;
	done = 77;
	assert_int_equal(ncclNetPlugin_v8.test(FAKE_REQUEST, &done, NULL),
			 ANYNET_NCCL_INVALID_USAGE);
	assert_int_equal(done, 0);
	done = 77;
	assert_int_equal(ncclNetPlugin_v8.test(NULL, &done, NULL), ANYNET_NCCL_INVALID_ARGUMENT);
	assert_int_equal(done, 0);
}

static int profiler(void **event, int type, void *phandle, int64_t plugin_id, void *ext)
{
	(void)event;
	(void)type;
	(void)phandle;
	(void)plugin_id;
	(void)ext;
	return 0;
}

static int other_profiler(void **event, int type, void *phandle, int64_t plugin_id, void *ext)
{
	return profiler(event, type, phandle, plugin_id, ext);
}

/* The last test: what it ends with stays. */
static void test_the_profiler_is_handed_down(void **state)
{
	void *ctx = NULL, *other = NULL;

	(void)state;
	assert_int_equal(ncclNetPlugin_v10.init(fake_logger, profiler), ANYNET_NCCL_SUCCESS);
	assert_true(fake.profiler == profiler);
	/* A later communicator without a callback does not remove it. */
	assert_int_equal(ncclNetPlugin_v12.init(&ctx, 1, NULL, fake_logger, NULL),
			 ANYNET_NCCL_SUCCESS);
	assert_true(fake.profiler == profiler);
	/* Another NCCL's does: neither understands the other's handles. */
	assert_int_equal(ncclNetPlugin_v12.init(&other, 1, NULL, fake_logger, other_profiler),
			 ANYNET_NCCL_SUCCESS);
	assert_true(fake.profiler == NULL);
	assert_int_equal(ncclNetPlugin_v10.init(fake_logger, profiler), ANYNET_NCCL_SUCCESS);
	assert_true(fake.profiler == NULL);
	ncclNetPlugin_v12.finalize(ctx);
	ncclNetPlugin_v12.finalize(other);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_isend_widens_and_passes_on, tables_setup),
		cmocka_unit_test_setup(test_isend_hands_the_profiler_handle_down, tables_setup),
		cmocka_unit_test_setup(test_no_room_now_is_success_with_a_null_request,
				       tables_setup),
		cmocka_unit_test_setup(test_errors_leave_a_null_request, tables_setup),
		cmocka_unit_test_setup(test_v8_refuses_negative_sizes, tables_setup),
		cmocka_unit_test_setup(test_irecv_widens_a_group, tables_setup),
		cmocka_unit_test_setup(test_irecv_from_v9_on, tables_setup),
		cmocka_unit_test_setup(test_irecv_bounds_the_group, tables_setup),
		cmocka_unit_test_setup(test_test_always_writes_done, tables_setup),
		cmocka_unit_test_setup(test_the_profiler_is_handed_down, tables_setup),
	};

	return cmocka_run_group_tests_name("transfers", tests, NULL, NULL);
}
