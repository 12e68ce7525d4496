/* SPDX-License-Identifier: Apache-2.0 */
/* The loopback test of a port; see ib_loopback.h. */
#include "device/ib_loopback.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/os.h"
#include "base/pinned.h"
#include "device/ib_nic.h"
#include "device/ib_port.h"

#define BUFFER_BYTES ((size_t)4 << 20) /* like NCCL's buffers */
#define DEADLINE_MS  3000
#define POLL_MS      1
#define BUSY_POLLS   1000 /* polls before it sleeps between them */
#define ACK_TIMEOUT  14   /* 67 ms */
#define RETRIES      3    /* 7 means without end on soft-RoCE */
#define IMMEDIATE    0x616e796eu
#define COMPLETIONS  4 /* WRITE and SEND, each at the sending and the receiving side */

/* --- a queue pair to itself --- */

/* The port's own address. */
static struct ibv_ah_attr own_address(const struct ib_loop_port *port)
{
	bool roce = port->attr->link_layer == IBV_LINK_LAYER_ETHERNET;
	int sl = port->cfg->ib_sl, traffic_class = port->cfg->ib_tc;
	struct ibv_ah_attr address = {
		.dlid = port->attr->lid,
		.sl = (uint8_t)(sl >= 0 ? sl : 0),
		.port_num = port->number,
		.is_global = roce || port->attr->flags & IBV_QPF_GRH_REQUIRED,
	};

	if (address.is_global)
		address.grh = (struct ibv_global_route){
			.dgid = port->gid->raw,
			.sgid_index = (uint8_t)port->gid->index,
			.hop_limit = IB_HOP_LIMIT,
			.traffic_class = (uint8_t)(traffic_class >= 0 ? traffic_class : 0),
		};
	return address;
}

int ib_loop_connect(const struct ib_loop_port *port, struct ibv_qp *qp, char *why, size_t why_bytes)
{
	struct ib_path path = {
		.ah = own_address(port),
		.mtu = port->attr->active_mtu,
		.qpn = qp->qp_num,
		.pkey_index = (uint16_t)port->cfg->ib_pkey,
		.timeout = port->timeout,
		.retries = port->retries,
		.rnr_retries = RETRIES,
		.reads = port->reads,
	};
	const char *state = "INIT";
	char text[INET6_ADDRSTRLEN];
	int ret;

	if (os_random(&path.send_psn, sizeof(path.send_psn))) {
		snprintf(why, why_bytes, "no random numbers");
		return -EIO;
	}
	path.send_psn &= IB_PSN_MASK;
	path.recv_psn = path.send_psn;
	ret = verbs_to_init(port->verbs, qp, port->number, port->cfg->ib_pkey,
			    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!ret) {
		state = "RTR";
		ret = verbs_to_rtr(port->verbs, qp, &path, 0);
	}
	if (!ret) {
		state = "RTS";
		ret = verbs_to_rts(port->verbs, qp, &path);
	}
	if (!ret)
		return 0;
	snprintf(why, why_bytes, "cannot set a queue pair on GID %d (%s) to %s: %s",
		 port->gid->index, gid_text(&port->gid->raw, text), state, error_text(-ret));
	return -EIO;
}

/* --- the proof --- */

struct loopback {
	const struct verbs *verbs;
	struct ibv_context *context;
	char *why;
	size_t why_bytes;

