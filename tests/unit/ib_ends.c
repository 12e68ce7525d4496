/* SPDX-License-Identifier: Apache-2.0 */
#include "ib_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "transports/device/ib_events.h"
#include "transports/wire/hello.h"

static const uint8_t subnet[] = { 0xfe, 0x80 }; /* the stub's */

struct ib_nic *ib_ends_start(void)
{
	static bool offered;
	struct ib_nic *nic;
	char why[160];

	local_net_start();
	local_cfg.ib_gid_index = ANYNET_AUTO;
	local_cfg.ib_flid_gid_index = ANYNET_AUTO;
	local_cfg.ib_sl = ANYNET_AUTO;
	local_cfg.ib_tc = ANYNET_AUTO;
	local_cfg.ib_ar_threshold = 8192;
	local_dev.transport = ANYNET_TRANSPORT_IB;
	if (!offered)
		stub_offer();
	offered = true;
	nic = ib_events_open(&local_dev, why, sizeof(why));
	assert_non_null(nic);
	assert_int_equal(ib_nic_refresh(nic), 0);
	return nic;
}

struct anynet_wire_hello ib_peer(bool is_send)
{
	struct anynet_wire_hello hello;

	hello_fill(&hello, &local_dev, NULL, 0);
	hello.qp = (struct anynet_wire_qp){
		.kind = 1, /* InfiniBand */
		.mtu = IBV_MTU_4096,
		.lid = 9,
		.qpn = PEER_QPN,
		.psn = PEER_PSN,
		.rkey = PEER_RKEY,
		.addr = PEER_ADDR,
		.slots = is_send ? IB_CONTROL_SLOTS : IB_SLOTS,
		.slot_bytes = is_send ? IB_CONTROL_BYTES : IB_SLOT_BYTES,
	};
	memcpy(hello.qp.gid, subnet, sizeof(subnet));
	return hello;
}

void ib_takes_frames(struct ib_qp *qp, bool takes)
{
	const uint32_t frames = takes;

	assert_true(stub_write(qp->ibv, (uintptr_t)&qp->memory.cts_ring->frames,
			       qp->memory.mr->rkey, &frames, sizeof(frames)));
}

struct ib_qp *ib_connector(bool up)
{
	struct anynet_wire_hello hello = { .type = ANYNET_HELLO }, welcome = ib_peer(false);
	char why[160] = "";
	struct ib_qp *qp = ib_qp_offer(&local_dev, &local_dev.addr, -1, &hello, why, sizeof(why));

	assert_non_null(qp);
	assert_int_equal(ib_qp_join(qp, &welcome), 0);
	if (up) {
		assert_int_equal(ib_qp_begin_proof(qp), 0);
		for (int step = 0; step < 3; step++) {
			assert_int_equal(ib_qp_prove(qp), -EAGAIN);
			ib_complete(qp);
		}
		assert_int_equal(ib_qp_prove(qp), 0);
		ib_takes_frames(qp, true);
	}
	return qp;
}

struct ib_qp *ib_acceptor(void)
{
	struct anynet_wire_hello hello = ib_peer(true), answer = { .type = ANYNET_WELCOME };
	struct ib_qp *qp = ib_qp_accept(&local_dev, &hello, &answer);

	assert_non_null(qp);
	return qp;
}

static void open_streams(struct pair *pair, struct anynet_comm *comm, unsigned by_qp)
{
	assert_non_null(comm);
	for (unsigned i = 0; i < pair->streams; i++) {
		struct ib_qp *qp = i >= by_qp      ? NULL
				   : comm->is_send ? ib_connector(true)
						   : ib_acceptor();

		pair->fds[i] = local_stream_by(comm, i, qp);
	}
	assert_int_equal(comm_open(comm), 0);
}

void ib_open_send(struct pair *pair, unsigned streams, unsigned by_qp)
{
	*pair = (struct pair){ .streams = streams };
	pair->send = send_comm_create(&local_dev, streams);
	open_streams(pair, pair->send, by_qp);
}

void ib_open_recv(struct pair *pair, unsigned streams, unsigned by_qp)
{
	*pair = (struct pair){ .streams = streams };
	pair->recv = recv_comm_create(&local_dev, streams, IB_REPLAY_BYTES);
	open_streams(pair, pair->recv, by_qp);
}

struct ib_stream *ib_stream_of(const struct anynet_comm *comm, unsigned index)
{
	assert_non_null(comm->streams[index]);
	return to_ib(comm->streams[index]);
}

struct ib_qp *ib_qp_of(const struct anynet_comm *comm, unsigned stream)
{
	assert_non_null(ib_stream_of(comm, stream)->qp);
	return ib_stream_of(comm, stream)->qp;
}

void ib_bring(struct ib_qp *qp, const struct anynet_wire_frame *header, const void *payload,
	      size_t bytes)
{
	uint8_t frame[IB_SLOT_BYTES];

	assert_true(sizeof(*header) + bytes <= sizeof(frame));
	memcpy(frame, header, sizeof(*header));
	if (bytes)
		memcpy(frame + sizeof(*header), payload, bytes);
	assert_true(stub_send(qp->ibv, frame, (uint32_t)(sizeof(*header) + bytes), NULL));
}

void ib_complete(struct ib_qp *qp)
{
	stub_complete(qp->ibv, IB_SQ_WRS, IBV_WC_SUCCESS);
	assert_int_equal(ib_qp_poll(qp, NULL), 0);
}

void ib_turn(struct anynet_comm *comm)
{
	comm_enter(comm);
	comm_turn(comm);
	comm_leave(comm);
}

struct ib_posted ib_posted[IB_POSTED_MAX];
unsigned ib_posted_count;

static void on_post(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	struct ib_posted *next;

	if (ib_posted_count++ >= IB_POSTED_MAX)
		return;
	next = &ib_posted[ib_posted_count - 1];
	*next = (struct ib_posted){
		.qp = qp,
		.opcode = wr->opcode,
		.addr = wr->wr.rdma.remote_addr,
		.rkey = wr->wr.rdma.rkey,
		.imm = wr->imm_data,
		.bytes = wr->sg_list->length,
		.local = wr->sg_list->addr,
	};
	if (wr->opcode == IBV_WR_SEND)
		memcpy(&next->frame, (void *)(uintptr_t)wr->sg_list->addr, sizeof(next->frame));
}

void ib_note_posted(void)
{
	ib_posted_count = 0;
	stub_on_post = on_post;
}
