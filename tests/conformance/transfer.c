/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on one connection (net-api.md §3.5, §8 rows 8 - 10). Run once per ABI with the default
 * settings and with several streams. */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/fake.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/memory.h>

#include <limits.h>
#include <nccl_net/abi/nccl_types.h>
#include <nccl_net/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG             7
#define KIB             1024
#define MIB             (1024 * 1024)
#define SIZE_MAX_RANDOM (4 * MIB)

static void exchange(struct test_net *net, struct link *link, size_t bytes, size_t room)
{
	struct buffer from, to;

	buffer_alloc(&from, bytes);
	buffer_alloc(&to, room);
	pattern_fill(from.data, bytes, bytes);
	check_int(link_exchange(net, link, from.data, bytes, to.data, room), bytes);
	pattern_check(to.data, bytes, bytes);
	blank_check(to.data + bytes, room - bytes);
	buffer_free(&from);
	buffer_free(&to);
}

static void messages_of_every_kind_of_size_arrive(struct test_net *net)
{
	const size_t sizes[] = { 0,     1,       2,    7,         8,        9,     63,
				 64,    127,     128,  129,       1000,     4095,  4096,
				 4097,  8191,    8192, 8193,      16 * KIB, 65535, 65536,
				 65537, MIB - 1, MIB,  MIB + 129, 4 * MIB };
	struct link link;

	link_open(net, &link);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		exchange(net, &link, sizes[i], sizes[i]);
	link_close(net, &link);
}

static void a_message_may_be_smaller_than_the_receive(struct test_net *net)
{
	struct link link;

	link_open(net, &link);
	exchange(net, &link, 0, 1);
	exchange(net, &link, 1, 128);
	exchange(net, &link, 100, 64 * KIB);
	exchange(net, &link, 64 * KIB, MIB);
	exchange(net, &link, 128 * KIB + 1, MIB);
	link_close(net, &link);
}

static void empty_messages_take_their_place(struct test_net *net)
{
	struct transfer sends[6], recvs[6];
	struct buffer buffers[3];
	struct link link;
	void *nowhere = (void *)(uintptr_t)0x1000; /* an empty message may have any address */

	link_open(net, &link);
	for (size_t i = 0; i < 3; i++) {
		buffer_alloc(&buffers[i], 8);
		pattern_fill(buffers[i].data, 8, i);
	}
	for (size_t i = 0; i < 6; i++) {
		size_t bytes = i % 2 ? 0 : 8;
		sends[i] = transfer_of(bytes ? buffers[i / 2].data : nowhere, bytes, TAG, NULL);
		recvs[i] = transfer_of(memory_alloc(8), 8, TAG, NULL);
	}
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = 6 },
		{ .comm = link.recv, .transfers = recvs, .count = 6 },
	};
	flows_run(net, flows, 2);
	for (size_t i = 0; i < 6; i++) {
		check_int(recvs[i].sizes[0], i % 2 ? 0 : 8);
		if (i % 2 == 0)
			pattern_check(recvs[i].data[0], 8, i / 2);
		memory_free(recvs[i].data[0]);
	}
	for (size_t i = 0; i < 3; i++)
		buffer_free(&buffers[i]);
	link_close(net, &link);
}

/* A message larger than the posted receive fails the receive; the log has both sizes, and nothing is written beyond. */
static void check_oversize(struct test_net *net, size_t bytes, size_t room, bool send_first)
{
	struct buffer from, to;
	struct link link;
	char sizes[2][32];

	link_open(net, &link);
	buffer_alloc(&from, bytes);
	buffer_alloc(&to, room);
	struct transfer send =
		transfer_of(from.data, bytes, TAG, flow_reg(net, link.send, from.data, bytes));
	struct transfer recv =
		transfer_of(to.data, room, TAG, flow_reg(net, link.recv, to.data, room));
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	if (send_first)
		flows_run_until_posted(net, &flows[0], 1, &flows[0], 1);
	check_int(flows_run_until_error(net, flows, 2, &flows[1]), ANYNET_NCCL_INVALID_USAGE);
	if (!net_is_builtin(net)) /* and the error stays */
		check_int(transfer_test(net, &recv), ANYNET_NCCL_INVALID_USAGE);
	buffer_check_guards(&to);
	snprintf(sizes[0], sizeof(sizes[0]), " %zu ", bytes);
	snprintf(sizes[1], sizeof(sizes[1]), " %zu ", room);
	if (!net_is_builtin(net)) {
		char line[CAPTURE_LINE_BYTES];
		/* The sender may have learned of it, too; it knows only the other size. */
		check(capture_find(CAPTURE_WARN, sizes[1], line));
		check_that(strstr(line, sizes[0]), "no word of %zu bytes in: %s", bytes, line);
	}
	check_ok(driver_dereg_mr(net->driver, link.send, send.mhandles[0]));
	check_ok(driver_dereg_mr(net->driver, link.recv, recv.mhandles[0]));
	link_close(net, &link);
	buffer_free(&from);
	buffer_free(&to);
}

