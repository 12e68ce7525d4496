/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending side of a stream with a queue pair. A frame is a SEND into one of the peer's slots. The payload of a
 * large message precedes it as an RDMA WRITE to the place that the peer's CTS names. A message of one frame needs no
 * SEND: a WRITE WITH IMM carries slot and size in its immediate. That requires a comm with one stream, because the
 * receiver derives the message's number from the order.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include <nccl_net/log.h>

#include "message/send_internal.h"
#include "path/ib/ib_stream.h"
#include "wire/hello.h"

static_assert(IB_SLOT_BYTES == HEADER_BYTES + IB_EAGER_BYTES, "small messages fit into a slot");

static size_t bytes_of(const struct frame_id *id)
{
	return HEADER_BYTES + id->length;
}

static bool is_own(const struct anynet_comm *comm, const struct anynet_device *nic)
{
	for (int i = 0; i < anynet_members(comm->dev); i++)
		if (anynet_member(comm->dev, i)->index == nic->index)
			return true;
	return false;
}

int ib_leave_nic(struct ib_stream *stream, int err, const char *why)
{
	const struct anynet_device *nic = stream->qp->nic->dev;
	struct anynet_comm *comm = stream->tcp.base.comm;

	if (err == EIO || err == ENODEV ||
	    atomic_load_explicit(&stream->qp->nic->failed, memory_order_relaxed))
		return -EIO;
	if (is_own(comm, nic)) {
		comm_use_tcp(comm, why);
		return -ENOMEM;
	}
	comm->tcp.nics |= 1ull << nic->index;
	anynet_info("%s peer %s pid %u dev %s: no queue pair on dev %s: %s; the data uses another "
		    "device, or TCP",
		    comm_direction(comm), comm->peer.host, comm->peer.pid, comm->dev->name,
		    nic->name, why);
	return -ENOMEM;
}

void ib_confirm(struct ib_stream *stream, uint64_t end)
{
	struct anynet_stream *base = &stream->tcp.base;

	for (; base->log.arrived < end && base->log.arrived < base->log.next; base->log.arrived++) {
		const struct frame_id *id = &stream_log_at(base, base->log.arrived)->id;

		if (stream->qp) /* else they are confirmed by the position of a resume */
			stream->use.bytes_out -= bytes_of(id);
		if (stream->qp && id->length >= IB_FLOW_LARGE)
			ib_flow_arrived(&stream->use.flow, base->log.arrived, id->length);
		send_arrived((struct send_comm *)base->comm, id);
	}
}

/* Copies the message's CTS from the CTS ring. False = it has not come, or not all of it is visible. */
static bool ring_cts(const struct ib_qp *qp, const struct send_msg *msg,
		     struct anynet_wire_cts *cts)
{
	const struct anynet_wire_cts *entry =
		&qp->memory.cts_ring->cts[msg->seq % ANYNET_CTS_RING_ENTRIES];

	if (__atomic_load_n(&entry->mark, __ATOMIC_ACQUIRE) != msg->seq + 1)
		return false;
	memcpy(cts, entry, sizeof(*cts));
	/* Tests addr because zeroes pass the check for seq 0: in a new ring, the first CTS may be partly visible. The number
	 * again, because one of 64 messages ago may have arrived since. */
	return cts->addr && cts->check == ib_cts_check(cts) && cts->tag == msg->tag &&
	       cts->seq == msg->seq;
}

bool ib_find_cts(const struct ib_stream *stream, const struct send_msg *msg,
		 struct anynet_wire_cts *cts)
{
	const struct send_comm *comm = (const struct send_comm *)stream->tcp.base.comm;
	ptrdiff_t slot = msg - comm->msgs;

	if (stream->use.cts && stream->use.cts[slot].addr &&
	    stream->use.cts[slot].seq == msg->seq) {
		*cts = stream->use.cts[slot];
		return true;
	}
	return !(msg->flags & ANYNET_FLAG_MULTI) && ring_cts(stream->qp, msg, cts);
}

