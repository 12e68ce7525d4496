/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side of a linked rail. Frames are taken in the order of their completions; one that
 * nothing is posted for stays in its slot, with those behind it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "message/recv_internal.h"
#include "path/ib/ib_rail.h"

#define HEADER_BYTES sizeof(struct anynet_wire_frame)

static int bad_frame(struct ib_rail *rail, uint32_t bytes)
{
	comm_note_fault(rail->tcp.base.comm, &rail->tcp.base, -EPROTO,
		  "invalid frame of %u bytes on the queue pair", bytes);
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
static int take_data(struct ib_rail *rail, const struct ib_link *link,
		     const struct anynet_wire_frame *header, const uint8_t *payload)
{
	struct recv_comm *comm = (struct recv_comm *)rail->tcp.base.comm;
	struct recv_msg *msg;
	uint8_t *dst;
	int ret = recv_place(comm, header, &msg, &dst);

	if (ret)
		return ret;
	if (payload)
		recv_put(comm, msg, dst, payload, header->length);
	else if (header->length && (!msg->sub || msg->arrival))
		return bad_frame(rail, 0); /* nobody was told a place for it */
	else if (anynet_unlikely(comm->base.gpu))
		comm->wrote |= ib_memory_bit(link->nic);
	recv_arrived(comm, msg, header->length);
	return comm->base.fault.err;
}

static const uint8_t *slot_of(const struct ib_link *link, const struct ib_arrival *arrival)
{
	return link->slots + (size_t)arrival->slot * link->slot_bytes;
}

/* Is a frame of this type part of the stream, which goes on behind it on another path? */
static bool is_counted(uint8_t type)
{
	return type != ANYNET_FRAME_PING && type != ANYNET_FRAME_ASK && type != ANYNET_FRAME_LOOK;
}

static int take_frame(struct ib_rail *rail, const struct ib_link *link,
		      const struct ib_arrival *arrival)
{
	struct recv_comm *comm = (struct recv_comm *)rail->tcp.base.comm;
	const uint8_t *slot = slot_of(link, arrival);
	struct anynet_wire_frame header;
	int ret;

	if (arrival->written && comm->base.rail_count > 1) {
		return bad_frame(rail, arrival->bytes);
	} else if (arrival->written) {
		header_of_written(comm, arrival, &header);
		ret = take_data(rail, link, &header, NULL);
	} else if (arrival->bytes < HEADER_BYTES) {
		return bad_frame(rail, arrival->bytes);
	} else {
		memcpy(&header, slot, HEADER_BYTES);
		if (header.type == ANYNET_FRAME_ASK)
			ret = recv_asked(comm, &rail->tcp.base, &header);
		else if (header.type == ANYNET_FRAME_LOOK)
			ret = recv_looked(comm, &header);
		else if (header.type != ANYNET_FRAME_DATA)
			ret = recv_control(comm, &rail->tcp.base, &header);
		else if (arrival->bytes == HEADER_BYTES)
			ret = take_data(rail, link, &header, NULL);
		else if (arrival->bytes == HEADER_BYTES + header.length)
			ret = take_data(rail, link, &header, slot + HEADER_BYTES);
		else
			return bad_frame(rail, arrival->bytes);
	}
	if (ret)
		return ret;
	if (arrival->written || is_counted(header.type)) {
		rail->tcp.rx_frames++;
		rail->tcp.rx_part = 0;
	}
	return 0;
}

/* 0, -EAGAIN: nothing is posted for the first one, or -errno. */
static int consume(struct ib_rail *rail, struct ib_link *link)
{
	struct ib_arrival *arrival;
	int ret = 0;

	while (!ret && (arrival = ib_link_arrival(link))) {
		ret = take_frame(rail, link, arrival);
		if (ret)
			return ret;
		if (link->state == IB_LINK_BROKEN)
			link->arrival_head++;
		else
			ret = ib_link_consumed(link);
	}
	return ret;
}

/* --- what links had brought when they were left: the sender knows that it has arrived --- */

static int consume_rest(struct ib_rail *rail)
{
	int ret = 0;

	while (!ret && rail->rest) {
		struct ib_link *link = rail->rest;

		ret = consume(rail, link);
		if (ret)
			return ret;
		rail->rest = link->next;
		ib_link_retire(link);
	}
	return ret;
}

void ib_leave_link(struct ib_rail *rail)
{
	struct ib_link *link = rail->link, **end = &rail->rest;

	ib_link_end(link, NULL);
	/* It may have written what no frame has told of, and what comes again another way. */
	if (rail->tcp.base.comm->gpu)
		((struct recv_comm *)rail->tcp.base.comm)->wrote |= ib_memory_bit(link->nic);
	ib_rail_set_link(rail, NULL);
	rail->granting = rail->asks = rail->takes_frames = false;
	while (*end)
		end = &(*end)->next;
	*end = link;
	consume_rest(rail);
}

bool ib_rail_take_rest(struct anynet_rail *rail)
{
	consume_rest(to_ib(rail));
	return to_ib(rail)->rest;
}

uint64_t ib_rest_frames(const struct ib_rail *rail)
{
	uint64_t frames = 0;

	for (const struct ib_link *link = rail->rest; link; link = link->next)
		for (uint32_t i = link->arrival_head; i != link->arrival_tail; i++) {
			const struct ib_arrival *arrival = &link->arrivals[i % IB_ARRIVALS];

			frames += arrival->written || is_counted(*slot_of(link, arrival));
		}
	return frames;
}

void ib_free_rest(struct ib_rail *rail)
{
	while (rail->rest) {
		struct ib_link *link = rail->rest;

		rail->rest = link->next;
		ib_link_retire(link);
	}
}

/* --- what has come beside the link --- */

/* The sender does without the RDMA connection manager, by the same link: that has come over TCP. */
static bool wants_rejoin(const struct ib_rail *rail, const struct anynet_wire_frame *frame)
{
	return rail->link && rail->link->cm && rail->link->state == IB_LINK_JOINED &&
	       frame->type == ANYNET_FRAME_PING && frame->seq == ANYNET_PING_JOIN;
}

/* It waits for our word that it can; without that it goes on over TCP. */
static int rejoin(struct ib_rail *rail)
{
	struct anynet_wire_frame frame;
	int fd = rail->tcp.base.fd;

	recv(fd, &frame, sizeof(frame), MSG_DONTWAIT);
	if (ib_link_rejoin(rail->link))
		return 1;
	send(fd, &frame, sizeof(frame), MSG_DONTWAIT | MSG_NOSIGNAL);
	return 0;
}

int ib_peek(struct ib_rail *rail)
{
	struct anynet_wire_frame frame;
	ssize_t n;

	if (!rail_stands(&rail->tcp.base))
		return 0;
	n = recv(rail->tcp.base.fd, &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT);
	if (n == sizeof(frame) && wants_rejoin(rail, &frame))
		return rejoin(rail);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n ? 1 : -ECONNRESET;
}

/* --- receive comm --- */

/* Which way do frames come now? The sender says so by the first one. */
static int join_way(struct ib_rail *rail)
{
	int peeked = rail->link && rail->link->state == IB_LINK_JOINED ? ib_peek(rail) : 0;

	if (peeked > 0)
		ib_leave_link(rail);
	return peeked < 0 ? peeked : 0;
}

static int receive_by_link(struct ib_rail *rail, int tcp_error)
{
	int broken = ib_link_poll(rail->link, NULL), ret;

	if (tcp_error && rail->link->state == IB_LINK_JOINED)
		return tcp_error;
	ret = consume(rail, rail->link);
	/* The sender may be waiting for the receives that were posted long ago. */
	if (!ret && !broken && !rail->granting)
		ret = ib_transmit_control(&rail->tcp.base);
	return ret ? ret : broken;
}

int ib_receive_data(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);
	bool ended = base->ended;
	int tcp_error = join_way(rail), ret = consume_rest(rail);

	if (!ret && !rail->link)
		return rail->over_tcp->receive(base);
	if (!ret)
		ret = receive_by_link(rail, tcp_error);
	if (ret == -EAGAIN) {
		base->parked = true;
		return 0;
	}
	return !ret && ended ? -ECONNRESET : ret;
}

/* --- send comm --- */

static int take_control(struct ib_rail *rail, const struct ib_arrival *arrival)
{
	struct send_comm *comm = (struct send_comm *)rail->tcp.base.comm;
	const uint8_t *slot = slot_of(rail->link, arrival);
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
		send_ask_all(comm);
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