static void a_message_larger_than_the_receive_is_an_error(struct test_net *net)
{
	capture_allow_warn();
	check_oversize(net, 1000, 100, false);
	check_oversize(net, 1001, 101, true);
	check_oversize(net, 1002, 0, true);
	check_oversize(net, 64 * KIB + 1, 64 * KIB, false);
	check_oversize(net, MIB, 4 * KIB, true);
}

static void sizes_may_be_null(struct test_net *net)
{
	struct buffer from, to;
	struct link link;

	link_open(net, &link);
	buffer_alloc(&from, 3000);
	buffer_alloc(&to, 3000);
	pattern_fill(from.data, 3000, 5);
	struct transfer send = transfer_of(from.data, 3000, TAG, NULL);
	struct transfer recv = transfer_of(to.data, 3000, TAG, NULL);
	send.no_sizes = recv.no_sizes = true;
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = &send, .count = 1 },
		{ .comm = link.recv, .transfers = &recv, .count = 1 },
	};
	flows_run(net, flows, 2);
	pattern_check(to.data, 3000, 5);
	buffer_free(&from);
	buffer_free(&to);
	link_close(net, &link);
}

/* --- many messages --- */

struct series {
	uint64_t seed;
	size_t sizes[512];
	struct buffer slots[2 * FLOW_REQUESTS_MAX];
	size_t slot_count;
};

static void series_init(struct series *series, struct flow *flow, struct transfer *transfers,
			size_t slot_bytes, size_t slot_count)
{
	series->slot_count = slot_count;
	for (size_t i = 0; i < slot_count; i++)
		buffer_alloc(&series->slots[i], slot_bytes);
	flow->transfers = transfers;
	flow->arg = series;
	for (size_t i = 0; i < flow->count; i++)
		transfers[i] =
			transfer_of(series->slots[i % slot_count].data,
				    flow->is_send ? series->sizes[i] : slot_bytes, TAG, NULL);
}

static void series_free(struct series *series)
{
	for (size_t i = 0; i < series->slot_count; i++)
		buffer_free(&series->slots[i]);
}

static void fill_message(struct flow *flow, size_t index)
{
	struct series *series = flow->arg;
	pattern_fill(flow->transfers[index].data[0], series->sizes[index], series->seed + index);
}

/* The posted buffer has room behind the message, which stays unchanged. */
static void blank_slot(struct flow *flow, size_t index)
{
	struct series *series = flow->arg;
	struct buffer *slot = &series->slots[index % series->slot_count];
	size_t room = series->sizes[index] + index % 3 * 100;

	flow->transfers[index].bytes[0] = room < slot->bytes ? room : slot->bytes;
	memset(slot->view, BUFFER_BLANK, flow->transfers[index].bytes[0]);
}

static void check_message(struct flow *flow, size_t index)
{
	struct series *series = flow->arg;
	const struct transfer *transfer = &flow->transfers[index];
	size_t bytes = series->sizes[index];

	check_that((size_t)transfer->sizes[0] == bytes, "message %zu: %d bytes instead of %zu",
		   index, transfer->sizes[0], bytes);
	pattern_check(transfer->data[0], bytes, series->seed + index);
	blank_check((unsigned char *)transfer->data[0] + bytes, transfer->bytes[0] - bytes);
	buffer_check_guards(&series->slots[index % series->slot_count]);
}

/* Small, medium and large ones in equal parts. */
static void random_sizes(struct series *series, size_t count)
{
	const size_t bounds[] = { 300, 20 * KIB, 300 * KIB, SIZE_MAX_RANDOM + 1 };
	uint64_t state = series->seed;

	for (size_t i = 0; i < count; i++)
		series->sizes[i] = random_below(&state, bounds[random_below(&state, 4)]);
	series->sizes[count / 2] = SIZE_MAX_RANDOM;
}

