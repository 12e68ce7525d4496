/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an IB device's rail: create, sever, resume, close, and its table. */
#include "path/ib/ib_rail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <nccl_net/log.h>

#include "base/socket.h"
#include "device/links.h"
#include "message/send_internal.h"
#include "path/ib/rail_link.h"
#include "wire/checksum.h"

void ib_rail_drop_link(struct ib_rail *rail)
{
	struct ib_link *link = rail->link;

	ib_rail_set_link(rail, NULL);
	rail->granting = rail->asks = rail->takes_frames = false;
	free(rail->grants);
	rail->grants = NULL;
	/* Now: it is freed when there is time for that, and the ring with its comm. */
	ib_mr_put(link->ring_cache, link->ring);
	link->ring = NULL;
	ib_link_retire(link);
}

/* Of a send comm. */
static void leave_link(struct ib_rail *rail)
{
	struct anynet_rail *base = &rail->tcp.base;
	uint64_t arrived = 0;
	int err = ib_link_poll(rail->link, &arrived); /* why, before the fence covers it */

	ib_link_end(rail->link, &arrived);
	ib_confirm(rail, arrived);
	base->link_err = err ? err : base->broke_by;
	base->link_frames = rail->arrived - base->progress.frames;
	ib_rail_drop_link(rail);
}

static void ib_sever(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);

	if (rail->link && base->comm->is_send) {
		leave_link(rail);
	} else if (rail->link) {
		ib_leave_link(rail);
	}
	rail->over_tcp->sever(base);
}

static void register_ring(struct ib_rail *rail)
{
	struct send_comm *comm = (struct send_comm *)rail->tcp.base.comm;
	struct ib_link *link = rail->link;
	char why[160];

	link->ring_cache = ib_memory_cache(link->nic);
	if (!link->ring_cache ||
	    ib_mr_get(link->ring_cache, comm->ring.memory, comm->ring.bytes,
		      (struct memory_id){ 0 }, IB_MR_LOCAL, &link->ring, why, sizeof(why)))
		link->ring = NULL;
}

/* Say by which of the two the frames come: the peer waits for the first of them. */
static void announce(struct ib_rail *rail)
{
	struct anynet_wire_frame frame = { .type = ANYNET_FRAME_PING };

	if (rail->link)
		return; /* it was told when that was proven */
	if (rail->tcp.base.comm->checksum)
		checksum_header(&frame, NULL);
	send(rail->tcp.base.fd, &frame, sizeof(frame), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void take_link(struct ib_rail *rail, struct ib_link *link)
{
	struct anynet_rail *base = &rail->tcp.base;

	ib_rail_set_link(rail, link);
	rail->had_link |= link != NULL;
	if (!base->comm->is_send)
		return;
	rail->asked = 0;
	rail->bytes_out = 0;
	if (link) {
		link->signal_all = base->comm->rail_count > 1;
		register_ring(rail);
	}
	if (link && !link->ring) {
		comm_unlink(base->comm, "cannot register the ring for small messages");
		ib_rail_drop_link(rail);
	}
	rail->by_link = rail->link;
	announce(rail);
}

static int ib_resume(struct anynet_rail *base, uint64_t frames, uint32_t part)
{
	struct ib_rail *rail = to_ib(base);
	struct ib_link *link = base->next_link;
	int ret;

	base->next_link = NULL;
	if (base->comm->is_send && rail->by_link)
		ib_confirm(rail, frames);
	ret = rail->over_tcp->resume(base, frames, part);
	if (ret) {
		ib_link_free(link);
		return ret;
	}
	if (base->comm->is_send)
		rail->arrived = frames;
	take_link(rail, link);
	return 0;
}

/* A port that only reaches itself may have told before the link was made that it is down. */
static bool has_lost_port(const struct ib_link *link)
{
	return link_port_is_down(link->nic->dev) && link_losses(link->nic->dev) != link->losses;
}

static bool ib_signs(struct anynet_rail *base, struct rail_signs *signs)
{
	struct ib_rail *rail = to_ib(base);
	int peeked = rail->link ? ib_peek(rail) : 0;

	/* The sender does without the link: its proof was lost, or it lacks memory. What it has been told by that it
	 * has not read. */
	if (peeked > 0 && !base->comm->is_send) {
		ib_leave_link(rail);
		recv_tell_again(base->comm, base->index);
		base->readable = true;
	}
	if (!rail->link)
		return rail->over_tcp->signs(base, signs);
	*signs = (struct rail_signs){ .lost = has_lost_port(rail->link) };
	if (peeked < 0)
		base->ended = true;
	if (base->comm->is_send)
		ib_show_oldest(rail);
	return true;
}

/* What a link has brought only its sender judges. */
static enum rail_moved ib_moved(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);
	bool is_send = base->comm->is_send;

	if (!rail->link)
		return rail->over_tcp->moved(base);
	if ((is_send ? rail->arrived : rail->tcp.rx_frames) != base->progress.frames)
		return RAIL_MOVED;
	return is_send && rail->tcp.tx_next != rail->arrived ? RAIL_STUCK : RAIL_IDLE;
}

static void ib_ping(struct anynet_rail *base)
{
	struct ib_link *link = to_ib(base)->link;

	if (!link)
		to_ib(base)->over_tcp->ping(base);
	else if (base->comm->is_send && link->state == IB_LINK_UP && ib_link_has_room(link, 1) &&
		 ib_link_credits(link))
		ib_link_ping(link);
}

/* Has another rail that works a link? */
static bool others_linked(const struct anynet_rail *base)
{
	const struct anynet_comm *comm = base->comm;

	for (unsigned i = 0; i < comm->rail_count; i++) {
		const struct anynet_rail *other = comm->rails[i];

		if (other != base && rail_works(other) && other->linked)
			return true;
	}
	return false;
}

static bool ib_granted(struct anynet_rail *base, const struct send_msg *msg)
{
	const struct ib_rail *rail = to_ib(base);

	/* Over TCP it need not be, but links are faster; between two connections, who knows. */
	if (!rail->link)
		return (rail_stands(base) || msg->record) && !others_linked(base);
	return ib_goes_in_frame(rail->link, msg) || ib_find_grant(rail, msg);
}

static int ib_drain(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);
	int ret;

	if (!rail->link)
		return rail->over_tcp->drain(base);
	ret = base->ops->receive(base);
	if (ret && ret != -EAGAIN)
		return ret;
	if (base->bye_due || rail->tcp.tx_next != rail->tcp.log_end)
		return -EAGAIN;
	return rail->link->signal_head != rail->link->signal_tail ? -EAGAIN : 0; /* BYE has one */
}

