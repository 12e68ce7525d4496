/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory over TCP connections that break: data copied ahead of the socket is discarded, received data is stored
 * first, and the stream continues at the receiver's position.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "fakes/stubs/fake_gpu.h"
#include "support/capture.h"
#include "transports/path/tcp/tcp_stream.h"
#include "unit/carrier.h"

#define MESSAGES     3
#define BYTES_MAX    (5 * GPU_BOUNCE_BYTES + 1000)
#define SOCKET_BYTES 16384 /* capacity of a sender's socket */
#define STEP         29989 /* between the positions where it is cut */
#define TURNS_MAX    100000
#define QUIET_TURNS  50 /* iterations without a transfer: all copies are complete */
#define MANY         FAKE_GPU_BOUNCES

static const size_t sizes[MESSAGES] = { BYTES_MAX, 700, 2 * GPU_BOUNCE_BYTES };

struct shape {
	unsigned streams, bounces, polls;
	bool checksum;
};

static struct carrier carrier;
static struct anynet_mr from, to;
static struct anynet_request *sends[MESSAGES], *recvs[MESSAGES];
static uint8_t out[MESSAGES][BYTES_MAX], in[MESSAGES][BYTES_MAX + 1];

static int fill(void **state)
{
	(void)state;
	for (size_t i = 0; i < MESSAGES; i++)
		for (size_t j = 0; j < BYTES_MAX; j++)
			out[i][j] = (uint8_t)(1 + i * 37 + j * 7 + j / 251);
	return 0;
}

