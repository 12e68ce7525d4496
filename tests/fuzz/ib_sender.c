/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send comm whose receiver is the input: it grants places, in the CTS ring and by frames, rightly or not,
 * writes anything anywhere in the CTS ring and in the slots behind it, and says whatever it likes.
 */
#include <endian.h>

#include "ib.h"
#include "transports/message/send_internal.h"
#include "transports/path/ib/rail_link.h"
#include "transports/wire/hello.h"

#define LATE_SEQ   0xfffffffcu
#define SENT_MAX   ANYNET_SENDS
#define PLACE_ADDR 0x500000000000u /* the receiver's buffers, which nobody looks into */
#define PLACE_KEY  0x5500u

static const uint32_t sizes[] = { 0, 1, 100, 480, 481, 4096, 9000, 70000 };

static struct {
	uint32_t first_seq, next_seq;
	struct sent sent[SENT_MAX];
	uint32_t tags[SENT_MAX]; /* of message number (modulo) */
	bool gpu;                /* the receiver's memory: nothing small may come in frames */
} run;

/* --- the comm's writes --- */

static bool allows(const struct anynet_wire_grant *grant, const struct ibv_send_wr *wr)
{
	uint64_t at = wr->wr.rdma.remote_addr - grant->addr;

	return grant->rkey == wr->wr.rdma.rkey && at <= grant->size &&
	       wr->sg_list->length <= grant->size - at;
}

/* There is a grant for what is written. */
static void check_write(const struct ib_link *link, const struct ibv_send_wr *wr)
{
	bool allowed = false;

	for (unsigned i = 0; i < ANYNET_CTS_RING_GRANTS; i++)
		allowed |= allows(&link->cts_ring->grants[i], wr);
	for (unsigned i = 0; i < ib.rails; i++) {
		const struct ib_rail *rail = to_ib(ib.comm->rails[i]);

		for (unsigned k = 0;
		     rail && rail->link == link && rail->grants && k < ANYNET_WIRE_SLOTS; k++)
			allowed |= allows(&rail->grants[k], wr);
	}
	must(allowed);
}

