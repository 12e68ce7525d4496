/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send comm whose receiver is the input: it sends CTS, in the CTS ring and by frames, correct or not, writes anything
 * anywhere in the CTS ring and in the slots behind it, and sends anything.
 */
#include <endian.h>

#include "ib.h"
#include "transports/message/send_internal.h"
#include "transports/path/ib/ib_setup.h"
#include "transports/wire/hello.h"

#define LATE_SEQ   0xfffffffcu
#define SENT_MAX   ANYNET_SENDS
#define PLACE_ADDR 0x500000000000u /* the receiver's buffers, which are not checked */
#define PLACE_KEY  0x5500u

static const uint32_t sizes[] = { 0, 1, 100, 480, 481, 4096, 9000, 70000 };

static struct {
	uint32_t first_seq, next_seq;
	struct sent sent[SENT_MAX];
	uint32_t tags[SENT_MAX]; /* by message number (modulo) */
	bool gpu;                /* the receiver's memory: small messages must not come in frames */
} run;

/* --- the comm's writes --- */

static bool allows(const struct anynet_wire_cts *cts, const struct ibv_send_wr *wr)
{
	uint64_t at = wr->wr.rdma.remote_addr - cts->addr;

	return cts->rkey == wr->wr.rdma.rkey && at <= cts->size &&
	       wr->sg_list->length <= cts->size - at;
}

/* There is a CTS for what is written. */
static void check_write(const struct ib_qp *qp, const struct ibv_send_wr *wr)
{
	bool allowed = false;

	for (unsigned i = 0; i < ANYNET_CTS_RING_ENTRIES; i++)
		allowed |= allows(&qp->memory.cts_ring->cts[i], wr);
	for (unsigned i = 0; i < ib.streams; i++) {
		const struct ib_stream *stream = to_ib(ib.comm->streams[i]);

		for (unsigned k = 0;
		     stream && stream->qp == qp && stream->use.cts && k < ANYNET_WIRE_SLOTS; k++)
			allowed |= allows(&stream->use.cts[k], wr);
	}
	must(allowed);
}

