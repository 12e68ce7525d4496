/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that a link carries what it is for. That its queue pair stands proves nothing: a switch may lose
 * every packet of full size (RoCE, whose MTU is the ports' own word), a filter or an adapter may refuse WRITEs.
 * So the connector writes a packet of full size to the acceptor's slots, which nothing else uses yet, reads it
 * back, compares, and sends a PING, the first frame, by which the acceptor knows that the link is in use.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "path/ib/ib_link.h"

static uint8_t pattern_at(const struct ib_link *link, uint32_t i)
{
	return (uint8_t)((link->psn + i * 2654435761u) >> 13);
}

static int post(struct ib_link *link, enum ibv_wr_opcode opcode)
{
	const struct anynet_wire_qp *peer = &link->peer;
	struct ibv_sge sge = {
		.addr = (uintptr_t)link->proof,
		.length = link->packet_bytes,
		.lkey = link->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		/* The PING comes into one of the first slots. */
		.wr.rdma = { .remote_addr = peer->addr + (uint64_t)peer->slots * peer->slot_bytes -
					    link->packet_bytes,
			     .rkey = peer->rkey },
	};

	return ib_link_post(link, &wr, &wr, 1, 0);
}

int ib_link_ping(struct ib_link *link)
{
	struct anynet_wire_frame frame = { .type = ANYNET_FRAME_PING };

	return ib_link_say(link, &frame, sizeof(frame), true);
}

int ib_link_begin_proof(struct ib_link *link)
{
	for (uint32_t i = 0; i < link->packet_bytes; i++)
		link->proof[i] = pattern_at(link, i);
	link->proving = IB_PROOF_WRITE;
	return post(link, IBV_WR_RDMA_WRITE);
}

static bool is_as_written(const struct ib_link *link)
{
	for (uint32_t i = 0; i < link->packet_bytes; i++)
		if (link->proof[i] != pattern_at(link, i))
			return false;
	return true;
}

/* One step has been done. 0 or -errno. */
static int go_on(struct ib_link *link)
{
	switch (link->proving) {
	case IB_PROOF_WRITE:
		memset(link->proof, 0, link->packet_bytes);
		link->proving = IB_PROOF_READ;
		return post(link, IBV_WR_RDMA_READ);
	case IB_PROOF_READ:
		if (!is_as_written(link))
			return -EBADMSG;
		link->proving = IB_PROOF_SEND;
		return ib_link_ping(link);
	case IB_PROOF_SEND:
		link->state = IB_LINK_UP;
	}
	return 0;
}

static uint32_t step_bytes(const struct ib_link *link)
{
	return link->proving == IB_PROOF_SEND ? (uint32_t)sizeof(struct anynet_wire_frame)
					      : link->packet_bytes;
}

static const char *step_text(const struct ib_link *link)
{
	return link->proving == IB_PROOF_WRITE  ? "a WRITE"
	       : link->proving == IB_PROOF_READ ? "a READ"
						: "a SEND";
}

void ib_link_unproven(const struct ib_link *link, int err, char *why, size_t why_bytes)
{
	char completion[64] = "";

	if (link->status)
		snprintf(completion, sizeof(completion), " (status %u, vendor %#x)", link->status,
			 link->vendor);
	if (err == -EBADMSG)
		snprintf(why, why_bytes, "a READ returns other data than was written");
	else if (err == -EAGAIN || err == -ETIMEDOUT)
		snprintf(why, why_bytes,
			 "packets of %u bytes do not get through: no answer to %s%s",
			 step_bytes(link), step_text(link), completion);
	else
		snprintf(why, why_bytes, "%s of %u bytes fails: %s%s", step_text(link),
			 step_bytes(link), error_text(-err), completion);
}

int ib_link_prove(struct ib_link *link)
{
	int ret = ib_link_poll(link, NULL);

	while (!ret && link->state == IB_LINK_JOINED && link->wrs_done == link->wrs_posted) {
		ret = go_on(link);
		if (!ret)
			ret = ib_link_poll(link, NULL);
	}
	return ret ? ret : link->state == IB_LINK_UP ? 0 : -EAGAIN;
}
