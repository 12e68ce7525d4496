/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product's queue pairs with the input as their peer: received frames and immediate values, the peer's writes to
 * the CTS ring, completions of any status, queue pairs made from invalid descriptions, breaks and replacements.
 * ib_receiver.c has a receive comm, ib_sender.c a send comm; libibverbs is stub_verbs.c. The program is linked with
 * --wrap: time and randomness are those of clock.c, and every connection uses the one device.
 */
#include <errno.h>
#include <sys/socket.h>

#include "clock.h"
#include "fakes/stubs/stub_cm.h"
#include "ib.h"
#include "transports/device/ib_events.h"
#include "transports/path/ib/ib_setup.h"
#include "transports/service/background.h"

#define PEER_QPN 0x99

struct ib_run ib;

__typeof__(comm_device_at) __wrap_comm_device_at;

const struct anynet_device *__wrap_comm_device_at(const struct anynet_comm *comm, int fd)
{
	(void)comm;
	(void)fd;
	return &local_dev;
}

struct ib_qp *ib_qp_of(unsigned stream)
{
	return ib.comm->streams[stream] ? to_ib(ib.comm->streams[stream])->qp : NULL;
}

struct ibv_qp *ibv_qp_of(unsigned stream)
{
	struct ib_qp *qp = ib_qp_of(stream);

	return qp ? qp->ibv : NULL;
}

/* --- descriptions by the peer --- */

static void change(void *bytes, size_t count)
{
	uint8_t times = input_u8(ib.in) % 4;

	for (; times; times--) {
		uint8_t at = input_u8(ib.in);

		((uint8_t *)bytes)[at % count] = input_u8(ib.in);
	}
}

void ib_describe_peer(struct anynet_wire_hello *hello, bool is_send)
{
	hello->qp = (struct anynet_wire_qp){
		.kind = 1, /* InfiniBand */
		.mtu = IBV_MTU_4096,
		.lid = 9,
		.qpn = PEER_QPN,
		.rkey = is_send ? IB_CTS_RING_RKEY : 0,
		.addr = is_send ? IB_CTS_RING_ADDR : 0,
		.slots = is_send ? IB_CONTROL_SLOTS : IB_SLOTS,
		.slot_bytes = is_send ? IB_CONTROL_BYTES : IB_SLOT_BYTES,
	};
	hello->cm.wanted = is_send && ib.order & IB_BY_CM;
	hello->service.adaptive = ib.order & IB_ADAPTIVE;
	if (!(ib.order & IB_ODD_LINKS))
		return;
	change(&hello->qp, sizeof(hello->qp));
	change(&hello->service, sizeof(hello->service));
}

/* --- what comes at the queue pair --- */

void ib_bring(unsigned stream, const void *bytes, size_t count)
{
	struct ib_qp *qp = ib_qp_of(stream);

	if (qp)
		stub_send(qp->ibv, bytes, (uint32_t)anynet_min(count, qp->memory.slot_bytes), NULL);
}

void ib_bring_frame(unsigned stream, const struct anynet_wire_frame *header, const void *payload,
		    size_t bytes)
{
	uint8_t frame[IB_SLOT_BYTES] = { 0 };

	bytes = anynet_min(bytes, sizeof(frame) - HEADER_BYTES);
	memcpy(frame, header, HEADER_BYTES);
	if (bytes)
		memcpy(frame + HEADER_BYTES, payload, bytes);
	ib_bring(stream, frame, HEADER_BYTES + bytes);
}

void ib_bring_garbage(unsigned stream)
{
	struct ib_qp *qp = ib_qp_of(stream);
	uint8_t bytes[IB_CONTROL_BYTES], count = input_u8(ib.in);
	uint32_t imm = count;
	size_t got = input_take(ib.in, bytes, anynet_min(count, sizeof(bytes)));

	stub_peer_lies = true;
	if (qp)
		stub_send(qp->ibv, bytes, (uint32_t)got, count & 0x80 ? &imm : NULL);
}

/* --- the product's end --- */

void ib_complete_all(void)
{
	for (unsigned i = 0; i < ib.streams && !(ib.order & IB_BY_HAND); i++)
		if (ibv_qp_of(i))
			stub_complete(ibv_qp_of(i), IB_SQ_WRS, IBV_WC_SUCCESS);
}

void ib_complete_some(unsigned stream, uint8_t how)
{
	static const enum ibv_wc_status statuses[] = {
		IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
		IBV_WC_LOC_LEN_ERR,   IBV_WC_REM_OP_ERR,        IBV_WC_WR_FLUSH_ERR,
		IBV_WC_GENERAL_ERR,   IBV_WC_FATAL_ERR,
	};
	struct ibv_qp *qp = ibv_qp_of(stream);

	if (!qp)
		return;
	stub_complete(qp, how & 0x3f, IBV_WC_SUCCESS);
	if (how >= 0xc0)
		stub_complete(qp, 1, statuses[how % ARRAY_SIZE(statuses)]);
}

