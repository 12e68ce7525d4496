/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connector's side with the input as the acceptor: connects, streams, connections that replace broken ones, and a
 * receive comm's probe whether its sender lives. Answers come right, in pieces, late, to other requests, or not at all;
 * with and without a secret, for TCP and for queue pairs. An answer to another request must have no effect. No thread,
 * and the time of clock.c.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "acceptor.h"
#include "buffers.h"
#include "clock.h"
#include "fakes/stubs/stub_cm.h"
#include "transports/message/recv_internal.h"
#include "transports/path/ib/ib_stream.h"
#include "transports/service/background.h"
#include "transports/session/listen.h"
#include "transports/session/registry.h"
#include "transports/wire/checksum.h"
#include "transports/wire/hello.h"

#define STEPS_MAX 300
#define SENT_MAX  32

/* of the first byte */
#define WITH_SECRET 0x01
#define IB_DEVICE   0x02
#define CHECKSUMS   0x04
#define RECOVERIES       0x08
#define RECEIVES    0x10 /* the comm is a receive comm from the start; it probes */
#define TWO_STREAMS      0x20 /* are requested */
#define LINKS_ONLY  0x40
#define BY_CM       0x80

static struct {
	struct input *in;
	uint8_t order;
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} handle;
	struct anynet_comm *comm;
	bool refused; /* a dial may have happened */
	struct sent sent[SENT_MAX];
	struct posted posted[ANYNET_REQUESTS];
} run;

__typeof__(registry_add) __wrap_registry_add;

/* The fuzzer has no background thread: it turns the comm itself. */
int __wrap_registry_add(struct anynet_comm *comm)
{
	(void)comm;
	return 0;
}

/* --- invariants --- */

static void check_streams(void)
{
	for (unsigned i = 0; i < run.comm->stream_count; i++) {
		const struct anynet_stream *stream = run.comm->streams[i];
		const struct line *line =
			stream && stream->path.fd >= 0 ? acceptor_find(stream->path.fd) : NULL;

		must(!line || line_is_answered(line));
	}
}

static void complete_all(void)
{
	for (unsigned i = 0; stub_qp(i); i++)
		stub_complete(stub_qp(i), IB_SQ_WRS, IBV_WC_SUCCESS);
}

/* --- NCCL's calls --- */

static void connect_step(void)
{
	struct anynet_connect_options opts = { .traffic_class = -1, .owner = &local_dev };
	struct anynet_comm *comm;
	int ret;

	if (run.comm)
		return;
	ret = anynet_connect(&local_dev, &opts, run.handle.bytes, &comm);
	must(!ret || !comm);
	must(!ret || acceptor.count || run.refused); /* it has dialled */
	run.comm = comm;
	if (!comm)
		return;
	must(comm->stream_count && (comm_streams(comm) || comm->peer_closed));
	check_streams();
}

/* As the background thread does. */
static void attend(void)
{
	comm_enter(run.comm);
	comm_attend(run.comm);
	if (!comm_error(run.comm) && !run.comm->peer_closed)
		comm_turn(run.comm);
	comm_leave(run.comm);
	check_streams();
}

static void turn(void)
{
	if (run.comm)
		attend();
	else
		connect_step();
}

static void post(uint8_t choice)
{
	static const uint16_t sizes[] = { 0, 100, 1025, 9000 };
	size_t bytes = sizes[choice % ARRAY_SIZE(sizes)];
	struct posted *posted;

	if (!run.comm)
		return;
	if (run.comm->is_send) {
		struct sent *sent = &run.sent[(choice >> 3) % SENT_MAX];

		if (sent->req)
			return;
		buffer_make(run.comm, &sent->buffer, BUFFER_REGISTERED, bytes);
		sent_post(run.comm, sent, choice >> 2 & 1);
		return;
	}
	posted = posted_free_one(run.posted);
	if (!posted)
		return;
	posted_add(run.comm, posted, BUFFER_REGISTERED, bytes, 0);
	posted_post(run.comm, posted);
	if (!posted->req)
		posted_blank(run.comm, posted);
}

