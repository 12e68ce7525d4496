/* SPDX-License-Identifier: Apache-2.0 */
/* A receive comm with queue pairs: which connection carries a stream, when one breaks and when the comm is closed. */
#include "ib_comm.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/session/recovery.h"

/* The sender is gone: the queue pair will not be proven. */
static void test_the_tcp_connection_counts_until_the_queue_pair_is_proven(void **state)
{
	struct anynet_request *req;

	(void)state;
	capture_allow_warn();
	open_recv(1);
	req = pair_irecv(&pair, pair_in, 100, 0);
	pair_idle(req);
	pair_hang_up(&pair, 0);
	pair_fails(req, -ECONNRESET);
}

/* The sender is about to say so over TCP. */
static void test_a_queue_pair_that_refuses_the_proof_is_left_for_tcp(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING },
				       data = frame_data(0, 0, 0, 100);
	const uint32_t word = 0;
	struct anynet_request *req;

	(void)state;
	open_recv(1);
	req = pair_irecv(&pair, pair_in, 100, 0);
	pair_idle(req);
	assert_false(stub_write(ib_qp_of(pair.recv, 0)->ibv, 0, PEER_RKEY, &word, sizeof(word)));
	pair_idle(req);
	assert_false(pair.recv->streams[0]->qp.carries);
	frame_put(pair.fds[0], &ping, NULL);
	frame_put(pair.fds[0], &data, pair_out);
	pair_finish(&req, 1, NULL);
}

/* The sender could not register its ring after the proof. Nothing waits on the comm but accept, for READY. */
static void test_ready_may_come_by_tcp_after_the_proof(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING },
				       ready = { .type = ANYNET_FRAME_READY, .offset = 1 };

	(void)state;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	ib_turn(pair.recv);
	assert_true(pair.recv->streams[0]->qp.carries);
	frame_put(pair.fds[0], &ping, NULL);
	frame_put(pair.fds[0], &ready, NULL);
	ib_turn(pair.recv);
	assert_false(pair.recv->streams[0]->qp.carries);
	assert_true(recv_comm_ready(pair.recv));
}

/* Its process was killed after the proof. Nothing waits on the comm but accept, for READY. */
static void test_the_tcp_connection_counts_until_ready_has_come(void **state)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	ib_turn(pair.recv);
	assert_false(pair.recv->peer_closed);
	pair_hang_up(&pair, 0);
	comm_turn(pair.recv);
	assert_true(pair.recv->peer_closed);
}

/* It is not read, because the frame at its head waits, and nothing else tells of its end. */
static void test_the_end_of_a_connection_that_waits_is_seen(void **state)
{
	struct anynet_stream *stream;
	struct stream_signs signs;

	(void)state;
	ib_open_recv(&pair, 2, 1);
	stream = pair.recv->streams[1];
	stream->ops->signs(stream, &signs);
	assert_false(stream->path.ended);
	pair_hang_up(&pair, 1);
	stream->ops->signs(stream, &signs);
	assert_true(stream->path.ended);
}

static void position(uint64_t expected)
{
	struct anynet_stream *stream = pair.recv->streams[0];

	assert_int_equal(stream->ops->position(stream).frames, expected);
}

static void test_what_a_queue_pair_had_brought_when_it_broke_counts(void **state)
{
	struct anynet_wire_frame ask = frame_data(0, 0, 0, 0), look = ask,
				 ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *req;
	const struct ibv_qp *ibv;
	struct ib_qp *qp;

	(void)state;
	ask.type = ANYNET_FRAME_ASK;
	look.type = ANYNET_FRAME_LOOK;
	open_recv(1);
	qp = ib_qp_of(pair.recv, 0);
	ibv = qp->ibv;
	req = pair_irecv(&pair, pair_in, 100, 0);
	ib_bring(qp, &ping, NULL, 0);
	bring(0, 0, 100);
	pair_finish(&req, 1, NULL);
	position(1);
	for (uint32_t i = 1; i <= 2; i++)
		bring(0, i, 100); /* no receive is posted for those */
	ib_bring(qp, &ping, NULL, 0);
	ib_bring(qp, &ask, NULL, 0);
	ib_bring(qp, &look, NULL, 0);
	comm_enter(pair.recv);
	comm_sever(pair.recv, pair.recv->streams[0], 0);
	comm_leave(pair.recv);
	assert_int_equal(ibv->state, IBV_QPS_ERR); /* nothing is written any more */
	assert_ptr_equal(pair.recv->streams[0]->qp.nic, &local_dev);
	position(3);
	for (int i = 0; i < 2; i++) {
		req = pair_irecv(&pair, pair_in, 100, 0);
		comm_enter(pair.recv);
		pair.recv->streams[0]->ops->receive(pair.recv->streams[0]);
		comm_leave(pair.recv);
		assert_true(pair_done(req, NULL));
		assert_memory_equal(pair_in, pair_out, 100);
	}
	position(3);
}

