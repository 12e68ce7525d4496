/* SPDX-License-Identifier: Apache-2.0 */
/* See rig.h. */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define END_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define TIMEOUT    14 /* 67 ms, four of them: errors come in 0.3 s where times are real */
#define RETRIES    3
#define RNR        7

struct rig rig;

const struct terms usual;

const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

struct ibv_context *device_open(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int count = 0;

	list = rig.verbs.get_device_list(&count);
	check(list);
	for (int i = 0; i < count; i++)
		if (!strcmp(rig.verbs.get_device_name(list[i]), name))
			context = rig.verbs.open_device(list[i]);
	rig.verbs.free_device_list(list);
	return context;
}

/* The IPv4 GID as RoCE v2. */
static void find_gid(struct end *end)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;

	for (int i = 0; i < end->port.gid_tbl_len && i < 64; i++) {
		if (rig.besides.query_gid_ex(end->context, 1, (uint32_t)i, &entry, 0,
					     sizeof(entry)) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, mapped, sizeof(mapped)))
			continue;
		end->gid = entry.gid;
		end->gid_index = i;
		return;
	}
	check_that(false, "there is no GID for RoCE v2 with an IPv4 address");
}

void end_open(struct end *end, const char *device)
{
	*end = (struct end){ .context = device_open(device) };
	check_that(end->context, "%s cannot be opened: %s", device, strerror(errno));
	check_ok(rig.verbs.query_port(end->context, 1, &end->port));
	find_gid(end);
	end->pd = rig.verbs.alloc_pd(end->context);
	check(end->pd);
	end->channel = rig.besides.create_comp_channel(end->context);
	check(end->channel);
	end->cq = rig.verbs.create_cq(end->context, CQ_SIZE, end, end->channel, 0);
	check(end->cq);
	end->memory =
		mmap(NULL, END_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(end->memory != MAP_FAILED);
	end->mr = rig.verbs.reg_mr(end->pd, end->memory, END_BYTES, END_ACCESS);
	check_that(end->mr, "memory cannot be registered: %s", strerror(errno));
}

void end_close(struct end *end)
{
	end_drop_qp(end);
	check_ok(rig.verbs.dereg_mr(end->mr));
	munmap(end->memory, END_BYTES);
	check_ok(rig.verbs.destroy_cq(end->cq));
	check_ok(rig.besides.destroy_comp_channel(end->channel));
	check_ok(rig.verbs.dealloc_pd(end->pd));
	check_ok(rig.verbs.close_device(end->context));
}

void ends_open(void)
{
	end_open(&rig.a, rig.devices[0]);
	end_open(&rig.b, rig.devices[1]);
}

void ends_close(void)
{
	end_close(&rig.a);
	end_close(&rig.b);
}

int qp_to_init(struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = access };

	return rig.verbs.modify_qp(qp, &attr, init_mask);
}

struct ibv_qp_attr qp_attr(const struct end *end, const struct address_card *peer,
			   const struct terms *terms)
{
	return (struct ibv_qp_attr){
		.port_num = 1,
		.qp_access_flags = terms->access ? terms->access : END_ACCESS,
		.path_mtu = end->port.active_mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = terms->psn_expected,
		.sq_psn = terms->psn_there,
		.max_dest_rd_atomic = (uint8_t)(terms->reads ? terms->reads : 1),
		.max_rd_atomic = (uint8_t)(terms->reads ? terms->reads : 1),
		.min_rnr_timer = 12,
		.timeout = (uint8_t)(terms->timeout ? terms->timeout : TIMEOUT),
		.retry_cnt = (uint8_t)(terms->retries ? terms->retries : RETRIES),
		.rnr_retry = (uint8_t)(terms->rnr_retries ? terms->rnr_retries - 1 : RNR),
		.ah_attr = { .is_global = end->port.link_layer == IBV_LINK_LAYER_ETHERNET ||
					  peer->other_subnet,
			     .dlid = (uint16_t)peer->lid,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid,
				      .sgid_index = (uint8_t)end->gid_index,
				      .hop_limit = 64 } },
	};
}

int qp_to_rtr(const struct end *end, const struct address_card *peer, const struct terms *terms)
{
	struct ibv_qp_attr attr = qp_attr(end, peer, terms);

	attr.qp_state = IBV_QPS_RTR;
	return rig.verbs.modify_qp(end->qp, &attr, rtr_mask);
}

