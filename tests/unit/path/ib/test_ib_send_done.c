/* SPDX-License-Identifier: Apache-2.0 */
/* A send comm with queue pairs: what has arrived, and how its streams break and end. */
#include "ib_comm.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/device/carrier.h"
#include "transports/message/send_internal.h"
#include "transports/session/recovery.h"
#include "transports/session/redial.h"

static uint64_t now_us;

uint64_t __wrap_os_now_us(void);
uint64_t __wrap_os_now_us(void)
{
	return now_us;
}

static int recv_errno; /* of the next calls; 0 = they succeed */

static bool carrier_down;

__typeof__(carrier_is_down) __wrap_carrier_is_down;

bool __wrap_carrier_is_down(const struct anynet_device *dev)
{
	(void)dev;
	return carrier_down;
}

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
	if (!recv_errno)
		return __real_recv(fd, data, bytes, flags);
	errno = recv_errno;
	return -1;
}

/* With a look at the streams. There is no pair of addresses to dial. */
static void attend(void)
{
	pair.send->session->paths.own_count = 1;
	pair.send->session->paths.own[0] = &local_dev;
	comm_enter(pair.send);
	pair.send->session->watch.looked_ms = 0;
	comm_attend(pair.send);
	comm_leave(pair.send);
}

/* A stream that has moved to another NIC, which cannot register the memory, is not dialled there for a queue pair. */
static void test_a_nic_that_cannot_register_the_memory_is_left(void **state)
{
	struct anynet_wire_pair pairs[PAIRS_MAX];
	struct anynet_device other = local_dev;
	struct comm_paths *paths;

	(void)state;
	ib_open_send(&pair, 1, 1);
	paths = &pair.send->session->paths;
	paths->own_count = paths->peer_count = 1;
	paths->own[0] = &local_dev;
	paths->own_addrs[0].family = paths->peer[0].family = 4;
	paths->peer[0].port = 1;
	assert_int_equal(pairs_list(pair.send, pair.send->streams[0], REDIAL_HOME, pairs), 1);
	other.index++;
	pair.send->dev = &other;
	ib_leave_nic(ib_stream_of(pair.send, 0), ENOMEM, "of a test");
	pair.send->dev = &local_dev;
	assert_false(pair.send->tcp.only);
	assert_true(comm_may_use_nic(pair.send, &other));
	assert_int_equal(pairs_list(pair.send, pair.send->streams[0], REDIAL_HOME, pairs), 0);
}

/* It is opened again: the comm goes on using it. */
static void test_a_nic_that_has_failed_is_not_left(void **state)
{
	struct ib_nic *nic;

	(void)state;
	ib_open_send(&pair, 1, 1);
	nic = ib_qp_of(pair.send, 0)->nic;
	atomic_store(&nic->failed, true);
	assert_int_equal(ib_leave_nic(ib_stream_of(pair.send, 0), ENOMEM, "of a test"), -EIO);
	atomic_store(&nic->failed, false);
	assert_false(pair.send->tcp.only);
	assert_true(comm_may_use_nic(pair.send, &local_dev));
}

/* The statistics of the stream at this time of the clock. */
static struct stream_signs signs_at(uint64_t us)
{
	struct stream_signs signs;

	now_us = us;
	assert_true(pair.send->streams[0]->ops->signs(pair.send->streams[0], &signs));
	return signs;
}

/* Its speed: the bytes that arrived, and the time in which they were in flight. A small frame that the adapter has not
 * reported is not in flight for long. */