static void on_post(const struct ibv_qp *posted, const struct ibv_send_wr *wr)
{
	const struct ib_qp *qp = stub_qp_of(posted);

	if (qp->state == IB_QP_JOINED)
		return; /* passes its proof */
	if (wr->opcode == IBV_WR_SEND) {
		must(wr->sg_list->length <= qp->peer.slot_bytes);
		return;
	}
	if (wr->opcode == IBV_WR_RDMA_READ) { /* a heartbeat, of the peer's slots */
		must(wr->sg_list->length == qp->limits.packet_bytes &&
		     !ib_qp_credits((struct ib_qp *)(uintptr_t)qp));
		must(wr->wr.rdma.remote_addr + qp->limits.packet_bytes ==
		     qp->peer.addr + (uint64_t)qp->peer.slots * qp->peer.slot_bytes);
		return;
	}
	must(wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
	must(wr->opcode == IBV_WR_RDMA_WRITE ||
	     (be32toh(wr->imm_data) & 0xffffff) == wr->sg_list->length);
	check_write(qp, wr);
}

/* --- queue pairs --- */

/* As dial.c makes one; NULL: no queue pair is made. */
static struct ib_qp *make_qp(void)
{
	struct anynet_wire_hello hello, welcome;
	struct ib_qp *qp;
	char why[160];

	hello_fill(&hello, &local_dev, NULL, 0);
	qp = ib_qp_offer(&local_dev, &local_dev.addr, -1, &hello, why, sizeof(why));
	if (!qp)
		return NULL;
	hello_fill(&welcome, &local_dev, NULL, 0);
	ib_describe_peer(&welcome, false);
	if (ib_qp_join(qp, &welcome) || ib_qp_begin_proof(qp)) {
		ib_qp_free(qp);
		return NULL;
	}
	do {
		stub_complete(qp->ibv, 1, IBV_WC_SUCCESS);
	} while (ib_qp_prove(qp) == -EAGAIN);
	must(qp->state == IB_QP_UP || qp->fault.err);
	return qp;
}

struct anynet_comm *ib_sender_open(void)
{
	struct anynet_comm *comm = send_comm_create(&local_dev, ib.streams);

	must(comm);
	memset(&run, 0, sizeof(run));
	stub_on_post = on_post;
	ib.comm = comm;
	if (ib.order & IB_LATE_SEQ)
		run.first_seq = run.next_seq = ((struct send_comm *)comm)->next_seq = LATE_SEQ;
	for (unsigned i = 0; i < ib.streams; i++) {
		struct ib_qp *qp = make_qp();
		int fds[2];

		must(qp || ib.order & IB_ODD_LINKS);
		peer_pair(fds);
		ib.peers[i] = fds[1];
		must(!comm_add_stream(comm, fds[0], (uint16_t)i, 0,
				      (struct anynet_wire_pair){ 0, 0 }, qp));
	}
	return comm;
}

/* The dial of a broken stream got an answer, with a position that may be wrong. */
static void resume(unsigned index)
{
	struct anynet_stream *stream = ib.comm->streams[index];
	uint8_t choice = input_u8(ib.in);
	uint64_t frames;
	uint32_t part = 0;
	int fds[2];

	if (!stream || comm_error(ib.comm) || ib.comm->peer_closed)
		return;
	if (stream->path.fd >= 0)
		comm_sever(ib.comm, stream, 0);
	frames = stream_frames(stream);
	if (to_ib(stream)->by_qp && stream->log.arrived < frames && choice & 2)
		frames = stream->log.arrived;
	stub_peer_lies |= choice & 0x0c;
	if (choice & 4)
		frames += (uint64_t)(int8_t)input_u8(ib.in);
	if (choice & 8)
		part = input_u16(ib.in);
	peer_pair(fds);
	peer_close(&ib.peers[index]);
	ib.peers[index] = fds[1];
	stream->qp.next = choice & 1 ? NULL : make_qp();
	comm_stream_back(ib.comm, stream, fds[0], ++ib.epochs[index], stream->home,
			 (struct stream_position){ frames, part });
}

/* --- what NCCL does --- */

static void post(void)
{
	uint8_t choice = input_u8(ib.in);
	uint32_t bytes = sizes[choice % ARRAY_SIZE(sizes)], tag = choice >> 3 & 3;
	enum buffer_kind kind = choice & 0x40 ? BUFFER_REGISTERED : BUFFER_PLAIN;
	struct sent *sent = run.sent;

	while (sent < run.sent + SENT_MAX && sent->req)
		sent++;
	if (sent == run.sent + SENT_MAX)
		return;
	buffer_make(ib.comm, &sent->buffer, kind, bytes);
	sent_post(ib.comm, sent, (int)tag);
	if (sent->req)
		run.tags[run.next_seq++ % SENT_MAX] = tag;
}

static void test_all(void)
{
	ib_attend(0);
	for (int i = 0; i < SENT_MAX; i++)
		sent_test(ib.comm, &run.sent[i]);
}

/* --- the receiver's writes --- */

static struct anynet_wire_cts make_cts(uint32_t seq, uint8_t choice)
{
	struct anynet_wire_cts cts = {
		.addr = PLACE_ADDR + (uint64_t)seq % SENT_MAX * 131072,
		.size = choice & 0x80 ? sizes[choice % ARRAY_SIZE(sizes)] : 70000,
		.rkey = PLACE_KEY + seq % SENT_MAX,
		.tag = run.tags[seq % SENT_MAX],
		.seq = seq,
		.mark = seq + 1,
	};

	if (choice & 0x20) {
		uint8_t at = input_u8(ib.in);

		((uint8_t *)&cts)[at % sizeof(cts)] ^= input_u8(ib.in);
	}
	cts.check = ib_cts_check(&cts);
	return cts;
}

static void write_cts_ring(unsigned stream, uint64_t at, const void *bytes, size_t count)
{
	struct ib_qp *qp = ib_qp_of(stream);

	if (qp)
		stub_write(qp->ibv, (uintptr_t)qp->memory.cts_ring + at, qp->memory.mr->rkey, bytes,
			   (uint32_t)count);
}

static void cts_in_ring(unsigned stream)
{
	uint8_t choice = input_u8(ib.in), ahead = input_u8(ib.in);
	uint32_t seq = run.first_seq + ahead;
	struct anynet_wire_cts cts = make_cts(seq, choice);

	write_cts_ring(stream, seq % ANYNET_CTS_RING_ENTRIES * sizeof(cts), &cts, sizeof(cts));
}

/* CTS for everything that has been posted. */
static void clear_all(unsigned stream)
{
	uint32_t seq = run.next_seq -
		       (uint32_t)anynet_min(run.next_seq - run.first_seq, ANYNET_CTS_RING_ENTRIES);

	for (; seq != run.next_seq; seq++) {
		struct anynet_wire_cts cts = make_cts(seq, 0);

		write_cts_ring(stream, seq % ANYNET_CTS_RING_ENTRIES * sizeof(cts), &cts,
			       sizeof(cts));
	}
}

/* Anywhere in the memory that the peer may write to, which is more than the CTS ring; and beyond. */
static void write_garbage(unsigned stream)
{
	uint8_t bytes[64], count = input_u8(ib.in) % 64;
	uint16_t at = input_u16(ib.in);

	stub_peer_lies = true; /* an ACK in a slot */
	count = (uint8_t)input_take(ib.in, bytes, count);
	write_cts_ring(stream, at % 4800, bytes, count);
}

static void say_consumed(unsigned stream)
{
	uint8_t choice = input_u8(ib.in);
	struct ib_qp *qp = ib_qp_of(stream);
	uint32_t consumed;

	if (!qp)
		return;
	consumed = choice & 0x80 ? (uint32_t)input_u16(ib.in) << (choice & 16)
				 : qp->credits.posted - (choice & 0x1f);
	write_cts_ring(stream, offsetof(struct anynet_wire_cts_ring, consumed), &consumed,
		       sizeof(consumed));
	if (choice & 0x40)
		run.gpu = choice & 0x20;
}

/* --- the receiver's frames --- */

static void say_cts(unsigned stream, uint8_t choice)
{
	uint32_t seq = run.first_seq + input_u8(ib.in);
	struct send_comm *comm = (struct send_comm *)ib.comm;
	struct anynet_wire_cts cts = make_cts(seq, choice & 0xe0);
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_CTS,
		.slot = (uint16_t)(seq % ANYNET_WIRE_SLOTS),
		.seq = seq,
		.tag = cts.tag,
		.length = choice & 8 ? 0 : sizeof(cts),
	};

	for (unsigned i = 0; i < ANYNET_SENDS; i++) /* as its RTS said */
		if (comm->msgs[i].state != SEND_FREE && comm->msgs[i].seq == seq)
			header.slot = (uint16_t)i;
	if (choice & 16)
		header.slot = input_u16(ib.in);
	ib_bring_frame(stream, &header, &cts, header.length);
}