void ib_trouble(unsigned stream, uint8_t how)
{
	struct ibv_qp *qp = ibv_qp_of(stream);

	switch (how & 7) {
	case 0:
		if (qp)
			stub_hold_back(qp);
		break;
	case 1:
		stub_never_flushes = how & 0x80;
		break;
	case 2:
		stub_refused_mrs = how >> 4;
		break;
	case 3:
		if (qp)
			stub_event(qp, how & 0x80 ? IBV_EVENT_QP_FATAL : IBV_EVENT_QP_ACCESS_ERR);
		break;
	case 4:
		ib_events_read();
		break;
	case 5:
		ib_chores_finish();
		break;
	case 6:
		stub_refused_posts = how >> 4;
		break;
	default:
		clock_pass((uint32_t)1 << (how >> 4));
	}
}

/* Private data of the script, of the length that it says; its first bit puts the nonce first. */
static void request(uint8_t how)
{
	uint8_t data[64] = { 0 }, bytes = how & 0x80 ? ANYNET_CM_NONCE_BYTES : input_u8(ib.in) % 64;

	if (how & 0xc0)
		memcpy(data, ib.cm_nonce, sizeof(ib.cm_nonce));
	else
		input_take(ib.in, data, bytes);
	stub_cm_request(data, bytes);
}

void ib_by_cm(uint8_t how)
{
	switch (how & 7) {
	case 0:
	case 1:
		request(how);
		break;
	case 2:
		stub_cm_event((how >> 4) % (RDMA_CM_EVENT_TIMEWAIT_EXIT + 1));
		break;
	case 3:
		stub_cm_refuses = how & 0x80 ? ENOMEM : 0;
		break;
	case 4:
		stub_cm_qpn = how & 0x80 ? how : PEER_QPN;
		break;
	default:
		ib_events_read();
	}
}

void ib_over_tcp(unsigned stream, uint8_t how)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING, .seq = how >> 4 & 1 };
	uint8_t bytes[4096];

	switch (how & 7) {
	case 0:
	case 1:
		peer_send(ib.peers[stream], &ping, sizeof(ping));
		break;
	case 2:
		stub_peer_lies = true;
		peer_garbage(ib.peers[stream], ib.in);
		break;
	case 3:
		shutdown(ib.peers[stream], how & 0x80 ? SHUT_RDWR : SHUT_WR);
		break;
	case 4:
		peer_close(&ib.peers[stream]);
		break;
	case 5:
		if (ib.comm->streams[stream] && ib.comm->streams[stream]->path.fd >= 0 && how & 0x80)
			ib.comm->streams[stream]->path.ended = true; /* as epoll reports */
		break;
	default:
		while (ib.peers[stream] >= 0 &&
		       recv(ib.peers[stream], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
}

/* As the background thread does. */
void ib_attend(uint8_t how)
{
	comm_enter(ib.comm);
	if (how & 1)
		clock_pass(200);
	comm_attend(ib.comm);
	if (!comm_error(ib.comm) && !ib.comm->peer_closed)
		comm_turn(ib.comm);
	comm_leave(ib.comm);
}

/* --- a run --- */

static void start(void)
{
	static bool started;

	fuzz_net_start();
	clock_start();
	stub_never_flushes = stub_peer_lies = false;
	stub_refused_mrs = stub_refused_posts = 0;
	stub_cm_refuses = 0;
	stub_cm_qpn = PEER_QPN;
	local_cfg.ib_cm = ib.order & IB_BY_CM;
	local_cfg.ib_adaptive = ib.order & IB_ADAPTIVE;
	local_cfg.ib_ar_threshold = 8192;
	local_cfg.ib_gid_index = ANYNET_AUTO;
	local_cfg.ib_flid_gid_index = ANYNET_AUTO;
	local_cfg.recovery_timeout_ms = ib.order & IB_RECOVERIES ? 600000 : 0;
	local_dev.transport = ANYNET_TRANSPORT_IB;
	if (!started)
		stub_offer();
	started = true;
}

static void open_streams(void)
{
	for (unsigned i = 0; i < IB_STREAMS_MAX; i++) {
		ib.peers[i] = -1;
		ib.epochs[i] = 0;
	}
	ib.comm = (ib.order & IB_SENDS ? ib_sender_open : ib_receiver_open)();
	must(!comm_open(ib.comm));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };

	ib.in = &in;
	ib.order = input_u8(&in);
	ib.streams = ib.order & IB_TWO_STREAMS ? 2 : 1;
	start();
	open_streams();
	for (int i = 0; in.left && i < IB_STEPS_MAX; i++) {
		uint8_t op = input_u8(&in);

		(ib.order & IB_SENDS ? ib_sender_step : ib_receiver_step)(op & 0x0f,
									  (op >> 4) % ib.streams);
		ib_complete_all();
	}
	(ib.order & IB_SENDS ? ib_sender_close : ib_receiver_close)();
	for (unsigned i = 0; i < ib.streams; i++)
		peer_close(&ib.peers[i]);
	stub_forget_events();
	ib_chores_finish();
	must(!stub_objects());
	return 0;
}
