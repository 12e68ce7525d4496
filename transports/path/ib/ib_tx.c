/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending side of a linked rail. A frame is one SEND into a slot of the peer's; the payload of a
 * large message goes before it by RDMA WRITE, to where the peer's grant says. A message of one frame
 * needs no SEND: the WRITE carries slot and size as its immediate value; with one rail only, as which message
 * it is of follows from the order.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/log.h>

#include "message/send_internal.h"
#include "path/ib/ib_rail.h"

#define HEADER_BYTES sizeof(struct anynet_wire_frame)

static size_t bytes_of(const struct frame_id *id)
{
	return HEADER_BYTES + id->length;
}

void ib_confirm(struct ib_rail *rail, uint64_t end)
{
	struct send_comm *comm = (struct send_comm *)rail->tcp.base.comm;

	if (rail->arrived < rail->tcp.log_first)
		rail->arrived = rail->tcp.log_first;
	for (; rail->arrived < end && rail->arrived < rail->tcp.tx_next; rail->arrived++) {
		const struct frame_id *id = &tcp_log_at(&rail->tcp, rail->arrived)->id;

		rail->bytes_out -= bytes_of(id);
		send_arrived(comm, id);
	}
}

/* NULL: not there, or not in full. */
static const struct anynet_wire_grant *ring_grant(const struct ib_link *link,
						  const struct send_msg *msg)
{
	const struct anynet_wire_grant *grant =
		&link->cts_ring->grants[msg->seq % ANYNET_CTS_RING_GRANTS];
	struct anynet_wire_grant now;

	if (__atomic_load_n(&grant->mark, __ATOMIC_ACQUIRE) != msg->seq + 1)
		return NULL;
	memcpy(&now, grant, sizeof(now));
	/* Zeroes would pass the check with number 0: on a young link that is a grant that has only begun. */
	return now.addr && now.check == ib_grant_check(&now) && now.tag == msg->tag ? grant : NULL;
}

const struct anynet_wire_grant *ib_find_grant(const struct ib_rail *rail,
					      const struct send_msg *msg)
{
	const struct send_comm *comm = (const struct send_comm *)rail->tcp.base.comm;
	ptrdiff_t slot = msg - comm->msgs;

	if (rail->grants && rail->grants[slot].addr && rail->grants[slot].seq == msg->seq)
		return &rail->grants[slot];
	return msg->flags & ANYNET_FLAG_MULTI ? NULL : ring_grant(rail->link, msg);
}

static struct ibv_send_wr wr_of(enum ibv_wr_opcode opcode, struct ibv_sge *sge, const void *data,
				uint32_t bytes, uint32_t lkey)
{
	*sge = (struct ibv_sge){ .addr = (uintptr_t)data, .length = bytes, .lkey = lkey };
	return (struct ibv_send_wr){ .sg_list = sge, .num_sge = 1, .opcode = opcode };
}

bool ib_goes_in_frame(const struct ib_link *link, const struct send_msg *msg)
{
	return msg->record && (!msg->bytes || ib_link_takes_frames(link));
}

/* Header, and payload where it lies behind it already. */
static int post_small(struct ib_rail *rail, uint64_t n, const struct rail_frame *frame)
{
	struct ib_link *link = rail->link;
	uint32_t bytes = (uint32_t)HEADER_BYTES + frame->header.length;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	if (!frame->framed)
		ib_link_copy(link, &wr, &frame->header, HEADER_BYTES);
	else
		wr = wr_of(IBV_WR_SEND, &sge, frame->payload - HEADER_BYTES, bytes,
			   link->ring->lkey);
	if (frame->framed && bytes <= link->inline_bytes)
		wr.send_flags = IBV_SEND_INLINE;
	if (frame->header.type == ANYNET_FRAME_BYE)
		wr.send_flags |= IBV_SEND_SIGNALED;
	return ib_link_post(link, &wr, &wr, 1, n + 1);
}