static struct ibv_send_wr wr_of(enum ibv_wr_opcode opcode, struct ibv_sge *sge, const void *data,
				uint32_t bytes, uint32_t lkey)
{
	*sge = (struct ibv_sge){ .addr = (uintptr_t)data, .length = bytes, .lkey = lkey };
	return (struct ibv_send_wr){ .sg_list = sge, .num_sge = 1, .opcode = opcode };
}

bool ib_goes_in_frame(const struct ib_stream *stream, const struct send_msg *msg)
{
	return msg->record && (!msg->bytes || stream_takes_frames(&stream->tcp.base));
}

/* One SEND: the header, and the payload if it lies behind the header (in the replay ring). */
static int post_small(struct ib_stream *stream, uint64_t n, const struct stream_frame *frame)
{
	struct ib_qp *qp = stream->qp;
	uint32_t bytes = (uint32_t)HEADER_BYTES + frame->header.length;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	if (!frame->framed) {
		ib_qp_copy(qp, &wr, &frame->header, HEADER_BYTES);
	} else {
		sge = (struct ibv_sge){ .addr = (uintptr_t)(frame->payload - HEADER_BYTES),
					.length = bytes,
					.lkey = qp->ring->lkey };
		wr.send_flags = bytes <= qp->limits.inline_bytes ? IBV_SEND_INLINE : 0;
	}
	if (frame->header.type == ANYNET_FRAME_BYE)
		wr.send_flags |= IBV_SEND_SIGNALED;
	return ib_qp_post(qp, &wr, &wr, 1, n + 1);
}

/* One SEND of a small message in GPU memory: the NIC gathers header, from the replay ring, and payload. */
static int post_gathered(struct ib_stream *stream, uint64_t n, const struct stream_frame *frame,
			 uint32_t lkey, const struct replay_record *record)
{
	uint8_t *header = (uint8_t *)(uintptr_t)record + REPLAY_RECORD_BYTES;
	struct ibv_sge sges[2];
	struct ibv_send_wr wr =
		wr_of(IBV_WR_SEND, &sges[0], header, HEADER_BYTES, stream->qp->ring->lkey);

	memcpy(header, &frame->header, HEADER_BYTES);
	sges[1] = (struct ibv_sge){ .addr = (uintptr_t)frame->payload,
				    .length = frame->header.length,
				    .lkey = lkey };
	wr.num_sge = 2;
	wr.send_flags = IBV_SEND_SIGNALED;
	return ib_qp_post(stream->qp, &wr, &wr, 1, n + 1);
}

/* The whole message as one WRITE WITH IMM. The peer knows the other fields of the header. */
static int post_whole(struct ib_stream *stream, uint64_t n, const struct stream_frame *frame,
		      uint32_t lkey, const struct anynet_wire_cts *cts)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr =
		wr_of(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, frame->payload, frame->header.length, lkey);

	wr.wr.rdma.remote_addr = cts->addr;
	wr.wr.rdma.rkey = cts->rkey;
	wr.imm_data = htobe32((uint32_t)frame->header.slot << 24 | frame->header.length);
	wr.send_flags = IBV_SEND_SIGNALED;
	if (frame->framed && frame->header.length <= stream->qp->limits.inline_bytes)
		wr.send_flags |= IBV_SEND_INLINE;
	return ib_qp_post(stream->qp, &wr, &wr, 1, n + 1);
}

static int post_part(struct ib_stream *stream, uint64_t n, const struct stream_frame *frame,
		     uint32_t lkey, const struct anynet_wire_cts *cts)
{
	struct ibv_sge sges[2];
	struct ibv_send_wr write =
		wr_of(IBV_WR_RDMA_WRITE, &sges[0], frame->payload, frame->header.length, lkey);
	struct ibv_send_wr send = wr_of(IBV_WR_SEND, &sges[1], NULL, 0, 0);

	write.wr.rdma.remote_addr = cts->addr + frame->header.offset;
	write.wr.rdma.rkey = cts->rkey;
	write.next = &send;
	send.send_flags = IBV_SEND_SIGNALED;
	ib_qp_copy(stream->qp, &send, &frame->header, HEADER_BYTES);
	return ib_qp_post(stream->qp, &write, &send, 2, n + 1);
}

