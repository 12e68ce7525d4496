/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are established and deliver nothing, with a clock and a stream of the test: when they count, and
 * when the comm fails (progress.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transports/device/carrier.h"
#include "transports/path/ib/ib_stream.h"
#include "transports/session/pairs.h"
#include "transports/session/progress.h"
#include "unit/local_net.h"

#define RECOVERY_MS 1000

static enum stream_moved moved;
static struct session session;
static struct anynet_comm comm;
static struct ib_stream ib;
static struct anynet_stream *const stream = &ib.tcp.base;
static uint64_t began; /* the newest connection */

static enum stream_moved tell_moved(struct anynet_stream *asked)
{
	(void)asked;
	return moved;
}

static bool tell_signs(struct anynet_stream *asked, struct stream_signs *signs)
{
	(void)asked;
	signs->acked = 77;
	return true;
}

static const struct anynet_stream_ops ops = { .moved = tell_moved, .signs = tell_signs };

static int setup(void **state)
{
	(void)state;
	local_net_start();
	local_cfg.recovery_timeout_ms = RECOVERY_MS;
	memset(&session, 0, sizeof(session));
	comm = (struct anynet_comm){ .is_send = true, .session = &session, .dev = &local_dev };
	ib = (struct ib_stream){ 0 };
	*stream = (struct anynet_stream){
		.comm = &comm,
		.ops = &ops,
		.path.fd = -1,
		.path.pair = { 1, 2 },
		.progress.narrow = PAIRS_NONE,
	};
	return 0;
}

/* One with this position, which ends `ms` later. */
static void connection(uint64_t frames, uint32_t part, enum stream_moved what, uint64_t ms)
{
	progress_begin(stream, (struct stream_position){ frames, part });
	began = stream->progress.began_ms;
	moved = what;
	if (what == STREAM_STUCK && !stream->alarms.ms)
		stream->path.health.silent_ms = began; /* from the beginning */
	progress_end(stream, began + ms);
}

static void test_it_is_over_when_nothing_has_moved_for_long(void **state)
{
	uint64_t since;

	(void)state;
	connection(5, 0, STREAM_STUCK, 300);
	since = began + 300; /* nothing waited before: it may have been established for hours */
	assert_false(progress_is_over(stream, since - 1)); /* by a check that started before */
	connection(5, 0, STREAM_STUCK, 300);
	connection(5, 0, STREAM_STUCK, 300);
	assert_false(progress_is_over(stream, since + RECOVERY_MS - 1));
	assert_true(progress_is_over(stream, since + RECOVERY_MS));
}

static void test_waiting_time_counts(void **state)
{
	(void)state;
	progress_begin(stream, (struct stream_position){ 5, 0 });
	began = stream->progress.began_ms;
	session.watch.since_ms = began + 100;
	moved = STREAM_STUCK;
	progress_end(stream, began + 400);
	assert_false(progress_is_over(stream, began + 100 + RECOVERY_MS - 1));
	assert_true(progress_is_over(stream, began + 100 + RECOVERY_MS));
}

static void test_what_moves_now_is_not_over(void **state)
{
	(void)state;
	connection(5, 0, STREAM_STUCK, 0);
	progress_begin(stream, (struct stream_position){ 5, 0 });
	stream->state = STREAM_UP;
	moved = STREAM_MOVED;
	assert_false(progress_is_over(stream, began + 10 * RECOVERY_MS));
	moved = STREAM_STUCK;
	assert_true(progress_is_over(stream, began + 10 * RECOVERY_MS));
}

static void test_progress_begins_a_new_row(void **state)
{
	(void)state;
	connection(5, 0, STREAM_STUCK, 0);
	connection(5, 0, STREAM_MOVED, 100); /* according to its kernel */
	assert_false(progress_is_over(stream, began + 10 * RECOVERY_MS));
	connection(5, 0, STREAM_STUCK, 0);
	connection(5, 128, STREAM_STUCK, 0); /* the receiver has more of it */
	assert_int_equal(stream->progress.vain, 1);
	connection(6, 0, STREAM_STUCK, 0);
	assert_int_equal(stream->progress.vain, 1);
	connection(6, 0, STREAM_STUCK, 0);
	assert_int_equal(stream->progress.vain, 2);
}

/* The kernel has taken what the receiver refuses each time: other NICs may bring it. */
static void test_connections_that_do_not_move_the_receiver_are_in_vain(void **state)
{
	(void)state;
	connection(5, 0, STREAM_MOVED, 0);
	assert_int_equal(progress_in_vain(stream), 1);
	connection(5, 0, STREAM_MOVED, 0);
	assert_int_equal(progress_in_vain(stream), 2);
	connection(6, 0, STREAM_STUCK, 0);
	assert_int_equal(progress_in_vain(stream), 1);
	connection(6, 0, STREAM_STUCK, 0);
	assert_int_equal(progress_in_vain(stream), 2);
}

/* … also while it stands: the next break may come days later. */
static void test_a_connection_that_moves_forgets_those_before(void **state)
{
	(void)state;
	connection(5, 0, STREAM_STUCK, 0);
	progress_begin(stream, (struct stream_position){ 5, 0 });
	stream->state = STREAM_UP;
	moved = STREAM_STUCK;
	progress_look(stream, began + 100);
	assert_int_equal(stream->progress.vain, 1);
	moved = STREAM_MOVED;
	progress_look(stream, began + 200);
	moved = STREAM_STUCK; /* what is sent next, long after */
	progress_end(stream, began + 10 * RECOVERY_MS);
	stream->state = STREAM_DOWN;
	assert_int_equal(stream->progress.vain, 1);
	assert_false(progress_is_over(stream, began + 11 * RECOVERY_MS - 1));
	assert_true(progress_is_over(stream, began + 11 * RECOVERY_MS));
}

static void test_idle_time_says_nothing(void **state)
{
	uint64_t since;

	(void)state;
	connection(5, 0, STREAM_STUCK, 0);
	since = began;
	connection(5, 0, STREAM_IDLE, 700);
	assert_false(progress_is_over(stream, since + 700 + RECOVERY_MS - 1));
	assert_true(progress_is_over(stream, since + 700 + RECOVERY_MS));
}

/* One lost message, then hours without any, then another one that is stuck: that one has only begun to wait. */
static void test_a_connection_that_was_idle_is_given_its_time(void **state)
{
	(void)state;
	connection(5, 0, STREAM_STUCK, 0);
	progress_begin(stream, (struct stream_position){ 5, 0 });
	stream->state = STREAM_UP;
	began = stream->progress.began_ms;
	moved = STREAM_STUCK;
	stream->path.health.silent_ms = began + 10 * RECOVERY_MS;
	assert_false(progress_is_over(stream, began + 11 * RECOVERY_MS - 1));
	assert_true(progress_is_over(stream, began + 11 * RECOVERY_MS));
	progress_end(stream, began + 10 * RECOVERY_MS + 100);
	stream->state = STREAM_DOWN;
	assert_false(progress_is_over(stream, began + 11 * RECOVERY_MS - 1));
	assert_true(progress_is_over(stream, began + 11 * RECOVERY_MS));
}

static void test_a_reconnect_at_the_same_position_is_delayed(void **state)
{
	static const uint64_t pauses[] = { 0, 20, 40, 80, 160, 250, 250 };

	(void)state;
	for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		connection(5, 0, STREAM_MOVED, 0);
		assert_int_equal(progress_pause_ms(stream), pauses[i]);
	}
	connection(6, 0, STREAM_MOVED, 0);
	assert_int_equal(progress_pause_ms(stream), 0);
}