static int setup(void **state)
{
	pair_setup_recovery(state);
	local_cfg.chunk_bytes = (long long)(3 * GPU_BOUNCE_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	carrier_close(&carrier);
	capture_check();
	return 0;
}

static void start(const struct shape *shape)
{
	const int socket_bytes = SOCKET_BYTES;

	local_cfg.checksum = shape->checksum;
	fake_gpu_start(shape->bounces, shape->polls);
	from = to = (struct anynet_mr){ .gpu = fake_gpu(), .dmabuf.fd = -1 };
	memset(in, 0xee, sizeof(in));
	carrier_open(&carrier, shape->streams);
	for (unsigned i = 0; i < shape->streams; i++)
		assert_int_equal(setsockopt(carrier.pair.send->streams[i]->path.fd, SOL_SOCKET,
					    SO_SNDBUF, &socket_bytes, sizeof(socket_bytes)),
				 0);
	for (int i = 0; i < MESSAGES; i++) {
		void *data = in[i];
		struct anynet_mr *mr = &to;
		const int tag = 0;

		assert_int_equal(anynet_irecv(carrier.pair.recv, &(struct anynet_recv){ .n = 1, .data = &data, .bytes = &sizes[i], .tags = &tag, .mrs = (void *[]){ mr } }, &recvs[i]),
				 0);
		assert_int_equal(anynet_isend(carrier.pair.send, &(struct anynet_send){ out[i], sizes[i], tag, &from, NULL }, &sends[i]),
				 0);
	}
}

/* Returns how many requests are open. */
static unsigned test_all(void)
{
	unsigned open = 0;

	for (int i = 0; i < MESSAGES; i++) {
		if (sends[i] && pair_done(sends[i], NULL))
			sends[i] = NULL;
		if (recvs[i] && pair_done(recvs[i], NULL)) {
			if (memcmp(in[i], out[i], sizes[i]))
				assert_memory_equal(in[i], out[i], sizes[i]); /* says where */
			recvs[i] = NULL;
		}
		open += (unsigned)(sends[i] != NULL) + (unsigned)(recvs[i] != NULL);
	}
	return open;
}

/* Until nothing is transferred any more, or all is done. */
static unsigned run(void)
{
	unsigned open = test_all(), quiet = 0;

	for (int turn = 0; open && quiet < QUIET_TURNS; turn++) {
		assert_true(turn < TURNS_MAX);
		quiet = carrier_carry(&carrier) ? 0 : quiet + 1;
		open = test_all();
	}
	return open;
}

static void check_end(void)
{
	for (int i = 0; i < MESSAGES; i++)
		assert_int_equal(in[i][sizes[i]], 0xee);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	carrier_close(&carrier);
	assert_int_equal(fake_gpu_taken(), 0);
	assert_int_equal(from.in_flight, 0);
	assert_int_equal(to.in_flight, 0);
}

/* Bytes of the last stream. */
static uint64_t undisturbed(const struct shape *shape)
{
	uint64_t bytes;

	start(shape);
	assert_int_equal(run(), 0);
	bytes = carrier.streams[shape->streams - 1].passed[TO_RECEIVER];
	check_end();
	return bytes;
}

/* `turns` iterations after the cut the connection ends: copies may be in progress. */
static void cut_at(const struct shape *shape, uint64_t at, int turns)
{
	unsigned stream = shape->streams - 1;

	start(shape);
	carrier.streams[stream].left[TO_RECEIVER] = at;
	for (int turn = 0; carrier.streams[stream].left[TO_RECEIVER]; turn++) {
		assert_true(turn < TURNS_MAX);
		if (!test_all())
			break;
		carrier_carry(&carrier);
	}
	while (turns-- && test_all())
		carrier_carry(&carrier);
	carrier_mend(&carrier, stream);
	assert_int_equal(run(), 0);
	check_end();
}

static void cut_everywhere(const struct shape *shape)
{
	uint64_t bytes = undisturbed(shape);

	for (uint64_t at = 1; at < bytes; at += STEP)
		for (int turns = 0; turns < 3; turns++)
			cut_at(shape, at, turns);
}

static void test_a_stream_goes_on_where_it_was_cut(void **state)
{
	(void)state;
	for (unsigned polls = 0; polls < 3; polls++)
		cut_everywhere(&(struct shape){ .streams = 1, .bounces = MANY, .polls = polls });
}

static void test_checksums_are_right_when_frames_are_sent_again(void **state)
{
	(void)state;
	for (unsigned polls = 0; polls < 3; polls++)
		cut_everywhere(&(struct shape){
			.streams = 1, .bounces = MANY, .polls = polls, .checksum = true });
}

static void test_streams_share_few_bounces(void **state)
{
	(void)state;
	for (unsigned bounces = 2; bounces < 5; bounces++)
		for (unsigned checksum = 0; checksum < 2; checksum++)
			cut_everywhere(&(struct shape){ .streams = 2,
							.bounces = bounces,
							.polls = 1,
							.checksum = checksum });
}

/* One stream stops at each position in turn, with bounces full or half full. */
static void test_a_stream_that_is_held_up_keeps_no_bounce_that_others_want(void **state)
{
	struct shape shape = { .streams = 2, .bounces = 2 };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t bytes;

		shape.polls = i / 2;
		shape.checksum = i % 2;
		bytes = undisturbed(&shape);
		for (uint64_t at = 1; at < bytes; at += STEP) {
			start(&shape);
			carrier.streams[1].left[TO_RECEIVER] = at;
			if (run())
				assert_false(fake_gpu_taken() && gpu_is_short(fake_gpu()));
			carrier.streams[1].left[TO_RECEIVER] = CARRIER_NEVER;
			assert_int_equal(run(), 0);
			check_end();
		}
	}
}

/* Its bounce may be in use by another then, and its memory is NCCL's. */
static void test_copies_in_progress_are_waited_for(void **state)
{
	const struct shape shape = { .streams = 1, .bounces = MANY, .polls = TURNS_MAX };

	(void)state;
	start(&shape);
	assert_int_equal(run(), 2 * MESSAGES);
	assert_int_equal(carrier.streams[0].passed[TO_RECEIVER] / GPU_BOUNCE_BYTES, 0);
	assert_true(fake_gpu_taken() > 0);
	carrier_cut(&carrier, 0);
	carrier_noticed(&carrier, 0);
	assert_int_equal(fake_gpu_taken(), 0);
	assert_true(fake_gpu_waits() > 0);
}

/* Its bytes have been read, so the socket reports nothing more: it continues when a bounce is free. */
static void test_what_has_been_read_waits_for_a_bounce_only(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, sizes[1]);
	struct anynet_request *req;
	const int tag = 0;
	void *data = in[1];
	struct anynet_mr *mr = &to;
	int bounce;

	(void)state;
	fake_gpu_start(1, 0);
	to = (struct anynet_mr){ .gpu = fake_gpu(), .dmabuf.fd = -1 };
	pair_open_recv(&carrier.pair, 2);
	assert_int_equal(anynet_irecv(carrier.pair.recv,
				      &(struct anynet_recv){ .n = 1,
							     .data = &data,
							     .bytes = &sizes[1],
							     .tags = &tag,
							     .mrs = (void *[]){ mr } },
				      &req),
			 0);
	bounce = gpu_bounce_take(fake_gpu());
	assert_true(bounce >= 0);
	frame_put(carrier.pair.fds[1], &frame, pair_out);
	pair_idle(req);
	gpu_bounce_give(fake_gpu(), bounce);
	pair_finish(&req, 1, NULL);
	assert_memory_equal(in[1], pair_out, sizes[1]);
	pair_close(&carrier.pair);
}