/*
 * A message that was begun over another connection has no CTS on this stream: sends ASK, once. -EAGAIN or -errno. A
 * large one from before the comm had several tags, or ASK_ALL came, may hold up others behind it, until its receive is
 * posted. (A later one has sent RTS, and comes behind the CTS.) TCP takes it: the stream breaks.
 */
static int ask(struct ib_stream *stream, uint64_t n, const struct stream_frame *frame)
{
	const struct send_comm *comm = (const struct send_comm *)stream->tcp.base.comm;
	struct anynet_wire_frame header = frame->header;
	int ret;

	if (comm->tags.multi && !(header.flags & ANYNET_FLAG_MULTI))
		return -EBUSY;
	stream->use.waits = n + 1;
	if (stream->use.asked == n + 1 || !comm->tags.multi)
		return -EAGAIN;
	header.type = ANYNET_FRAME_ASK;
	header.length = 0;
	header.offset = 0;
	stream->use.asked = n + 1;
	ret = ib_qp_say(stream->qp, &header, sizeof(header), false);
	return ret ? ret : -EAGAIN;
}

/* The slot of the oldest message that waits for a CTS: one that has been given to the stream is before all others. */
static uint16_t oldest_waiting(struct ib_stream *stream)
{
	const struct send_comm *comm = (const struct send_comm *)stream->tcp.base.comm;
	struct anynet_stream *base = &stream->tcp.base;

	if (stream->use.waits == base->log.next + 1)
		return stream_log_at(base, base->log.next)->id.slot;
	return comm->waiting.head;
}

void ib_show_oldest(struct ib_stream *stream)
{
	struct send_comm *comm = (struct send_comm *)stream->tcp.base.comm;
	uint16_t oldest = oldest_waiting(stream);
	struct anynet_wire_frame header;

	if (oldest == SLOT_NONE || stream->qp->state != IB_QP_UP || !ib_stream_has_room(stream))
		return;
	header = send_header(comm, &comm->msgs[oldest]);
	header.type = ANYNET_FRAME_LOOK;
	/* An error breaks the queue pair: the next poll returns it. */
	ib_qp_say(stream->qp, &header, sizeof(header), false);
}

/* Writes the payload from memory with key `lkey` to the place that the CTS names. */
static int post_write(struct ib_stream *stream, uint64_t n, const struct stream_frame *frame,
		      uint32_t lkey, const struct anynet_wire_cts *cts)
{
	if (stream->tcp.base.comm->stream_count == 1 &&
	    frame->header.length == frame->header.size &&
	    frame->header.length <= stream->qp->limits.whole_max)
		return post_whole(stream, n, frame, lkey, cts);
	return post_part(stream, n, frame, lkey, cts);
}

/*
 * Does the payload go in the frame of this message, which is in the log? With several tags a small one that has no CTS
 * does, whatever the receiver wants: it was sent over TCP, or queued before the receiver wanted none in frames. If it
 * asked, the messages of other tags behind it would wait until its receive is posted.
 */
static bool goes_in_frame(const struct ib_stream *stream, const struct send_msg *msg)
{
	const struct send_comm *comm = (const struct send_comm *)stream->tcp.base.comm;
	struct anynet_wire_cts cts;

	return ib_goes_in_frame(stream, msg) ||
	       (msg->record && comm->tags.multi && !ib_find_cts(stream, msg, &cts));
}

