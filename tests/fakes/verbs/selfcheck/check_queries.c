/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of devices, and the memory that can be registered. */
#include "rig.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define TABLE 64

static void a_device_can_be_queried(void)
{
	struct ibv_device_attr attr;

	memset(&attr, 0, sizeof(attr));
	check_ok(rig.verbs.query_device(rig.a.context, &attr));
	check(attr.phys_port_cnt >= 1);
	check(attr.max_qp > 0 && attr.max_qp_wr >= WR_MAX && attr.max_sge >= 4);
	check(attr.max_cqe >= CQ_SIZE && attr.max_qp_rd_atom > 0);
	check_ok(rig.verbs.fork_init()); /* as rig_open does in time */
}

static void the_port_is_active(void)
{
	struct ibv_port_attr *port = &rig.a.port;

	check_int(port->state, IBV_PORT_ACTIVE);
	check_int(port->link_layer, IBV_LINK_LAYER_ETHERNET);
	check(port->active_mtu >= IBV_MTU_256 && port->active_mtu <= IBV_MTU_4096);
	check(port->gid_tbl_len > rig.a.gid_index);
	check(port->active_width && port->active_speed);
	check(rig.verbs.query_port(rig.a.context, 77, port));
}

static void there_is_no_asking_for_more_gids_than_fit(void)
{
	size_t most = UINT16_MAX / sizeof(struct ibv_gid_entry);
	struct ibv_gid_entry *table = calloc(most + 1, sizeof(*table));

	check(table);
	check(rig.verbs.query_gid_table(rig.a.context, table, most, 0, sizeof(*table)) > 0);
	check(rig.verbs.query_gid_table(rig.a.context, table, most + 1, 0, sizeof(*table)) < 0);
	free(table);
}

static void three_ways_to_the_gids_agree(void)
{
	struct ibv_gid_entry table[TABLE], entry;
	union ibv_gid gid;
	ssize_t count;
	bool found = false;

	count = rig.verbs.query_gid_table(rig.a.context, table, TABLE, 0, sizeof(entry));
	check(count >= 1 && count <= TABLE);
	for (ssize_t i = 0; i < count; i++) {
		check_ok(rig.besides.query_gid_ex(rig.a.context, table[i].port_num,
						  table[i].gid_index, &entry, 0, sizeof(entry)));
		check(!memcmp(&entry.gid, &table[i].gid, sizeof(gid)));
		check_int(entry.gid_type, table[i].gid_type);
		check_int(entry.ndev_ifindex, table[i].ndev_ifindex);
		check(entry.ndev_ifindex);
		check_ok(rig.verbs.query_gid(rig.a.context, (uint8_t)table[i].port_num,
					     (int)table[i].gid_index, &gid));
		check(!memcmp(&gid, &table[i].gid, sizeof(gid)));
		found |= (int)entry.gid_index == rig.a.gid_index;
	}
	check(found);
}

static void a_gid_that_is_not_there_is_refused(void)
{
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	int beyond = rig.a.port.gid_tbl_len;

	check(rig.besides.query_gid_ex(rig.a.context, 1, (uint32_t)beyond, &entry, 0,
				       sizeof(entry)));
	check_int(rig.besides.query_gid_ex(rig.a.context, 1, (uint32_t)beyond - 1, &entry, 0,
					   sizeof(entry)),
		  ENODATA);
	check(rig.verbs.query_gid(rig.a.context, 1, beyond, &gid));
}

static void ece_is_there_or_says_that_it_is_not(void)
{
	struct ibv_ece ece = { .comp_mask = 0 };
	int wanted = rig.traits->ece ? 0 : EOPNOTSUPP;

	end_make_qp(&rig.a, &usual);
	check_int(rig.verbs.query_ece(rig.a.qp, &ece), wanted);
	check_int(rig.verbs.set_ece(rig.a.qp, &ece), wanted);
}

static void refused(struct ibv_mr *mr, int error)
{
	check(!mr);
	if (error)
		check_int(errno, error);
	else
		check(errno == ENOMEM || errno == EFAULT || errno == EINVAL);
}

static void memory_that_cannot_be_pinned(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	check(memory != MAP_FAILED);
	refused(rig.verbs.reg_mr(rig.a.pd, memory, page, IBV_ACCESS_LOCAL_WRITE), 0);
	mr = rig.verbs.reg_mr(rig.a.pd, memory, page, 0);
	check(mr);
	check_ok(rig.verbs.dereg_mr(mr));
	munmap(memory, 2 * page);
	refused(rig.verbs.reg_mr(rig.a.pd, memory, page, IBV_ACCESS_LOCAL_WRITE), 0);
}

static void access_that_makes_no_sense(void)
{
	refused(rig.verbs.reg_mr(rig.a.pd, rig.a.memory, 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
}

static void relaxed_ordering_is_taken(void)
{
	struct ibv_mr *mr =
		rig.verbs.reg_mr_iova2(rig.a.pd, rig.a.memory, 8192, (uintptr_t)rig.a.memory,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_RELAXED_ORDERING);

	check(mr);
	check_ok(rig.verbs.dereg_mr(mr));
}

static void dmabuf_is_there_or_says_that_it_is_not(void)
{
	check(!rig.verbs.reg_dmabuf_mr(rig.a.pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	check_int(errno, rig.traits->dmabuf ? EBADF : EOPNOTSUPP);
}

static void what_is_in_use_is_not_destroyed(void)
{
	end_make_qp(&rig.a, &usual);
	check_int(rig.verbs.destroy_cq(rig.a.cq), EBUSY);
	check_int(rig.verbs.dealloc_pd(rig.a.pd), EBUSY);
	check_int(rig.besides.destroy_comp_channel(rig.a.channel), EBUSY);
}

const struct selfcheck queries_checks[] = {
	{ CHECK(a_device_can_be_queried), .setting = OPEN },
	{ CHECK(the_port_is_active), .setting = OPEN },
	{ CHECK(there_is_no_asking_for_more_gids_than_fit), .setting = OPEN },
	{ CHECK(three_ways_to_the_gids_agree), .setting = OPEN },
	{ CHECK(a_gid_that_is_not_there_is_refused), .setting = OPEN },
	{ CHECK(ece_is_there_or_says_that_it_is_not), .setting = OPEN },
	{ CHECK(memory_that_cannot_be_pinned), .setting = OPEN },
	{ CHECK(access_that_makes_no_sense), .setting = OPEN },
	{ CHECK(relaxed_ordering_is_taken), .setting = OPEN },
	{ CHECK(dmabuf_is_there_or_says_that_it_is_not), .setting = OPEN },
	{ CHECK(what_is_in_use_is_not_destroyed), .setting = OPEN },
	{ 0 },
};