static void by_qp(void)
{
	local_dev.transport = ANYNET_TRANSPORT_IB;
	stream->qp.nic = &local_dev;
}

/* A stream that carries nothing may be moved often, and then breaks while it has something to send. */
static void test_idle_connections_delay_no_reconnect(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		connection(5, 0, STREAM_IDLE, 0);
	assert_int_equal(progress_pause_ms(stream), 0);
	connection(5, 0, STREAM_STUCK, 0);
	assert_int_equal(progress_pause_ms(stream), 0);
	connection(5, 0, STREAM_STUCK, 0);
	assert_int_equal(progress_pause_ms(stream), 20);
}

/* One that delivered something is replaced at once; a WRITE that is refused will be refused again. */
static void test_queue_pairs_made_in_vain_follow_each_other_ever_more_slowly(void **state)
{
	static const uint64_t seconds[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512 };
	uint64_t now = os_now_ms();

	(void)state;
	by_qp();
	stream->progress.began_ms = now;
	assert_int_equal(progress_home_pause_ms(stream), 0);
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		stream->qp.err = i % 2 ? -ETIMEDOUT : -EREMOTEIO;
		stream->qp.brought = i % 2 ? 15 : 1000;
		progress_lapse(stream, now);
		assert_int_equal(progress_home_pause_ms(stream), seconds[i] * 1000);
	}
	progress_lapse(stream, now); /* without a queue pair nothing is known */
	assert_int_equal(progress_home_pause_ms(stream), 512 * 1000);
	stream->qp.err = -ETIMEDOUT;
	stream->qp.brought = 16;
	progress_lapse(stream, now + 60000); /* it has been of use for a minute */
	assert_int_equal(progress_home_pause_ms(stream), 0);
}

/* … and so do those that have moved a little before they break, but for the first. A port that goes down says nothing about
 * the next one. */