/* DATA whose payload does not lie behind its header, or may not travel there. */
static int post_data(struct ib_stream *stream, uint64_t n, const struct stream_frame *frame)
{
	struct send_comm *comm = (struct send_comm *)stream->tcp.base.comm;
	struct send_msg *msg = &comm->msgs[frame->header.slot];
	bool in_frame = goes_in_frame(stream, msg);
	struct anynet_wire_cts cts;
	uint32_t lkey = stream->qp->ring->lkey;
	const struct ib_mr *mr;
	char why[200];

	if (in_frame && frame->framed)
		return post_small(stream, n, frame);
	if (!in_frame && !ib_find_cts(stream, msg, &cts))
		return ask(stream, n, frame);
	if (in_frame && stream->qp->limits.sges < 2) /* begun by an adapter that can gather */
		return ib_leave_nic(stream, EINVAL, "the adapter has one scatter/gather entry");
	if (!frame->framed) {
		mr = ib_memory_on(msg->mr, stream->qp->nic, why, sizeof(why));
		if (!mr)
			return ib_leave_nic(stream, errno, why);
		lkey = mr->lkey;
	}
	if (in_frame)
		return post_gathered(stream, n, frame, lkey, msg->record);
	if (frame->header.size > cts.size) /* no WRITE: the peer reports the sizes */
		return post_small(stream, n, frame);
	return post_write(stream, n, frame, lkey, &cts);
}

static int post_frame(struct ib_stream *stream, uint64_t n, const struct frame_id *id)
{
	struct stream_frame frame;

	send_frame((struct send_comm *)stream->tcp.base.comm, id, &frame);
	if (id->type != ANYNET_FRAME_DATA || !id->length ||
	    (frame.framed && stream_takes_frames(&stream->tcp.base)))
		return post_small(stream, n, &frame);
	return post_data(stream, n, &frame);
}

int ib_transmit_data(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);

	if (!stream->qp)
		return stream->over_tcp->transmit(base);
	while (ib_stream_has_room(stream) &&
	       (base->log.next != base->log.end || stream_pull(base))) {
		const struct frame_id *id = &stream_log_at(base, base->log.next)->id;
		int ret = post_frame(stream, base->log.next, id);

		if (ret)
			return ret == -EAGAIN ? 0 : ret;
		stream->use.bytes_out += bytes_of(id);
		if (id->length >= IB_FLOW_LARGE)
			ib_flow_begin(&stream->use.flow, base->log.next);
		stream_taken(base);
	}
	return 0;
}

/* --- a receive comm: CTS and control frames --- */

/* CTS of consecutive receives, sent in one WRITE. */
struct cts_run {
	struct anynet_wire_cts at[IB_INLINE_WANTED / sizeof(struct anynet_wire_cts)];
	uint32_t count;
};

static bool may_join(const struct ib_qp *qp, const struct cts_run *run, uint32_t seq)
{
	size_t bytes = (run->count + 1) * sizeof(run->at[0]);

	return seq == run->at[0].seq + run->count && seq % ANYNET_CTS_RING_ENTRIES &&
	       bytes <= sizeof(run->at) && bytes <= ib_qp_copy_max(qp);
}

static int write_cts(struct ib_qp *qp, struct cts_run *run)
{
	uint64_t place = run->at[0].seq % ANYNET_CTS_RING_ENTRIES * sizeof(run->at[0]);
	uint32_t bytes = run->count * (uint32_t)sizeof(run->at[0]);

	if (!bytes)
		return 0;
	run->count = 0;
	return ib_qp_write(qp, run->at, bytes, qp->peer.addr + place);
}

/* Sets the key of the CTS for memory registered as `mr`. 0 or -errno. */
static int set_rkey(struct ib_stream *stream, struct anynet_mr *mr, struct anynet_wire_cts *cts)
{
	char why[200];
	const struct ib_mr *reg = ib_memory_on(mr, stream->qp->nic, why, sizeof(why));

	if (!reg)
		return ib_leave_nic(stream, errno, why);
	cts->rkey = reg->rkey;
	return 0;
}

static int post_cts(struct ib_stream *stream)
{
	struct ib_qp *qp = stream->qp;
	struct recv_comm *comm = (struct recv_comm *)stream->tcp.base.comm;
	struct cts_run run;
	struct anynet_wire_cts cts;
	struct anynet_mr *mr;
	int ret = 0;

	if (recv_holds_cts(comm, &stream->tcp.base))
		return 0;
	run.count = 0;
	while (!ret && ib_qp_has_room(qp, 2) && recv_next_cts(comm, &stream->tcp.base, &cts, &mr)) {
		ret = set_rkey(stream, mr, &cts);
		if (ret)
			return ret;
		cts.check = ib_cts_check(&cts);
		if (run.count && !may_join(qp, &run, cts.seq))
			ret = write_cts(qp, &run);
		run.at[run.count++] = cts;
	}
	return ret ? ret : write_cts(qp, &run);
}

