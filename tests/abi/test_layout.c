/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of NCCL's structs, to the byte (net-api.md §1.3, §1.4), as include/nccl_net/abi declares them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <nccl_net/abi/net_v10.h>
#include <nccl_net/abi/net_v11.h>
#include <nccl_net/abi/net_v12.h>
#include <nccl_net/abi/net_v5.h>
#include <nccl_net/abi/net_v6.h>
#include <nccl_net/abi/net_v7.h>
#include <nccl_net/abi/net_v8.h>
#include <nccl_net/abi/net_v9.h>
#include <nccl_net/util.h>

#define AT(field) offsetof(struct STRUCT, field)

/* A table of functions: a pointer to the name, then functions, in this order. */
static void expect_slots(const char *name, const size_t *offsets, size_t count, size_t bytes)
{
	for (size_t i = 0; i < count; i++) {
		if (offsets[i] != i * sizeof(void *))
			print_message("%s: entry %zu is at %zu\n", name, i, offsets[i]);
		assert_int_equal(offsets[i], i * sizeof(void *));
	}
	assert_int_equal(bytes, count * sizeof(void *));
}
#define EXPECT_SLOTS(name, ...)                                                            \
	do {                                                                               \
		const size_t offsets[] = { __VA_ARGS__ };                                  \
		expect_slots(name, offsets, ARRAY_SIZE(offsets), sizeof(struct STRUCT));   \
	} while (0)

/* Later versions add entries at the end; v6 has put one in the middle. */
#define SLOTS_BEFORE_DMABUF                                                                                       \
	AT(name), AT(init), AT(devices), AT(get_properties), AT(listen), AT(connect), AT(accept), AT(reg_mr)
#define SLOTS_BEHIND_DMABUF                                                                                       \
	AT(dereg_mr), AT(isend), AT(irecv), AT(iflush), AT(test), AT(close_send), AT(close_recv), AT(close_listen)
#define SLOTS_V6  SLOTS_BEFORE_DMABUF, AT(reg_mr_dmabuf), SLOTS_BEHIND_DMABUF
#define SLOTS_V7  SLOTS_V6, AT(get_device_mr), AT(irecv_consumed)
#define SLOTS_V9  SLOTS_V7, AT(make_vdevice)
#define SLOTS_V11 SLOTS_V9, AT(finalize), AT(set_net_attr)

static void test_tables(void **state)
{
	(void)state;
#define STRUCT anynet_net_v5
	EXPECT_SLOTS("v5", SLOTS_BEFORE_DMABUF, SLOTS_BEHIND_DMABUF);
#undef STRUCT
#define STRUCT anynet_net_v6
	EXPECT_SLOTS("v6", SLOTS_V6);
#undef STRUCT
#define STRUCT anynet_net_v7
	EXPECT_SLOTS("v7", SLOTS_V7);
#undef STRUCT
#define STRUCT anynet_net_v8
	EXPECT_SLOTS("v8", SLOTS_V7);
#undef STRUCT
#define STRUCT anynet_net_v9
	EXPECT_SLOTS("v9", SLOTS_V9);
#undef STRUCT
#define STRUCT anynet_net_v10
	EXPECT_SLOTS("v10", SLOTS_V9);
#undef STRUCT
#define STRUCT anynet_net_v11
	EXPECT_SLOTS("v11", SLOTS_V11);
#undef STRUCT
#define STRUCT anynet_net_v12
	EXPECT_SLOTS("v12", SLOTS_V11);
#undef STRUCT
}

/* Other structs: pairs of a field's offset and what it has to be. */
static void expect_offsets(const char *name, const size_t (*fields)[2], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fields[i][0] != fields[i][1])
			print_message("%s: field %zu is at %zu\n", name, i, fields[i][0]);
		assert_int_equal(fields[i][0], fields[i][1]);
	}
}
#define EXPECT_OFFSETS(name, size, ...)                                            \
	do {                                                                       \
		const size_t fields[][2] = { __VA_ARGS__ };                        \
		expect_offsets(name, fields, ARRAY_SIZE(fields));                  \
		assert_int_equal(sizeof(struct STRUCT), size);                     \
	} while (0)