static void test_the_time_of_large_frames_is_known(void **state)
{
	struct anynet_request *first, *second;
	struct stream_signs signs;

	(void)state;
	now_us = 1000;
	ib_open_send(&pair, 1, 1);
	pair_send(&pair, pair_out, 100);
	arrive(0);
	signs = signs_at(2000);
	assert_true(!signs.qp.acked && !signs.qp.busy_us && !signs.qp.rtt_us);
	cts(0, 1, LARGE);
	cts(0, 2, LARGE);
	first = pair_isend(&pair, pair_out, LARGE, 0);
	now_us = 2300;
	second = pair_isend(&pair, pair_out, LARGE, 0);
	signs = signs_at(2400);
	assert_true(!signs.qp.acked && signs.qp.busy_us == 400);
	now_us = 2500;
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
	assert_true(pair_done(first, NULL));
	signs = signs_at(2700);
	assert_int_equal(signs.qp.acked, LARGE);
	assert_int_equal(signs.qp.busy_us, 700);
	assert_int_equal(signs.qp.rtt_us, 500);
	now_us = 3000;
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
	assert_true(pair_done(second, NULL));
	pair_send(&pair, pair_out, 100);
	signs = signs_at(9000);
	assert_int_equal(signs.qp.acked, 2 * LARGE);
	assert_int_equal(signs.qp.busy_us, 1000);
	assert_int_equal(signs.qp.rtt_us, 500); /* the second was posted while the first was timed */
	cts(0, 4, LARGE);
	first = pair_isend(&pair, pair_out, LARGE, 0);
	now_us = 9000 + 1300;
	arrive(0);
	assert_true(pair_done(first, NULL));
	assert_int_equal(signs_at(20000).qp.rtt_us, (7 * 500 + 1300) / 8);
	assert_int_equal(signs_at(20000).qp.busy_us, 2300);
}

static void test_the_tcp_connection_tells_that_the_peer_is_gone(void **state)
{
	struct anynet_stream *stream;
	struct stream_signs signs;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	assert_true(stream->ops->signs(stream, &signs));
	assert_false(stream->path.ended);
	pair_hang_up(&pair, 0);
	assert_true(stream->ops->signs(stream, &signs));
	assert_true(stream->path.ended);
}

/* The control network fails, which is another one in most clusters. The kernel reports it once, and then the end. The stream goes
 * on, and gets another connection as soon as there is one. */
static void test_a_queue_pair_does_not_need_the_network_of_the_tcp_connection(void **state)
{
	static const int errnos[] = { ETIMEDOUT, EHOSTUNREACH, ECONNRESET };

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
		struct anynet_stream *stream;
		struct anynet_request *req;

		ib_open_send(&pair, 1, 1);
		stream = pair.send->streams[0];
		assert_false(pairs_away(pair.send, stream));
		cts(0, 0, LARGE);
		req = pair_isend(&pair, pair_out, LARGE, 0);
		recv_errno = errnos[i];
		attend();
		recv_errno = 0;
		pair_hang_up(&pair, 0);
		attend();
		assert_false(stream->path.ended);
		assert_true(pairs_away(pair.send, stream));
		assert_int_equal(pair.send->session->recovery->redials[0].aim, REDIAL_HOME);
		arrive(0);
		assert_true(pair_done(req, NULL));
		pair_close(&pair);
	}
}

/* The peer's process has ended, or it is stopped: it takes no frame. Only the adapter knows. */
static void test_without_a_free_slot_a_read_asks_whether_the_peer_is_there(void **state)
{
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	qp->credits.posted = qp->credits.peer_consumed + qp->peer.slots;
	ib_note_posted();
	for (int i = 0; i < 2; i++)
		pair.send->streams[0]->ops->ping(pair.send->streams[0]);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].opcode, IBV_WR_RDMA_READ);
	stub_complete(qp->ibv, IB_SQ_WRS, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(pair.send->streams[0]->ops->receive(pair.send->streams[0]), -ETIMEDOUT);
}

/* The queue pair has a port. Its stream over TCP needs the carrier. */
static void test_nor_does_it_need_the_carrier_of_its_nic(void **state)
{
	(void)state;
	carrier_down = true;
	local_cfg.recovery_timeout_ms = 60000;
	for (unsigned by_qp = 0; by_qp < 2; by_qp++) {
		struct anynet_stream *stream;

		ib_open_send(&pair, 1, by_qp);
		stream = pair.send->streams[0];
		stream->path.nic.dev = &local_dev;
		stream->path.nic.losses++;
		pair_isend(&pair, pair_out, LARGE, 0);
		attend();
		assert_int_equal(stream_works(stream), by_qp);
		pair_close(&pair);
	}
	carrier_down = false;
}