/* A small message in GPU memory: gathered by the NIC behind its header, which has a place in the ring. */
static int post_gathered(struct ib_rail *rail, uint64_t n, const struct rail_frame *frame,
			 const struct ib_mr *mr, const struct replay_record *record)
{
	uint8_t *header = (uint8_t *)(uintptr_t)record + REPLAY_RECORD_BYTES;
	struct ibv_sge sges[2];
	struct ibv_send_wr wr =
		wr_of(IBV_WR_SEND, &sges[0], header, HEADER_BYTES, rail->link->ring->lkey);

	memcpy(header, &frame->header, HEADER_BYTES);
	sges[1] = (struct ibv_sge){ .addr = (uintptr_t)frame->payload,
				    .length = frame->header.length,
				    .lkey = mr->lkey };
	wr.num_sge = 2;
	wr.send_flags = IBV_SEND_SIGNALED;
	return ib_link_post(rail->link, &wr, &wr, 1, n + 1);
}

/* The whole message in one request: the peer knows the rest from its grant. */
static int post_whole(struct ib_rail *rail, uint64_t n, const struct rail_frame *frame,
		      const struct ib_mr *mr, const struct anynet_wire_grant *grant)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = wr_of(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, frame->payload,
				      frame->header.length, mr->lkey);

	wr.wr.rdma.remote_addr = grant->addr;
	wr.wr.rdma.rkey = grant->rkey;
	wr.imm_data = htobe32((uint32_t)frame->header.slot << 24 | frame->header.length);
	wr.send_flags = IBV_SEND_SIGNALED;
	if (frame->framed && frame->header.length <= rail->link->inline_bytes)
		wr.send_flags |= IBV_SEND_INLINE;
	return ib_link_post(rail->link, &wr, &wr, 1, n + 1);
}

static int post_part(struct ib_rail *rail, uint64_t n, const struct rail_frame *frame,
		     const struct ib_mr *mr, const struct anynet_wire_grant *grant)
{
	struct ibv_sge sges[2];
	struct ibv_send_wr write =
		wr_of(IBV_WR_RDMA_WRITE, &sges[0], frame->payload, frame->header.length, mr->lkey);
	struct ibv_send_wr send = wr_of(IBV_WR_SEND, &sges[1], NULL, 0, 0);

	write.wr.rdma.remote_addr = grant->addr + frame->header.offset;
	write.wr.rdma.rkey = grant->rkey;
	write.next = &send;
	send.send_flags = IBV_SEND_SIGNALED;
	ib_link_copy(rail->link, &send, &frame->header, HEADER_BYTES);
	return ib_link_post(rail->link, &write, &send, 2, n + 1);
}

/* A message that had begun its way over another connection, and has no grant on this one. */
static int ask(struct ib_rail *rail, uint64_t n, const struct rail_frame *frame)
{
	struct anynet_wire_frame header = frame->header;
	int ret;

	if (rail->asked == n + 1 || !send_may_ask((struct send_comm *)rail->tcp.base.comm))
		return -EAGAIN;
	header.type = ANYNET_FRAME_ASK;
	header.length = 0;
	header.offset = 0;
	rail->asked = n + 1;
	ret = ib_link_say(rail->link, &header, sizeof(header), false);
	return ret ? ret : -EAGAIN;
}

/* The oldest message that waits for a grant may be too large for the receive that it is for. */
void ib_show_oldest(struct ib_rail *rail)
{
	struct send_comm *comm = (struct send_comm *)rail->tcp.base.comm;
	struct anynet_wire_frame header;

	if (comm->waiting_head == comm->waiting_tail || rail->link->state != IB_LINK_UP ||
	    !ib_rail_has_room(rail))
		return;
	header = send_header(comm, &comm->msgs[comm->waiting[comm->waiting_head % ANYNET_SENDS]]);
	header.type = ANYNET_FRAME_LOOK;
	ib_link_say(rail->link, &header, sizeof(header), false); /* if it fails, so will the next */
}

/* By WRITE, from memory registered as `mr` to where the grant says. */
static int post_write(struct ib_rail *rail, uint64_t n, const struct rail_frame *frame,
		      const struct ib_mr *mr, const struct anynet_wire_grant *grant)
{
	if (rail->tcp.base.comm->rail_count == 1 && frame->header.length == frame->header.size &&
	    frame->header.length <= rail->link->whole_max)
		return post_whole(rail, n, frame, mr, grant);
	return post_part(rail, n, frame, mr, grant);
}

