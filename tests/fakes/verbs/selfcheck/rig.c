/* SPDX-License-Identifier: Apache-2.0 */
/* See rig.h. */
#include "rig.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#define END_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define TIMEOUT    14 /* 67 ms, four of them: errors come in 0.3 s where times are real */
#define RETRIES    3
#define RNR        7

struct rig rig;

struct symbol {
	const char *name, *version;
	size_t offset;
};

#define SYMBOL(name, version)                                             \
	{                                                                 \
		"ibv_" #name, version, offsetof(struct verbs_table, name) \
	}

static const struct symbol symbols[] = {
	SYMBOL(get_device_list, "IBVERBS_1.1"),
	SYMBOL(free_device_list, "IBVERBS_1.1"),
	SYMBOL(get_device_name, "IBVERBS_1.1"),
	SYMBOL(open_device, "IBVERBS_1.1"),
	SYMBOL(close_device, "IBVERBS_1.1"),
	SYMBOL(query_device, "IBVERBS_1.1"),
	SYMBOL(query_port, "IBVERBS_1.1"),
	SYMBOL(query_gid, "IBVERBS_1.1"),
	SYMBOL(alloc_pd, "IBVERBS_1.1"),
	SYMBOL(dealloc_pd, "IBVERBS_1.1"),
	SYMBOL(reg_mr, "IBVERBS_1.1"),
	SYMBOL(dereg_mr, "IBVERBS_1.1"),
	SYMBOL(create_comp_channel, "IBVERBS_1.0"),
	SYMBOL(destroy_comp_channel, "IBVERBS_1.0"),
	SYMBOL(create_cq, "IBVERBS_1.1"),
	SYMBOL(destroy_cq, "IBVERBS_1.1"),
	SYMBOL(get_cq_event, "IBVERBS_1.1"),
	SYMBOL(ack_cq_events, "IBVERBS_1.1"),
	SYMBOL(create_qp, "IBVERBS_1.1"),
	SYMBOL(modify_qp, "IBVERBS_1.1"),
	SYMBOL(query_qp, "IBVERBS_1.1"),
	SYMBOL(destroy_qp, "IBVERBS_1.1"),
	SYMBOL(get_async_event, "IBVERBS_1.1"),
	SYMBOL(ack_async_event, "IBVERBS_1.1"),
	SYMBOL(event_type_str, "IBVERBS_1.1"),
	SYMBOL(fork_init, "IBVERBS_1.1"),
	SYMBOL(reg_mr_iova2, "IBVERBS_1.8"),
	SYMBOL(query_ece, "IBVERBS_1.10"),
	SYMBOL(set_ece, "IBVERBS_1.10"),
	{ "_ibv_query_gid_ex", "IBVERBS_1.11", offsetof(struct verbs_table, query_gid_ex) },
	{ "_ibv_query_gid_table", "IBVERBS_1.11", offsetof(struct verbs_table, query_gid_table) },
	SYMBOL(reg_dmabuf_mr, "IBVERBS_1.12"),
};

static const struct {
	const char *name;
	size_t offset;
} controls[] = {
	{ "fake_verbs_script", offsetof(struct control, script) },
	{ "fake_verbs_reset", offsetof(struct control, reset) },
	{ "fake_verbs_counts", offsetof(struct control, counts) },
	{ "fake_verbs_tell", offsetof(struct control, tell) },
	{ "fake_verbs_ask", offsetof(struct control, ask) },
};

static void keep(void *table, size_t offset, void *address, const char *name)
{
	if (!address) {
		fprintf(stderr, "%s lacks %s\n", rig.library, name);
		exit(1);
	}
	memcpy((char *)table + offset, &address, sizeof(address));
}