/* The adapter has not heard so: its last acknowledgements were lost, and the receiver's queue pair ends. */
static void tell_by_bye(void)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE };
	struct anynet_request *req;

	ib_open_send(&pair, 1, 1);
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	cts(0, 0, LARGE);
	pair_idle(req);
	bye.offset = pair.send->streams[0]->log.next;
	ib_bring(ib_qp_of(pair.send, 0), &bye, NULL, 0);
	pair_finish(&req, 1, NULL);
}

static void test_bye_tells_what_has_arrived(void **state)
{
	(void)state;
	tell_by_bye();
}

/* The fence then destroys it. */
static void test_a_queue_pair_that_does_not_flush_is_not_used_after_bye(void **state)
{
	(void)state;
	stub_never_flushes = true;
	tell_by_bye();
	stub_never_flushes = false;
}

/* Memory may be deregistered then. The queue pair itself is destroyed later. */
static void test_nothing_is_written_when_a_comm_is_closed(void **state)
{
	const struct ibv_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0)->ibv;
	pair_close(&pair);
	assert_int_equal(qp->state, IBV_QPS_ERR);
}

static void test_only_what_has_arrived_is_done(void **state)
{
	struct anynet_request *reqs[3];
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	for (uint32_t i = 0; i < 3; i++) {
		cts(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	for (int i = 0; i < 3; i++) {
		stub_complete(qp->ibv, 1, IBV_WC_SUCCESS);
		assert_true(pair_done(reqs[i], NULL));
		if (i < 2)
			pair_idle(reqs[i + 1]);
	}
}

/* The receiver acknowledges what came by several paths, before this end's adapter completes it. A message before it gets
 * no acknowledgement: only the completion tells that it has arrived. */
static void test_frames_stay_in_the_log_until_they_complete(void **state)
{
	enum {
		FIRST = STREAM_LOG_FRAMES - 1 /* then the log is full with one more */
	};
	uint8_t bits[ANYNET_ACK_BYTES] = { 0 };
	const struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = sizeof(bits) };
	const struct stream_log *log;
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	log = &pair.send->streams[0]->log;
	for (unsigned i = 0; i < FIRST; i++) {
		uint32_t consumed = qp->credits.posted;

		pair_send(&pair, pair_out, 8);
		assert_true(stub_write(qp->ibv, (uintptr_t)&qp->memory.cts_ring->consumed,
				       qp->memory.mr->rkey, &consumed, sizeof(consumed)));
		bits[i / 8] |= (uint8_t)(i ? 1u << i % 8 : 0);
	}
	ib_bring(qp, &ack, bits, sizeof(bits));
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 1);
	for (int i = 0; i < 3; i++) /* two in the places of the first frames, if those were dropped */
		pair_send(&pair, pair_out, 8);
	stub_complete(qp->ibv, FIRST, IBV_WC_SUCCESS);
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 3);
	assert_int_equal(ib_stream_of(pair.send, 0)->use.bytes_out,
			 (log->next - log->arrived) * (sizeof(struct anynet_wire_frame) + 8));
}

/* A heartbeat is always signalled, a small message is not. */
static void test_a_heartbeat_confirms_the_frames_before_it(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	for (int i = 0; i < 2; i++)
		pair_send(&pair, pair_out, 8);
	stream->ops->ping(stream);
	assert_int_equal(to_send(pair.send)->unconfirmed, 2);
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 3, IBV_WC_SUCCESS);
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 0);
}

/* Messages that were delivered long ago, in requests that are not signalled, are not stuck. */
static void test_frames_that_nothing_will_confirm_are_not_stuck(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	for (int i = 0; i < 2; i++)
		pair_send(&pair, pair_out, 8);
	assert_int_equal(stream->ops->moved(stream), STREAM_IDLE);
	stream->ops->ping(stream); /* requests wait */
	assert_int_equal(stream->ops->moved(stream), STREAM_STUCK);
	arrive(0);
	ib_turn(pair.send);
	assert_int_equal(stream->ops->moved(stream), STREAM_MOVED);
}