static void ib_close(struct anynet_rail *base)
{
	struct ib_rail *rail = to_ib(base);

	if (rail->link) {
		uint64_t arrived;

		ib_link_end(rail->link, &arrived);
		ib_rail_drop_link(rail);
	}
	ib_free_rest(rail);
	ib_link_free(base->next_link);
	rail->over_tcp->close(base);
}

static size_t ib_backlog(struct anynet_rail *base)
{
	const struct ib_rail *rail = to_ib(base);

	if (!rail->link)
		return rail->over_tcp->backlog(base);
	return ib_rail_has_room(rail) ? rail->bytes_out : SIZE_MAX;
}

static void ib_position(struct anynet_rail *base, uint64_t *frames, uint32_t *part)
{
	to_ib(base)->over_tcp->position(base, frames, part);
	*frames += ib_rest_frames(to_ib(base));
}

static const struct anynet_rail_ops ib_send_rail_ops = {
	.receive = ib_receive_control,
	.transmit = ib_transmit_data,
	.backlog = ib_backlog,
	.signs = ib_signs,
	.frames = tcp_frames,
	.moved = ib_moved,
	.ping = ib_ping,
	.sever = ib_sever,
	.position = ib_position,
	.resume = ib_resume,
	.drain = ib_drain,
	.close = ib_close,
	.granted = ib_granted,
};

static const struct anynet_rail_ops ib_recv_rail_ops = {
	.receive = ib_receive_data,
	.transmit = ib_transmit_control,
	.backlog = ib_backlog,
	.signs = ib_signs,
	.frames = tcp_frames,
	.moved = ib_moved,
	.ping = ib_ping,
	.sever = ib_sever,
	.position = ib_position,
	.resume = ib_resume,
	.drain = ib_drain,
	.close = ib_close,
};

struct anynet_rail *ib_rail_create(struct anynet_comm *comm, int fd, uint16_t index,
				   struct ib_link *link)
{
	struct ib_rail *rail = calloc(1, sizeof(*rail));

	if (!rail)
		return NULL;
	if (tcp_rail_init(&rail->tcp, comm, fd, index)) {
		free(rail);
		return NULL;
	}
	rail->over_tcp = rail->tcp.base.ops;
	rail->tcp.base.ops = comm->is_send ? &ib_send_rail_ops : &ib_recv_rail_ops;
	take_link(rail, link);
	return &rail->tcp.base;
}

bool ib_rail_had_link(const struct anynet_rail *rail)
{
	return ((const struct ib_rail *)rail)->had_link;
}
