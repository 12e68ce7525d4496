/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive comm whose sender is the input. Like a correct sender it keeps the CTS ring to which the comm writes, and
 * writes large messages to the places named there; anything may arrive in between.
 */
#include <endian.h>

#include "ib.h"
#include "recv_check.h"
#include "transports/message/recv_internal.h"
#include "transports/session/recovery.h"

#define LATE_SEQ   0xfffffffcu
#define SMALL_MAX  480
#define LARGE_MAX  20000
#define FRAME_ROOM (IB_SLOT_BYTES - HEADER_BYTES)

static const uint16_t sizes[] = { 0, 1, 100, 480, 481, 4096, 9000, LARGE_MAX };

static struct {
	uint32_t next_seq;
	struct anynet_wire_cts_ring cts_rings[IB_STREAMS_MAX];
	struct posted posted[ANYNET_REQUESTS];
} run;

/* --- the comm's writes --- */

static struct anynet_wire_cts_ring *cts_ring_of(const struct ibv_qp *qp)
{
	for (unsigned i = 0; i < ib.streams; i++)
		if (ibv_qp_of(i) == qp)
			return &run.cts_rings[i];
	return NULL;
}

/* Writes go to the CTS ring of the peer, and are correct. */
static void check_write(const struct ib_qp *qp, const struct ibv_send_wr *wr)
{
	struct anynet_wire_cts_ring *cts_ring = cts_ring_of(qp->ibv), spare;
	uint64_t at = wr->wr.rdma.remote_addr - qp->peer.addr;

	must(wr->wr.rdma.rkey == qp->peer.rkey);
	must(at < sizeof(*cts_ring) && wr->sg_list->length <= sizeof(*cts_ring) - at);
	memcpy((uint8_t *)(cts_ring ? cts_ring : &spare) + at, (void *)(uintptr_t)wr->sg_list->addr,
	       wr->sg_list->length);
}

static void on_post(const struct ibv_qp *posted, const struct ibv_send_wr *wr)
{
	const struct ib_qp *qp = stub_qp_of(posted);

	must(wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_RDMA_WRITE);
	if (wr->opcode == IBV_WR_RDMA_WRITE)
		check_write(qp, wr);
	else
		must(wr->sg_list->length <= qp->peer.slot_bytes);
}

/* --- queue pairs --- */

static void say_hello(struct anynet_wire_hello *hello)
{
	hello_fill(hello, &local_dev, NULL, 0);
	hello->type = ANYNET_HELLO;
	ib_describe_peer(hello, true);
}

static struct ib_qp *make_qp(void)
{
	struct anynet_wire_hello hello, answer = { .type = ANYNET_WELCOME };

	struct ib_qp *qp;

	say_hello(&hello);
	qp = ib_qp_accept(&local_dev, &hello, &answer);
	if (qp && qp->cm)
		memcpy(ib.cm_nonce, answer.cm.nonce, sizeof(ib.cm_nonce));
	return qp;
}

struct anynet_comm *ib_receiver_open(void)
{
	struct anynet_comm *comm = recv_comm_create(&local_dev, ib.streams, IB_REPLAY_BYTES);

