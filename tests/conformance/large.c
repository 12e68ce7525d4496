/* SPDX-License-Identifier: Apache-2.0 */
/* The largest single message NCCL sends: 1 GiB (net-api.md §3.5). */
#include <support/buffer.h>
#include <support/flow.h>
#include <support/link.h>

#include <string.h>
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
	check_int(flow_exchange(net, link.send, link.recv, from.data, BYTES, to.data, BYTES),
		  BYTES);
	check(!memcmp(from.data, to.data, BYTES));
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_message_of_1_gib_arrives", a_message_of_1_gib_arrives },
		{ .name = "a_message_of_1_gib_arrives_over_4_rails",
		  a_message_of_1_gib_arrives,
		  .settings = { "ANYNET_TCP_RAILS=4" } },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