void rig_open(const char *library, const struct traits *traits)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	rig.library = library;
	rig.traits = traits;
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		keep(&rig.verbs, symbols[i].offset,
		     dlvsym(handle, symbols[i].name, symbols[i].version), symbols[i].name);
	for (size_t i = 0; traits->fake && i < sizeof(controls) / sizeof(*controls); i++)
		keep(&rig.control, controls[i].offset, dlsym(handle, controls[i].name),
		     controls[i].name);
	if (rig.verbs.fork_init()) {
		fprintf(stderr, "%s: fork_init fails\n", library);
		exit(1);
	}
}

struct ibv_context *device_open(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int count = 0;

	list = rig.verbs.get_device_list(&count);
	assert_non_null(list);
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
		if (rig.verbs.query_gid_ex(end->context, 1, (uint32_t)i, &entry, 0,
					   sizeof(entry)) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, mapped, sizeof(mapped)))
			continue;
		end->gid = entry.gid;
		end->gid_index = i;
		return;
	}
	fail_msg("there is no GID for RoCE v2 with an IPv4 address");
}

void end_open(struct end *end, const char *device)
{
	*end = (struct end){ .context = device_open(device) };
	if (!end->context)
		fail_msg("%s cannot be opened: %s", device, strerror(errno));
	assert_int_equal(rig.verbs.query_port(end->context, 1, &end->port), 0);
	find_gid(end);
	end->pd = rig.verbs.alloc_pd(end->context);
	assert_non_null(end->pd);
	end->channel = rig.verbs.create_comp_channel(end->context);
	assert_non_null(end->channel);
	end->cq = rig.verbs.create_cq(end->context, CQ_SIZE, end, end->channel, 0);
	assert_non_null(end->cq);
	end->memory =
		mmap(NULL, END_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(end->memory, MAP_FAILED);
	end->mr = rig.verbs.reg_mr(end->pd, end->memory, END_BYTES, END_ACCESS);
	if (!end->mr)
		fail_msg("memory cannot be registered: %s", strerror(errno));
}

void end_close(struct end *end)
{
	end_drop_qp(end);
	assert_int_equal(rig.verbs.dereg_mr(end->mr), 0);
	munmap(end->memory, END_BYTES);
	assert_int_equal(rig.verbs.destroy_cq(end->cq), 0);
	assert_int_equal(rig.verbs.destroy_comp_channel(end->channel), 0);
	assert_int_equal(rig.verbs.dealloc_pd(end->pd), 0);
	assert_int_equal(rig.verbs.close_device(end->context), 0);
}

int ends_setup(void **state)
{
	struct ends *ends = calloc(1, sizeof(*ends));

	assert_non_null(ends);
	end_open(&ends->a, rig.devices[0]);
	end_open(&ends->b, rig.devices[1]);
	*state = ends;
	return 0;
}

int ends_teardown(void **state)
{
	struct ends *ends = *state;

	end_close(&ends->a);
	end_close(&ends->b);
	free(ends);
	expect_nothing_open();
	return 0;
}

int qp_to_init(struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = access };

	return rig.verbs.modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS);
}

int qp_to_rtr(const struct end *end, const struct address_card *peer, const struct terms *terms)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->port.active_mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = terms->psn_expected,
		.max_dest_rd_atomic = (uint8_t)(terms->reads ? terms->reads : 1),
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = end->port.link_layer == IBV_LINK_LAYER_ETHERNET ||
					  peer->other_subnet,
			     .dlid = (uint16_t)peer->lid,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid,
				      .sgid_index = (uint8_t)end->gid_index,
				      .hop_limit = 64 } },
	};

	return rig.verbs.modify_qp(end->qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER);
}