static void test_all(void)
{
	int got[ANYNET_RECVS_MAX];

	if (!run.comm)
		return;
	for (int i = 0; i < SENT_MAX; i++)
		sent_test(run.comm, &run.sent[i]);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		if (posted_test(run.comm, &run.posted[i], got))
			posted_blank(run.comm, &run.posted[i]);
}

/* --- the acceptor's answers --- */

/* All steps of a correct acceptor. */
static void answer_rightly(struct line *line, uint8_t shape)
{
	line_hear(line);
	if (acceptor.secret) {
		line_challenge(line, 0);
		line_say(line, SIZE_MAX);
		turn();
		line_hear(line);
	}
	line_welcome(line, ANYNET_STATUS_OK, shape, 0);
	line_say(line, SIZE_MAX);
	turn();
}

static void answer(struct line *line)
{
	uint8_t choice = input_u8(run.in), strays = input_u8(run.in);

	if (choice & 0x80)
		line_challenge(line, strays);
	else
		line_welcome(line, choice & 0x40 ? choice & 7 : ANYNET_STATUS_OK, input_u8(run.in),
			     strays);
	if (choice & 0x20)
		line_say(line, SIZE_MAX);
}

/* That of another version, as long as the part that never changes. */
static void answer_in_another_version(struct line *line)
{
	line_welcome(line, ANYNET_STATUS_VERSION, 0, 0);
	line->answer.version++;
	line_say(line, offsetof(struct anynet_wire_hello, stream));
	peer_close(&line->fd);
}

static void say_frame(struct line *line, uint8_t choice)
{
	static const uint8_t types[] = { ANYNET_FRAME_PING, ANYNET_FRAME_ACK, ANYNET_FRAME_BYE,
					 ANYNET_FRAME_SUSPECT };
	struct anynet_wire_frame frame = {
		.type = types[choice & 3],
		.slot = choice >> 4,
		.seq = choice >> 2 & 3,
	};

	if (run.comm && run.comm->checksum)
		checksum_header(&frame, NULL);
	line_put(line, &frame, sizeof(frame));
}

static void garbage(struct line *line)
{
	uint8_t bytes[256], count = input_u8(run.in);

	line_put(line, bytes, input_take(run.in, bytes, count));
}