static void test_a_closed_comm_waits_until_its_bye_is_through(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	send_bye(pair.send);
	assert_int_equal(stream->ops->drain(stream), -EAGAIN);
	ib_note_posted();
	assert_int_equal(comm_transmit(pair.send), 0);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].frame.type, ANYNET_FRAME_BYE);
	assert_int_equal(stream->ops->drain(stream), -EAGAIN);
	arrive(0);
	assert_int_equal(stream->ops->drain(stream), 0);
}

/* The stream continues from this position of the receiver. `qp`: by it; NULL = over TCP. */
static void resume(struct anynet_stream *stream, uint64_t frames, struct ib_qp *qp)
{
	int fds[2];

	comm_enter(pair.send);
	comm_sever(pair.send, stream, 0);
	stream->qp.next = qp;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	comm_stream_back(pair.send, stream, fds[0], 1, stream->home, (struct stream_position){ frames, 0 });
	comm_leave(pair.send);
	pair_hang_up(&pair, 0);
	pair.fds[0] = fds[1];
}

/* What a queue pair has reported the receiver has, or it has lost it. It cannot be sent again: the other frames of the
 * message may complete it meanwhile. */
static void test_a_position_before_what_has_arrived_is_refused(void **state)
{
	struct anynet_request *req;

	(void)state;
	for (uint64_t frames = 0; frames < 2; frames++) {
		ib_open_send(&pair, 1, 1);
		to_send(pair.send)->limits.frame = LARGE / 2;
		ib_qp_of(pair.send, 0)->sq.signal_all = true;
		cts(0, 0, LARGE);
		req = pair_isend(&pair, pair_out, LARGE, 0);
		while (pair_idle(req), !pair.send->streams[0]->log.arrived)
			stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
		assert_int_equal(pair.send->streams[0]->log.arrived, 1);
		resume(pair.send->streams[0], frames, NULL);
		assert_int_equal(comm_error(pair.send), frames ? 0 : -EPROTO);
		pair_close(&pair);
	}
}

/* A broken queue pair did not report everything that it has delivered; the receiver does. */
static void test_what_the_receiver_has_is_done(void **state)
{
	struct anynet_request *reqs[2];

	(void)state;
	ib_open_send(&pair, 1, 1);
	for (uint32_t i = 0; i < 2; i++) {
		cts(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	resume(pair.send->streams[0], 1, NULL);
	assert_true(pair_done(reqs[0], NULL));
	pair_idle(reqs[1]); /* uses TCP now */
	pair_expect(&pair, 0, ANYNET_FRAME_PING, 0);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 1);
}

/* Over TCP no small message asks for a CTS. If one did by the queue pair, those behind it, of other tags, would wait until
 * its receive is posted. */
static void test_small_messages_from_before_the_queue_pair_need_no_cts(void **state)
{
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 0);
	pair_send(&pair, pair_out, 100);
	pair_idle(pair_isend(&pair, pair_out, LARGE, 1)); /* RTS */
	pair_send(&pair, pair_out, 200);
	qp = ib_connector(true);
	ib_takes_frames(qp, false);
	ib_note_posted();
	resume(pair.send->streams[0], 0, qp);
	ib_turn(pair.send);
	assert_int_equal(ib_posted_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(ib_posted[i].opcode, IBV_WR_SEND);
		assert_int_equal(ib_posted[i].frame.type,
				 i == 1 ? ANYNET_FRAME_RTS : ANYNET_FRAME_DATA);
		assert_int_equal(ib_posted[i].frame.seq, i);
		assert_int_equal(ib_posted[i].bytes,
				 sizeof(struct anynet_wire_frame) + ib_posted[i].frame.length);
	}
	assert_int_equal(ib_posted[2].frame.length, 200);
}

/* A large message did not ask over TCP because the comm had one tag then. By the queue pair it would hold up those of the
 * second tag in the same way: the stream breaks, and TCP takes it. */
