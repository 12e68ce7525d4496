/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail of an IB device: a TCP rail with a link beside it. While the link is up it carries the rail's
 * frames, and the TCP connection only tells that the peer is there; without a link it is a TCP rail.
 * The stream is the same, so that it goes on by the other when one breaks (docs/ib.md).
 */
#ifndef ANYNET_IB_RAIL_H
#define ANYNET_IB_RAIL_H

#include "memory/ib_memory.h"
#include "path/ib/ib_link.h"
#include "path/tcp/tcp_rail.h"

struct ib_rail {
	struct tcp_rail tcp; /* first */
	const struct anynet_rail_ops *over_tcp;
	struct ib_link *link; /* NULL: frames go over TCP */
	bool had_link;        /* so that it is worth asking for another one */
	struct ib_link *
		rest; /* receive comm: fenced ones that brought what is not consumed, oldest first */
	bool by_link;     /* send comm: what is out went over a link … */
	uint64_t arrived; /* … which is known to have brought all before this frame */
	size_t bytes_out; /* … and in the others, as they lie on the wire */
	uint64_t asked;   /* the frame that ASK was sent for, plus one */
	bool granting;    /* receive comm: posted receives are told to the sender */
	bool takes_frames; /* … and that small messages may come in frames */
	bool asks;        /* … and it knows from which on it has to ask */
	struct anynet_wire_grant *grants; /* send comm: of messages that had to ask, by slot */
};

static inline struct ib_rail *to_ib(struct anynet_rail *rail)
{
	return (struct ib_rail *)rail;
}

/* Of a linked rail: for a frame, which takes two requests at most and a slot of the peer's. */
static inline bool ib_rail_has_room(const struct ib_rail *rail)
{
	return ib_link_has_room(rail->link, 2) && ib_link_credits(rail->link);
}

/* What has come over the TCP connection: 1 something, 0 nothing, -errno it has ended. The word that the
 * RDMA connection manager has failed is taken here. */
int ib_peek(struct ib_rail *rail);

/* The link that frames go by; NULL = over TCP. */
static inline void ib_rail_set_link(struct ib_rail *rail, struct ib_link *link)
{
	rail->link = link;
	rail->tcp.base.linked = link;
	rail->tcp.base.frames = link && link->is_send ? &link->cts_ring->frames : NULL;
	rail->tcp.base.gathers = !link || link->sges > 1;
}

/* Frames cannot go over the link any more, or never could. */
void ib_rail_drop_link(struct ib_rail *rail);

int ib_transmit_data(struct anynet_rail *rail); /* of a send comm */
int ib_transmit_control(struct anynet_rail *rail);
int ib_receive_data(struct anynet_rail *rail); /* of a receive comm */
int ib_receive_control(struct anynet_rail *rail);

/* Send comm: where the link may write this message; NULL: the peer has not said so on this rail. */
const struct anynet_wire_grant *ib_find_grant(const struct ib_rail *rail,
					      const struct send_msg *msg);

/* Send comm: may the message go in a frame? Without bytes it does. */
bool ib_goes_in_frame(const struct ib_link *link, const struct send_msg *msg);

/* Frames before number `end` have arrived. */
void ib_confirm(struct ib_rail *rail, uint64_t end);

/* From time to time: the receive for the oldest message that waits may be too small. */
void ib_show_oldest(struct ib_rail *rail);

/* Receive comm: leave the link. Nothing is written through it when this returns; what it has brought comes
 * before all else of the rail (ib_rx.c). */
void ib_leave_link(struct ib_rail *rail);
uint64_t ib_rest_frames(const struct ib_rail *rail); /* of what it has brought */
void ib_free_rest(struct ib_rail *rail);

#endif