	bool inlined;    /* the SEND is inline */
	bool inline_bad; /* the inline SEND has failed */
	uint32_t packet_bytes;
	uint8_t *memory; /* BUFFER_BYTES: source of the WRITE, its target, then the slot of the SEND */
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* wr_id */
enum {
	WRITE,
	SEND,
};

static int fail(struct loopback *loop, int ret, const char *fmt, ...) ANYNET_PRINTF(3, 4);

static int fail(struct loopback *loop, int ret, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(loop->why, loop->why_bytes, fmt, args);
	va_end(args);
	return ret;
}

/* Reports a failed allocation. The usual cause is RLIMIT_MEMLOCK. */
static int fail_making(struct loopback *loop, const char *what, int error)
{
	char memlock[32];

	/* EPERM: the limit is 0 */
	if (error != ENOMEM && error != EPERM)
		return fail(loop, -EIO, "cannot allocate %s: %s", what,
			    error ? error_text(error) : "no reason given");
	return fail(loop, -ENOMEM,
		    "cannot allocate %s: too little memory can be pinned: RLIMIT_MEMLOCK is %s; "
		    "raise it (ulimit -l unlimited; docker --ulimit memlock=-1)",
		    what, ib_memlock_text(memlock, sizeof(memlock)));
}

static int make(struct loopback *loop)
{
	const struct verbs *verbs = loop->verbs;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 2,
						  .max_recv_wr = 2,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data =
							  loop->inlined ? IB_COPY_BYTES : 0 } };

	loop->memory = pinned_alloc(BUFFER_BYTES);
	if (!loop->memory)
		return fail(loop, -ENOMEM, "out of memory");
	errno = 0;
	loop->pd = verbs->alloc_pd(loop->context);
	if (!loop->pd)
		return fail_making(loop, "a protection domain", errno);
	errno = 0;
	loop->mr = verbs->reg_mr(loop->pd, loop->memory, BUFFER_BYTES,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!loop->mr)
		return fail_making(loop, "4 MiB of registered memory", errno);
	errno = 0;
	loop->cq = verbs->create_cq(loop->context, COMPLETIONS, NULL, NULL, 0);
	if (!loop->cq)
		return fail_making(loop, "a completion queue", errno);
	init.send_cq = init.recv_cq = loop->cq;
	errno = 0;
	loop->qp = verbs->create_qp(loop->pd, &init);
	if (!loop->qp && loop->inlined && errno == EINVAL) {
		init.cap.max_inline_data = 0;
		loop->qp = verbs->create_qp(loop->pd, &init);
	}
	loop->inlined &= init.cap.max_inline_data >= IB_COPY_BYTES;
	return loop->qp ? 0 : fail_making(loop, "a queue pair", errno);
}

static void unmake(struct loopback *loop)
{
	if (loop->qp)
		loop->verbs->destroy_qp(loop->qp);
	if (loop->cq)
		loop->verbs->destroy_cq(loop->cq);
	if (loop->mr)
		loop->verbs->dereg_mr(loop->mr);
	if (loop->pd)
		loop->verbs->dealloc_pd(loop->pd);
	pinned_free(loop->memory, BUFFER_BYTES);
	loop->qp = NULL;
	loop->cq = NULL;
	loop->mr = NULL;
	loop->pd = NULL;
}

/* Posts one receive for the WRITE's immediate and one for the SEND. */
static int post_receives(const struct loopback *loop)
{
	struct ibv_sge sge = { .addr = (uintptr_t)(loop->memory + 2 * (size_t)loop->packet_bytes),
			       .length = IB_COPY_BYTES,
			       .lkey = loop->mr->lkey };
	struct ibv_recv_wr second = { .wr_id = SEND, .sg_list = &sge, .num_sge = 1 },
			   first = { .wr_id = WRITE, .next = &second }, *bad;

	return ibv_post_recv(loop->qp, &first, &bad);
}

/* Posts a WRITE of a full packet, as for data, and an inline SEND, as for control frames. Overwrites the source of the
 * SEND afterwards, because some drivers accept IBV_SEND_INLINE and do not copy. */
static int post(struct loopback *loop)
{
	uint8_t copied[IB_COPY_BYTES];
	struct ibv_sge sges[2] = {
		{ .addr = (uintptr_t)loop->memory,
		  .length = loop->packet_bytes,
		  .lkey = loop->mr->lkey },
		{ .addr = (uintptr_t)(loop->inlined ? copied : loop->memory),
		  .length = IB_COPY_BYTES,
		  .lkey = loop->inlined ? 0 : loop->mr->lkey },
	};
	struct ibv_send_wr send = { .wr_id = SEND,
				    .sg_list = &sges[1],
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED |
						  (loop->inlined ? IBV_SEND_INLINE : 0) };
	struct ibv_send_wr write = { .wr_id = WRITE,
				     .next = &send,
				     .sg_list = &sges[0],
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				     .send_flags = IBV_SEND_SIGNALED,
				     .imm_data = IMMEDIATE,
				     .wr.rdma = { .remote_addr = (uintptr_t)(loop->memory +
									     loop->packet_bytes),
						  .rkey = loop->mr->rkey } };
	struct ibv_send_wr *bad;
	int ret = post_receives(loop);

	for (uint32_t i = 0; i < loop->packet_bytes; i++)
		loop->memory[i] = (uint8_t)(i * 7 + 1);
	memset(loop->memory + loop->packet_bytes, 0, loop->packet_bytes + IB_COPY_BYTES);
	memcpy(copied, loop->memory, sizeof(copied));
	if (!ret)
		ret = ibv_post_send(loop->qp, &write, &bad);
	memset(copied, 0, sizeof(copied));
	if (!ret)
		return 0;
	return fail(loop, -EIO, "cannot post to a queue pair: %s", error_text(ret > 0 ? ret : errno));
}