/* What no receive is posted for stays, whatever is known of the sender. What waits for a message that another queue pair has
 * lost does not keep recovery from giving up. */
static void test_recovery_may_give_up_what_waits_for_another_queue_pair(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	for (int posted = 0; posted < 2; posted++) {
		struct anynet_request *req = NULL;

		capture_allow_warn();
		local_cfg.recovery_timeout_ms = 60000;
		open_recv(2);
		for (unsigned i = 0; i < 2; i++)
			ib_bring(ib_qp_of(pair.recv, i), &ping, NULL, 0);
		bring(1, 1, 100);
		if (posted)
			req = pair_irecv(&pair, pair_in, 100, 0);
		ib_turn(pair.recv);
		comm_enter(pair.recv);
		comm_stream_broke(pair.recv, pair.recv->streams[0], -ETIMEDOUT);
		comm_stream_broke(pair.recv, pair.recv->streams[1], -ETIMEDOUT);
		comm_attend(pair.recv);
		assert_int_equal(pair.recv->session->unread, !posted);
		comm_cancel(pair.recv);
		comm_leave(pair.recv);
		if (req)
			pair_fails(req, -ECANCELED);
		pair_close(&pair);
	}
}

/* The adapter's acknowledgement may be lost with it. Then only the answer to RESUME says that the message has come. */
static void test_a_closed_receiver_stays_for_a_queue_pair_that_broke(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_request *req;

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	req = pair_irecv(&pair, pair_in, 100, 0);
	bring(0, 0, 100);
	pair_finish(&req, 1, NULL);
	comm_enter(pair.recv);
	comm_sever(pair.recv, pair.recv->streams[0], 0);
	assert_true(drain_start(pair.recv));
	assert_false(drain_over(pair.recv));
	comm_leave(pair.recv);
}

/* A message for which nothing is posted any more does not hide that the queue pair has broken. */
static void test_a_closed_receiver_sees_a_queue_pair_break_behind_an_unexpected_message(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	open_recv(1);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	bring(0, 0, 100);
	comm_enter(pair.recv);
	assert_true(drain_start(pair.recv));
	assert_false(drain_over(pair.recv));
	assert_true(stream_stands(pair.recv->streams[0]));
	atomic_store(&ib_qp_of(pair.recv, 0)->fault.failed, true);
	assert_false(drain_over(pair.recv));
	assert_false(stream_stands(pair.recv->streams[0]));
	comm_attend(pair.recv);
	assert_false(pair.recv->session->unread); /* so that the sender's end ends it */
	comm_leave(pair.recv);
}

/* It is in a former queue pair: the present one carries BYE. */
static void test_a_closed_receiver_sees_its_bye_arrive_behind_an_unexpected_message(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };
	struct anynet_stream *stream;
	int fds[2];

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	open_recv(1);
	stream = pair.recv->streams[0];
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	bring(0, 0, 100);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	comm_enter(pair.recv);
	comm_sever(pair.recv, stream, 0);
	stream->qp.next = ib_acceptor();
	comm_stream_back(pair.recv, stream, fds[0], 1, stream->home, stream->ops->position(stream));
	comm_leave(pair.recv);
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	comm_enter(pair.recv);
	assert_true(drain_start(pair.recv));
	assert_false(drain_over(pair.recv));
	stub_complete(ib_qp_of(pair.recv, 0)->ibv, IB_SQ_WRS, IBV_WC_SUCCESS);
	assert_true(drain_over(pair.recv));
	comm_leave(pair.recv);
	close(fds[1]);
}

