/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection ends: by close, by the peer's death, by deregistration. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "unit/pair.h"

static struct pair pair;
static char data[PAIR_LARGE];

static void put_bye(int fd, uint32_t seq)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE, .seq = seq };

	frame_put(fd, &bye, NULL);
}

static struct anynet_mr *reg(struct anynet_comm *comm, void *buffer, size_t bytes)
{
	struct anynet_mr *mr;

	assert_int_equal(anynet_reg_mr(comm, buffer, bytes, ANYNET_PTR_HOST, NULL, &mr), 0);
	assert_non_null(mr);
	return mr;
}

static void test_a_peer_that_said_bye_may_close(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 5);
	struct anynet_request *reqs[2], *refused;
	void *buffer = data;
	size_t bytes = sizeof(data);
	int tag = 0;

	(void)state;
	for (unsigned streams = 1; streams <= 3; streams++) {
		pair_open_recv(&pair, streams);
		reqs[0] = pair_irecv(&pair, data, 8, 0);
		frame_put(pair.fds[streams - 1], &frame, "first");
		for (unsigned i = 0; i < streams; i++) {
			put_bye(pair.fds[i], 1);
			pair_hang_up(&pair, i);
		}
		pair_finish(reqs, 1, NULL);
		assert_int_equal(comm_error(pair.recv), 0);
		assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
		for (int i = 0; i < 10; i++)
			comm_turn(pair.recv);
		assert_int_equal(comm_error(pair.recv), 0);
		/* Another test is an error. */
		assert_int_equal(anynet_irecv(pair.recv, &(struct anynet_recv){ .n = 1, .data = &buffer, .bytes = &bytes, .tags = &tag }, &refused),
				 -ECONNRESET);
		assert_null(refused);
		warned_once("the peer closed the connection");
		capture_forget();
		if (streams < 3)
			pair_close(&pair);
	}
}

static void test_bye_with_receives_pending_is_an_error(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, data, 8, 0);
	put_bye(pair.fds[0], 0);
	pair_hang_up(&pair, 0);
	pair_fails(req, -ECONNRESET);
	warned_once("before sending all data of pending requests");
}

static void test_an_end_without_bye_names_stream_and_peer(void **state)
{
	struct anynet_request *reqs[2];

	(void)state;
	pair_open_recv(&pair, 2);
	reqs[0] = pair_irecv(&pair, data, 8, 0);
	reqs[1] = pair_irecv(&pair, data + 8, 8, 0);
	pair_hang_up(&pair, 1);
	pair_fails(reqs[0], -ECONNRESET);
	pair_fails(reqs[1], -ECONNRESET);
	warned_once("receive from peer host-b pid 4242 addr 10.0.0.2:4711 dev lo");
	warned_once("path 1 of 2");
	warned_once("the peer closed the connection");
	warned_once("2 pending requests");
}

/* The end arrives with the last bytes, before anything was polled. */
static void test_an_end_right_behind_data_is_seen(void **state)
{
	(void)state;
	for (unsigned streams = 1; streams <= 2; streams++) {
		struct anynet_wire_frame frame = frame_data(0, 0, 0, 5);
		struct anynet_request *reqs[2];

		pair_open_recv(&pair, streams);
		reqs[0] = pair_irecv(&pair, data, 8, 0);
		reqs[1] = pair_irecv(&pair, data + 8, 8, 0);
		frame_put(pair.fds[0], &frame, "first");
		pair_hang_up(&pair, 0);
		pair_finish(reqs, 1, NULL);
		pair_fails(reqs[1], -ECONNRESET);
		if (streams < 2)
			pair_close(&pair);
	}
}

static void test_a_sender_sees_the_end_right_behind_an_ack(void **state)
{
	struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = ANYNET_ACK_BYTES };
	const uint8_t nothing[ANYNET_ACK_BYTES] = { 0 };
	struct anynet_request *req;

	(void)state;
	pair_open_send(&pair, 2);
	req = pair_isend(&pair, data, PAIR_LARGE, 0);
	pair_idle(req);
	frame_put(pair.fds[0], &ack, nothing);
	shutdown(pair.fds[0], SHUT_WR);
	pair_fails(req, -ECONNRESET);
	warned_once("send to peer host-b");
	warned_once("path 0 of 2");
}

static void test_an_end_that_nobody_waits_for_is_no_error_yet(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, "x", 1, 0);
	pair_finish(&req, 1, NULL);
	pair_hang_up(&pair, 0);
	assert_int_equal(comm_turn(pair.send), 0);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	assert_int_equal(anynet_isend(pair.send, &(struct anynet_send){ "x", 1, 0, NULL, NULL }, &req), -ECONNRESET);
	assert_null(req);
	warned_once("the peer closed the connection");
}