int qp_to_rts(const struct end *end, const struct terms *terms)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)(terms->timeout ? terms->timeout : TIMEOUT),
		.retry_cnt = (uint8_t)(terms->retries ? terms->retries : RETRIES),
		.rnr_retry = (uint8_t)(terms->rnr_retries ? terms->rnr_retries - 1 : RNR),
		.sq_psn = terms->psn_there,
		.max_rd_atomic = (uint8_t)(terms->reads ? terms->reads : 1),
	};

	return rig.verbs.modify_qp(end->qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
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

	assert_int_equal(rig.verbs.query_qp(end->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void end_make_qp(struct end *end, const struct terms *terms)
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
	if (!end->qp)
		fail_msg("no queue pair: %s", strerror(errno));
	assert_true(attr.cap.max_send_wr >= sends);
	assert_true(attr.cap.max_inline_data >= terms->inline_bytes);
	assert_int_equal(qp_to_init(end->qp, terms->access ? terms->access : END_ACCESS), 0);
}

void end_drop_qp(struct end *end)
{
	struct ibv_wc wc;

	if (end->qp)
		assert_int_equal(rig.verbs.destroy_qp(end->qp), 0);
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

void end_connect(struct end *end, const struct address_card *peer, const struct terms *terms)
{
	int ret = qp_to_rtr(end, peer, terms);

	if (ret)
		fail_msg("to RTR: %s", strerror(ret));
	ret = qp_to_rts(end, terms);
	if (ret)
		fail_msg("to RTS: %s", strerror(ret));
}

void pair_connect(struct end *a, struct end *b, const struct terms *terms)
{
	static const struct terms usual;
	struct address_card card;

	if (!terms)
		terms = &usual;
	end_make_qp(a, terms);
	end_make_qp(b, terms);
	card = end_card(b);
	end_connect(a, &card, terms);
	card = end_card(a);
	end_connect(b, &card, terms);
}

void pair_drop(struct end *a, struct end *b)
{
	end_drop_qp(a);
	end_drop_qp(b);
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

static void pause_ms(long ms)
{
	struct timespec time = { .tv_nsec = ms * 1000000 };

	nanosleep(&time, NULL);
}

void qp_await(const struct end *end, enum ibv_qp_state state)
{
	double until = seconds() + PATIENCE;

	while (qp_state(end) != state) {
		if (seconds() > until)
			fail_msg("state %d, where %d was expected", (int)qp_state(end), (int)state);
		pause_ms(1);
	}
}

struct ibv_wc end_wait(struct end *end, enum ibv_wc_status status)
{
	double until = seconds() + PATIENCE;
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(end->cq, 1, &wc))) {
		if (seconds() > until)
			fail_msg("no completion, where status %d was expected", (int)status);
		pause_ms(1);
	}
	assert_int_equal(count, 1);
	assert_int_equal(wc.status, status);
	return wc;
}

void end_wait_opcode(struct end *end, enum ibv_wc_opcode opcode)
{
	assert_int_equal(end_wait(end, IBV_WC_SUCCESS).opcode, opcode);
}

bool end_is_quiet(struct end *end, int ms)
{
	double until = seconds() + ms * 1e-3;
	struct ibv_wc wc;

	do {
		if (ibv_poll_cq(end->cq, 1, &wc))
			return false;
		pause_ms(1);
	} while (seconds() < until);
	return true;
}

void end_wait_event(struct end *end, enum ibv_event_type type)
{
	struct pollfd fd = { .fd = end->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	do {
		if (poll(&fd, 1, PATIENCE * 1000) != 1)
			fail_msg("no event, where '%s' was expected",
				 rig.verbs.event_type_str(type));
		assert_int_equal(rig.verbs.get_async_event(end->context, &event), 0);
		rig.verbs.ack_async_event(&event);
	} while (event.event_type != type);
}

bool end_has_event(struct end *end)
{
	struct pollfd fd = { .fd = end->context->async_fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

void fill(char *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (char)(i * 7 + i / 251 + seed);
}

void order(const char *script)
{
	assert_int_equal(rig.control.script(script), 0);
}

void expect_nothing_open(void)
{
	struct fake_verbs_counts counts;

	if (!rig.traits->fake)
		return;
	rig.control.counts(&counts);
	assert_int_equal(counts.lists + counts.contexts + counts.pds + counts.mrs +
				 counts.channels + counts.cqs + counts.qps + counts.cm_ids,
			 0);
	assert_int_equal(counts.bytes_pinned, 0);
}
