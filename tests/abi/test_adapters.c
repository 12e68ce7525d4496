/* SPDX-License-Identifier: Apache-2.0 */
/* The exported tables: their entries, properties, connections and registrations by each version. */
#include "tables.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <plugin/abi.h>

/* A call that all tables have, with the types of its version. */
#define EACH_TABLE(call)                 \
	do {                             \
		call(ncclNetPlugin_v5);  \
		call(ncclNetPlugin_v6);  \
		call(ncclNetPlugin_v7);  \
		call(ncclNetPlugin_v8);  \
		call(ncclNetPlugin_v9);  \
		call(ncclNetPlugin_v10); \
		call(ncclNetPlugin_v11); \
		call(ncclNetPlugin_v12); \
	} while (0)

static void test_every_table_bears_one_name(void **state)
{
	(void)state;
#define CHECK(table) assert_ptr_equal((table).name, ncclNetPlugin_v12.name)
	EACH_TABLE(CHECK);
#undef CHECK
	assert_string_equal(ncclNetPlugin_v12.name, "anynet");
}

static void test_optional_entries(void **state)
{
	(void)state;
	assert_null(ncclNetPlugin_v12.get_device_mr);
	assert_null(ncclNetPlugin_v12.irecv_consumed);
	assert_null(ncclNetPlugin_v12.set_net_attr);
#define CHECK(table)                             \
	assert_non_null((table).init);           \
	assert_non_null((table).devices);        \
	assert_non_null((table).get_properties); \
	assert_non_null((table).listen);         \
	assert_non_null((table).connect);        \
	assert_non_null((table).accept);         \
	assert_non_null((table).reg_mr);         \
	assert_non_null((table).dereg_mr);       \
	assert_non_null((table).isend);          \
	assert_non_null((table).irecv);          \
	assert_non_null((table).iflush);         \
	assert_non_null((table).test);           \
	assert_non_null((table).close_send);     \
	assert_non_null((table).close_recv);     \
	assert_non_null((table).close_listen)
	EACH_TABLE(CHECK);
#undef CHECK
	assert_non_null(ncclNetPlugin_v6.reg_mr_dmabuf);
	assert_non_null(ncclNetPlugin_v12.reg_mr_dmabuf);
	assert_non_null(ncclNetPlugin_v11.finalize);
	assert_non_null(ncclNetPlugin_v12.finalize);
	assert_non_null(ncclNetPlugin_v9.make_vdevice);
	assert_non_null(ncclNetPlugin_v10.make_vdevice);
	assert_non_null(ncclNetPlugin_v11.make_vdevice);
	assert_non_null(ncclNetPlugin_v12.make_vdevice);
}

static void test_devices(void **state)
{
	(void)state;
#define CHECK(table)                                                            \
	do {                                                                    \
		int count = -1;                                                 \
		assert_int_equal((table).devices(&count), ANYNET_NCCL_SUCCESS); \
		assert_int_equal(count, 2);                                     \
	} while (0)
	EACH_TABLE(CHECK);
#undef CHECK
}

