/* SPDX-License-Identifier: Apache-2.0 */
/* Large sends that are copied after the kernel has taken them (send_keep.c): done early, kept until acknowledged. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/message/send_internal.h"
#include "unit/carrier.h"

#define BYTES     (LOCAL_RING_BYTES * 2)
#define ROOM_FOR  2 /* messages */
#define KEPT      (ROOM_FOR * (BYTES + REPLAY_RECORD_BYTES + REPLAY_ALIGN))
#define TURNS_MAX 1000

static struct carrier carrier;
static uint8_t out[ROOM_FOR + 1][BYTES], in[ROOM_FOR + 1][BYTES], want[ROOM_FOR + 1][BYTES];

static int setup(void **state)
{
	pair_setup_recovery(state);
	local_cfg.keep_bytes = KEPT;
	memset(in, 0, sizeof(in));
	for (size_t i = 0; i <= ROOM_FOR; i++)
		for (size_t k = 0; k < BYTES; k++)
			out[i][k] = (uint8_t)(k * 7 + k / 251 + i);
	memcpy(want, out, sizeof(want));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	carrier_close(&carrier);
	capture_check();
	return 0;
}

static struct send_comm *sender(void)
{
	return to_send(carrier.pair.send);
}

static void turn_until_done(struct anynet_request *req)
{
	for (unsigned turns = 0; !pair_done(req, NULL); turns++) {
		assert_true(turns < TURNS_MAX);
		carrier_carry(&carrier);
	}
}

static void check_in(unsigned count)
{
	assert_memory_equal(in, want, (size_t)count * BYTES);
}

/* The receiver has posted nothing, so nothing is acknowledged. */
static void test_a_send_is_done_before_its_ack(void **state)
{
	struct anynet_request *req;

	(void)state;
	carrier_open(&carrier, 1);
	req = pair_isend(&carrier.pair, out[0], BYTES, 0);
	turn_until_done(req);
	memset(out[0], 0xee, BYTES); /* owned by NCCL again */
	assert_int_equal(comm_pending(carrier.pair.send), 0);
	assert_false(send_confirmed(carrier.pair.send));
	req = pair_irecv(&carrier.pair, in[0], BYTES, 0);
	carrier_settle(&carrier);
	turn_until_done(req);
	carrier_settle(&carrier);
	check_in(1);
	assert_true(send_confirmed(carrier.pair.send));
	assert_int_equal(sender()->kept.head, sender()->kept.tail);
}

/* All lost data comes from the copy: of one stream cut anywhere, of several streams that break one after another. */
static void lose(unsigned count, unsigned streams, uint64_t passes)
{
	struct anynet_request *sends[ROOM_FOR], *recvs[ROOM_FOR];

	carrier_open(&carrier, streams);
	for (unsigned i = 0; i < count; i++)
		recvs[i] = pair_irecv(&carrier.pair, in[i], BYTES, 0);
	for (unsigned stream = 0; stream < streams; stream++)
		carrier.streams[stream].left[TO_RECEIVER] = passes;
	for (unsigned i = 0; i < count; i++)
		sends[i] = pair_isend(&carrier.pair, out[i], BYTES, 0);
	for (unsigned i = 0; i < count; i++)
		turn_until_done(sends[i]);
	memset(out, 0xee, sizeof(out));
	for (unsigned stream = 0; stream < streams; stream++) {
		carrier_mend(&carrier, stream);
		carrier_settle(&carrier);
	}
	for (unsigned i = 0; i < count; i++)
		turn_until_done(recvs[i]);
	carrier_settle(&carrier);
	check_in(count);
	assert_true(send_confirmed(carrier.pair.send));
	assert_int_equal(comm_pending(carrier.pair.send), 0);
	carrier_close(&carrier);
}

static void test_lost_data_comes_from_the_copy(void **state)
{
	static const uint64_t passes[] = { 0, 1, 31, 32, 33, 1000, BYTES, BYTES + 40, 2 * BYTES };

	for (unsigned shape = 0; shape < 2 * ROOM_FOR; shape++)
		for (size_t i = 0; i < ARRAY_SIZE(passes); i++) {
			teardown(state);
			setup(state);
			lose(1 + shape / 2, 1 + shape % 2, passes[i]);
		}
}

/* There is no room for the third: it waits for its own acknowledgement. */
static void test_without_room_a_send_waits_for_its_ack(void **state)
{
	struct anynet_request *sends[ROOM_FOR + 1], *recv;

	(void)state;
	carrier_open(&carrier, 1);
	for (unsigned i = 0; i <= ROOM_FOR; i++)
		sends[i] = pair_isend(&carrier.pair, out[i], BYTES, 0);
	for (unsigned i = 0; i < ROOM_FOR; i++)
		turn_until_done(sends[i]);
	carrier_settle(&carrier);
	pair_idle(sends[ROOM_FOR]);
	memset(out, 0xee, (size_t)ROOM_FOR * BYTES);
	for (unsigned i = 0; i <= ROOM_FOR; i++) {
		recv = pair_irecv(&carrier.pair, in[i], BYTES, 0);
		carrier_settle(&carrier);
		turn_until_done(recv);
	}
	carrier_settle(&carrier);
	turn_until_done(sends[ROOM_FOR]);
	check_in(ROOM_FOR + 1);
}

static size_t room_of(int keep_bytes, int mbps, uint32_t rtt_us)
{
	struct send_comm *comm;
	size_t room;

	local_cfg.keep_bytes = 0;
	local_dev.speed_mbps = mbps;
	comm = to_send(send_comm_create(&local_dev, 1));
	local_cfg.keep_bytes = keep_bytes;
	send_keep_start(comm, rtt_us);
	room = comm->kept.bytes;
	assert_int_equal(send_keeps(comm), room != 0);
	comm_destroy(&comm->base);
	local_dev.speed_mbps = 10000;
	return room;
}

static void test_only_long_paths_need_copies(void **state)
{
	(void)state;
	assert_int_equal(room_of(0, 10000, 50000), 0);
	assert_int_equal(room_of(65536, 10000, 0), 65536);
	assert_int_equal(room_of(ANYNET_AUTO, 10000, 0), 0); /* unknown */
	assert_int_equal(room_of(ANYNET_AUTO, 10000, 838), 0);
	assert_int_equal(room_of(ANYNET_AUTO, 10000, 1000), 8 << 20);
	assert_int_equal(room_of(ANYNET_AUTO, 1000, 8000), 0);
	assert_int_equal(room_of(ANYNET_AUTO, 400000, 100), 0); /* faster than a core can send */
	assert_int_equal(room_of(ANYNET_AUTO, 400000, 1000), 8 << 20);
	assert_int_equal(room_of(ANYNET_AUTO, 10000, 4000000), 8 << 20);
	local_cfg.zerocopy = ANYNET_SWITCH_ON;
	assert_int_equal(room_of(65536, 10000, 50000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_send_is_done_before_its_ack, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_lost_data_comes_from_the_copy, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_without_room_a_send_waits_for_its_ack, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_only_long_paths_need_copies, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