/* Updates `frames` in the peer's CTS ring. Called before post_cts: once a receive in GPU memory is posted, no payload
 * may come in frames. */
static int tell_frames(struct ib_stream *stream)
{
	struct ib_qp *qp = stream->qp;
	uint32_t frames = recv_takes_frames((struct recv_comm *)stream->tcp.base.comm);

	if (frames == stream->use.takes_frames || !ib_qp_has_room(qp, 1))
		return 0;
	stream->use.takes_frames = frames;
	return ib_qp_write(qp, &frames, sizeof(frames),
			   qp->peer.addr + offsetof(struct anynet_wire_cts_ring, frames));
}

/* Appends struct anynet_wire_cts to a CTS frame. 0; or -errno: the memory cannot be registered. */
static int complete_cts(struct ib_stream *stream, uint8_t *frame, size_t *bytes)
{
	struct anynet_wire_frame header;
	struct anynet_wire_cts cts;
	struct anynet_mr *mr;
	int ret;

	memcpy(&header, frame, HEADER_BYTES);
	mr = recv_cts_of((struct recv_comm *)stream->tcp.base.comm, header.slot, &cts);
	if (!mr) {
		comm_use_tcp(stream->tcp.base.comm, "a receive without memory");
		return -ENOMEM;
	}
	ret = set_rkey(stream, mr, &cts);
	if (ret)
		return ret;
	header.length = sizeof(cts);
	memcpy(frame, &header, HEADER_BYTES);
	memcpy(frame + HEADER_BYTES, &cts, sizeof(cts));
	*bytes = HEADER_BYTES + sizeof(cts);
	return 0;
}

/* Adds to a control frame what it has more of by a queue pair. BYE: how many frames have come, because the queue pair
 * ends before the sender's adapter need have heard so. 0 or as complete_cts. */
static int complete(struct ib_stream *stream, uint8_t *frame, size_t *bytes)
{
	uint64_t frames = stream->tcp.base.at.frames;

	if (frame[0] == ANYNET_FRAME_BYE)
		memcpy(frame + offsetof(struct anynet_wire_frame, offset), &frames, sizeof(frames));
	return frame[0] == ANYNET_FRAME_CTS ? complete_cts(stream, frame, bytes) : 0;
}

/* Sends ASK_ALL, once for each queue pair. */
static int tell_to_ask(struct ib_stream *stream)
{
	struct anynet_wire_frame frame = { .type = ANYNET_FRAME_ASK_ALL };

	if (stream->use.asks ||
	    !recv_must_be_asked((struct recv_comm *)stream->tcp.base.comm, &stream->tcp.base) ||
	    !ib_qp_has_room(stream->qp, 2))
		return 0;
	stream->use.asks = true;
	return ib_qp_say(stream->qp, &frame, sizeof(frame), false);
}

int ib_transmit_control(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);
	struct recv_comm *comm = (struct recv_comm *)base->comm;
	uint8_t frame[STREAM_CONTROL_BYTES];
	size_t bytes;
	int ret;

	if (!stream->qp)
		return stream->over_tcp->transmit(base);
	if (stream->qp->state != IB_QP_UP)
		return 0;
	if (!stream->use.sends_cts)
		recv_cts_again(comm, base);
	stream->use.sends_cts = true;
	ret = ib_qp_tell(stream->qp);
	if (!ret)
		ret = tell_frames(stream);
	if (!ret)
		ret = post_cts(stream);
	if (!ret)
		ret = tell_to_ask(stream);
	while (!ret && ib_qp_has_room(stream->qp, 2) &&
	       (bytes = recv_next_control(comm, base, frame))) {
		ret = complete(stream, frame, &bytes);
		if (!ret)
			ret = ib_qp_say(stream->qp, frame, (uint32_t)bytes,
					frame[0] == ANYNET_FRAME_BYE);
	}
	return ret;
}
