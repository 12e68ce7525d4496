/* SPDX-License-Identifier: Apache-2.0 */
#include "ib_comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/capture.h"

struct pair pair;

int ib_comm_setup(void **state)
{
	pair_setup(state);
	ib_ends_start();
	return 0;
}

int ib_comm_teardown(void **state)
{
	(void)state;
	stub_on_post = NULL;
	pair_close(&pair);
	ib_chores_finish();
	capture_check();
	assert_int_equal(stub_objects(), 0);
	return 0;
}

void arrive(unsigned stream)
{
	stub_complete(ib_qp_of(pair.send, stream)->ibv, IB_SQ_WRS, IBV_WC_SUCCESS);
}

struct anynet_wire_cts cts_of(uint32_t seq, uint64_t bytes)
{
	struct anynet_wire_cts cts = {
		.addr = PLACE + (uint64_t)seq * 0x10000,
		.size = bytes,
		.rkey = PLACE_KEY,
		.seq = seq,
		.mark = seq + 1,
	};

	cts.check = ib_cts_check(&cts);
	return cts;
}

void put_cts(unsigned stream, uint32_t seq, const struct anynet_wire_cts *place)
{
	struct ib_qp *qp = ib_qp_of(pair.send, stream);

	assert_true(stub_write(qp->ibv,
			       (uintptr_t)&qp->memory.cts_ring->cts[seq % ANYNET_CTS_RING_ENTRIES],
			       qp->memory.mr->rkey, place, sizeof(*place)));
}

void cts(unsigned stream, uint32_t seq, uint64_t bytes)
{
	const struct anynet_wire_cts place = cts_of(seq, bytes);

	put_cts(stream, seq, &place);
}

void resume(struct anynet_stream *stream, uint64_t frames, struct ib_qp *qp)
{
	int fds[2];

	comm_enter(pair.send);
	comm_sever(pair.send, stream, 0);
	stream->qp.next = qp;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	comm_stream_back(pair.send, stream, fds[0], 1, stream->home,
			 (struct stream_position){ frames, 0 });
	comm_leave(pair.send);
	pair_hang_up(&pair, 0);
	pair.fds[0] = fds[1];
}

void open_recv(unsigned streams)
{
	ib_open_recv(&pair, streams, streams);
}

void bring(unsigned stream, uint32_t seq, uint32_t bytes)
{
	const struct anynet_wire_frame frame = frame_data(seq, 0, 0, bytes);

	ib_bring(ib_qp_of(pair.recv, stream), &frame, pair_out, bytes);
}