static void say_ack(unsigned stream, uint8_t choice)
{
	uint8_t bitmap[ANYNET_ACK_BYTES] = { 0 };
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK, .length = sizeof(bitmap) };

	stub_peer_lies = true;
	if (choice & 8) {
		header.length = 0;
		header.slot = input_u8(ib.in);
		header.seq = ((struct send_comm *)ib.comm)->msgs[header.slot].seq;
	} else {
		uint8_t at = input_u8(ib.in);

		bitmap[at % sizeof(bitmap)] = input_u8(ib.in);
	}
	ib_bring_frame(stream, &header, bitmap, header.length);
}

static void say_something(unsigned stream)
{
	static const uint8_t types[] = { ANYNET_FRAME_ASK_ALL, ANYNET_FRAME_PING,
					 ANYNET_FRAME_SUSPECT, ANYNET_FRAME_BYE };
	uint8_t choice = input_u8(ib.in), bytes[IB_CONTROL_BYTES] = { 0 };
	struct anynet_wire_frame header = { .type = types[choice >> 3 & 3] };

	switch (choice & 7) {
	case 0:
	case 1:
		say_cts(stream, choice);
		return;
	case 2:
	case 3:
		say_ack(stream, choice);
		return;
	case 4:
		header.slot = choice >> 6;
		header.seq = ib.epochs[stream];
		break;
	case 5:
		header.length = input_u8(ib.in);
		break;
	default:
		stub_peer_lies = true;
		input_take(ib.in, &header, sizeof(header));
	}
	ib_bring_frame(stream, &header, bytes,
		       anynet_min(header.length, sizeof(bytes) - sizeof(header)));
}

static void say_frames(unsigned stream)
{
	const uint32_t frames = !run.gpu;

	write_cts_ring(stream, offsetof(struct anynet_wire_cts_ring, frames), &frames,
		       sizeof(frames));
}

void ib_sender_step(uint8_t op, unsigned stream)
{
	say_frames(stream);
	switch (op) {
	case 0:
	case 1:
		post();
		break;
	case 2:
		cts_in_ring(stream);
		break;
	case 3:
		clear_all(stream);
		break;
	case 4:
		write_garbage(stream);
		break;
	case 5:
		say_consumed(stream);
		break;
	case 6:
		say_something(stream);
		break;
	case 7:
		ib_bring_garbage(stream);
		break;
	case 8:
		sent_test(ib.comm, &run.sent[input_u8(ib.in) % SENT_MAX]);
		break;
	case 9:
		test_all();
		break;
	case 10:
		ib_complete_some(stream, input_u8(ib.in));
		break;
	case 11:
		ib_trouble(stream, input_u8(ib.in));
		break;
	case 12:
		ib_over_tcp(stream, input_u8(ib.in));
		break;
	case 13:
		resume(stream);
		break;
	case 14:
		sent_take_back(ib.comm, &run.sent[input_u8(ib.in) % SENT_MAX]);
		break;
	default:
		ib_attend(input_u8(ib.in));
	}
}

void ib_sender_close(void)
{
	test_all();
	test_all();
	for (int i = 0; i < SENT_MAX; i++)
		sent_take_back(ib.comm, &run.sent[i]);
	sent_close(ib.comm);
	for (int i = 0; i < SENT_MAX; i++)
		free(run.sent[i].buffer.data);
}
