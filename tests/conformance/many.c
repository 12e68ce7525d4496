/* SPDX-License-Identifier: Apache-2.0 */
/* Hundreds of comms between two processes (net-api.md §3.11): connected concurrently, with messages in flight on all at
 * once, each with its own data. */
#include <support/buffer.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/peer.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define COMMS    500
#define MESSAGES 3
#define BYTES    6000
#define FDS_EACH 3 /* the documented limit per comm */

static unsigned char data[COMMS][MESSAGES][BYTES];
static struct transfer transfers[COMMS][MESSAGES];
static struct flow flows[COMMS];
static struct link links[COMMS];

static size_t message_bytes(size_t comm, size_t message)
{
	return (comm * 37 + message * 2500) % (BYTES + 1);
}

static uint64_t message_seed(size_t comm, size_t message)
{
	return comm * MESSAGES + message;
}

static void run_messages(struct test_net *net, bool is_send)
{
	for (size_t c = 0; c < COMMS; c++) {
		for (size_t m = 0; m < MESSAGES; m++) {
			size_t bytes = is_send ? message_bytes(c, m) : BYTES;
			if (is_send)
				pattern_fill(data[c][m], bytes, message_seed(c, m));
			transfers[c][m] = transfer_of(data[c][m], bytes, 0, NULL);
		}
		flows[c] = (struct flow){ .comm = is_send ? links[c].send : links[c].recv,
					  .is_send = is_send,
					  .transfers = transfers[c],
					  .count = MESSAGES };
	}
	flows_run(net, flows, COMMS);
}

static void send_on_all(int fd, void *arg)
{
	struct test_net *net = arg;

	net_open(net);
	link_open_sends(net, links, COMMS, fd);
	run_messages(net, true);
	peer_await(fd);
	for (size_t c = 0; c < COMMS; c++)
		link_close(net, &links[c]);
	net_close(net);
}

static void receive_on_all(int fd, void *arg)
{
	struct test_net *net = arg;

	net_open(net);
	link_open_recvs(net, links, COMMS, fd);
	run_messages(net, false);
	for (size_t c = 0; c < COMMS; c++)
		for (size_t m = 0; m < MESSAGES; m++) {
			check_int(transfers[c][m].sizes[0], message_bytes(c, m));
			pattern_check(data[c][m], message_bytes(c, m), message_seed(c, m));
		}
	peer_signal(fd);
	for (size_t c = 0; c < COMMS; c++)
		link_close(net, &links[c]);
	net_close(net);
}

static void hundreds_of_comms_work_at_once(struct test_net *net)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < COMMS * FDS_EACH + 100)
		check_skip("this process may open only %llu files",
			   (unsigned long long)limit.rlim_cur);
	peer_duo(send_on_all, receive_on_all, net);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "hundreds_of_comms_work_at_once",
		  hundreds_of_comms_work_at_once,
		  .unopened = true },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
