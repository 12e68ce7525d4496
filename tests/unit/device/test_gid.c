/* SPDX-License-Identifier: Apache-2.0 */
/* GIDs: reading a port's table in one call or entry by entry, and the information in a GID. */
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include <nccl_net/util.h>

#include "transports/device/gid.h"
#include "unit/sysfs_tree.h"

#define ENTRIES 16

static struct ibv_device device = { .name = "mlx5_0" };
static struct ibv_context context = { .device = &device };
static struct ibv_gid_entry entries[ENTRIES];
static int entry_count, query_error, table_error, queries;
static struct gid_table table;

static int query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	assert_ptr_equal(ctx, &context);
	queries++;
	memset(gid, 0, sizeof(*gid));
	if (query_error) {
		errno = query_error;
		return -1;
	}
	for (int i = 0; i < entry_count; i++)
		if (entries[i].port_num == port && (int)entries[i].gid_index == index)
			*gid = entries[i].gid;
	return 0;
}

static ssize_t query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *out, size_t count,
			       uint32_t flags, size_t entry_bytes)
{
	assert_ptr_equal(ctx, &context);
	assert_int_equal(flags, 0);
	assert_int_equal(entry_bytes, sizeof(*out));
	if (table_error)
		return -table_error;
	if (count > UINT16_MAX / entry_bytes) /* as libibverbs does, without asking the kernel */
		return -EINVAL;
	/* the kernel refuses a buffer that is too small */
	assert_true(count >= (size_t)entry_count);
	memcpy(out, entries, sizeof(*out) * (size_t)entry_count);
	return entry_count;
}

static const struct verbs new_verbs = { .query_gid = query_gid,
					.query_gid_table = query_gid_table };
static const struct verbs old_verbs = { .query_gid = query_gid };

static struct verbs_port port = { .verbs = &new_verbs, .context = &context, .number = 1 };
static struct ibv_port_attr attr = { .link_layer = IBV_LINK_LAYER_ETHERNET,
				     .gid_tbl_len = ENTRIES };

static void make_entry(uint32_t number, uint32_t index, const char *addr, uint32_t type,
		       uint32_t ifindex)
{
	struct ibv_gid_entry *entry = &entries[entry_count++];

	*entry = (struct ibv_gid_entry){
		.port_num = number, .gid_index = index, .gid_type = type, .ndev_ifindex = ifindex
	};
	assert_int_equal(inet_pton(AF_INET6, addr, entry->gid.raw), 1);
}

/* …/gid_attrs/<what>/<index> contains `text`. */
static void make_attr(const char *what, int index, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "class/infiniband/mlx5_0/ports/1/gid_attrs/%s/%d", what,
		 index);
	tree_file(path, text);
}

static int setup(void **state)
{
	entry_count = query_error = table_error = queries = 0;
	memset(&table, 0xff, sizeof(table));
	port.verbs = &new_verbs;
	attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	return tree_create(state);
}

static void expect_gid(int i, int index, const char *addr, enum ibv_gid_type type, unsigned ifindex)
{
	char text[INET6_ADDRSTRLEN];

	assert_true(i < table.count);
	assert_int_equal(table.gids[i].index, index);
	assert_string_equal(gid_text(&table.gids[i].raw, text), addr);
	assert_int_equal(table.gids[i].type, type);
	assert_int_equal(table.gids[i].ifindex, ifindex);
}

static void test_a_new_library_tells_all_in_one_call(void **state)
{
	(void)state;
	make_entry(2, 0, "fe80::2", IBV_GID_TYPE_ROCE_V1, 9);
	make_entry(1, 5, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, 4);
	make_entry(1, 2, "fe80::1", IBV_GID_TYPE_ROCE_V1, 3);
	make_entry(1, 3, "::", IBV_GID_TYPE_ROCE_V1, 3);
	assert_int_equal(gid_table_read(&port, &attr, "/nowhere", &table), 0);
	assert_int_equal(table.count, 2);
	expect_gid(0, 2, "fe80::1", IBV_GID_TYPE_ROCE_V1, 3);
	expect_gid(1, 5, "10.0.0.1", IBV_GID_TYPE_ROCE_V2, 4);
	assert_int_equal(queries, 0);
}