	must(comm);
	memset(&run, 0, sizeof(run));
	stub_on_post = on_post;
	ib.comm = comm;
	if (ib.order & IB_LATE_SEQ) {
		struct recv_comm *recv = (struct recv_comm *)comm;

		run.next_seq = recv->seen.all = recv->posted.all = recv->posted.clearable =
			LATE_SEQ;
		recv->posted.oldest = LATE_SEQ;
	}
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

/* The sender requests a queue pair for the stream. */
static void link_beside(struct anynet_wire_hello hello, unsigned stream)
{
	int fds[2];

	hello.kind = ANYNET_KIND_QP;
	hello.stream = (uint16_t)stream;
	hello.epoch = ++ib.epochs[stream];
	peer_pair(fds);
	must(!recovery_post(ib.comm, fds[0], &hello, NULL));
	comm_poke(ib.comm);
	ib_attend(0);
	peer_close(&fds[1]);
}

/* The sender requests a new connection, with a queue pair, without, or with one that does not exist. */
static void resume(unsigned stream)
{
	uint8_t choice = input_u8(ib.in);
	struct anynet_wire_hello hello;
	int fds[2];

	say_hello(&hello);
	if (choice & 1)
		memset(&hello.qp, 0, sizeof(hello.qp));
	else
		link_beside(hello, stream);
	hello.qp.qpn += (choice & 12) == 12;
	hello.kind = ANYNET_KIND_RESUME;
	hello.stream = (uint16_t)stream;
	hello.epoch = ++ib.epochs[stream];
	peer_pair(fds);
	ib_chores_finish(); /* the background thread does so in between */
	must(!recovery_post(ib.comm, fds[0], &hello, NULL));
	comm_poke(ib.comm);
	memset(&run.cts_rings[stream], 0, sizeof(run.cts_rings[stream]));
	ib_attend(0);
	peer_close(&ib.peers[stream]);
	ib.peers[stream] = fds[1];
	if (choice & 2)
		ib_over_tcp(stream, 0); /* it uses TCP after all */
}

/* --- what NCCL does --- */

static void post(void)
{
	uint8_t shape = input_u8(ib.in);
	struct posted *posted = posted_free_one(run.posted);

	if (!posted)
		return;
	for (int i = 0; i < (shape & 0x80 ? 1 + shape % ANYNET_RECVS_MAX : 1); i++) {
		uint8_t choice = input_u8(ib.in);
		size_t bytes = sizes[choice % ARRAY_SIZE(sizes)];
		enum buffer_kind kind = choice & 0x40 ? BUFFER_REGISTERED : BUFFER_PLAIN;

		posted_add(ib.comm, posted, choice & 0x20 && !bytes ? BUFFER_NONE : kind, bytes,
			   choice >> 3 & 3);
	}
	posted_post(ib.comm, posted);
	if (!posted->req)
		posted_blank(ib.comm, posted);
}

static void test(struct posted *posted)
{
	int got[ANYNET_RECVS_MAX];

	if (!posted_test(ib.comm, posted, got))
		return;
	if (!stub_peer_lies) /* it contains no bytes of the script */
		posted_check_written(posted, got);
	posted_blank(ib.comm, posted);
	must(!comm_error(ib.comm));
}

static void test_all(void)
{
	ib_attend(0);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		test(&run.posted[i]);
	recv_check(ib.comm);
}

/* --- correct messages --- */

/* NCCL still waits for a write to this memory: otherwise a sender that writes there changes memory that it was not
 * given. */
static bool is_posted(uint64_t addr, size_t bytes)
{
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		for (int k = 0; run.posted[i].req && k < run.posted[i].n; k++) {
			const struct buffer *buffer = &run.posted[i].buffers[k];
			uint64_t at = addr - (uintptr_t)buffer->data;

			if (buffer->data && at <= buffer->bytes && bytes <= buffer->bytes - at)
				return true;
		}
	return false;
}

/* The size that it then names is another matter, so the bytes are those already there. */
static void write_payload(unsigned stream, const struct anynet_wire_cts *cts, uint64_t offset,
			  size_t bytes)
{
	uint8_t payload[LARGE_MAX];

	memset(payload, BLANK_BYTE, bytes);
	if (ibv_qp_of(stream) && is_posted(cts->addr + offset, bytes))
		stub_write(ibv_qp_of(stream), cts->addr + offset, cts->rkey, payload,
			   (uint32_t)bytes);
}

static struct anynet_wire_frame header_of(uint32_t seq, uint32_t tag, uint32_t size)
{
	return (struct anynet_wire_frame){
		.type = ANYNET_FRAME_DATA,
		.tag = tag,
		.slot = (uint16_t)(seq % ANYNET_WIRE_SLOTS),
		.seq = seq,
		.length = size,
		.size = size,
	};
}

static void small_message(unsigned stream, uint8_t choice)
{
	static const uint8_t payload[SMALL_MAX] = { 0xa5 };
	uint32_t size = (uint32_t)anynet_min(sizes[choice % ARRAY_SIZE(sizes)], SMALL_MAX);
	struct anynet_wire_frame header = header_of(run.next_seq++, choice >> 3 & 3, size);

	header.flags = choice & 0x20 ? ANYNET_FLAG_MULTI : 0;
	ib_bring_frame(stream, &header, payload, size);
}

/* A message, or a half of it, for which the CTS ring has a place. */
static void large_message(unsigned stream, uint8_t choice)
{
	const struct anynet_wire_cts *cts =
		&run.cts_rings[stream].cts[run.next_seq % ANYNET_CTS_RING_ENTRIES];
	uint32_t size = (uint32_t)anynet_min(sizes[choice % ARRAY_SIZE(sizes)], cts->size);
	struct anynet_wire_frame header = header_of(run.next_seq, cts->tag, size);

	if (cts->mark != run.next_seq + 1) {
		header.type = choice & 0x80 ? ANYNET_FRAME_LOOK : ANYNET_FRAME_ASK;
		header.length = 0;
		ib_bring_frame(stream, &header, NULL, 0);
		return;
	}
	if (choice & 0x80) /* two frames, on two streams if there are two */
		header.length = size / 2;
	write_payload(stream, cts, 0, header.length);
	run.next_seq++;
	if (ib.streams == 1 && !(choice & 0xc0)) {
		if (ibv_qp_of(stream))
			stub_write_imm(ibv_qp_of(stream),
				       htobe32((uint32_t)header.slot << 24 | header.length),
				       header.length);
		return;
	}
	ib_bring_frame(stream, &header, NULL, 0);
	if (header.length == size)
		return;
	stream = (stream + 1) % ib.streams;
	header.offset = header.length;
	header.length = size - header.length;
	write_payload(stream, cts, header.offset, header.length);
	ib_bring_frame(stream, &header, NULL, 0);
}

/* --- other frames --- */

/* Frames that continue, announce, or repeat a message; their type, size or place may be wrong. */
static void some_frame(unsigned stream)
{
	static const uint8_t types[] = {
		ANYNET_FRAME_DATA, ANYNET_FRAME_RTS,   ANYNET_FRAME_ASK, ANYNET_FRAME_LOOK,
		ANYNET_FRAME_PING, ANYNET_FRAME_READY, ANYNET_FRAME_BYE, ANYNET_FRAME_DATA,
	};
	static const uint8_t payload[FRAME_ROOM];
	uint8_t choice = input_u8(ib.in), more = input_u8(ib.in);
	uint32_t ahead = input_step(ib.in);
	struct anynet_wire_frame header =
		header_of(run.next_seq + ahead, choice >> 3 & 3, sizes[choice % ARRAY_SIZE(sizes)]);
	size_t bytes;

	header.type = types[more & 7];
	header.flags = more >> 3 & 0x0f;
	if (header.type != ANYNET_FRAME_DATA)
		header.length = 0;
	if (choice & 0x20)
		header.length = input_u16(ib.in);
	if (choice & 0x40)
		header.offset = input_u16(ib.in);
	if (choice & 0x80)
		header.slot = input_u16(ib.in);
	if (more & 0x80)
		header.type = input_u8(ib.in);
	bytes = header.length;
	if (bytes > FRAME_ROOM || (more & 7) == 7)
		bytes = 0; /* as if it had been written */
	if ((choice & 0xc0) == 0xc0)
		bytes /= 2;
	if (!ahead)
		run.next_seq++;
	ib_bring_frame(stream, &header, payload, bytes);
}

static void some_imm(unsigned stream)
{
	uint8_t choice = input_u8(ib.in), slot = input_u8(ib.in);
	uint32_t size = sizes[choice % ARRAY_SIZE(sizes)];

	if (choice & 8)
		slot = (uint8_t)(run.next_seq++ % ANYNET_WIRE_SLOTS);
	if (choice & 0x10)
		size = (uint32_t)input_u16(ib.in) << (choice >> 5);
	if (ibv_qp_of(stream))
		stub_write_imm(ibv_qp_of(stream), htobe32((uint32_t)slot << 24 | (size & 0xffffff)),
			       choice & 0x80 ? 0 : size);
}

void ib_receiver_step(uint8_t op, unsigned stream)
{
	switch (op) {
	case 0:
	case 1:
		post();
		break;
	case 2:
		small_message(stream, input_u8(ib.in));
		break;
	case 3:
		large_message(stream, input_u8(ib.in));
		break;
	case 4:
	case 5:
		some_frame(stream);
		break;
	case 6:
		some_imm(stream);
		break;
	case 7:
		ib_bring_garbage(stream);
		break;
	case 8:
		test(&run.posted[input_u8(ib.in) % ANYNET_REQUESTS]);
		recv_check(ib.comm);
		break;
	case 9:
		test_all();
		break;
	case 10:
		ib_complete_some(stream, input_u8(ib.in));
		break;
	case 11:
		if (ib.order & IB_BY_CM)
			ib_by_cm(input_u8(ib.in));
		else
			ib_trouble(stream, input_u8(ib.in));
		break;
	case 12:
		ib_over_tcp(stream, input_u8(ib.in));
		break;
	case 13:
		resume(stream);
		break;
	case 14:
		posted_take_back(ib.comm, &run.posted[input_u8(ib.in) % ANYNET_REQUESTS]);
		break;
	default:
		ib_attend(input_u8(ib.in));
	}
}

void ib_receiver_close(void)
{
	test_all();
	test_all();
	posted_close(ib.comm, run.posted);
}
