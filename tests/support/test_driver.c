/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: which table it uses, how it calls old ones, and its errors. Its argument is the library of
 * recorder_net.c. */
#include "recorder_net.h"

#include <dlfcn.h>
#include <driver.h>
#include <limits.h>
#include <nccl_net/abi/nccl_types.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB ((size_t)1 << 30)

static const char *recorder_file;
static struct recorder *seen;
static char data[4];

static struct driver_net *open_recorder(int abi)
{
	char err[512] = "";
	struct driver_net *net = driver_open(recorder_file, abi, err, sizeof(err));

	if (!net)
		fail_msg("%s", err);
	void *lib = dlopen(recorder_file, RTLD_NOW | RTLD_LOCAL);
	seen = dlsym(lib, "recorder");
	dlclose(lib); /* the driver keeps it open */
	assert_non_null(seen);
	memset(seen, 0, sizeof(*seen));
	return net;
}

static void test_newest_table_is_taken(void **state)
{
	(void)state;
	struct driver_net *net = open_recorder(DRIVER_ABI_NEWEST);

	assert_int_equal(driver_abi(net), 10);
	assert_string_equal(driver_name(net), "recorder");
	assert_non_null(strstr(driver_path(net), "recorder"));
	assert_int_equal(driver_path(net)[0], '/');
	driver_close(net);
}

static void test_wanted_table_is_taken_or_refused(void **state)
{
	(void)state;
	const int there[] = { 5, 8, 10 }, missing[] = { 6, 7, 9, 11, 12 };
	char err[512];

	for (size_t i = 0; i < 3; i++) {
		struct driver_net *net = open_recorder(there[i]);
		assert_int_equal(driver_abi(net), there[i]);
		driver_close(net);
	}
	for (size_t i = 0; i < 5; i++) {
		assert_null(driver_open(recorder_file, missing[i], err, sizeof(err)));
		assert_non_null(strstr(err, "ncclNetPlugin_v"));
		assert_non_null(strstr(err, recorder_file));
	}
}

static void test_what_cannot_be_opened_is_explained(void **state)
{
	(void)state;
	const struct {
		const char *spec;
		int abi;
		const char *says;
	} cases[] = {
		{ "/no/such/libnccl-net.so", 0, "/no/such/libnccl-net.so" },
		{ "libc.so.6", 0, "exports no ncclNetPlugin_v5" },
		{ "libc.so.6", 8, "does not export ncclNetPlugin_v8" },
		{ "libc.so.6", 4, "v4" },
		{ "libc.so.6", 13, "v13" },
		{ "nccl:Ethernet", 0, "Socket and IB" },
		{ "nccl:Socket:/no/such/libnccl.so.2", 0, "/no/such/libnccl.so.2" },
		{ "nccl:Socket:/proc/self/exe", 0, "does not contain its NCCL release" },
		{ "nccl:IB:/dev/null", 0, "not an ELF file" },
		{ "nccl:IB:/proc/self/status", 0, "not an ELF file" },
	};
	char err[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err[0] = '\0';
		assert_null(driver_open(cases[i].spec, cases[i].abi, err, sizeof(err)));
		if (!strstr(err, cases[i].says))
			fail_msg("%s: '%s' does not say '%s'", cases[i].spec, err, cases[i].says);
	}
}

/* net-api.md §1.6: sizes are checked against 1 GiB and narrowed. */
static void test_old_tables_see_int_sizes(void **state)
{
	(void)state;
	const int abis[] = { 5, 8 };

	for (size_t i = 0; i < 2; i++) {
		struct driver_net *net = open_recorder(abis[i]);
		void *buffers[2] = { data, data }, *mhandles[2] = { NULL }, *req = NULL;
		size_t sizes[2] = { 1, GIB };
		int tags[2] = { 3, 4 };

		assert_int_equal(driver_isend(net, NULL,
					      &(struct driver_send){ data, GIB + 1, 7, NULL, NULL },
					      &req),
				 ANYNET_NCCL_INTERNAL_ERROR);
		assert_int_equal(seen->calls, 0);
		assert_int_equal(driver_isend(net, NULL,
					      &(struct driver_send){ data, GIB, 7, NULL, NULL },
					      &req),
				 0);
		assert_int_equal(seen->bytes, GIB);
		assert_int_equal(seen->tag, 7);
		assert_int_equal(driver_irecv(net, NULL,
					      &(struct driver_recv){ 2, buffers, sizes, tags,
								     mhandles, NULL },
					      &req),
				 0);
		assert_int_equal(seen->n, 2);
		assert_int_equal(seen->bytes, GIB);
		assert_int_equal(seen->tag, 4);
		sizes[1] = GIB + 1;
		seen->calls = 0;
		assert_int_equal(driver_irecv(net, NULL,
					      &(struct driver_recv){ 2, buffers, sizes, tags,
								     mhandles, NULL },
					      &req),
				 ANYNET_NCCL_INTERNAL_ERROR);
		assert_int_equal(seen->calls, 0);
		driver_close(net);
	}
}