static void of_queue_pair(uint8_t choice)
{
	struct ibv_qp *qp = stub_qp(choice & 3);
	uint8_t bytes[64];
	size_t count;

	if (!qp)
		return;
	if (choice & 0x80) {
		stub_complete(qp, 1, (choice >> 2 & 0x1f) ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		return;
	}
	count = input_take(run.in, bytes, choice >> 2 & 0x1f);
	stub_send(qp, bytes, (uint32_t)count, NULL);
}

static void of_connection_manager(uint8_t choice)
{
	if (choice & 0x80)
		stub_cm_refuses = choice & 1 ? ENODEV : 0;
	else if (choice & 0x40)
		stub_cm_qpn = choice;
	else
		stub_cm_event((choice & 0x1f) % (RDMA_CM_EVENT_TIMEWAIT_EXIT + 1));
}

/* --- the script --- */

static void line_step(struct line *line, uint8_t op)
{
	switch (op) {
	case 0:
		line_hear(line);
		break;
	case 1:
	case 2:
		answer_rightly(line, input_u8(run.in));
		break;
	case 3:
	case 4:
		line_hear(line);
		answer(line);
		break;
	case 5:
		line_say(line, (size_t)input_u8(run.in) * 8);
		break;
	case 6:
		garbage(line);
		break;
	case 7:
		peer_close(&line->fd);
		break;
	case 8:
		answer_in_another_version(line);
		break;
	default:
		say_frame(line, input_u8(run.in));
	}
}

static void step(void)
{
	static const int refusals[] = { 0, ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, EAGAIN };
	uint8_t op = input_u8(run.in);
	struct line *line = acceptor_line(op >> 4);

	switch (op & 0x0f) {
	case 10:
	case 11:
		turn();
		break;
	case 12:
		clock_pass((uint32_t)1 << (op >> 4));
		turn();
		break;
	case 13:
		post(input_u8(run.in));
		test_all();
		break;
	case 14:
		if (op & 0x80)
			of_queue_pair(input_u8(run.in));
		else if (op & 0x40)
			of_connection_manager(input_u8(run.in));
		else
			complete_all();
		break;
	case 15:
		acceptor.refuses = refusals[(op >> 4) % ARRAY_SIZE(refusals)];
		run.refused = true;
		break;
	default:
		if (line)
			line_step(line, op & 0x0f);
	}
}

/* --- a run --- */

static void make_handle(void)
{
	struct anynet_wire_addr addrs[2] = { acceptor_addr(0), acceptor_addr(1) };
	static const uint8_t token[ANYNET_TOKEN_BYTES] = { 0x7e };

	handle_fill(&run.handle.wire, 5, token, addrs, 2);
}

/* A comm whose streams end in connections that were never dialled. */
static void open_receiver(void)
{
	struct comm_paths *paths;

	run.comm = recv_comm_create(&local_dev, 1, LOCAL_RING_BYTES);
	must(run.comm);
	((struct recv_comm *)run.comm)->ready = true; /* it has been accepted */
	paths = &run.comm->session->paths;
	*paths = (struct comm_paths){
		.version = ANYNET_WIRE_VERSION, .comm_id = 0xc0, .endpoint = 5, .traffic_class = -1
	};
	paths->dev = paths->own[0] = &local_dev;
	paths->own_count = 1;
	paths->peer_count = 2;
	paths->own_addrs[0] = acceptor_addr(2);
	for (unsigned i = 0; i < 2; i++)
		paths->peer[i] = acceptor_addr(i);
	acceptor.lines[0] =
		(struct line){ .fd = local_stream(run.comm, 0), .theirs = -1, .asked = true };
	acceptor.count = 1;
	must(!comm_open(run.comm));
}

static void start_once(void)
{
	static const struct anynet_device *held[] = { &local_dev };
	static struct anynet_wire_addr addrs[1];
	static bool started;

	fuzz_net_start();
	if (started)
		return;
	started = true;
	stub_offer();
	listen_hold(held, 1, addrs); /* otherwise every run would open a socket */
}

static void start(void)
{
	start_once();
	clock_start();
	local_cfg.checksum = run.order & CHECKSUMS;
	local_cfg.recovery_timeout_ms = run.order & RECOVERIES ? 600000 : 0;
	local_cfg.streams_per_nic = local_cfg.ib_qps = run.order & TWO_STREAMS ? 2 : 1;
	local_cfg.ib_gid_index = local_cfg.ib_flid_gid_index = ANYNET_AUTO;
	local_cfg.ib_cm = run.order & BY_CM;
	stub_cm_refuses = 0;
	stub_cm_qpn = ACCEPTOR_QPN;
	local_cfg.transport = run.order & LINKS_ONLY ? ANYNET_CHOOSE_IB : 0;
	local_dev.transport = run.order & IB_DEVICE ? ANYNET_TRANSPORT_IB : ANYNET_TRANSPORT_TCP;
	acceptor_start(run.in, run.order & WITH_SECRET && fuzz_net_secret(true),
		       run.order & IB_DEVICE);
	if (!acceptor.secret)
		fuzz_net_secret(false);
}

static void close_all(void)
{
	for (int i = 0; i < SENT_MAX && run.comm; i++)
		sent_take_back(run.comm, &run.sent[i]);
	if (run.comm && run.comm->is_send)
		sent_close(run.comm);
	else if (run.comm)
		posted_close(run.comm, run.posted);
	anynet_net_trim(&local_dev);
	for (int i = 0; i < SENT_MAX; i++)
		free(run.sent[i].buffer.data);
	acceptor_stop();
	ib_chores_finish();
	stub_forget_events();
	must(!stub_objects());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };

	memset(&run, 0, sizeof(run));
	run.in = &in;
	run.order = input_u8(&in);
	start();
	make_handle();
	if (run.order & RECEIVES)
		open_receiver();
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step();
	turn();
	test_all();
	close_all();
	return 0;
}

/* The background thread does not start either. */
__typeof__(background_rouse) __wrap_background_rouse;

void __wrap_background_rouse(void)
{
}