static int post_data(struct ib_rail *rail, uint64_t n, const struct rail_frame *frame)
{
	struct send_comm *comm = (struct send_comm *)rail->tcp.base.comm;
	struct send_msg *msg = &comm->msgs[frame->header.slot];
	bool in_frame = ib_goes_in_frame(rail->link, msg);
	const struct anynet_wire_grant *grant = in_frame ? NULL : ib_find_grant(rail, msg);
	const struct ib_mr *mr = rail->link->ring;
	char why[200];

	if (in_frame && frame->framed)
		return post_small(rail, n, frame);
	if (!in_frame && !grant)
		return ask(rail, n, frame);
	if (in_frame && rail->link->sges < 2) { /* it began its way by an adapter that can */
		snprintf(why, sizeof(why), "an adapter gathers nothing");
		mr = NULL;
	} else if (!frame->framed) {
		mr = ib_memory_on(msg->mr, rail->link->nic, why, sizeof(why));
	}
	if (!mr) {
		comm_unlink(&comm->base, why);
		return -ENOMEM;
	}
	if (in_frame)
		return post_gathered(rail, n, frame, mr, msg->record);
	if (frame->header.size > grant->size) /* the peer says what is wrong with that */
		return post_small(rail, n, frame);
	return post_write(rail, n, frame, mr, grant);
}

static int post_frame(struct ib_rail *rail, uint64_t n)
{
	struct rail_frame frame;

	send_frame((struct send_comm *)rail->tcp.base.comm, &tcp_log_at(&rail->tcp, n)->id, &frame);
	if (frame.header.type != ANYNET_FRAME_DATA || !frame.header.length)
		return post_small(rail, n, &frame);
	return post_data(rail, n, &frame);
}

/* The next frame to post; false = none, or no room for it. */
static bool next_frame(struct ib_rail *rail)
{
	struct tcp_rail *tcp = &rail->tcp;

	if (!ib_rail_has_room(rail))
		return false;
	if (tcp->tx_next != tcp->log_end)
		return true;
	if (!tcp_log_has_room(tcp) || !send_next((struct send_comm *)tcp->base.comm, &tcp->base,
						 &tcp_log_at(tcp, tcp->log_end)->id))
		return false;
	tcp->log_end++;
	return true;
}

int ib_transmit_data(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);
	struct tcp_rail *tcp = &rail->tcp;

	if (!rail->link)
		return rail->over_tcp->transmit(base);
	while (next_frame(rail)) {
		const struct frame_id *id = &tcp_log_at(tcp, tcp->tx_next)->id;
		int ret = post_frame(rail, tcp->tx_next);

		if (ret)
			return ret == -EAGAIN ? 0 : ret;
		base->bytes_sent += id->length;
		rail->bytes_out += bytes_of(id);
		tcp->tx_next++;
		send_written((struct send_comm *)base->comm, id);
	}
	return 0;
}

/* --- a receive comm: grants and control frames --- */

/* Grants of receives that follow one another: one WRITE. */
struct grants {
	struct anynet_wire_grant at[IB_INLINE_WANTED / sizeof(struct anynet_wire_grant)];
	uint32_t count;
};

static bool may_join(const struct ib_link *link, const struct grants *grants, uint32_t seq)
{
	size_t bytes = (grants->count + 1) * sizeof(grants->at[0]);

	return seq == grants->at[0].seq + grants->count && seq % ANYNET_CTS_RING_GRANTS &&
	       bytes <= sizeof(grants->at) && bytes <= ib_link_copy_max(link);
}

static int write_grants(struct ib_link *link, struct grants *grants)
{
	uint64_t place = grants->at[0].seq % ANYNET_CTS_RING_GRANTS * sizeof(grants->at[0]);
	uint32_t bytes = grants->count * (uint32_t)sizeof(grants->at[0]);

	if (!bytes)
		return 0;
	grants->count = 0;
	return ib_link_write(link, grants->at, bytes, link->peer.addr + place);
}