/* The sender has given the queue pair up, and has read nothing that arrived over it. */
static void test_what_was_told_by_a_queue_pair_that_is_given_up_is_told_again(void **state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING }, data, word;
	uint8_t acks[ANYNET_ACK_BYTES];
	struct anynet_request *req;
	struct anynet_stream *stream;
	int fds[2];

	(void)state;
	ib_open_recv(&pair, 1, 0);
	stream = pair.recv->streams[0];
	req = pair_irecv(&pair, pair_in, 100, 0);
	data = frame_data(0, 0, ANYNET_FLAG_ACK, 100);
	frame_put(pair.fds[0], &data, pair_out);
	pair_finish(&req, 1, NULL);
	assert_true(frame_get(pair.fds[0], &word, acks, sizeof(acks)));
	assert_int_equal(word.type, ANYNET_FRAME_ACK);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	comm_enter(pair.recv);
	comm_sever(pair.recv, stream, 0);
	stream->qp.next = ib_acceptor();
	comm_stream_back(pair.recv, stream, fds[0], 1, stream->home,
			 (struct stream_position){ 1, 0 });
	comm_leave(pair.recv);
	close(pair.fds[0]);
	pair.fds[0] = fds[1];
	ib_note_posted();
	ib_bring(ib_qp_of(pair.recv, 0), &ping, NULL, 0);
	ib_turn(pair.recv);
	assert_int_equal(ib_posted[ib_posted_count - 1].frame.type, ANYNET_FRAME_ACK);

	assert_int_equal(write(fds[1], &ping, sizeof(ping)), sizeof(ping));
	pair.recv->session->watch.looked_ms = 0;
	pair_irecv(&pair, pair_in, 100, 0);
	atomic_store(&pair.recv->attention, true);
	ib_turn(pair.recv);
	assert_false(stream->qp.carries);
	ib_turn(pair.recv);
	assert_true(frame_get(fds[1], &word, acks, sizeof(acks)));
	assert_int_equal(word.type, ANYNET_FRAME_ACK);
	assert_int_equal(word.length, 0);
}

/* --- a queue pair that is proven while TCP carries the stream --- */

__typeof__(comm_device_at) __wrap_comm_device_at; /* connections of the test have no address */

const struct anynet_device *__wrap_comm_device_at(const struct anynet_comm *comm, int fd)
{
	(void)fd;
	return comm->dev;
}

/* A hello for stream 0 from the sender with that number. Returns the answer's status; *fd: where it was read, -1 = the
 * receiver has closed it. */
static enum anynet_hello_status hear(enum anynet_hello_kind kind, uint32_t epoch, uint32_t qpn,
				     struct anynet_wire_hello *answer, int *fd)
{
	struct anynet_wire_hello hello = ib_peer(true);
	char byte;
	int fds[2];

	hello.type = ANYNET_HELLO;
	hello.kind = (uint8_t)kind;
	hello.epoch = epoch;
	hello.qp.qpn = qpn;
	if (!qpn)
		hello.qp.kind = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(recovery_post(pair.recv, fds[0], &hello, NULL), 0);
	comm_poke(pair.recv);
	ib_turn(pair.recv);
	assert_int_equal(recv(fds[1], answer, sizeof(*answer), 0), sizeof(*answer));
	assert_int_equal(answer->kind, kind);
	*fd = fds[1];
	if (!recv(fds[1], &byte, 1, MSG_DONTWAIT)) {
		close(fds[1]);
		*fd = -1;
	}
	return answer->status;
}

static void resumes(uint32_t epoch, uint32_t qpn, struct anynet_wire_hello *answer)
{
	int fd;

	assert_int_equal(hear(ANYNET_KIND_RESUME, epoch, qpn, answer, &fd), ANYNET_STATUS_OK);
	assert_true(fd >= 0);
	close(pair.fds[0]);
	pair.fds[0] = fd;
}