static void test_a_broken_stream_fails_every_request_of_both_sides(void **state)
{
	struct anynet_request *recvs[3], *sends[3];

	(void)state;
	pair_open(&pair, 3);
	for (int i = 0; i < 3; i++) {
		recvs[i] = pair_irecv(&pair, data, PAIR_LARGE, i);
		sends[i] = pair_isend(&pair, data, i ? PAIR_LARGE : 1,
				      3 + i); /* without receives */
	}
	pair_finish(sends, 1, NULL);
	for (int i = 0; i < 3; i++) {
		pair_idle(recvs[i]);
		if (i)
			pair_idle(sends[i]);
	}
	shutdown(pair.recv->streams[1]->path.fd, SHUT_RDWR);
	for (int i = 0; i < 3; i++) {
		pair_fails(recvs[i], -ECONNRESET);
		if (i)
			pair_fails(sends[i], -ECONNRESET);
	}
	assert_int_equal(capture_count(CAPTURE_WARN, "receive from peer"), 1);
	assert_int_equal(capture_count(CAPTURE_WARN, "send to peer"), 1);
	for (int i = 0; i < 3; i++)
		assert_null(pair.recv->streams[i]);
}

static void test_deregistering_under_a_receive_ends_the_comm(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 20);
	struct anynet_request *reqs[2];
	struct anynet_mr *mr;
	void *buffer = malloc(20);
	size_t bytes = 20;
	int tag = 0;

	(void)state;
	assert_non_null(buffer);
	pair_open_recv(&pair, 1);
	mr = reg(pair.recv, buffer, 20);
	assert_int_equal(anynet_irecv(pair.recv, &(struct anynet_recv){ .n = 1, .data = &buffer, .bytes = &bytes, .tags = &tag, .mrs = (void *[]){ mr } }, &reqs[0]), 0);
	reqs[1] = pair_irecv(&pair, data, 8, 0);
	frame_put(pair.fds[0], &frame, NULL);
	assert_int_equal(send(pair.fds[0], data, 10, 0), 10);
	pair_idle(reqs[0]);
	anynet_dereg_mr(pair.recv, mr);
	free(buffer); /* a write to it is a sanitizer error */
	send(pair.fds[0], data, 10, MSG_NOSIGNAL);
	pair_fails(reqs[0], -ECANCELED);
	pair_fails(reqs[1], -ECANCELED);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
}

static void test_deregistering_under_a_send_ends_the_comm(void **state)
{
	struct anynet_request *req;
	struct anynet_mr *mr;
	char *buffer = calloc(1, 1 << 20);

	(void)state;
	assert_non_null(buffer);
	pair_open_send(&pair, 1);
	mr = reg(pair.send, buffer, 1 << 20);
	assert_int_equal(anynet_isend(pair.send, &(struct anynet_send){ buffer, 1 << 20, 0, mr, NULL }, &req), 0);
	pair_idle(req);
	anynet_dereg_mr(pair.send, mr);
	free(buffer);
	pair_fails(req, -ECANCELED);
	/* Data that the socket had taken may arrive; then the connection ends. */
	while (recv(pair.fds[0], data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(recv(pair.fds[0], data, 1, MSG_DONTWAIT), 0);
}

static void test_deregistering_after_a_send_was_copied_harms_nothing(void **state)
{
	struct anynet_request *reqs[2];
	struct anynet_mr *mr;
	char *buffer = strdup("copied"), in[8];

	(void)state;
	pair_open(&pair, 1);
	mr = reg(pair.send, buffer, 7);
	assert_int_equal(anynet_isend(pair.send, &(struct anynet_send){ buffer, 7, 0, mr, NULL }, &reqs[0]), 0);
	pair_finish(reqs, 1, NULL);
	anynet_dereg_mr(pair.send, mr);
	free(buffer);
	reqs[1] = pair_irecv(&pair, in, sizeof(in), 0);
	pair_finish(reqs + 1, 1, NULL);
	assert_string_equal(in, "copied");
	assert_int_equal(comm_error(pair.send), 0);
}

static void test_closing_says_bye_on_every_stream(void **state)
{
	struct anynet_wire_frame frame;
	struct anynet_request *req;

	(void)state;
	pair_open_send(&pair, 2);
	req = pair_isend(&pair, "x", 1, 0);
	pair_finish(&req, 1, NULL);
	anynet_close(pair.send);
	pair.send = NULL;
	assert_true(frame_get(pair.fds[0], &frame, data, 1));
	assert_int_equal(frame.type, ANYNET_FRAME_DATA);
	for (int i = 0; i < 2; i++) {
		assert_true(frame_get(pair.fds[i], &frame, data, 0));
		assert_int_equal(frame.type, ANYNET_FRAME_BYE);
		assert_int_equal(frame.seq, 1);
		assert_int_equal(recv(pair.fds[i], data, 1, MSG_DONTWAIT), 0);
	}
	anynet_net_trim(&local_dev);
}

/* A receiver leaves the tail byte of the last frame in its socket: a reset because of it could overtake its last
 * frame. */
static void test_an_unread_tail_is_no_reset(void **state)
{
	struct anynet_wire_frame frame;
	struct anynet_request *req;
	ssize_t n;

	(void)state;
	pair_open_recv(&pair, 1);
	for (uint32_t seq = 0; seq < 3; seq++) {
		req = pair_irecv(&pair, data, 8, 0);
		pair_idle(req);
		frame = frame_data(seq, 0, ANYNET_FLAG_TAIL, 8);
		frame_put(pair.fds[0], &frame, "8 bytes");
		pair_finish(&req, 1, NULL);
	}
	comm_destroy(pair.recv);
	pair.recv = NULL;
	do
		n = recv(pair.fds[0], data, sizeof(data), MSG_DONTWAIT);
	while (n > 0);
	assert_int_equal(n, 0);
}

/* Two ends of a TCP connection on this host. */
static void make_tcp_pair(int fds[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&addr, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &bytes), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fds[0], (struct sockaddr *)&addr, bytes), 0);
	fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	close(listener);
}