int qp_to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return rig.verbs.modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state qp_state(const struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check_ok(rig.verbs.query_qp(end->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

void end_new_qp(struct end *end, const struct terms *terms)
{
	uint32_t sends = terms->sends ? terms->sends : WR_MAX;
	struct ibv_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = { .max_send_wr = sends,
			 .max_recv_wr = WR_MAX,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = terms->inline_bytes },
		.qp_type = IBV_QPT_RC,
	};

	end->qp = rig.verbs.create_qp(end->pd, &attr);
	check_that(end->qp, "no queue pair: %s", strerror(errno));
	check(attr.cap.max_send_wr >= sends);
	check(attr.cap.max_inline_data >= terms->inline_bytes);
	check_int(end->qp->state, IBV_QPS_RESET);
}

void end_make_qp(struct end *end, const struct terms *terms)
{
	end_new_qp(end, terms);
	check_ok(qp_to_init(end->qp, terms->access ? terms->access : END_ACCESS));
}

void end_drop_qp(struct end *end)
{
	struct ibv_wc wc;

	if (end->qp)
		check_ok(rig.verbs.destroy_qp(end->qp));
	end->qp = NULL;
	while (ibv_poll_cq(end->cq, 1, &wc) > 0)
		;
}

struct address_card end_card(const struct end *end)
{
	return (struct address_card){ .gid = end->gid,
				      .qpn = end->qp->qp_num,
				      .lid = end->port.lid,
				      .rkey = end->mr->rkey,
				      .addr = (uintptr_t)end->memory };
}

void end_connect(const struct end *end, struct address_card peer, const struct terms *terms)
{
	struct ibv_qp_attr attr = qp_attr(end, &peer, terms);

	check_ok(qp_to_rtr(end, &peer, terms));
	attr.qp_state = IBV_QPS_RTS;
	check_ok(rig.verbs.modify_qp(end->qp, &attr, rts_mask));
}

void ends_connect(const struct terms *terms)
{
	end_make_qp(&rig.a, terms);
	end_make_qp(&rig.b, terms);
	end_connect(&rig.a, end_card(&rig.b), terms);
	end_connect(&rig.b, end_card(&rig.a), terms);
}

void ends_drop(void)
{
	end_drop_qp(&rig.a);
	end_drop_qp(&rig.b);
}

int end_post(const struct end *end, const struct op *op)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->memory + op->offset,
			       .length = op->bytes,
			       .lkey = op->lkey ? op->lkey : end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = op->opcode,
				  .sg_list = &sge,
				  .num_sge = op->bytes > 0,
				  .opcode = op->opcode,
				  .imm_data = htonl(op->imm) },
			   *bad;

	wr.send_flags = (op->quiet ? 0 : IBV_SEND_SIGNALED) |
			(op->is_inline ? IBV_SEND_INLINE : 0) |
			(op->solicited ? IBV_SEND_SOLICITED : 0);
	wr.wr.rdma.remote_addr = op->remote;
	wr.wr.rdma.rkey = op->rkey;
	return ibv_post_send(end->qp, &wr, &bad);
}

int end_recv(const struct end *end, size_t offset, uint32_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->memory + offset,
			       .length = bytes,
			       .lkey = end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = bytes > 0 }, *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

void end_posts(const struct end *end, const struct op *op, int count)
{
	while (count--)
		check_ok(end_post(end, op));
}

void end_recvs(const struct end *end, uint32_t bytes, int count)
{
	while (count--)
		check_ok(end_recv(end, 0, bytes));
}

struct op op_write(const struct end *to, size_t offset, size_t to_offset, uint32_t bytes)
{
	return (struct op){ .opcode = IBV_WR_RDMA_WRITE,
			    .offset = offset,
			    .bytes = bytes,
			    .rkey = to->mr->rkey,
			    .remote = (uintptr_t)to->memory + to_offset };
}

double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void turn(const struct deadline *deadline)
{
	deadline_turn(deadline);
	usleep(1000);
}

void qp_await(const struct end *end, enum ibv_qp_state state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a queue pair's state");

	while (qp_state(end) != state)
		turn(&deadline);
}

struct ibv_wc end_wait(struct end *end, enum ibv_wc_status status)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a completion");
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(end->cq, 1, &wc)))
		turn(&deadline);
	check_int(count, 1);
	check_int(wc.status, status);
	return wc;
}

void end_wait_opcode(struct end *end, enum ibv_wc_opcode opcode)
{
	check_int(end_wait(end, IBV_WC_SUCCESS).opcode, opcode);
}

void end_waits(struct end *end, enum ibv_wc_opcode opcode, int count)
{
	while (count--)
		end_wait_opcode(end, opcode);
}

void end_do(struct end *end, const struct op *op)
{
	enum ibv_wc_opcode done = IBV_WC_RDMA_WRITE;

	if (op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM)
		done = IBV_WC_SEND;
	else if (op->opcode == IBV_WR_RDMA_READ)
		done = IBV_WC_RDMA_READ;
	check_ok(end_post(end, op));
	end_wait_opcode(end, done);
}

void end_fails(struct end *end, const struct op *op, enum ibv_wc_status status)
{
	check_ok(end_post(end, op));
	end_wait(end, status);
}

bool end_is_quiet(struct end *end, int ms)
{
	struct deadline deadline = deadline_in(ms, "nothing");
	struct ibv_wc wc;

	do {
		if (ibv_poll_cq(end->cq, 1, &wc))
			return false;
		usleep(1000);
	} while (!deadline_passed(&deadline));
	return true;
}

bool is_readable(int fd, int ms)
{
	struct deadline deadline = deadline_in(ms, "a descriptor to become readable");
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	while (poll(&poll_fd, 1, deadline_left_ms(&deadline)) != 1)
		if (deadline_passed(&deadline))
			return false;
	return true;
}

void end_wait_event(struct end *end, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do {
		check_that(is_readable(end->context->async_fd, TEST_PATIENCE_MS),
			   "no event, where %d was expected", (int)type);
		check_ok(rig.verbs.get_async_event(end->context, &event));
		rig.verbs.ack_async_event(&event);
	} while (event.event_type != type);
}

bool end_has_event(struct end *end)
{
	return is_readable(end->context->async_fd, 0);
}

void fill(char *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (char)(i * 7 + i / 251 + seed);
}

void order(const char *script)
{
	check_ok(rig.control.script(script));
}

struct fake_verbs_counts counts_now(void)
{
	struct fake_verbs_counts counts;

	rig.control.counts(&counts);
	return counts;
}

void expect_nothing_open(void)
{
	struct fake_verbs_counts counts;

	if (!rig.traits->fake)
		return;
	counts = counts_now();
	check_int(counts.lists + counts.contexts + counts.pds + counts.mrs + counts.channels +
			  counts.cqs + counts.qps + counts.cm_ids,
		  0);
	check_int(counts.bytes_pinned, 0);
}