static void test_a_link_waits_for_the_resume_that_names_it(void **state)
{
	struct anynet_wire_hello answer, again;
	struct anynet_stream *stream;
	int fd;

	(void)state;
	ib_open_recv(&pair, 1, 0);
	stream = pair.recv->streams[0];
	assert_int_equal(hear(ANYNET_KIND_QP, 1, 5, &answer, &fd), ANYNET_STATUS_OK);
	assert_int_equal(fd, -1);
	assert_int_equal(answer.qp.kind, 1);
	assert_int_equal(stream->epoch, 0); /* the stream continues unchanged */
	assert_false(stream->qp.carries);
	/* The same hello again, recorded by an eavesdropper: it changes nothing. */
	assert_int_equal(hear(ANYNET_KIND_QP, 1, 5, &again, &fd), ANYNET_STATUS_STALE);
	resumes(2, 5, &again);
	assert_int_equal(again.qp.qpn, answer.qp.qpn);
	assert_true(stream->qp.carries);
}

static void test_a_resume_that_names_another_link_goes_by_tcp(void **state)
{
	static const uint32_t others[] = { 6, 0 };
	struct anynet_wire_hello answer;
	uint32_t epoch = 0;
	int fd;

	(void)state;
	ib_open_recv(&pair, 1, 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(hear(ANYNET_KIND_QP, ++epoch, 5, &answer, &fd),
				 ANYNET_STATUS_OK);
		resumes(++epoch, others[i], &answer);
		assert_int_equal(answer.qp.kind, 0);
		assert_false(pair.recv->streams[0]->qp.carries);
		resumes(++epoch, 5, &answer); /* it has been given up */
		assert_int_equal(answer.qp.kind, 0);
	}
}

/* Its own NIC may be back, and carries the stream again. */
static void test_no_link_is_made_on_a_nic_that_cannot_register_the_memory(void **state)
{
	struct anynet_wire_hello answer;
	int fd;

	(void)state;
	ib_open_recv(&pair, 1, 0);
	pair.recv->tcp.nics = 1ull << local_dev.index;
	assert_int_equal(hear(ANYNET_KIND_QP, 1, 5, &answer, &fd), ANYNET_STATUS_OK);
	assert_int_equal(answer.qp.kind, 0);
	assert_non_null(strstr(answer.reason, "memory cannot be registered"));
	pair.recv->tcp.nics = 1ull << (local_dev.index + 1);
	assert_int_equal(hear(ANYNET_KIND_QP, 2, 5, &answer, &fd), ANYNET_STATUS_OK);
	assert_int_equal(answer.qp.kind, 1);
}

/* Only the newest of those without a RESUME is kept. */
static void test_a_newer_link_takes_the_place_of_an_older_one(void **state)
{
	struct anynet_wire_hello answer;
	int fd;

	(void)state;
	ib_open_recv(&pair, 1, 0);
	for (uint32_t epoch = 1; epoch < 100; epoch++) {
		assert_int_equal(hear(ANYNET_KIND_QP, epoch, epoch + 5, &answer, &fd),
				 ANYNET_STATUS_OK);
		assert_int_equal(answer.qp.kind, 1);
		ib_chores_finish();
	}
	resumes(100, 104, &answer);
	assert_true(pair.recv->streams[0]->qp.carries);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, ib_comm_setup, ib_comm_teardown)
	const struct CMUnitTest tests[] = {
		T(test_the_tcp_connection_counts_until_the_queue_pair_is_proven),
		T(test_a_queue_pair_that_refuses_the_proof_is_left_for_tcp),
		T(test_ready_may_come_by_tcp_after_the_proof),
		T(test_the_tcp_connection_counts_until_ready_has_come),
		T(test_the_end_of_a_connection_that_waits_is_seen),
		T(test_what_a_queue_pair_had_brought_when_it_broke_counts),
		T(test_recovery_may_give_up_what_waits_for_another_queue_pair),
		T(test_a_closed_receiver_stays_for_a_queue_pair_that_broke),
		T(test_a_closed_receiver_sees_a_queue_pair_break_behind_an_unexpected_message),
		T(test_a_closed_receiver_sees_its_bye_arrive_behind_an_unexpected_message),
		T(test_what_was_told_by_a_queue_pair_that_is_given_up_is_told_again),
		T(test_a_link_waits_for_the_resume_that_names_it),
		T(test_a_resume_that_names_another_link_goes_by_tcp),
		T(test_a_newer_link_takes_the_place_of_an_older_one),
		T(test_no_link_is_made_on_a_nic_that_cannot_register_the_memory),

	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