static int check(struct loopback *loop, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS && wc->wr_id == SEND) {
		loop->inline_bad = loop->inlined;
		return fail(loop, -EIO, "the loopback SEND failed with status %d, vendor %#x",
			    wc->status, wc->vendor_err);
	}
	if (wc->status == IBV_WC_RETRY_EXC_ERR)
		return fail(loop, -EIO,
			    "the loopback RDMA WRITE got no answer: its packets are lost (status "
			    "%d, vendor %#x); if a virtual function's switch filters them, set "
			    "ANYNET_IB_LOOPBACK=0",
			    wc->status, wc->vendor_err);
	if (wc->status != IBV_WC_SUCCESS)
		return fail(loop, -EIO, "the loopback RDMA WRITE failed with status %d, vendor "
					"%#x",
			    wc->status, wc->vendor_err);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc->imm_data != IMMEDIATE)
		return fail(loop, -EBADMSG, "the loopback RDMA WRITE arrived with immediate %#x",
			    wc->imm_data);
	return 0;
}

static int await(struct loopback *loop)
{
	const struct timespec pause = { .tv_nsec = POLL_MS * 1000000 };
	uint64_t deadline = os_now_ms() + DEADLINE_MS;
	int seen = 0, polls = 0;

	while (seen < COMPLETIONS) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(loop->cq, 1, &wc);
		int ret = n > 0 ? check(loop, &wc) : 0;

		if (n < 0)
			return fail(loop, -EIO, "the completion queue cannot be polled");
		if (ret)
			return ret;
		seen += n;
		if (!n && os_now_ms() >= deadline)
			return fail(loop, -ETIMEDOUT,
				    "the loopback RDMA WRITE and SEND got %d of %d completions "
				    "in %d s",
				    seen, COMPLETIONS, DEADLINE_MS / 1000);
		if (!n && polls++ > BUSY_POLLS)
			nanosleep(&pause, NULL);
	}
	if (memcmp(loop->memory, loop->memory + loop->packet_bytes, loop->packet_bytes) != 0)
		return fail(loop, -EBADMSG, "the loopback RDMA WRITE delivered wrong data");
	if (memcmp(loop->memory, loop->memory + 2 * (size_t)loop->packet_bytes, IB_COPY_BYTES) !=
	    0) {
		loop->inline_bad = loop->inlined;
		return fail(loop, -EBADMSG, "the loopback SEND delivered wrong data");
	}
	return 0;
}

static int try(struct loopback *loop, const struct ib_loop_port *port)
{
	int ret = make(loop);

	if (!ret)
		ret = ib_loop_connect(port, loop->qp, loop->why, loop->why_bytes);
	if (!ret)
		ret = post(loop);
	if (!ret)
		ret = await(loop);
	unmake(loop);
	return ret;
}

int ib_loopback(const struct anynet_config *cfg, const struct verbs_port *port,
		struct ib_port *state, char *why, size_t why_bytes)
{
	const struct ib_loop_port itself = { .cfg = cfg,
					     .verbs = port->verbs,
					     .number = port->number,
					     .attr = &state->attr,
					     .gid = &state->gid,
					     .timeout = ACK_TIMEOUT,
					     .retries = RETRIES,
					     .reads = 1 };
	struct loopback loop = { .verbs = port->verbs,
				 .context = port->context,
				 .why = why,
				 .why_bytes = why_bytes,
				 .inlined = true,
				 .packet_bytes = (uint32_t)ib_port_mtu(&state->attr) };
	int ret = try(&loop, &itself);

	if (loop.inline_bad) {
		loop.inlined = loop.inline_bad = false;
		ret = try(&loop, &itself);
	}
	state->takes_inline = loop.inlined;
	return ret;
}