static void on_post(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ib_link *link = stub_link_of(qp);

	if (link->state == IB_LINK_JOINED)
		return; /* proves itself */
	if (wr->opcode == IBV_WR_SEND) {
		must(wr->sg_list->length <= link->peer.slot_bytes);
		return;
	}
	must(wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
	must(wr->opcode == IBV_WR_RDMA_WRITE ||
	     (be32toh(wr->imm_data) & 0xffffff) == wr->sg_list->length);
	check_write(link, wr);
}

/* --- links --- */

/* As dial.c makes one; NULL: it does not come to a link. */
static struct ib_link *make_link(void)
{
	struct anynet_wire_hello hello, welcome;
	struct ib_link *link;
	char why[160];

	hello_fill(&hello, &local_dev, NULL, 0);
	link = ib_link_offer(&local_dev, -1, &hello, why, sizeof(why));
	if (!link)
		return NULL;
	hello_fill(&welcome, &local_dev, NULL, 0);
	ib_describe_peer(&welcome, false);
	if (ib_link_join(link, &welcome) || ib_link_begin_proof(link)) {
		ib_link_free(link);
		return NULL;
	}
	do {
		stub_complete(link->qp, 1, IBV_WC_SUCCESS);
	} while (ib_link_prove(link) == -EAGAIN);
	must(link->state == IB_LINK_UP || link->err);
	return link;
}

struct anynet_comm *ib_sender_open(void)
{
	struct anynet_comm *comm = send_comm_create(&local_dev, ib.rails);

	must(comm);
	memset(&run, 0, sizeof(run));
	stub_on_post = on_post;
	ib.comm = comm;
	if (ib.order & IB_LATE_SEQ)
		run.first_seq = run.next_seq = ((struct send_comm *)comm)->next_seq = LATE_SEQ;
	for (unsigned i = 0; i < ib.rails; i++) {
		struct ib_link *link = make_link();
		int fds[2];

		must(link || ib.order & IB_ODD_LINKS);
		peer_pair(fds);
		ib.peers[i] = fds[1];
		must(!comm_add_rail(comm, fds[0], (uint16_t)i, 0, (struct anynet_wire_rail){ 0, 0 },
				    link));
	}
	return comm;
}

/* The dial of a broken rail has come to an answer, with a position that may be a lie. */
static void resume(unsigned index)
{
	struct anynet_rail *rail = ib.comm->rails[index];
	uint8_t choice = input_u8(ib.in);
	uint64_t frames;
	uint32_t part = 0;
	int fds[2];

	if (!rail || comm_error(ib.comm) || ib.comm->peer_closed)
		return;
	if (rail->fd >= 0)
		comm_sever(ib.comm, rail, 0);
	frames = rail->ops->frames(rail);
	if (to_ib(rail)->by_link && to_ib(rail)->arrived < frames && choice & 2)
		frames = to_ib(rail)->arrived;
	stub_peer_lies |= choice & 0x0c;
	if (choice & 4)
		frames += (uint64_t)(int8_t)input_u8(ib.in);
	if (choice & 8)
		part = input_u16(ib.in);
	peer_pair(fds);
	peer_close(&ib.peers[index]);
	ib.peers[index] = fds[1];
	rail->next_link = choice & 1 ? NULL : make_link();
	comm_rail_back(ib.comm, rail, fds[0], ++ib.epochs[index], rail->home, frames, part);
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

/* --- what the receiver writes --- */

static struct anynet_wire_grant make_grant(uint32_t seq, uint8_t choice)
{
	struct anynet_wire_grant grant = {
		.addr = PLACE_ADDR + (uint64_t)seq % SENT_MAX * 131072,
		.size = choice & 0x80 ? sizes[choice % ARRAY_SIZE(sizes)] : 70000,
		.rkey = PLACE_KEY + seq % SENT_MAX,
		.tag = run.tags[seq % SENT_MAX],
		.seq = seq,
		.mark = seq + 1,
	};

	if (choice & 0x20) {
		uint8_t at = input_u8(ib.in);

		((uint8_t *)&grant)[at % sizeof(grant)] ^= input_u8(ib.in);
	}
	grant.check = ib_grant_check(&grant);
	return grant;
}

static void write_cts_ring(unsigned rail, uint64_t at, const void *bytes, size_t count)
{
	struct ib_link *link = ib_link_of(rail);

	if (link)
		stub_write(link->qp, (uintptr_t)link->cts_ring + at, link->mr->rkey, bytes,
			   (uint32_t)count);
}

static void grant_in_cts_ring(unsigned rail)
{
	uint8_t choice = input_u8(ib.in), ahead = input_u8(ib.in);
	uint32_t seq = run.first_seq + ahead;
	struct anynet_wire_grant grant = make_grant(seq, choice);

	write_cts_ring(rail, seq % ANYNET_CTS_RING_GRANTS * sizeof(grant), &grant, sizeof(grant));
}

/* Places for all that has been posted. */
static void grant_all(unsigned rail)
{
	uint32_t seq = run.next_seq -
		       (uint32_t)anynet_min(run.next_seq - run.first_seq, ANYNET_CTS_RING_GRANTS);

	for (; seq != run.next_seq; seq++) {
		struct anynet_wire_grant grant = make_grant(seq, 0);

		write_cts_ring(rail, seq % ANYNET_CTS_RING_GRANTS * sizeof(grant), &grant, sizeof(grant));
	}
}

/* Anywhere in the memory that the peer may write to, which is more than the CTS ring; and beyond. */
static void write_garbage(unsigned rail)
{
	uint8_t bytes[64], count = input_u8(ib.in) % 64;
	uint16_t at = input_u16(ib.in);

	stub_peer_lies = true; /* an ACK in a slot */
	count = (uint8_t)input_take(ib.in, bytes, count);
	write_cts_ring(rail, at % 4800, bytes, count);
}

static void say_consumed(unsigned rail)
{
	uint8_t choice = input_u8(ib.in);
	struct ib_link *link = ib_link_of(rail);
	uint32_t consumed;

	if (!link)
		return;
	consumed = choice & 0x80 ? (uint32_t)input_u16(ib.in) << (choice & 16)
				 : link->frames_posted - (choice & 0x1f);
	write_cts_ring(rail, offsetof(struct anynet_wire_cts_ring, consumed), &consumed,
		       sizeof(consumed));
	if (choice & 0x40)
		run.gpu = choice & 0x20;
}

/* --- what the receiver says --- */

static void say_grant(unsigned rail, uint8_t choice)
{
	uint32_t seq = run.first_seq + input_u8(ib.in);
	struct send_comm *comm = (struct send_comm *)ib.comm;
	struct anynet_wire_grant grant = make_grant(seq, choice & 0xe0);
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_GRANT,
		.slot = (uint16_t)(seq % ANYNET_WIRE_SLOTS),
		.seq = seq,
		.tag = grant.tag,
		.length = choice & 8 ? 0 : sizeof(grant),
	};

	for (unsigned i = 0; i < ANYNET_SENDS; i++) /* as its RTS has told */
		if (comm->msgs[i].state != SEND_FREE && comm->msgs[i].seq == seq)
			header.slot = (uint16_t)i;
	if (choice & 16)
		header.slot = input_u16(ib.in);
	ib_bring_frame(rail, &header, &grant, header.length);
}

static void say_ack(unsigned rail, uint8_t choice)
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
	ib_bring_frame(rail, &header, bitmap, header.length);
}