static int post_grants(struct ib_rail *rail)
{
	struct ib_link *link = rail->link;
	struct recv_comm *comm = (struct recv_comm *)rail->tcp.base.comm;
	struct grants grants = { .count = 0 };
	struct anynet_wire_grant grant;
	struct anynet_mr *mr;
	int ret = 0;

	if (recv_holds_grants(comm, &rail->tcp.base))
		return 0;
	while (!ret && ib_link_has_room(link, 2) &&
	       recv_next_grant(comm, &rail->tcp.base, IB_SLOT_BYTES - HEADER_BYTES, &grant, &mr)) {
		const struct ib_mr *reg;
		char why[200];

		reg = ib_memory_on(mr, link->nic, why, sizeof(why));
		if (!reg) {
			comm_unlink(rail->tcp.base.comm, why);
			return -ENOMEM;
		}
		grant.rkey = reg->rkey;
		grant.check = ib_grant_check(&grant);
		if (grants.count && !may_join(link, &grants, grant.seq))
			ret = write_grants(link, &grants);
		grants.at[grants.count++] = grant;
	}
	return ret ? ret : write_grants(link, &grants);
}

/* Before the grants: from the first one of GPU memory on nothing is to come in frames. */
static int tell_frames(struct ib_rail *rail)
{
	struct ib_link *link = rail->link;
	uint32_t frames = recv_takes_frames((struct recv_comm *)rail->tcp.base.comm);

	if (frames == rail->takes_frames || !ib_link_has_room(link, 1))
		return 0;
	rail->takes_frames = frames;
	return ib_link_write(link, &frames, sizeof(frames),
			     link->peer.addr + offsetof(struct anynet_wire_cts_ring, frames));
}

/* A grant that answers an RTS tells where to, too. */
static int complete_grant(struct ib_rail *rail, uint8_t *frame, size_t *bytes)
{
	struct anynet_wire_frame header;
	struct anynet_wire_grant grant;
	const struct ib_mr *reg;
	struct anynet_mr *mr;
	char why[200];

	memcpy(&header, frame, HEADER_BYTES);
	if (header.type != ANYNET_FRAME_GRANT)
		return 0;
	mr = recv_grant_of((struct recv_comm *)rail->tcp.base.comm, header.slot, &grant);
	reg = mr ? ib_memory_on(mr, rail->link->nic, why, sizeof(why)) : NULL;
	if (!reg) {
		comm_unlink(rail->tcp.base.comm, mr ? why : "a receive without memory");
		return -ENOMEM;
	}
	grant.rkey = reg->rkey;
	header.length = sizeof(grant);
	memcpy(frame, &header, HEADER_BYTES);
	memcpy(frame + HEADER_BYTES, &grant, sizeof(grant));
	*bytes = HEADER_BYTES + sizeof(grant);
	return 0;
}

/* Once for each link. */
static int tell_to_ask(struct ib_rail *rail)
{
	struct anynet_wire_frame frame = { .type = ANYNET_FRAME_ASK_ALL };

	if (rail->asks ||
	    !recv_must_be_asked((struct recv_comm *)rail->tcp.base.comm, &rail->tcp.base) ||
	    !ib_link_has_room(rail->link, 2))
		return 0;
	rail->asks = true;
	return ib_link_say(rail->link, &frame, sizeof(frame), false);
}

int ib_transmit_control(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);
	struct recv_comm *comm = (struct recv_comm *)base->comm;
	uint8_t frame[RAIL_CONTROL_BYTES];
	size_t bytes;
	int ret;

	if (!rail->link)
		return rail->over_tcp->transmit(base);
	if (rail->link->state != IB_LINK_UP)
		return 0;
	if (!rail->granting)
		recv_grant_again(comm, base);
	rail->granting = true;
	ret = ib_link_tell(rail->link);
	if (!ret)
		ret = tell_frames(rail);
	if (!ret)
		ret = post_grants(rail);
	if (!ret)
		ret = tell_to_ask(rail);
	while (!ret && ib_link_has_room(rail->link, 2) &&
	       (bytes = recv_next_control(comm, base, frame))) {
		ret = complete_grant(rail, frame, &bytes);
		if (!ret)
			ret = ib_link_say(rail->link, frame, (uint32_t)bytes,
					  frame[0] == ANYNET_FRAME_BYE);
	}
	return ret;
}
