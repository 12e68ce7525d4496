/* SPDX-License-Identifier: Apache-2.0 */
/* What a library says of its devices, and what memory it registers. */
#include "rig.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define TABLE 64

static void test_a_device_can_be_queried(void **state)
{
	struct ends *ends = *state;
	struct ibv_device_attr attr;

	memset(&attr, 0, sizeof(attr));
	assert_int_equal(rig.verbs.query_device(ends->a.context, &attr), 0);
	assert_true(attr.phys_port_cnt >= 1);
	assert_true(attr.max_qp > 0 && attr.max_qp_wr >= WR_MAX && attr.max_sge >= 4);
	assert_true(attr.max_cqe >= CQ_SIZE && attr.max_qp_rd_atom > 0);
	assert_int_equal(rig.verbs.fork_init(), 0); /* as rig_open has in time */
}

static void test_the_port_is_active(void **state)
{
	struct ends *ends = *state;
	struct ibv_port_attr *port = &ends->a.port;

	assert_int_equal(port->state, IBV_PORT_ACTIVE);
	assert_int_equal(port->link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_in_range(port->active_mtu, IBV_MTU_256, IBV_MTU_4096);
	assert_true(port->gid_tbl_len > ends->a.gid_index);
	assert_true(port->active_width && port->active_speed);
	assert_int_not_equal(rig.verbs.query_port(ends->a.context, 77, port), 0);
}

static void test_there_is_no_asking_for_more_gids_than_fit(void **state)
{
	struct ends *ends = *state;
	size_t most = UINT16_MAX / sizeof(struct ibv_gid_entry);
	struct ibv_gid_entry *table = calloc(most + 1, sizeof(*table));

	assert_non_null(table);
	assert_true(rig.verbs.query_gid_table(ends->a.context, table, most, 0, sizeof(*table)) > 0);
	assert_true(rig.verbs.query_gid_table(ends->a.context, table, most + 1, 0, sizeof(*table)) <
		    0);
	free(table);
}

static void test_three_ways_to_the_gids_agree(void **state)
{
	struct ends *ends = *state;
	struct ibv_gid_entry table[TABLE], entry;
	union ibv_gid gid;
	ssize_t count;
	bool found = false;

	count = rig.verbs.query_gid_table(ends->a.context, table, TABLE, 0, sizeof(entry));
	assert_in_range(count, 1, TABLE);
	for (ssize_t i = 0; i < count; i++) {
		assert_int_equal(rig.verbs.query_gid_ex(ends->a.context, table[i].port_num,
							table[i].gid_index, &entry, 0,
							sizeof(entry)),
				 0);
		assert_memory_equal(&entry.gid, &table[i].gid, sizeof(gid));
		assert_int_equal(entry.gid_type, table[i].gid_type);
		assert_int_equal(entry.ndev_ifindex, table[i].ndev_ifindex);
		assert_int_not_equal(entry.ndev_ifindex, 0);
		assert_int_equal(rig.verbs.query_gid(ends->a.context, (uint8_t)table[i].port_num,
						     (int)table[i].gid_index, &gid),
				 0);
		assert_memory_equal(&gid, &table[i].gid, sizeof(gid));
		found |= (int)entry.gid_index == ends->a.gid_index;
	}
	assert_true(found);
}

static void test_a_gid_that_is_not_there_is_refused(void **state)
{
	struct ends *ends = *state;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	int beyond = ends->a.port.gid_tbl_len;

	assert_int_not_equal(rig.verbs.query_gid_ex(ends->a.context, 1, (uint32_t)beyond, &entry, 0,
						    sizeof(entry)),
			     0);
	assert_int_equal(rig.verbs.query_gid_ex(ends->a.context, 1, (uint32_t)beyond - 1, &entry, 0,
						sizeof(entry)),
			 ENODATA);
	assert_int_not_equal(rig.verbs.query_gid(ends->a.context, 1, beyond, &gid), 0);
}

static void test_ece_is_there_or_says_that_it_is_not(void **state)
{
	struct ends *ends = *state;
	struct ibv_ece ece = { .comp_mask = 0 };
	struct terms terms = { .timeout = 0 };
	int wanted = rig.traits->ece ? 0 : EOPNOTSUPP;

	end_make_qp(&ends->a, &terms);
	assert_int_equal(rig.verbs.query_ece(ends->a.qp, &ece), wanted);
	assert_int_equal(rig.verbs.set_ece(ends->a.qp, &ece), wanted);
}

static void refused(struct ibv_mr *mr, int error)
{
	assert_null(mr);
	if (error)
		assert_int_equal(errno, error);
	else
		assert_true(errno == ENOMEM || errno == EFAULT || errno == EINVAL);
}

static void test_memory_that_cannot_be_pinned(void **state)
{
	struct ends *ends = *state;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	assert_ptr_not_equal(memory, MAP_FAILED);
	refused(rig.verbs.reg_mr(ends->a.pd, memory, page, IBV_ACCESS_LOCAL_WRITE), 0);
	mr = rig.verbs.reg_mr(ends->a.pd, memory, page, 0);
	assert_non_null(mr);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
	munmap(memory, 2 * page);
	refused(rig.verbs.reg_mr(ends->a.pd, memory, page, IBV_ACCESS_LOCAL_WRITE), 0);
}

static void test_access_that_makes_no_sense(void **state)
{
	struct ends *ends = *state;

	refused(rig.verbs.reg_mr(ends->a.pd, ends->a.memory, 4096, IBV_ACCESS_REMOTE_WRITE),
		EINVAL);
}

static void test_relaxed_ordering_is_taken(void **state)
{
	struct ends *ends = *state;
	struct ibv_mr *mr =
		rig.verbs.reg_mr_iova2(ends->a.pd, ends->a.memory, 8192, (uintptr_t)ends->a.memory,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_RELAXED_ORDERING);

	assert_non_null(mr);
	assert_int_equal(rig.verbs.dereg_mr(mr), 0);
}

static void test_dmabuf_is_there_or_says_that_it_is_not(void **state)
{
	struct ends *ends = *state;

	assert_null(rig.verbs.reg_dmabuf_mr(ends->a.pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, rig.traits->dmabuf ? EBADF : EOPNOTSUPP);
}

static void test_what_is_in_use_is_not_destroyed(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .timeout = 0 };

	end_make_qp(&ends->a, &terms);
	assert_int_equal(rig.verbs.destroy_cq(ends->a.cq), EBUSY);
	assert_int_equal(rig.verbs.dealloc_pd(ends->a.pd), EBUSY);
	assert_int_equal(rig.verbs.destroy_comp_channel(ends->a.channel), EBUSY);
}

int check_queries(void)
{
	const struct CMUnitTest queries[] = {
		CHECK(test_a_device_can_be_queried),
		CHECK(test_the_port_is_active),
		CHECK(test_there_is_no_asking_for_more_gids_than_fit),
		CHECK(test_three_ways_to_the_gids_agree),
		CHECK(test_a_gid_that_is_not_there_is_refused),
		CHECK(test_ece_is_there_or_says_that_it_is_not),
		CHECK(test_memory_that_cannot_be_pinned),
		CHECK(test_access_that_makes_no_sense),
		CHECK(test_relaxed_ordering_is_taken),
		CHECK(test_dmabuf_is_there_or_says_that_it_is_not),
		CHECK(test_what_is_in_use_is_not_destroyed),
	};

	return cmocka_run_group_tests(queries, NULL, NULL);
}
