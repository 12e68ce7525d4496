/* SPDX-License-Identifier: Apache-2.0 */
/* A stream moves to a NIC that does not reach the GPU: it continues over TCP, and by queue pairs again when its own NIC is
 * back. A program of its own, because the proof of what a NIC reaches holds for the life of the process. */
#include <support/capture.h>
#include <support/check.h>
#include <support/stream.h>

static void own_nic_fails(void)
{
	fake_order("set fake0:1 state=down; gpu peer-memory lossy");
}

static void a_nic_that_does_not_reach_the_gpu_is_left(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the other NIC to be tried");
	struct fake_verbs_counts before;

	stream_open(net);
	stream_check_by_verbs(net);
	stream_run(net, own_nic_fails);
	while (!capture_count(CAPTURE_INFO, "no queue pair on dev fake1"))
		stream_run_again(net, &deadline);
	before = fake_counts();
	stream_run(net, NULL);
	check_that(!stream_by_verbs(&before), "no NIC that is left can have brought it");
	fake_order("gpu peer-memory; set fake0:1 state=active");
	stream_check_by_verbs(net);
	check_int(capture_count(CAPTURE_WARN, "continuing over TCP"), 0);
	stream_close(net);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_nic_that_does_not_reach_the_gpu_is_left", a_nic_that_does_not_reach_the_gpu_is_left },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