/* With MSG_ZEROCOPY it would be read from NCCL's buffers, whatever they contain by then. */
static void test_what_the_kernel_holds_of_a_severed_stream_is_not_sent(void **state)
{
	static char large[8 << 20];
	struct timeval patience = { .tv_sec = 20 };
	int fds[2];
	ssize_t n;

	(void)state;
	pair_open_send(&pair, 1);
	make_tcp_pair(fds);
	close(pair.send->streams[0]->path.fd);
	pair.send->streams[0]->path.fd = fds[0];
	close(pair.fds[0]);
	pair.fds[0] = fds[1];
	pair_idle(pair_isend(&pair, large, sizeof(large), 0));
	comm_sever(pair.send, pair.send->streams[0], 0);
	setsockopt(fds[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while ((n = recv(fds[1], large, sizeof(large), 0)) > 0)
		;
	assert_int_equal(n, -1); /* no orderly end after it */
	assert_int_equal(errno, ECONNRESET);
}

static void test_what_is_noted_counts_before_a_request_is_reported(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 8);
	struct anynet_request *req;
	int done = 0;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, data, 8, 0);
	frame_put(pair.fds[0], &frame, "complete");
	while (!atomic_load(&req->done))
		assert_int_equal(comm_turn(pair.recv), 0);
	comm_note_fault(pair.recv, NULL, -EIO, "for a test");
	assert_int_equal(anynet_test(req, &done, NULL), -EIO);
	assert_int_equal(done, 0);
	warned_once("for a test");
	/* NCCL may be long about closing the comm; the background thread looks at it. */
	comm_attend(pair.recv);
	while (recv(pair.fds[0], data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(recv(pair.fds[0], data, 1, MSG_DONTWAIT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, pair_setup, pair_teardown, &pair)
		TEST(test_a_peer_that_said_bye_may_close),
		TEST(test_bye_with_receives_pending_is_an_error),
		TEST(test_an_end_without_bye_names_stream_and_peer),
		TEST(test_an_end_right_behind_data_is_seen),
		TEST(test_a_sender_sees_the_end_right_behind_an_ack),
		TEST(test_an_end_that_nobody_waits_for_is_no_error_yet),
		TEST(test_a_broken_stream_fails_every_request_of_both_sides),
		TEST(test_deregistering_under_a_receive_ends_the_comm),
		TEST(test_deregistering_under_a_send_ends_the_comm),
		TEST(test_deregistering_after_a_send_was_copied_harms_nothing),
		TEST(test_what_is_noted_counts_before_a_request_is_reported),
		TEST(test_closing_says_bye_on_every_stream),
		TEST(test_an_unread_tail_is_no_reset),
		TEST(test_what_the_kernel_holds_of_a_severed_stream_is_not_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