static void test_new_tables_see_whole_sizes(void **state)
{
	(void)state;
	struct driver_net *net = open_recorder(10);
	void *req = NULL;

	assert_int_equal(driver_isend(net, NULL,
				      &(struct driver_send){ data, 5 * GIB, 7, NULL, data }, &req),
			 0);
	assert_true(seen->bytes == 5 * GIB);
	assert_ptr_equal(seen->phandle, data);
	driver_close(net);
}

static void test_registrations_beyond_int_reach_v8_only(void **state)
{
	(void)state;
	void *mhandle = NULL;
	struct driver_net *net = open_recorder(5);

	assert_int_equal(driver_reg_mr(net, NULL, data, (size_t)INT_MAX + 1, 1, &mhandle),
			 ANYNET_NCCL_INTERNAL_ERROR);
	assert_int_equal(seen->calls, 0);
	assert_int_equal(driver_reg_mr(net, NULL, data, INT_MAX, 1, &mhandle), 0);
	assert_int_equal(driver_reg_mr_dmabuf(net, NULL,
					      &(struct driver_region){ data, 1, 4, 0, -1 },
					      &mhandle),
			 ANYNET_NCCL_INVALID_USAGE);
	driver_close(net);

	net = open_recorder(8);
	assert_int_equal(driver_reg_mr(net, NULL, data, 5 * GIB, 1, &mhandle), 0);
	assert_true(seen->bytes == 5 * GIB);
	driver_close(net);
}

/* The optional-completion marker is for v9 and later. */
static void test_marker_in_request_is_hidden_from_old_tables(void **state)
{
	(void)state;
	const int abis[] = { 5, 8, 10 };
	void *buffers[1] = { data }, *mhandles[1] = { NULL };
	size_t sizes[1] = { 4 };
	int tags[1] = { 0 };

	for (size_t i = 0; i < 3; i++) {
		struct driver_net *net = open_recorder(abis[i]);
		void *marker = ANYNET_NCCL_OPTIONAL_COMPLETION, *req = marker;
		assert_int_equal(driver_irecv(net, NULL,
					      &(struct driver_recv){ 1, buffers, sizes, tags,
								     mhandles, NULL },
					      &req),
				 0);
		assert_ptr_equal(seen->request_on_entry, abis[i] >= 9 ? marker : NULL);
		driver_close(net);
	}
}

static void test_properties_are_completed_like_the_shims_do(void **state)
{
	(void)state;
	struct driver_props props;
	struct driver_net *net = open_recorder(5);

	assert_int_equal(driver_properties(net, 3, &props), 0);
	assert_string_equal(props.name, "five");
	assert_int_equal(props.speed_mbps, 5);
	assert_int_equal(props.reg_is_global, 0);
	assert_int_equal(props.vdev_count, 1);
	assert_int_equal(props.vdevs[0], 3);
	assert_true(props.max_p2p_bytes == GIB && props.max_coll_bytes == GIB / 2);
	assert_int_equal(props.max_multi_request, 1);
	assert_int_equal(props.rail_id, -1);
	assert_int_equal(props.plane_id, -1);
	driver_close(net);

	net = open_recorder(8);
	assert_int_equal(driver_properties(net, 0, &props), 0);
	assert_int_equal(props.reg_is_global, 1);
	assert_int_equal(props.max_recvs, 8);
	driver_close(net);
}

/* The conformance suite has to detect a plugin that does not write all fields. */
static void test_properties_left_out_are_recognisable(void **state)
{
	(void)state;
	struct driver_props props;
	struct driver_net *net = open_recorder(10);

	assert_int_equal(driver_properties(net, 0, &props), 0);
	assert_int_equal(props.max_recvs, 10);
	assert_int_equal(props.speed_mbps, (int)0xa5a5a5a5);
	assert_int_equal(props.vdev_count, (int)0xa5a5a5a5);
	driver_close(net);
}

static void test_traffic_class_reaches_v10_in_connect(void **state)
{
	(void)state;
	struct driver_net *net = open_recorder(10);
	char handle[DRIVER_HANDLE_BYTES] = "";
	void *ctx = data, *scomm = NULL;

	assert_int_equal(driver_init(net, &ctx, 1, 46, NULL, NULL), 0);
	assert_null(ctx); /* v11 and later have one */
	assert_int_equal(driver_connect(net, ctx, 0, handle, &scomm), 0);
	assert_int_equal(seen->traffic_class, 46);
	assert_int_equal(driver_finalize(net, ctx), 0);
	driver_close(net);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_newest_table_is_taken),
		cmocka_unit_test(test_wanted_table_is_taken_or_refused),
		cmocka_unit_test(test_what_cannot_be_opened_is_explained),
		cmocka_unit_test(test_old_tables_see_int_sizes),
		cmocka_unit_test(test_new_tables_see_whole_sizes),
		cmocka_unit_test(test_registrations_beyond_int_reach_v8_only),
		cmocka_unit_test(test_marker_in_request_is_hidden_from_old_tables),
		cmocka_unit_test(test_properties_are_completed_like_the_shims_do),
		cmocka_unit_test(test_properties_left_out_are_recognisable),
		cmocka_unit_test(test_traffic_class_reaches_v10_in_connect),
	};
	if (argc < 2)
		return 2;
	recorder_file = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