#define CROWD  TCP_TX_FRAMES
#define LARGER (TCP_GPU_PIECES * GPU_BOUNCE_BYTES)

static uint8_t sent[CROWD][LARGER], got[CROWD][LARGER];

static void set_socket(int bytes)
{
	assert_int_equal(setsockopt(carrier.pair.send->streams[0]->path.fd, SOL_SOCKET, SO_SNDBUF,
				    &bytes, sizeof(bytes)),
			 0);
}

static void pass(int i, size_t bytes, struct anynet_mr *out_mr, struct anynet_mr *in_mr,
		 struct anynet_request **reqs)
{
	struct anynet_send send = { sent[i], bytes, 0, out_mr, NULL };
	struct anynet_recv recv = { .n = 1,
				    .data = (void *[]){ got[i] },
				    .bytes = &bytes,
				    .tags = &(int){ 0 },
				    .mrs = (void *[]){ in_mr } };

	memset(sent[i], i + 1, bytes);
	assert_int_equal(anynet_irecv(carrier.pair.recv, &recv, &reqs[0]), 0);
	assert_int_equal(anynet_isend(carrier.pair.send, &send, &reqs[1]), 0);
}

static void finish(struct anynet_request **reqs, int count)
{
	int open = count;

	for (int turn = 0; open; turn++) {
		assert_true(turn < TURNS_MAX);
		carrier_carry(&carrier);
		for (int i = 0; i < count; i++)
			if (reqs[i] && pair_done(reqs[i], NULL)) {
				reqs[i] = NULL;
				open--;
			}
	}
}

/* With checksums, host messages and a GPU message in 16 bounces that are not neighbours: as many pieces as one call can
 * have. The socket is full while they are queued. */
static void test_a_call_has_room_for_all_its_pieces(void **state)
{
	struct anynet_request *reqs[2 * CROWD];
	int bounces[FAKE_GPU_BOUNCES];

	(void)state;
	local_cfg.checksum = true;
	local_cfg.chunk_bytes = LARGER;
	fake_gpu_start(FAKE_GPU_BOUNCES, 0);
	from = to = (struct anynet_mr){ .gpu = fake_gpu(), .dmabuf.fd = -1 };
	carrier_open(&carrier, 1);
	set_socket(SOCKET_BYTES);
	for (int i = 0; i < FAKE_GPU_BOUNCES; i++)
		bounces[i] = gpu_bounce_take(fake_gpu());
	for (int i = 0; i < FAKE_GPU_BOUNCES; i += 2)
		gpu_bounce_give(fake_gpu(), bounces[i]);
	for (int i = 0; i < CROWD - 1; i++)
		pass(i, i ? LOCAL_EAGER_BYTES + 1 : BYTES_MAX, NULL, NULL, &reqs[i * 2]);
	pass(CROWD - 1, LARGER, &from, &to, &reqs[2 * CROWD - 2]);
	set_socket(1 << 20);
	finish(reqs, 2 * CROWD);
	assert_memory_equal(got, sent, sizeof(sent));
	for (int i = 1; i < FAKE_GPU_BOUNCES; i += 2)
		gpu_bounce_give(fake_gpu(), bounces[i]);
	assert_int_equal(fake_gpu_taken(), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_stream_goes_on_where_it_was_cut),
		T(test_checksums_are_right_when_frames_are_sent_again),
		T(test_streams_share_few_bounces),
		T(test_a_stream_that_is_held_up_keeps_no_bounce_that_others_want),
		T(test_copies_in_progress_are_waited_for),
		T(test_what_has_been_read_waits_for_a_bounce_only),
		T(test_a_call_has_room_for_all_its_pieces),
	};

	return cmocka_run_group_tests(tests, fill, NULL);
}