static void test_structs(void **state)
{
	(void)state;
#define STRUCT anynet_net_props_v5
	EXPECT_OFFSETS("props_v5", 48,
		       { AT(name), 0 }, { AT(pci_path), 8 }, { AT(guid), 16 },
		       { AT(ptr_support), 24 }, { AT(speed_mbps), 28 }, { AT(port), 32 },
		       { AT(latency_us), 36 }, { AT(max_comms), 40 }, { AT(max_recvs), 44 });
#undef STRUCT
#define STRUCT anynet_net_props_v7
	EXPECT_OFFSETS("props_v7", 56,
		       { AT(name), 0 }, { AT(pci_path), 8 }, { AT(guid), 16 },
		       { AT(ptr_support), 24 }, { AT(speed_mbps), 28 }, { AT(port), 32 },
		       { AT(latency_us), 36 }, { AT(max_comms), 40 }, { AT(max_recvs), 44 },
		       { AT(device_type), 48 }, { AT(device_version), 52 });
#undef STRUCT
#define STRUCT anynet_net_props_v8
	EXPECT_OFFSETS("props_v8", 64,
		       { AT(name), 0 }, { AT(pci_path), 8 }, { AT(guid), 16 },
		       { AT(ptr_support), 24 }, { AT(reg_is_global), 28 }, { AT(speed_mbps), 32 },
		       { AT(port), 36 }, { AT(latency_us), 40 }, { AT(max_comms), 44 },
		       { AT(max_recvs), 48 }, { AT(device_type), 52 }, { AT(device_version), 56 });
#undef STRUCT
#define STRUCT anynet_net_vprops_v9
	EXPECT_OFFSETS("vprops_v9", 20,
		       { AT(count), 0 }, { AT(devs), 4 });
#undef STRUCT
#define STRUCT anynet_net_props_v9
	EXPECT_OFFSETS("props_v9", 104,
		       { AT(name), 0 }, { AT(pci_path), 8 }, { AT(guid), 16 },
		       { AT(ptr_support), 24 }, { AT(reg_is_global), 28 }, { AT(force_flush), 32 },
		       { AT(speed_mbps), 36 }, { AT(port), 40 }, { AT(latency_us), 44 },
		       { AT(max_comms), 48 }, { AT(max_recvs), 52 }, { AT(device_type), 56 },
		       { AT(device_version), 60 }, { AT(vprops), 64 }, { AT(max_p2p_bytes), 88 },
		       { AT(max_coll_bytes), 96 });
#undef STRUCT
#define STRUCT anynet_net_config_v10
	EXPECT_OFFSETS("config_v10", 4,
		       { AT(traffic_class), 0 });
#undef STRUCT
#define STRUCT anynet_net_props_v11
	EXPECT_OFFSETS("props_v11", 112,
		       { AT(name), 0 }, { AT(pci_path), 8 }, { AT(guid), 16 },
		       { AT(ptr_support), 24 }, { AT(reg_is_global), 28 }, { AT(force_flush), 32 },
		       { AT(speed_mbps), 36 }, { AT(port), 40 }, { AT(latency_us), 44 },
		       { AT(max_comms), 48 }, { AT(max_recvs), 52 }, { AT(device_type), 56 },
		       { AT(device_version), 60 }, { AT(vprops), 64 }, { AT(max_p2p_bytes), 88 },
		       { AT(max_coll_bytes), 96 }, { AT(max_multi_request), 104 });
#undef STRUCT
#define STRUCT anynet_net_vprops_v12
	EXPECT_OFFSETS("vprops_v12", 36,
		       { AT(count), 0 }, { AT(devs), 4 });
#undef STRUCT
#define STRUCT anynet_net_props_v12
	EXPECT_OFFSETS("props_v12", 128,
		       { AT(name), 0 }, { AT(pci_path), 8 }, { AT(guid), 16 },
		       { AT(ptr_support), 24 }, { AT(reg_is_global), 28 }, { AT(force_flush), 32 },
		       { AT(speed_mbps), 36 }, { AT(port), 40 }, { AT(latency_us), 44 },
		       { AT(max_comms), 48 }, { AT(max_recvs), 52 }, { AT(device_type), 56 },
		       { AT(device_version), 60 }, { AT(vprops), 64 }, { AT(max_p2p_bytes), 104 },
		       { AT(max_coll_bytes), 112 }, { AT(max_multi_request), 120 },
		       { AT(rail_id), 124 }, { AT(plane_id), 126 });
#undef STRUCT
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_structs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
