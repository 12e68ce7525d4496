/* SPDX-License-Identifier: Apache-2.0 */
/* Slow cases: the largest message that NCCL sends, 1 GiB (net-api.md §3.5), and a receiver that is busy for longer than
 * the time-outs. */
#include <support/buffer.h>
#include <support/flow.h>
#include <support/link.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES        ((size_t)1 << 30)
#define MEMORY_BYTES ((size_t)6 << 30)

static size_t free_memory(void)
{
	return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

static void a_message_of_1_gib_arrives(struct test_net *net)
{
	struct buffer from, to;
	struct link link;

	if (TEST_SANITIZED)
		check_skip("a sanitizer takes too long for 1 GiB");
	if (free_memory() < MEMORY_BYTES)
		check_skip("less than 6 GiB of memory are free");
	link_open(net, &link);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, BYTES);
	pattern_fill(from.data, BYTES, 30);
	check_int(link_exchange(net, &link, from.data, BYTES, to.data, BYTES), BYTES);
	check(!memcmp(from.view, to.view, BYTES));
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &link);
}

/* A rank that writes a checkpoint does not read: its window is closed, but its host answers. */
static void a_busy_receiver_is_waited_for(struct test_net *net)
{
	enum {
		COUNT = 16,
		BUSY_S =
			5 /* several times the peer time-out, so that a window probe falls into it */
	};
	const size_t bytes = (size_t)1 << 20;
	struct transfer sends[COUNT], recvs[COUNT];
	struct buffer from[COUNT], to[COUNT];
	time_t until = time(NULL) + BUSY_S;
	struct link link;

	link_open(net, &link);
	for (int i = 0; i < COUNT; i++) {
		buffer_alloc(&from[i], bytes);
		buffer_alloc(&to[i], bytes);
		pattern_fill(from[i].data, bytes, (uint64_t)i);
		sends[i] = transfer_of(from[i].data, bytes, 0, NULL);
		recvs[i] = transfer_of(to[i].data, bytes, 0, NULL);
	}
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = COUNT },
		{ .comm = link.recv, .transfers = recvs, .count = COUNT },
	};
	while (time(NULL) < until)
		flow_step(net, &flows[0]);
	flows_run(net, flows, 2);
	for (int i = 0; i < COUNT; i++) {
		check(!memcmp(from[i].view, to[i].view, bytes));
		buffer_free(&from[i]);
		buffer_free(&to[i]);
	}
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_message_of_1_gib_arrives", a_message_of_1_gib_arrives },
		{ .name = "a_message_of_1_gib_arrives_over_4_streams",
		  a_message_of_1_gib_arrives,
		  .settings = { "ANYNET_TCP_CONNECTIONS=4" } },
		{ .name = "a_busy_receiver_is_waited_for",
		  a_busy_receiver_is_waited_for,
		  .settings = { "ANYNET_PEER_TIMEOUT=1s", "ANYNET_TCP_RCVBUF=128k" } },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
