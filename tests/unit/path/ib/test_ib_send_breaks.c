/* SPDX-License-Identifier: Apache-2.0 */
/* A send comm with queue pairs: which connection carries a stream, when one breaks and when a NIC fails. */
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

static int recv_errno; /* of the next calls; 0 = they succeed */

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
	if (!recv_errno)
		return __real_recv(fd, data, bytes, flags);
	errno = recv_errno;
	return -1;
}

static bool carrier_down;

__typeof__(carrier_interface_is_down) __wrap_carrier_interface_is_down;

bool __wrap_carrier_interface_is_down(const struct anynet_device *dev)
{
	(void)dev;
	return carrier_down;
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

/* Where the receiver matches by tag, large messages ask first, over TCP too: else one of them could be before an older one
 * that has asked, and a queue pair that takes over could write neither. */
static void test_a_message_asks_over_tcp_too_where_it_has_to(void **state)
{
	const struct anynet_wire_frame ask_all = { .type = ANYNET_FRAME_ASK_ALL };
	struct anynet_stream *stream;
	const struct frame_id *last;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	ib_bring(ib_qp_of(pair.send, 0), &ask_all, NULL, 0);
	ib_turn(pair.send);
	resume(stream, 0, NULL);
	pair_idle(pair_isend(&pair, pair_out, LARGE, 0));
	last = &stream_log_at(stream, stream->log.end - 1)->id;
	assert_int_equal(last->type, ANYNET_FRAME_RTS);
}

/* It was queued with a CTS, and the queue pair that had the CTS broke before it could take the message. */
static void test_a_message_that_has_lost_its_cts_asks_after_ask_all(void **state)
{
	const struct anynet_wire_frame ask_all = { .type = ANYNET_FRAME_ASK_ALL };
	struct anynet_stream *stream;
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	qp = ib_qp_of(pair.send, 0);
	qp->credits.posted += qp->peer.slots; /* no slot is free */
	cts(0, 0, LARGE);
	pair_idle(pair_isend(&pair, pair_out, LARGE, 0));
	ib_bring(qp, &ask_all, NULL, 0);
	ib_turn(pair.send);
	qp = ib_connector(true);
	ib_note_posted();
	resume(stream, 0, qp);
	assert_int_equal(stream->ops->transmit(stream), 0);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].frame.type, ANYNET_FRAME_RTS);
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

/* --- NICs that are left, and those that are not --- */

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
		T(test_the_tcp_connection_tells_that_the_peer_is_gone),
		T(test_a_queue_pair_does_not_need_the_network_of_the_tcp_connection),
		T(test_nor_does_it_need_the_carrier_of_its_nic),
		T(test_without_a_free_slot_a_read_asks_whether_the_peer_is_there),
		T(test_small_messages_from_before_the_queue_pair_need_no_cts),
		T(test_a_large_message_from_before_the_second_tag_needs_tcp),
		T(test_a_message_asks_over_tcp_too_where_it_has_to),
		T(test_a_message_that_has_lost_its_cts_asks_after_ask_all),
		T(test_an_adapter_that_gathers_nothing_is_remembered),
		T(test_a_nic_that_cannot_register_the_memory_is_left),
		T(test_a_nic_that_has_failed_is_not_left),
		T(test_a_nic_that_fails_is_not_left),
		T(test_nor_if_it_does_not_take_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
