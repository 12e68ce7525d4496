/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side of a linked rail. Frames are taken in the order of their completions; one that
 * nothing is posted for stays in its slot, with those behind it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "ib_rail.h"
#include "recv_internal.h"

#define HEADER_BYTES sizeof(struct anynet_wire_frame)

static int bad_frame(struct ib_rail *rail, uint32_t bytes)
{
	comm_fail(rail->tcp.base.comm, &rail->tcp.base, -EPROTO,
		  "a frame of %u bytes by the queue pair that makes no sense", bytes);
	return -EPROTO;
}

/* By WRITE WITH IMM: a whole message, the next of a comm with one rail, or the one that asked. */
static void header_of_written(const struct recv_comm *comm, const struct ib_arrival *arrival,
			      struct anynet_wire_frame *header)
{
	const struct recv_msg *msg = &comm->msgs[arrival->imm >> 24];
	bool asked = msg->state == RECV_MATCHED;

	*header = (struct anynet_wire_frame){
		.type = ANYNET_FRAME_DATA,
		.slot = (uint16_t)(arrival->imm >> 24),
		.tag = asked ? msg->tag : comm->tag,
		.seq = asked ? msg->seq : comm->announced,
		.length = arrival->imm & 0xffffff,
		.size = arrival->imm & 0xffffff,
	};
}

/* Data: in the slot behind its header, or written to where we said. */
static int take_data(struct ib_rail *rail, const struct anynet_wire_frame *header,
		     const uint8_t *payload)
{
	struct recv_comm *comm = (struct recv_comm *)rail->tcp.base.comm;
	struct recv_msg *msg;
	uint8_t *dst;
	int ret = recv_place(comm, header, &msg, &dst);

	if (ret)
		return ret;
	if (payload)
		copy_ascending(dst, payload, header->length);
	else if (header->length && !msg->sub)
		return bad_frame(rail, 0); /* nobody was told a place for it */
	recv_arrived(comm, msg, header->length);
	return 0;
}

static int take_frame(struct ib_rail *rail, const struct ib_arrival *arrival)
{
	struct recv_comm *comm = (struct recv_comm *)rail->tcp.base.comm;
	const uint8_t *slot = rail->link->slots + (size_t)arrival->slot * rail->link->slot_bytes;
	struct anynet_wire_frame header;
	int ret;

	if (arrival->written) {
		header_of_written(comm, arrival, &header);
		ret = take_data(rail, &header, NULL);
	} else if (arrival->bytes < HEADER_BYTES) {
		return bad_frame(rail, arrival->bytes);
	} else {
		memcpy(&header, slot, HEADER_BYTES);
		if (header.type == ANYNET_FRAME_ASK)
			ret = recv_asked(comm, &header);
		else if (header.type != ANYNET_FRAME_DATA)
			ret = recv_control(comm, &rail->tcp.base, &header);
		else if (arrival->bytes == HEADER_BYTES)
			ret = take_data(rail, &header, NULL);
		else if (arrival->bytes == HEADER_BYTES + header.length)
			ret = take_data(rail, &header, slot + HEADER_BYTES);
		else
			return bad_frame(rail, arrival->bytes);
	}
	if (ret)
		return ret;
	if (header.type != ANYNET_FRAME_PING && header.type != ANYNET_FRAME_ASK) {
		rail->tcp.rx_frames++;
		rail->tcp.rx_part = 0;
	}
	return 0;
}

int ib_consume(struct ib_rail *rail)
{
	struct ib_link *link = rail->link;
	struct ib_arrival *arrival;
	int ret = 0;

	while (!ret && (arrival = ib_link_arrival(link))) {
		ret = take_frame(rail, arrival);
		if (ret)
			return ret;
		if (link->state == IB_LINK_BROKEN)
			link->arrival_head++;
		else
			ret = ib_link_consumed(link);
	}
	return ret;
}

int ib_receive_data(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);
	bool ended = base->ended;
	int ret = 0, broken;

	if (rail->link && rail->link->state == IB_LINK_JOINED) {
		ret = ib_peek(rail); /* the first frame comes by the way that the peer has chosen */
		if (ret > 0) {
			uint64_t arrived;

			ib_link_fence(rail->link, &arrived);
			ib_rail_drop_link(rail);
		}
	}
	if (!rail->link)
		return rail->over_tcp->receive(base);
	broken = ib_link_poll(rail->link, NULL);
	if (ret < 0 && rail->link->state == IB_LINK_JOINED)
		return ret;
	ret = ib_consume(rail);
	if (ret == -EAGAIN) {
		base->parked = true;
		return 0;
	}
	if (!ret && (broken || ended))
		ret = broken ? broken : -ECONNRESET;
	return ret;
}

/* --- send comm --- */

static int take_control(struct ib_rail *rail, const struct ib_arrival *arrival)
{
	struct send_comm *comm = (struct send_comm *)rail->tcp.base.comm;
	const uint8_t *slot = rail->link->slots + (size_t)arrival->slot * rail->link->slot_bytes;
	struct anynet_wire_frame header;

	if (arrival->written || arrival->bytes < HEADER_BYTES)
		return bad_frame(rail, arrival->bytes);
	memcpy(&header, slot, HEADER_BYTES);
	if (arrival->bytes != HEADER_BYTES + header.length)
		return bad_frame(rail, arrival->bytes);
	if (header.type == ANYNET_FRAME_GRANT && header.slot < ANYNET_WIRE_SLOTS &&
	    header.length == sizeof(struct anynet_wire_grant)) {
		if (!rail->grants)
			rail->grants = calloc(ANYNET_WIRE_SLOTS, sizeof(*rail->grants));
		if (!rail->grants)
			return -ENOMEM; /* the link is replaced, and the grant told again */
		memcpy(&rail->grants[header.slot], slot + HEADER_BYTES, sizeof(*rail->grants));
		header.length = 0;
	}
	if (header.type == ANYNET_FRAME_ASK_ALL) {
		send_ask_all(comm, header.seq);
		return 0;
	}
	return send_control(comm, &rail->tcp.base, &header, slot + HEADER_BYTES);
}

int ib_receive_control(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);
	struct ib_arrival *arrival;
	bool ended = base->ended;
	uint64_t arrived = 0;
	int ret = 0, broken;

	send_look_for_grants((struct send_comm *)base->comm, base);
	if (!rail->link)
		return rail->over_tcp->receive(base);
	broken = ib_link_poll(rail->link, &arrived);
	ib_confirm(rail, arrived);
	while (!ret && (arrival = ib_link_arrival(rail->link))) {
		ret = take_control(rail, arrival);
		if (!ret)
			ret = broken ? (rail->link->arrival_head++, 0)
				     : ib_link_consumed(rail->link);
	}
	if (!ret && broken)
		ret = broken;
	return ret ? ret : ended ? -ECONNRESET : 0;
}