static void say_something(unsigned rail)
{
	static const uint8_t types[] = { ANYNET_FRAME_ASK_ALL, ANYNET_FRAME_PING,
					 ANYNET_FRAME_DOUBT, ANYNET_FRAME_BYE };
	uint8_t choice = input_u8(ib.in), bytes[IB_CONTROL_BYTES] = { 0 };
	struct anynet_wire_frame header = { .type = types[choice >> 3 & 3] };

	switch (choice & 7) {
	case 0:
	case 1:
		say_grant(rail, choice);
		return;
	case 2:
	case 3:
		say_ack(rail, choice);
		return;
	case 4:
		header.slot = choice >> 6;
		header.seq = ib.epochs[rail];
		break;
	case 5:
		header.length = input_u8(ib.in);
		break;
	default:
		stub_peer_lies = true;
		input_take(ib.in, &header, sizeof(header));
	}
	ib_bring_frame(rail, &header, bytes,
		       anynet_min(header.length, sizeof(bytes) - sizeof(header)));
}

static void say_frames(unsigned rail)
{
	const uint32_t frames = !run.gpu;

	write_cts_ring(rail, offsetof(struct anynet_wire_cts_ring, frames), &frames, sizeof(frames));
}

void ib_sender_step(uint8_t op, unsigned rail)
{
	say_frames(rail);
	switch (op) {
	case 0:
	case 1:
		post();
		break;
	case 2:
		grant_in_cts_ring(rail);
		break;
	case 3:
		grant_all(rail);
		break;
	case 4:
		write_garbage(rail);
		break;
	case 5:
		say_consumed(rail);
		break;
	case 6:
		say_something(rail);
		break;
	case 7:
		ib_bring_garbage(rail);
		break;
	case 8:
		sent_test(ib.comm, &run.sent[input_u8(ib.in) % SENT_MAX]);
		break;
	case 9:
		test_all();
		break;
	case 10:
		ib_complete_some(rail, input_u8(ib.in));
		break;
	case 11:
		ib_trouble(rail, input_u8(ib.in));
		break;
	case 12:
		ib_over_tcp(rail, input_u8(ib.in));
		break;
	case 13:
		resume(rail);
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
