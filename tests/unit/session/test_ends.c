/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection ends: by close, by the peer's death, by a message that does not fit, by deregistration. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/wire/checksum.h"
#include "unit/pair.h"

static struct pair pair;
static char data[PAIR_LARGE];

static void warned_once(const char *text)
{
	char line[CAPTURE_LINE_BYTES];

	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 1);
	if (!capture_find(CAPTURE_WARN, text, line)) {
		assert_true(capture_find(CAPTURE_WARN, NULL, line));
		fail_msg("'%s' does not say '%s'", line, text);
	}
}

static void put_bye(int fd, uint32_t seq)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE, .seq = seq };

	frame_put(fd, &bye, NULL);
}

static struct anynet_mr *reg(struct anynet_comm *comm, void *buffer, size_t bytes)
{
	struct anynet_mr *mr;

	assert_int_equal(anynet_reg_mr(comm, buffer, bytes, ANYNET_PTR_HOST, &mr), 0);
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

static void test_a_message_larger_than_its_buffer_fails_with_both_sizes(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 9, 0, 500);
	struct anynet_request *reqs[2];

	(void)state;
	memset(data, 0xee, sizeof(data));
	pair_open_recv(&pair, 1);
	reqs[0] = pair_irecv(&pair, data, 499, 9);
	reqs[1] = pair_irecv(&pair, data, 1000, 9);
	frame_put(pair.fds[0], &frame, data);
	pair_fails(reqs[0], -EMSGSIZE);
	pair_fails(reqs[1], -EMSGSIZE);
	warned_once("message of 500 bytes for a posted receive of 499 bytes");
	assert_int_equal(data[0], (char)0xee);
	/* The sender notices the end of the connection. */
	assert_int_equal(send(pair.fds[0], data, 1, MSG_NOSIGNAL), -1);
}

static void test_an_unexpected_message_that_is_too_large_fails_its_receive(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 1, ANYNET_FLAG_MULTI, 500);
	struct anynet_request *req, *refused;
	void *buffer = data;
	size_t bytes = 100;
	int tag = 1;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, data, 8, 2);
	frame_put(pair.fds[0], &frame, data);
	pair_idle(req);
	assert_int_equal(anynet_irecv(pair.recv, &(struct anynet_recv){ .n = 1, .data = &buffer, .bytes = &bytes, .tags = &tag }, &refused),
			 -EMSGSIZE);
	assert_null(refused);
	warned_once("message of 500 bytes for a posted receive of 100 bytes");
	pair_fails(req, -EMSGSIZE);
}

static void bad_frame(const struct anynet_wire_frame *frame, unsigned stream, const char *text)
{
	static char payload[65536];
	struct anynet_request *req = pair_irecv(&pair, data, 100, 0);

	frame_put(pair.fds[stream], frame, payload);
	pair_fails(req, -EPROTO);
	warned_once(text);
}

static void test_frames_that_cannot_be_right_are_refused(void **state)
{
	struct anynet_wire_frame frames[] = {
		frame_data((uint32_t)-2, 0, 0, 10),
		frame_data((uint32_t)-1, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 0),
		frame_data(0, 0, ANYNET_FLAG_CRC, 10), /* checksums were not requested */
	};

	(void)state;
	frames[2].offset = 1;
	frames[3].length = 11;
	frames[4].size = (uint64_t)ANYNET_MESSAGE_MAX + 1;
	frames[5].slot = ANYNET_WIRE_SLOTS;
	frames[6].offset = 11;
	frames[7].size = 10;
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		pair_open_recv(&pair, 1);
		bad_frame(&frames[i], 0, "bad frame");
		capture_forget();
		pair_close(&pair);
	}
	pair_open_recv(&pair, 1);
	bad_frame(&(struct anynet_wire_frame){ .type = 77 }, 0, "frame of unknown type 77");
}

/* Its second half has another message, tag or size, or so many bytes that they end behind the buffer. */
static void test_frames_of_one_message_say_the_same_of_it(void **state)
{
	static char half[128];
	struct anynet_wire_frame first = frame_data(0, 0, 0, 256), frames[4];
	struct anynet_request *req;

	(void)state;
	first.length = sizeof(half);
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		frames[i] = first;
		frames[i].offset = sizeof(half);
	}
	frames[0].seq = ANYNET_WIRE_SLOTS;
	frames[1].tag = 1;
	frames[2].size = 4096;
	frames[2].offset = 4096 - sizeof(half);
	frames[3].size = 192;
	frames[3].length = 64;
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		pair_open_recv(&pair, 1);
		memset(data, 0, sizeof(data));
		req = pair_irecv(&pair, data, 256, 0);
		frame_put(pair.fds[0], &first, half);
		pair_idle(req);
		memset(half, 1, sizeof(half));
		frame_put(pair.fds[0], &frames[i], half);
		pair_fails(req, -EPROTO);
		warned_once("bad frame");
		for (size_t k = 0; k < sizeof(data); k++)
			assert_int_equal(data[k], 0);
		memset(half, 0, sizeof(half));
		capture_forget();
		pair_close(&pair);
	}
}

static void test_a_notice_with_payload_is_refused(void **state)
{
	struct anynet_wire_frame ready = { .type = ANYNET_FRAME_READY, .length = 3 };

	(void)state;
	pair_open_recv(&pair, 1);
	bad_frame(&ready, 0, "frame of type 3 with a payload of 3 bytes");
}

/* Two streams deliver the same bytes: the buffer must not be returned while one still writes to it. */
static void test_bytes_that_come_twice_are_refused(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 100);
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 2);
	req = pair_irecv(&pair, data, 100, 0);
	frame_put(pair.fds[0], &frame, NULL);
	assert_int_equal(send(pair.fds[0], data, 50, 0), 50);
	pair_idle(req);
	frame_put(pair.fds[1], &frame, data);
	pair_fails(req, -EPROTO);
	warned_once("bad frame");
}

/* The same for an empty message, of which only the checksum on the first stream is still to come. */
static void test_an_empty_message_that_comes_twice_is_refused(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 0);
	struct anynet_request *req;
	uint32_t crc = 0;

	(void)state;
	local_cfg.checksum = true;
	checksum_header(&frame, NULL);
	pair_open_recv(&pair, 2);
	req = pair_irecv(&pair, data, 100, 0);
	frame_put(pair.fds[0], &frame, NULL);
	pair_idle(req);
	frame_put(pair.fds[1], &frame, NULL);
	assert_int_equal(send(pair.fds[1], &crc, sizeof(crc), 0), sizeof(crc));
	pair_fails(req, -EPROTO);
	warned_once("bad frame");
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
	recv_comm_destroy(pair.recv);
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
		TEST(test_a_message_larger_than_its_buffer_fails_with_both_sizes),
		TEST(test_an_unexpected_message_that_is_too_large_fails_its_receive),
		TEST(test_frames_that_cannot_be_right_are_refused),
		TEST(test_frames_of_one_message_say_the_same_of_it),
		TEST(test_a_notice_with_payload_is_refused),
		TEST(test_bytes_that_come_twice_are_refused),
		TEST(test_an_empty_message_that_comes_twice_is_refused),
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