/* Starts from garbage, as on NCCL's stack: a field that is not written is detected. */
#define CHECK_PROPS(version, props_version)                                                        \
	struct anynet_net_props_v##props_version props;                                            \
	memset(&props, 0xa5, sizeof(props));                                                       \
	assert_int_equal(ncclNetPlugin_v##version.get_properties(1, &props), ANYNET_NCCL_SUCCESS); \
	assert_null(props.pci_path);                                                               \
	memset(&props, 0xa5, sizeof(props));                                                       \
	assert_int_equal(ncclNetPlugin_v##version.get_properties(0, &props), ANYNET_NCCL_SUCCESS); \
	assert_string_equal(props.name, "eth7");                                                   \
	assert_string_equal(props.pci_path, "/sys/devices/pci0000:00/0000:00:1f.6");               \
	assert_int_equal(props.guid, 0x123456789abcdef0ull);                                       \
	assert_int_equal(props.ptr_support, ANYNET_PTR_HOST | ANYNET_PTR_DMABUF);                  \
	assert_int_equal(props.speed_mbps, 25000);                                                 \
	assert_int_equal(props.port, 3);                                                           \
	assert_true(props.latency_us == 0);                                                        \
	assert_int_equal(props.max_comms, 65536);                                                  \
	assert_int_equal(props.max_recvs, 8)

#define CHECK_OFFLOAD()                                               \
	assert_int_equal(props.device_type, ANYNET_NCCL_DEVICE_HOST); \
	assert_int_equal(props.device_version, 0)

#define CHECK_LIMITS()                                          \
	assert_int_equal(props.force_flush, 1);                 \
	assert_int_equal(props.vprops.count, 1);                \
	assert_int_equal(props.vprops.devs[0], 0);              \
	assert_in_range(props.max_p2p_bytes, 1 << 30, INT_MAX); \
	assert_in_range(props.max_coll_bytes, 1 << 29, INT_MAX)

static void test_properties_v5_v6(void **state)
{
	(void)state;
	{
		CHECK_PROPS(5, 5);
	}
	{
		CHECK_PROPS(6, 5);
	}
}

static void test_properties_v7(void **state)
{
	(void)state;
	CHECK_PROPS(7, 7);
	CHECK_OFFLOAD();
}

static void test_properties_v8(void **state)
{
	(void)state;
	CHECK_PROPS(8, 8);
	CHECK_OFFLOAD();
	assert_int_equal(props.reg_is_global, 1);
}

static void test_properties_v9_v10(void **state)
{
	(void)state;
	{
		CHECK_PROPS(9, 9);
		CHECK_OFFLOAD();
		CHECK_LIMITS();
		assert_int_equal(props.reg_is_global, 1);
	}
	{
		CHECK_PROPS(10, 9);
		CHECK_OFFLOAD();
		CHECK_LIMITS();
		assert_int_equal(props.reg_is_global, 1);
	}
}

static void test_properties_v11(void **state)
{
	(void)state;
	CHECK_PROPS(11, 11);
	CHECK_OFFLOAD();
	CHECK_LIMITS();
	assert_int_equal(props.max_multi_request, 1);
}

static void test_properties_v12(void **state)
{
	(void)state;
	CHECK_PROPS(12, 12);
	CHECK_OFFLOAD();
	CHECK_LIMITS();
	assert_int_equal(props.max_multi_request, 1);
	assert_int_equal(props.rail_id, 5);
	assert_int_equal(props.plane_id, 6);
}

static void test_an_invalid_device_is_an_error_with_a_warning(void **state)
{
	static const int bad[] = { -1, 2, INT_MAX, INT_MIN };
	struct anynet_net_props_v12 props;
	char handle[ANYNET_HANDLE_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		void *out = STALE;

		fake_log_clear();
		assert_int_equal(ncclNetPlugin_v12.get_properties(bad[i], &props),
				 ANYNET_NCCL_INVALID_USAGE);
		assert_int_equal(fake_log.warnings, 1);
		assert_true(fake_log.flags == ~0ul);
		assert_int_equal(ncclNetPlugin_v8.listen(bad[i], handle, &out),
				 ANYNET_NCCL_INVALID_USAGE);
		assert_null(out);
		out = STALE;
		assert_int_equal(ncclNetPlugin_v8.connect(bad[i], handle, &out, NULL),
				 ANYNET_NCCL_INVALID_USAGE);
		assert_null(out);
		assert_int_equal(fake_log.warnings, 3);
	}
	assert_int_equal(fake.calls, 0);
}

static void test_results(void **state)
{
	static const struct {
		int err;
		enum anynet_nccl_result result;
	} map[] = {
		{ 0, ANYNET_NCCL_SUCCESS },
		{ EAGAIN, ANYNET_NCCL_SUCCESS },
		{ EINVAL, ANYNET_NCCL_INVALID_ARGUMENT },
		{ EMSGSIZE, ANYNET_NCCL_INVALID_USAGE },
		{ EPROTO, ANYNET_NCCL_INVALID_USAGE },
		{ EOPNOTSUPP, ANYNET_NCCL_INTERNAL_ERROR },
		{ ECONNRESET, ANYNET_NCCL_REMOTE_ERROR },
		{ ECONNREFUSED, ANYNET_NCCL_REMOTE_ERROR },
		{ EPIPE, ANYNET_NCCL_REMOTE_ERROR },
		{ ETIMEDOUT, ANYNET_NCCL_REMOTE_ERROR },
		{ EHOSTUNREACH, ANYNET_NCCL_REMOTE_ERROR },
		{ ENOMEM, ANYNET_NCCL_SYSTEM_ERROR },
		{ EMFILE, ANYNET_NCCL_SYSTEM_ERROR },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(map); i++) {
		char handle[ANYNET_HANDLE_BYTES] = { 0 };
		void *out = STALE;

		fake.ret = -map[i].err;
		assert_int_equal(ncclNetPlugin_v8.listen(0, handle, &out), map[i].result);
		assert_ptr_equal(out, map[i].err ? NULL : FAKE_LISTENER);
	}
}

/* --- connections --- */

static void test_connect_carries_the_options_of_its_version(void **state)
{
	struct anynet_net_config_v10 config = { .traffic_class = 96 };
	char handle[ANYNET_HANDLE_BYTES] = { 0 };
	void *ctx = NULL, *comm = NULL;

	(void)state;
	ncclNetPlugin_v12.init(&ctx, 0xc0ffee, &config, fake_logger, NULL);
	assert_non_null(ctx);
	config.traffic_class = 1; /* NCCL's config is on its stack: the plugin must have copied it */
	ncclNetPlugin_v12.connect(ctx, 1, handle, &comm, NULL);
	assert_ptr_equal(comm, FAKE_COMM);
	assert_ptr_equal(fake.data, handle);
	assert_int_equal(fake.dev->index, 1);
	assert_int_equal(fake.options.comm_hash, 0xc0ffee);
	assert_int_equal(fake.options.traffic_class, 96);
	assert_ptr_equal(fake.options.owner, ctx);
	ncclNetPlugin_v12.listen(ctx, 1, handle, &comm);
	assert_ptr_equal(fake.owner, ctx);
	ncclNetPlugin_v12.finalize(ctx);
	ncclNetPlugin_v12.init(&ctx, 1, NULL, fake_logger, NULL);
	ncclNetPlugin_v12.connect(ctx, 0, handle, &comm, NULL);
	assert_int_equal(fake.options.traffic_class, -1);
	ncclNetPlugin_v12.finalize(ctx);

	config.traffic_class = 32;
	ncclNetPlugin_v10.connect(0, &config, handle, &comm, NULL);
	assert_int_equal(fake.options.comm_hash, 0);
	assert_int_equal(fake.options.traffic_class, 32);
	assert_null(fake.options.owner);
	ncclNetPlugin_v10.listen(0, handle, &comm);
	assert_null(fake.owner);
	ncclNetPlugin_v10.connect(0, NULL, handle, &comm, NULL);
	assert_int_equal(fake.options.traffic_class, -1);

	fake.options.traffic_class = 7;
	ncclNetPlugin_v9.connect(0, handle, &comm, NULL);
	assert_int_equal(fake.options.traffic_class, -1);
	fake.options.traffic_class = 7;
	ncclNetPlugin_v5.connect(0, handle, &comm);
	assert_int_equal(fake.options.traffic_class, -1);
	fake.options.traffic_class = 7;
	ncclNetPlugin_v11.connect(NULL, 0, handle, &comm, NULL); /* no context at all */
	assert_int_equal(fake.options.traffic_class, -1);
}

static void test_device_handles_are_left_alone(void **state)
{
	struct anynet_net_device_handle *dev_handle = NULL;
	char handle[ANYNET_HANDLE_BYTES] = { 0 };
	void *comm = NULL;

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.connect(0, handle, &comm, &dev_handle),
			 ANYNET_NCCL_SUCCESS);
	assert_null(dev_handle);
	assert_int_equal(ncclNetPlugin_v8.accept(FAKE_LISTENER, &comm, &dev_handle),
			 ANYNET_NCCL_SUCCESS);
	assert_null(dev_handle);
	assert_int_equal(ncclNetPlugin_v8.accept(FAKE_LISTENER, &comm, NULL), ANYNET_NCCL_SUCCESS);
}

static void test_connect_and_accept_write_null_until_there_is_a_comm(void **state)
{
	char handle[ANYNET_HANDLE_BYTES] = { 0 };
	void *out = STALE;

	(void)state;
	fake.nothing_yet = true;
	assert_int_equal(ncclNetPlugin_v7.connect(0, handle, &out, NULL), ANYNET_NCCL_SUCCESS);
	assert_null(out);
	out = STALE;
	assert_int_equal(ncclNetPlugin_v6.accept(FAKE_LISTENER, &out), ANYNET_NCCL_SUCCESS);
	assert_null(out);
	fake.nothing_yet = false;
	fake.ret = -ECONNRESET;
	out = STALE;
	assert_int_equal(ncclNetPlugin_v6.accept(FAKE_LISTENER, &out), ANYNET_NCCL_REMOTE_ERROR);
	assert_null(out);
	out = STALE;
	assert_int_equal(ncclNetPlugin_v6.accept(NULL, &out), ANYNET_NCCL_INVALID_ARGUMENT);
	assert_null(out);
}

static void test_closing_nothing_is_fine(void **state)
{
	(void)state;
#define CHECK(table)                                                         \
	assert_int_equal((table).close_send(NULL), ANYNET_NCCL_SUCCESS);     \
	assert_int_equal((table).close_recv(NULL), ANYNET_NCCL_SUCCESS);     \
	assert_int_equal((table).close_listen(NULL), ANYNET_NCCL_SUCCESS);   \
	assert_int_equal((table).dereg_mr(NULL, NULL), ANYNET_NCCL_SUCCESS); \
	assert_int_equal((table).dereg_mr(FAKE_COMM, NULL), ANYNET_NCCL_SUCCESS)
	EACH_TABLE(CHECK);
#undef CHECK
	assert_int_equal(fake.closes + fake.listener_closes + fake.deregs, 0);
	ncclNetPlugin_v12.close_send(FAKE_COMM);
	ncclNetPlugin_v12.close_recv(FAKE_COMM);
	ncclNetPlugin_v12.close_listen(FAKE_LISTENER);
	ncclNetPlugin_v12.dereg_mr(FAKE_COMM, FAKE_MR);
	assert_int_equal(fake.closes, 2);
	assert_int_equal(fake.listener_closes, 1);
	assert_int_equal(fake.deregs, 1);
}

/* --- registration --- */

static void test_registration_passes_its_whole_size(void **state)
{
	const size_t big = (size_t)5 << 32;
	void *mr = STALE;

	(void)state;
	assert_int_equal(ncclNetPlugin_v8.reg_mr(FAKE_COMM, &mr, big, ANYNET_PTR_HOST, &mr),
			 ANYNET_NCCL_SUCCESS);
	assert_ptr_equal(mr, FAKE_MR);
	assert_true(fake.bytes[0] == big);
	assert_int_equal(fake.type, ANYNET_PTR_HOST);
	assert_int_equal(ncclNetPlugin_v7.reg_mr(FAKE_COMM, &mr, INT_MAX, ANYNET_PTR_HOST, &mr),
			 ANYNET_NCCL_SUCCESS);
	assert_true(fake.bytes[0] == INT_MAX);
	assert_int_equal(ncclNetPlugin_v6.reg_mr_dmabuf(FAKE_COMM, &mr, big, ANYNET_PTR_CUDA, 4096,
							17, &mr),
			 ANYNET_NCCL_SUCCESS);
	assert_true(fake.bytes[0] == big && fake.offset == 4096 && fake.fd == 17);
}

static void test_registration_refusals(void **state)
{
	void *mr = STALE;

	(void)state;
	assert_int_equal(ncclNetPlugin_v5.reg_mr(FAKE_COMM, &mr, -4096, ANYNET_PTR_HOST, &mr),
			 ANYNET_NCCL_INVALID_USAGE);
	assert_null(mr);
	assert_int_equal(fake_log.warnings, 1);
	assert_int_equal(fake.calls, 0);
	mr = STALE;
	fake.ret = -EOPNOTSUPP; /* a memory type that the device cannot register */
	assert_int_equal(ncclNetPlugin_v8.reg_mr(FAKE_COMM, &mr, 4096, ANYNET_PTR_CUDA, &mr),
			 ANYNET_NCCL_INTERNAL_ERROR);
	assert_null(mr);
	mr = STALE;
	fake.ret = 0;
	assert_int_equal(ncclNetPlugin_v8.reg_mr(NULL, &mr, 4096, ANYNET_PTR_HOST, &mr),
			 ANYNET_NCCL_INVALID_ARGUMENT);
	assert_null(mr);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_table_bears_one_name, tables_setup),
		cmocka_unit_test_setup(test_optional_entries, tables_setup),
		cmocka_unit_test_setup(test_devices, tables_setup),
		cmocka_unit_test_setup(test_properties_v5_v6, tables_setup),
		cmocka_unit_test_setup(test_properties_v7, tables_setup),
		cmocka_unit_test_setup(test_properties_v8, tables_setup),
		cmocka_unit_test_setup(test_properties_v9_v10, tables_setup),
		cmocka_unit_test_setup(test_properties_v11, tables_setup),
		cmocka_unit_test_setup(test_properties_v12, tables_setup),
		cmocka_unit_test_setup(test_an_invalid_device_is_an_error_with_a_warning,
				       tables_setup),
		cmocka_unit_test_setup(test_results, tables_setup),
		cmocka_unit_test_setup(test_connect_carries_the_options_of_its_version,
				       tables_setup),
		cmocka_unit_test_setup(test_device_handles_are_left_alone, tables_setup),
		cmocka_unit_test_setup(test_connect_and_accept_write_null_until_there_is_a_comm,
				       tables_setup),
		cmocka_unit_test_setup(test_closing_nothing_is_fine, tables_setup),
		cmocka_unit_test_setup(test_registration_passes_its_whole_size, tables_setup),
		cmocka_unit_test_setup(test_registration_refusals, tables_setup),
	};

	return cmocka_run_group_tests_name("adapters", tests, NULL, NULL);
}