static void random_messages_arrive_byte_for_byte(struct test_net *net)
{
	enum {
		COUNT = TEST_SANITIZED ? 60 : 200,
		SLOTS = FLOW_WINDOW_NCCL
	};
	static struct series sent, received;
	static struct transfer sends[COUNT], recvs[COUNT];
	struct link link;

	link_open(net, &link);
	sent.seed = received.seed = 1000 + (uint64_t)net->abi;
	random_sizes(&sent, COUNT);
	random_sizes(&received, COUNT);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .count = COUNT, .prepare = fill_message },
		{ .comm = link.recv,
		  .count = COUNT,
		  .prepare = blank_slot,
		  .finish = check_message },
	};
	series_init(&sent, &flows[0], sends, SIZE_MAX_RANDOM, SLOTS);
	series_init(&received, &flows[1], recvs, SIZE_MAX_RANDOM, SLOTS);
	flows_run(net, flows, 2);
	series_free(&sent);
	series_free(&received);
	link_close(net, &link);
}

static void equal_sizes(struct series *series, size_t count, size_t bytes)
{
	for (size_t i = 0; i < count; i++)
		series->sizes[i] = bytes;
}

/* Every receive that NCCL may have outstanding has a request, and so has every matching send. */
static void all_requests_fit(struct test_net *net)
{
	enum {
		RECVS = FLOW_REQUESTS_MAX,
		BYTES = 16
	};
	static struct series sent, received;
	static struct transfer sends[RECVS], recvs[RECVS];
	struct link link;

	link_open(net, &link);
	equal_sizes(&sent, RECVS, BYTES);
	equal_sizes(&received, RECVS, BYTES);
	struct flow flows[] = {
		{ .comm = link.recv, .count = RECVS, .window = RECVS, .finish = check_message },
		{ .comm = link.send,
		  .is_send = true,
		  .count = RECVS,
		  .window = RECVS,
		  .prepare = fill_message },
	};
	series_init(&received, &flows[0], recvs, BYTES, RECVS);
	series_init(&sent, &flows[1], sends, BYTES, RECVS);
	for (size_t i = 0; i < RECVS; i++) {
		transfer_post_soon(net, link.recv, false, &recvs[i]);
	}
	for (size_t i = 0; i < RECVS; i++) {
		fill_message(&flows[1], i);
		transfer_post_soon(net, link.send, true, &sends[i]);
	}
	flows[0].posted = flows[1].posted = flows[1].prepared = RECVS;
	flows_run(net, flows, 2);
	series_free(&sent);
	series_free(&received);
	link_close(net, &link);
}

/* Without posted receives isend eventually returns no request; nothing is lost or reordered by that. */
/* Registrations that the fake libibverbs has, if it is loaded. */
static uint64_t registrations(void)
{
	return getenv("ANYNET_IBVERBS_LIB") ? fake_counts().mrs : 0;
}

static void check_back_pressure(struct test_net *net, size_t bytes)
{
	enum {
		COUNT = 400
	};
	static struct series sent, received;
	static struct transfer sends[COUNT], recvs[COUNT];
	struct link link;
	bool refused = false;
	uint64_t before = 0;

	link_open(net, &link);
	equal_sizes(&sent, COUNT, bytes);
	equal_sizes(&received, COUNT, bytes);
	struct flow flows[] = {
		{ .comm = link.send,
		  .is_send = true,
		  .count = COUNT,
		  .window = COUNT,
		  .prepare = fill_message },
		{ .comm = link.recv,
		  .count = COUNT,
		  .window = FLOW_REQUESTS_MAX,
		  .finish = check_message },
	};
	series_init(&sent, &flows[0], sends, bytes, 1);
	series_init(&received, &flows[1], recvs, bytes, FLOW_REQUESTS_MAX);
	sent.slot_count = 1;
	flows[0].prepare = NULL; /* one buffer for all: every message has the same bytes */
	flows[1].finish = NULL;
	pattern_fill(sent.slots[0].data, bytes, 9);
	for (size_t i = 0; i < COUNT && !refused; i++) {
		before = registrations();
		check_ok(transfer_post(net, link.send, true, &sends[i]));
		refused = !sends[i].req;
		flows[0].posted += !refused;
	}
	check_that(refused, "%d sends of %zu bytes were taken with nothing posted", COUNT, bytes);
	check_that(registrations() <= before,
		   "the send that was refused has left a registration");
	flows_run(net, flows, 2);
	for (size_t i = 0; i < COUNT; i++)
		check_int(recvs[i].sizes[0], bytes);
	for (size_t i = 0; i < FLOW_REQUESTS_MAX; i++)
		pattern_check(received.slots[i].data, bytes, 9);
	series_free(&sent);
	series_free(&received);
	link_close(net, &link);
}