static void test_a_large_message_from_before_the_second_tag_needs_tcp(void **state)
{
	struct anynet_stream *stream;
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 0);
	stream = pair.send->streams[0];
	pair_idle(pair_isend(&pair, pair_out, LARGE, 0));
	qp = ib_connector(true);
	ib_note_posted();
	resume(stream, 0, qp);
	assert_int_equal(stream->ops->transmit(stream), 0);
	to_send(pair.send)->tags.multi = true;
	assert_int_equal(stream->ops->transmit(stream), -EBUSY);
	assert_int_equal(ib_posted_count, 0);
}

/* What it sends over TCP it may have to send again by a queue pair of the same adapter. */
static void test_an_adapter_that_gathers_nothing_is_remembered(void **state)
{
	struct anynet_stream *stream;
	struct ib_stream *ib;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	assert_false(stream->qp.fetches);
	ib = ib_stream_of(pair.send, 0);
	ib->qp->limits.sges = 1;
	ib_stream_set_qp(ib, ib->qp);
	assert_true(stream->qp.fetches);
	resume(stream, 0, NULL);
	assert_true(stream->qp.fetches);
	resume(stream, 0, ib_connector(true));
	assert_false(stream->qp.fetches);
}

/* --- a NIC that fails: the event that tells of it has not been read --- */

static void refuse_registrations(unsigned count, int err)
{
	stub_refused_mrs = count;
	stub_mr_error = err;
}

/* It is opened again: the comm goes on using it. */
static void test_a_nic_that_fails_is_not_left(void **state)
{
	static const int errors[] = { EIO, ENODEV, ENOMEM };

	(void)state;
	capture_allow_warn();
	local_cfg.recovery_timeout_ms = 60000;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		ib_open_send(&pair, 1, 1);
		cts(0, 0, LARGE);
		refuse_registrations(2, errors[i]); /* in regMr, and at the first use */
		pair_isend(&pair, pair_out, LARGE, 0);
		ib_turn(pair.send);
		stub_refused_mrs = 0;
		assert_null(ib_stream_of(pair.send, 0)->qp);
		assert_int_equal(pair.send->tcp.only, errors[i] == ENOMEM);
		pair_close(&pair);
	}
}

static void test_nor_if_it_does_not_take_the_ring(void **state)
{
	static const int errors[] = { EIO, ENOMEM };

	(void)state;
	capture_allow_warn();
	ib_open_send(&pair, 1, 0);
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		struct ib_qp *qp = ib_connector(true);

		refuse_registrations(1, errors[i]);
		resume(pair.send->streams[0], 0, qp);
		assert_int_equal(stub_refused_mrs, 0);
		assert_null(ib_stream_of(pair.send, 0)->qp);
		assert_int_equal(pair.send->tcp.only, errors[i] == ENOMEM);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, ib_comm_setup, ib_comm_teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_nic_that_cannot_register_the_memory_is_left),
		T(test_a_nic_that_has_failed_is_not_left),
		T(test_the_time_of_large_frames_is_known),
		T(test_the_tcp_connection_tells_that_the_peer_is_gone),
		T(test_a_queue_pair_does_not_need_the_network_of_the_tcp_connection),
		T(test_without_a_free_slot_a_read_asks_whether_the_peer_is_there),
		T(test_nor_does_it_need_the_carrier_of_its_nic),
		T(test_bye_tells_what_has_arrived),
		T(test_a_queue_pair_that_does_not_flush_is_not_used_after_bye),
		T(test_nothing_is_written_when_a_comm_is_closed),
		T(test_only_what_has_arrived_is_done),
		T(test_frames_stay_in_the_log_until_they_complete),
		T(test_a_heartbeat_confirms_the_frames_before_it),
		T(test_frames_that_nothing_will_confirm_are_not_stuck),
		T(test_a_closed_comm_waits_until_its_bye_is_through),
		T(test_a_position_before_what_has_arrived_is_refused),
		T(test_what_the_receiver_has_is_done),
		T(test_small_messages_from_before_the_queue_pair_need_no_cts),
		T(test_a_large_message_from_before_the_second_tag_needs_tcp),
		T(test_an_adapter_that_gathers_nothing_is_remembered),
		T(test_a_nic_that_fails_is_not_left),
		T(test_nor_if_it_does_not_take_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