static void test_queue_pairs_that_break_soon_follow_each_other_ever_more_slowly(void **state)
{
	static const uint64_t seconds[] = { 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512 };
	const struct anynet_device other = { .name = "other", .index = local_dev.index + 1 };
	uint64_t now = os_now_ms();

	(void)state;
	by_qp();
	stream->progress.began_ms = now - 59999;
	stream->path.nic.dev = &other;
	stream->qp.nic = &local_dev;
	carrier_set_port(&other, true); /* which has the connection's address as well */
	for (int down = 1; down >= 0; down--) {
		carrier_set_port(&local_dev, down);
		for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
			stream->qp.err = -ETIMEDOUT;
			stream->qp.brought = 1000;
			progress_lapse(stream, now);
			assert_int_equal(progress_home_pause_ms(stream), down ? 0 : seconds[i] * 1000);
		}
	}
	carrier_set_port(&other, false);
}

/* A connection between these NICs about which there is an alarm, and which is replaced. */
static void silent_connection(struct anynet_wire_pair pair)
{
	stream->path.pair = pair;
	stream->alarms.ms = UINT64_MAX;
	connection(5, 0, STREAM_STUCK, 0);
	stream->alarms.ms = 0;
}

static void test_silence_makes_a_pair_narrow(void **state)
{
	const struct anynet_wire_pair first = { 1, 2 }, other = { 2, 1 };

	(void)state;
	for (int i = 0; i < 2; i++)
		connection(5, 0, STREAM_STUCK, 0);
	assert_false(progress_is_narrow(stream, first)); /* they were reset */
	stream->state = STREAM_SUSPECT;
	for (int i = 0; i < 2; i++)
		connection(5, 0, STREAM_STUCK, 0);
	assert_false(progress_is_narrow(stream, first)); /* its NIC had lost its carrier */
	silent_connection(first);
	assert_false(progress_is_narrow(stream, first)); /* one: an outage would look like this */
	stream->alarms.ms = UINT64_MAX;
	assert_true(progress_is_narrow(stream, first)); /* the present one, too */
	stream->alarms.ms = 0;
	stream->path.pair = other;
	connection(5, 0, STREAM_MOVED, 0);
	assert_false(progress_is_narrow(stream, first));
	silent_connection(first);
	assert_true(progress_is_narrow(stream, first));
	assert_false(progress_is_narrow(stream, other));
	connection(5, 0, STREAM_MOVED, 0);
	assert_false(progress_is_narrow(stream, first));
}

/* All NICs lead through one switch with a small MTU, and the stream takes them in turn. */
static void test_silence_between_several_nics_makes_all_narrow(void **state)
{
	const struct anynet_wire_pair first = { 1, 2 }, other = { 2, 1 };

	(void)state;
	connection(5, 0, STREAM_STUCK, 0);
	silent_connection(first);
	assert_false(progress_is_narrow(stream, first)); /* the one before had been reset */
	assert_false(progress_is_narrow(stream, other));
	silent_connection(other);
	assert_true(progress_is_narrow(stream, first));
	assert_true(progress_is_narrow(stream, other));
	connection(5, 0, STREAM_MOVED, 0);
	assert_false(progress_is_narrow(stream, first));
	silent_connection(first);
	assert_false(progress_is_narrow(stream, first)); /* something has moved since the last one */
}

/* Full-size packets are lost, and heartbeats pass: the path is not silent any more when the next connection stands. */
static void test_answers_to_small_packets_hide_no_silence(void **state)
{
	const struct anynet_wire_pair first = { 1, 2 };

	(void)state;
	silent_connection(first);
	stream->path.health.silent_ms = 0;
	silent_connection(first);
	assert_true(progress_is_narrow(stream, first));
}

static void test_what_was_acknowledged_before_is_noted(void **state)
{
	(void)state;
	progress_begin(stream, (struct stream_position){ 5, 0 });
	assert_int_equal(stream->progress.acked, 77);
	assert_int_equal(stream->path.health.seen.acked, 77);
}

static void test_a_thousand_breaks_are_ten_lines(void **state)
{
	unsigned lines = 0;

	(void)state;
	for (uint32_t i = 1; i <= 1000; i++)
		lines += stream_is_news(i);
	assert_int_equal(lines, 10);
	assert_true(stream_is_news(1));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(test_it_is_over_when_nothing_has_moved_for_long),
		T(test_waiting_time_counts),
		T(test_what_moves_now_is_not_over),
		T(test_progress_begins_a_new_row),
		T(test_connections_that_do_not_move_the_receiver_are_in_vain),
		T(test_a_connection_that_moves_forgets_those_before),
		T(test_idle_time_says_nothing),
		T(test_a_connection_that_was_idle_is_given_its_time),
		T(test_a_reconnect_at_the_same_position_is_delayed),
		T(test_idle_connections_delay_no_reconnect),
		T(test_queue_pairs_made_in_vain_follow_each_other_ever_more_slowly),
		T(test_queue_pairs_that_break_soon_follow_each_other_ever_more_slowly),
		T(test_silence_makes_a_pair_narrow),
		T(test_silence_between_several_nics_makes_all_narrow),
		T(test_answers_to_small_packets_hide_no_silence),
		T(test_what_was_acknowledged_before_is_noted),
		T(test_a_thousand_breaks_are_ten_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
