/* SPDX-License-Identifier: Apache-2.0 */
/* ANYNET_TRANSPORT=ib on the fake libibverbs: if two hosts can have no queue pair, the error says why. */
#include <stdio.h>
#include <support/capture.h>
#include <support/check.h>
#include <support/fake.h>
#include <support/link.h>

static void one_queue_pair_is_enough(struct test_net *net)
{
	struct link link;

	link_open(net, &link);
	link_check(net, &link, 8);
	link_check(net, &link, 100000);
	link_close(net, &link);
}

/* connect fails, and a warning contains these words. */
static void check_refused(struct test_net *net, const char *order, const char *words)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "connect to fail");
	struct link link;
	int ret;

	one_queue_pair_is_enough(net); /* loads the library */
	capture_allow_warn();
	capture_forget();
	fake_order(order);
	link_listen(net, &link);
	do {
		ret = driver_connect(net->driver, net->ctx, net->dev, link_copy(&link), &link.send);
		check(!link.send);
		if (!link.recv)
			driver_accept(net->driver, link.listener, &link.recv);
		deadline_turn(&deadline);
	} while (!ret);
	check(capture_count(CAPTURE_WARN, "ANYNET_TRANSPORT=ib requires one") > 0);
	check(capture_count(CAPTURE_WARN, words) > 0);
	fake_order("no-faults");
	link_close(net, &link);
	one_queue_pair_is_enough(net);
}

static void packets_have_to_get_through(struct test_net *net)
{
	check_refused(net, "vanish fake0:1 any; vanish fake1:1 any", "do not get through");
}

static void either_end_may_fail_to_create_it(struct test_net *net)
{
	/* Each tries five times: with more inline data, with less, with none, and with one scatter/gather entry. */
	check_refused(net, "fault call create_qp nth=1 count=5 errno=12",
		      "cannot create a queue pair");
	check_refused(net, "fault call create_qp nth=2 count=5 errno=12",
		      "cannot create a queue pair");
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "one_queue_pair_is_enough",
		  one_queue_pair_is_enough },
		{ .name = "packets_have_to_get_through", packets_have_to_get_through },
		{ .name = "either_end_may_fail_to_create_it", either_end_may_fail_to_create_it },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
