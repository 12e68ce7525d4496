/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fabrics that carry only some packets: a switch with a smaller MTU than the ports', adapters that refuse every WRITE
 * or only those to some memory, RDMA that is dead while TCP works. The stream continues over TCP undisturbed. Queue
 * pairs are tried from time to time, and used again when they work.
 */
#include <support/capture.h>
#include <support/check.h>
#include <support/stream.h>

#define TRIES 2
#define QPS   2 /* made in each try: one at each end */
#define LINES 12

static const char *fault;

static void strike(void)
{
	fake_order(fault);
}

static size_t lines(void)
{
	return capture_count(CAPTURE_INFO, "broke:") + capture_count(CAPTURE_INFO, "recovered after") +
	       capture_count(CAPTURE_INFO, "not queue pairs") +
	       capture_count(CAPTURE_INFO, "completion with status");
}

/* Until only the attempts to get queue pairs use them. */
static void wait_for_tcp(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the stream to go over TCP");
	struct fake_verbs_counts before;

	do {
		before = fake_counts();
		stream_run_again(net, &deadline);
	} while (stream_bytes_by_verbs(&before) > STREAM_MESSAGES * 4096);
}

/* `proof`: the fault also affects the packets that prove a queue pair, so none takes over the stream. */
static void stays_on_tcp_until_it_is_mended(struct test_net *net, const char *what, bool proof)
{
	struct deadline deadline = deadline_in(2 * TEST_PATIENCE_MS, "queue pairs to be tried");
	struct fake_verbs_counts before, after;
	size_t said;

	stream_open(net);
	stream_check_by_verbs(net);
	fault = what;
	stream_run(net, strike);
	wait_for_tcp(net);
	before = fake_counts();
	said = lines();
	do {
		stream_run_again(net, &deadline);
		after = fake_counts();
	} while (after.qps_made - before.qps_made < TRIES * QPS);
	check_that(after.qps_made - before.qps_made <= (TRIES + 1) * QPS,
		   "queue pairs are tried now and then only");
	check_that(lines() - said <= LINES, "the log does not tell of every step");
	if (proof)
		check_that(stream_bytes_by_verbs(&before) < STREAM_LARGEST,
			   "no queue pair takes the stream that has not proven itself");
	fake_order("no-faults");
	stream_check_by_verbs(net);
	stream_close(net);
}

static void long_packets_are_lost(struct test_net *net)
{
	stays_on_tcp_until_it_is_mended(net, "fault lose any min=1100 count=1000000000", true);
}

static void every_write_is_refused(struct test_net *net)
{
	stays_on_tcp_until_it_is_mended(
		net, "fault status write status=10 count=1000000000; "
		     "fault status write-imm status=10 count=1000000000",
		true);
}

/* Queue pairs pass their proof, and fail at the first message. */
static void writes_to_some_memory_are_refused(struct test_net *net)
{
	stays_on_tcp_until_it_is_mended(
		net, "fault status write min=4097 status=10 count=1000000000; "
		     "fault status write-imm min=4097 status=10 count=1000000000",
		false);
}

static void rdma_is_dead_and_tcp_works(struct test_net *net)
{
	stays_on_tcp_until_it_is_mended(net, "fault lose any count=1000000000", true);
}

static void reduce_mtu(void)
{
	fake_order("set fake0:1 mtu=3");
}

/* As where somebody changes it on the network interface. No event tells of it. New queue pairs have the new one. */
static void the_mtu_of_a_port_becomes_smaller(struct test_net *net)
{
	stream_open(net);
	stream_check_by_verbs(net);
	stream_run(net, reduce_mtu);
	stream_check_by_verbs(net);
	stream_close(net);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "long_packets_are_lost", long_packets_are_lost },
		{ .name = "every_write_is_refused", every_write_is_refused },
		{ .name = "writes_to_some_memory_are_refused", writes_to_some_memory_are_refused },
		{ .name = "rdma_is_dead_and_tcp_works", rdma_is_dead_and_tcp_works },
		{ .name = "the_mtu_of_a_port_becomes_smaller",
		  the_mtu_of_a_port_becomes_smaller,
		  .settings = { "FAKE_VERBS=device fake0; port layer=eth gid=0,127.0.0.1,v2,lo" } },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