/* Verbs have 8 bits for a GID's index: entry 256 would be entry 0, another address. */
static void test_gids_that_no_queue_pair_can_name_are_left_out(void **state)
{
	const int length = attr.gid_tbl_len;

	(void)state;
	attr.gid_tbl_len = 1024;
	for (int is_old = 0; is_old < 2; is_old++) {
		port.verbs = is_old ? &old_verbs : &new_verbs;
		entry_count = 0;
		make_entry(1, 255, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, 4);
		make_entry(1, 256, "::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2, 4);
		assert_int_equal(gid_table_read(&port, &attr, "/nowhere", &table), 0);
		assert_int_equal(table.count, 1);
		assert_int_equal(table.gids[0].index, 255);
	}
	attr.gid_tbl_len = length;
}

static void test_an_old_library_is_helped_by_sysfs(void **state)
{
	(void)state;
	port.verbs = &old_verbs;
	make_entry(1, 0, "fe80::1", 0, 0);
	make_entry(1, 1, "fe80::1", 0, 0);
	make_entry(1, 3, "::ffff:10.0.0.1", 0, 0);
	make_entry(2, 4, "::ffff:10.9.9.9", 0, 0);
	make_attr("types", 0, "IB/RoCE v1\n");
	make_attr("types", 1, "RoCE v2\n");
	make_attr("types", 3, "RoCE v2\n");
	make_attr("ndevs", 1, "no-such-netdev\n");
	make_attr("ndevs", 3, "lo\n");
	assert_int_equal(gid_table_read(&port, &attr, tree_root(), &table), 0);
	assert_int_equal(table.count, 3);
	expect_gid(0, 0, "fe80::1", IBV_GID_TYPE_ROCE_V1, 0);
	expect_gid(1, 1, "fe80::1", IBV_GID_TYPE_ROCE_V2, 0);
	expect_gid(2, 3, "10.0.0.1", IBV_GID_TYPE_ROCE_V2, if_nametoindex("lo"));
	assert_int_equal(queries, ENTRIES);
}

static void test_a_kernel_that_does_not_answer_is_asked_entry_by_entry(void **state)
{
	(void)state;
	make_entry(1, 7, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, 4);
	table_error = EOPNOTSUPP;
	assert_int_equal(gid_table_read(&port, &attr, tree_root(), &table), 0);
	assert_int_equal(table.count, 1);
	expect_gid(0, 7, "10.0.0.1", IBV_GID_TYPE_ROCE_V1, 0); /* version 2 is not mentioned */
}

static void test_infiniband_has_gids_of_its_own_type(void **state)
{
	(void)state;
	port.verbs = &old_verbs;
	attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	make_entry(1, 0, "fe80::17", 0, 0);
	make_attr("types", 0, "IB/RoCE v1\n");
	assert_int_equal(gid_table_read(&port, &attr, tree_root(), &table), 0);
	expect_gid(0, 0, "fe80::17", IBV_GID_TYPE_IB, 0);
}

static void test_an_empty_table_is_no_error_and_an_error_is_one(void **state)
{
	(void)state;
	assert_int_equal(gid_table_read(&port, &attr, tree_root(), &table), 0);
	assert_int_equal(table.count, 0);
	port.verbs = &old_verbs;
	assert_int_equal(gid_table_read(&port, &attr, tree_root(), &table), 0);
	assert_int_equal(table.count, 0);
	query_error = EPERM;
	assert_int_equal(gid_table_read(&port, &attr, tree_root(), &table), -EPERM);
	assert_int_equal(table.count, 0);
}

static const union ibv_gid *raw_of(const char *addr)
{
	static union ibv_gid raw;

	assert_int_equal(inet_pton(AF_INET6, addr, raw.raw), 1);
	return &raw;
}

static struct gid gid_of(const char *addr, unsigned ifindex)
{
	struct gid gid = { .ifindex = ifindex };

	assert_int_equal(inet_pton(AF_INET6, addr, gid.raw.raw), 1);
	return gid;
}

static void test_the_ip_address_in_a_gid(void **state)
{
	const struct gid ipv4 = gid_of("::ffff:10.1.2.3", 7), global = gid_of("fd00::7", 7);
	const struct gid local = gid_of("fe80::7", 7);
	struct sockaddr_storage addr;
	const struct sockaddr_in *v4 = (const void *)&addr;
	const struct sockaddr_in6 *v6 = (const void *)&addr;

	(void)state;
	gid_addr(&ipv4, &addr);
	assert_int_equal(addr.ss_family, AF_INET);
	assert_int_equal(ntohl(v4->sin_addr.s_addr), 0x0a010203);
	assert_int_equal(v4->sin_port, 0);
	gid_addr(&global, &addr);
	assert_int_equal(addr.ss_family, AF_INET6);
	assert_memory_equal(&v6->sin6_addr, global.raw.raw, 16);
	assert_int_equal(v6->sin6_scope_id, 0);
	gid_addr(&local, &addr);
	assert_int_equal(v6->sin6_scope_id, 7);
}

static void test_a_gid_with_an_ip_address(void **state)
{
	const struct gid gids[] = { gid_of("::ffff:10.1.2.3", 0), gid_of("fd00::7", 0) };
	struct sockaddr_storage addr;
	struct gid back;

	(void)state;
	for (int i = 0; i < 2; i++) {
		gid_addr(&gids[i], &addr);
		back = gid_of_addr(&addr);
		assert_memory_equal(back.raw.raw, gids[i].raw.raw, sizeof(back.raw.raw));
	}
}

static void test_kinds_of_gids(void **state)
{
	(void)state;
	assert_true(gid_is_ipv4(raw_of("::ffff:10.0.0.1")));
	assert_false(gid_is_ipv4(raw_of("::1")));
	assert_true(gid_is_link_local(raw_of("fe80::1")));
	assert_true(gid_is_link_local(raw_of("febf::1")));
	assert_false(gid_is_link_local(raw_of("fec0::1")));
	assert_false(gid_is_link_local(raw_of("::ffff:169.254.0.1")));
	assert_true(gid_is_zero(raw_of("::")));
	assert_false(gid_is_zero(raw_of("::1")));
	assert_int_equal(gid_flid(raw_of("fec0:0:1234:5::1")), 0x1234);
	assert_int_equal(gid_flid(raw_of("fe80::1")), 0);
	assert_string_equal(gid_type_text(IBV_GID_TYPE_ROCE_V2), "RoCE v2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_new_library_tells_all_in_one_call, setup,
						tree_remove),
		cmocka_unit_test_setup_teardown(test_gids_that_no_queue_pair_can_name_are_left_out,
						setup, tree_remove),
		cmocka_unit_test_setup_teardown(test_an_old_library_is_helped_by_sysfs, setup,
						tree_remove),
		cmocka_unit_test_setup_teardown(
			test_a_kernel_that_does_not_answer_is_asked_entry_by_entry, setup,
			tree_remove),
		cmocka_unit_test_setup_teardown(test_infiniband_has_gids_of_its_own_type, setup,
						tree_remove),
		cmocka_unit_test_setup_teardown(test_an_empty_table_is_no_error_and_an_error_is_one,
						setup, tree_remove),
		cmocka_unit_test(test_the_ip_address_in_a_gid),
		cmocka_unit_test(test_a_gid_with_an_ip_address),
		cmocka_unit_test(test_kinds_of_gids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