static void a_full_sender_returns_no_request(struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets fail when their requests are used up");
	check_back_pressure(net, 64);
	check_back_pressure(net, 4 * KIB);
	check_back_pressure(net, TEST_SANITIZED
					 ? 64 * KIB
					 : 256 * KIB); /* 100 MiB: minutes, on a loaded machine */
}

/* NCCL tests the oldest request only: the others must progress with it. */
static void later_requests_progress_too(struct test_net *net)
{
	enum {
		COUNT = FLOW_WINDOW_NCCL,
		BYTES = 256 * KIB
	};
	static struct series sent, received;
	static struct transfer sends[COUNT], recvs[COUNT];
	struct link link;

	link_open(net, &link);
	equal_sizes(&sent, COUNT, BYTES);
	equal_sizes(&received, COUNT, BYTES);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .count = COUNT, .prepare = fill_message },
		{ .comm = link.recv, .count = COUNT, .finish = check_message },
	};
	series_init(&sent, &flows[0], sends, BYTES, COUNT);
	series_init(&received, &flows[1], recvs, BYTES, COUNT);
	flows_run_until_posted(net, flows, 2, &flows[0], COUNT);
	flows_run(net, flows, 2);
	series_free(&sent);
	series_free(&received);
	link_close(net, &link);
}

/* v9+: the marker in *request is a hint, not a request. */
static void optional_completion_is_no_pointer(struct test_net *net)
{
	enum {
		COUNT = 20,
		BYTES = 120
	};
	static struct series sent, received;
	static struct transfer sends[COUNT], recvs[COUNT];
	struct link link;

	link_open(net, &link);
	equal_sizes(&sent, COUNT, BYTES);
	equal_sizes(&received, COUNT, BYTES);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .count = COUNT, .prepare = fill_message },
		{ .comm = link.recv, .count = COUNT },
	};
	series_init(&sent, &flows[0], sends, BYTES, COUNT);
	series_init(&received, &flows[1], recvs, BYTES, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		recvs[i].optional = true;
	flows_run(net, flows, 2);
	/* A request that completes early does not say when its own data is valid; a later normal request does. */
	exchange(net, &link, BYTES, BYTES);
	for (size_t i = 0; i < COUNT; i++)
		pattern_check(recvs[i].data[0], BYTES, i);
	series_free(&sent);
	series_free(&received);
	link_close(net, &link);
}

/* v5 to v8 have int sizes: NCCL's shims refuse larger ones. From v9 on the plugin has to refuse sizes that it does not
 * support. */
static void sizes_beyond_the_limit_are_refused(struct test_net *net)
{
	struct link link;
	char byte = 0;
	void *req = NULL;

	capture_allow_warn();
	link_open(net, &link);
	if (net->abi <= 7)
		check_int(driver_reg_mr(net->driver, link.send, &byte, (size_t)INT_MAX + 1,
					ANYNET_PTR_HOST, &req),
			  ANYNET_NCCL_INTERNAL_ERROR);
	if (!net_is_builtin(net)) {
		check(driver_isend(net->driver, link.send,
				   &(struct driver_send){ &byte, (size_t)1 << 40, TAG, NULL, NULL },
				   &req) != 0);
		check(!req || net->abi <= 8);
	}
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "messages_of_every_kind_of_size_arrive",
		  messages_of_every_kind_of_size_arrive },
		{ .name = "a_message_may_be_smaller_than_the_receive",
		  a_message_may_be_smaller_than_the_receive },
		{ .name = "empty_messages_take_their_place", empty_messages_take_their_place },
		{ .name = "a_message_larger_than_the_receive_is_an_error",
		  a_message_larger_than_the_receive_is_an_error },
		{ .name = "sizes_may_be_null", sizes_may_be_null },
		{ .name = "random_messages_arrive_byte_for_byte",
		  random_messages_arrive_byte_for_byte },
		{ .name = "all_requests_fit", all_requests_fit },
		{ .name = "a_full_sender_returns_no_request", a_full_sender_returns_no_request },
		{ .name = "later_requests_progress_too", later_requests_progress_too },
		{ .name = "optional_completion_is_no_pointer", optional_completion_is_no_pointer },
		{ .name = "sizes_beyond_the_limit_are_refused",
		  sizes_beyond_the_limit_are_refused },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
