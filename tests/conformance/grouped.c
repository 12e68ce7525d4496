/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped receives and tags (net-api.md §3.5): the k-th send of a tag fills the k-th posted buffer of that tag, in
 * whatever order tags arrive, and no tag waits for another. */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/memory.h>

#include <nccl_net/abi/nccl_types.h>
#include <string.h>

#define GROUP_MAX 8
#define TAGS      4
#define KIB       1024
#define MIB       (1024 * 1024)

static void need_groups(struct test_net *net)
{
	if (net->props.max_recvs < GROUP_MAX)
		check_skip("the net offers groups of %d only", net->props.max_recvs);
}

static uint64_t message_seed(int tag, size_t number)
{
	return (uint64_t)tag * 100000 + number;
}

/* One send with its own buffer. */
static struct transfer make_send(int tag, size_t number, size_t bytes)
{
	struct transfer send = transfer_of(memory_alloc(bytes + 1), bytes, tag, NULL);
	pattern_fill(send.data[0], bytes, message_seed(tag, number));
	return send;
}

static void add_recv(struct transfer *group, int tag, size_t room)
{
	group->data[group->n] = memory_alloc(room + 1);
	memset(memory_view(group->data[group->n], room + 1), BUFFER_BLANK, room + 1);
	group->bytes[group->n] = room;
	group->tags[group->n] = tag;
	group->n++;
}

static void check_part(const struct transfer *group, int part, int tag, size_t number, size_t bytes)
{
	const unsigned char *data = group->data[part];

	check_int(group->tags[part], tag);
	check_that((size_t)group->sizes[part] == bytes, "tag %d message %zu: %d bytes, not %zu",
		   tag, number, group->sizes[part], bytes);
	pattern_check(data, bytes, message_seed(tag, number));
	blank_check(data + bytes, group->bytes[part] + 1 - bytes);
}

static void free_all(struct transfer *transfers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int part = 0; part < transfers[i].n; part++)
			memory_free(transfers[i].data[part]);
}

/* n sends in rotated order into one group of n. */
static void check_group(struct test_net *net, struct link *link, int n, int first, size_t bytes)
{
	struct transfer sends[GROUP_MAX], group = { 0 };

	for (int i = 0; i < n; i++) {
		int tag = (first + i * 3) % n; /* another order than the receiver's */
		sends[i] = make_send(tag, (size_t)n, bytes * (size_t)tag);
	}
	for (int tag = 0; tag < n; tag++)
		add_recv(&group, tag, bytes * (size_t)n);
	struct flow flows[] = {
		{ .comm = link->send, .is_send = true, .transfers = sends, .count = (size_t)n },
		{ .comm = link->recv, .transfers = &group, .count = 1 },
	};
	flows_run(net, flows, 2);
	for (int tag = 0; tag < n; tag++)
		check_part(&group, tag, tag, (size_t)n, bytes * (size_t)tag);
	free_all(sends, (size_t)n);
	free_all(&group, 1);
}

static void tags_of_a_group_come_in_any_order(struct test_net *net)
{
	const int prime_groups[] = { 1, 2, 4, 5, 7, 8 }; /* 3 steps through all these tags */
	struct link link;

	need_groups(net);
	link_open(net, &link);
	for (size_t g = 0; g < sizeof(prime_groups) / sizeof(prime_groups[0]); g++)
		for (int first = 0; first < prime_groups[g]; first++) {
			check_group(net, &link, prime_groups[g], first, 100);
			if (first < 2)
				check_group(net, &link, prime_groups[g], first, 40 * KIB);
		}
	link_close(net, &link);
}

static void groups_of_every_size_mix(struct test_net *net)
{
	enum {
		GROUPS = 40
	};
	static struct transfer sends[GROUPS * GROUP_MAX], groups[GROUPS];
	size_t send_count = 0;
	struct link link;

	need_groups(net);
	link_open(net, &link);
	for (size_t g = 0; g < GROUPS; g++) {
		int n = 1 + (int)(g * 5 % GROUP_MAX);
		for (int i = 0; i < n; i++) {
			sends[send_count++] = make_send(i, g, 64 * (g % 3) + (size_t)i);
			add_recv(&groups[g], i, 1000);
		}
	}
	struct flow flows[] = {
		{ .comm = link.recv, .transfers = groups, .count = GROUPS },
		{ .comm = link.send,
		  .is_send = true,
		  .transfers = sends,
		  .count = send_count,
		  .window = 64 },
	};
	flows_run(net, flows, 2);
	for (size_t g = 0; g < GROUPS; g++)
		for (int i = 0; i < groups[g].n; i++)
			check_part(&groups[g], i, i, g, 64 * (g % 3) + (size_t)i);
	free_all(sends, send_count);
	free_all(groups, GROUPS);
	link_close(net, &link);
}

static void a_tag_may_repeat_in_a_group(struct test_net *net)
{
	const int tags[GROUP_MAX] = { 1, 2, 1, 1, 3, 2, 1, 2 };
	const int sent[GROUP_MAX] = { 2, 1, 2, 3, 1, 1, 2, 1 };
	size_t numbers[TAGS] = { 0 };
	struct transfer sends[GROUP_MAX], group = { 0 };
	struct link link;

	need_groups(net);
	link_open(net, &link);
	for (int i = 0; i < GROUP_MAX; i++) {
		size_t number = numbers[sent[i]]++;
		sends[i] = make_send(sent[i], number, 10 + number);
		add_recv(&group, tags[i], 64);
	}
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = GROUP_MAX },
		{ .comm = link.recv, .transfers = &group, .count = 1 },
	};
	flows_run(net, flows, 2);
	memset(numbers, 0, sizeof(numbers));
	for (int i = 0; i < GROUP_MAX; i++) {
		size_t number = numbers[tags[i]]++;
		check_part(&group, i, tags[i], number, 10 + number);
	}
	free_all(sends, GROUP_MAX);
	free_all(&group, 1);
	link_close(net, &link);
}

/* The sender posts A, then B; the receiver posts B, and A only after B has arrived. */
static void check_overtaking(struct test_net *net, size_t a_bytes, size_t b_bytes)
{
	struct transfer sends[2] = { make_send(1, 0, a_bytes), make_send(2, 0, b_bytes) };
	struct transfer a = { 0 }, b = { 0 };
	struct link link;

	link_open(net, &link);
	add_recv(&a, 1, a_bytes);
	add_recv(&b, 2, b_bytes);
	struct flow flows[] = {
		{ .comm = link.recv, .transfers = &b, .count = 1 },
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = 2 },
	};
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message behind another tag's");
	while (flows[0].done < 1) {
		flow_step(net, &flows[1]);
		flow_step(net, &flows[0]);
		check_int(flows[0].error, 0);
		deadline_turn(&deadline);
	}
	check_part(&b, 0, 2, 0, b_bytes);
	flows[0] = (struct flow){ .comm = link.recv, .transfers = &a, .count = 1 };
	flows_run(net, flows, 2);
	check_part(&a, 0, 1, 0, a_bytes);
	free_all(sends, 2);
	free_all(&a, 1);
	free_all(&b, 1);
	link_close(net, &link);
}

static void no_tag_waits_for_another(struct test_net *net)
{
	const size_t sizes[] = { 0, 50, 6000, 100 * KIB, 2 * MIB };
	const size_t count = sizeof(sizes) / sizeof(sizes[0]);

	need_groups(net);
	for (size_t a = 0; a < count; a++)
		for (size_t b = 0; b < count; b++)
			check_overtaking(net, sizes[a], sizes[b]);
}

/* NCCL sends each tag separately. If a tag has no receiver yet, isend returns no request at some point; this must not
 * stop the other tag. */
static void check_far_behind(struct test_net *net, size_t behind_bytes, size_t ahead_bytes)
{
	enum {
		BEHIND = 400,
		AHEAD = 100
	};
	static struct transfer behind_sends[BEHIND], behind[BEHIND];
	static struct transfer ahead_sends[AHEAD], ahead[AHEAD];
	struct link link;

	link_open(net, &link);
	memset(behind, 0, sizeof(behind));
	memset(ahead, 0, sizeof(ahead));
	for (size_t i = 0; i < BEHIND; i++) {
		behind_sends[i] = make_send(1, i, behind_bytes);
		add_recv(&behind[i], 1, behind_bytes);
	}
	for (size_t i = 0; i < AHEAD; i++) {
		ahead_sends[i] = make_send(2, i, ahead_bytes);
		add_recv(&ahead[i], 2, ahead_bytes);
	}
	struct flow flows[] = {
		{ .comm = link.recv, .transfers = ahead, .count = AHEAD },
		{ .comm = link.send, .is_send = true, .transfers = behind_sends, .count = BEHIND },
		{ .comm = link.send, .is_send = true, .transfers = ahead_sends, .count = AHEAD },
	};
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the tag that is ahead");
	while (!flow_step(net, &flows[0])) {
		flow_step(net, &flows[1]);
		flow_step(net, &flows[2]);
		deadline_turn(&deadline);
	}
	check_int(flows[0].error, 0);
	flows[0] = (struct flow){ .comm = link.recv, .transfers = behind, .count = BEHIND };
	flows_run(net, flows, 3);
	for (size_t i = 0; i < BEHIND; i++)
		check_part(&behind[i], 0, 1, i, behind_bytes);
	for (size_t i = 0; i < AHEAD; i++)
		check_part(&ahead[i], 0, 2, i, ahead_bytes);
	free_all(behind_sends, BEHIND);
	free_all(ahead_sends, AHEAD);
	free_all(behind, BEHIND);
	free_all(ahead, AHEAD);
	link_close(net, &link);
}

static void a_tag_may_be_far_behind_others(struct test_net *net)
{
	need_groups(net);
	check_far_behind(net, 0, 100);
	check_far_behind(net, 100, 100);
	check_far_behind(net, 3000, 100);
	check_far_behind(net, 100, 50 * KIB);
	check_far_behind(net, 20 * KIB, 20 * KIB);
}

/* Random tags and group sizes; the sender's order differs from the receiver's inside windows of 8. */
static void random_groups_arrive_byte_for_byte(struct test_net *net)
{
	enum {
		COUNT = 400,
		WINDOW = 8
	};
	static struct transfer sends[COUNT], groups[COUNT];
	static size_t sizes[TAGS][COUNT];
	size_t posted[TAGS] = { 0 }, sent[TAGS] = { 0 }, seen[TAGS] = { 0 }, group_count = 0;
	uint64_t state = 42 + (uint64_t)net->abi;
	struct link link;

	need_groups(net);
	link_open(net, &link);
	for (size_t i = 0; i < COUNT;) {
		int tags[WINDOW];
		size_t n = 1 + random_below(&state, WINDOW);
		n = n < COUNT - i ? n : COUNT - i;
		for (size_t k = 0; k < n; k++) {
			int tag = tags[k] = (int)random_below(&state, TAGS);
			size_t bytes = random_below(&state, random_below(&state, 8) ? 500 : 90000);
			sizes[tag][posted[tag]++] = bytes;
			add_recv(&groups[group_count], tag, bytes + random_below(&state, 100));
		}
		group_count++;
		for (size_t k = n; k-- > 0; i++) {
			size_t pick = random_below(&state, k + 1);
			int tag = tags[pick];
			tags[pick] = tags[k];
			sends[i] = make_send(tag, sent[tag], sizes[tag][sent[tag]]);
			sent[tag]++;
		}
	}
	struct flow flows[] = {
		{ .comm = link.recv, .transfers = groups, .count = group_count },
		{ .comm = link.send,
		  .is_send = true,
		  .transfers = sends,
		  .count = COUNT,
		  .window = 50 },
	};
	flows_run(net, flows, 2);
	for (size_t g = 0; g < group_count; g++)
		for (int part = 0; part < groups[g].n; part++) {
			int tag = groups[g].tags[part];
			size_t number = seen[tag]++;
			check_part(&groups[g], part, tag, number, sizes[tag][number]);
		}
	free_all(sends, COUNT);
	free_all(groups, group_count);
	link_close(net, &link);
}

/* 32 receives of 8 buffers, and all 256 sends that fill them. */
static void all_requests_of_groups_fit(struct test_net *net)
{
	enum {
		RECVS = FLOW_REQUESTS_MAX,
		SENDS = RECVS * GROUP_MAX,
		BYTES = 16
	};
	static struct transfer sends[SENDS], groups[RECVS];
	struct link link;

	need_groups(net);
	link_open(net, &link);
	for (size_t g = 0; g < RECVS; g++) {
		for (int tag = 0; tag < GROUP_MAX; tag++)
			add_recv(&groups[g], tag, BYTES);
		transfer_post_soon(net, link.recv, false, &groups[g]);
	}
	for (size_t i = 0; i < SENDS; i++) {
		sends[i] = make_send((int)(i % GROUP_MAX), i / GROUP_MAX, BYTES);
		transfer_post_soon(net, link.send, true, &sends[i]);
	}
	struct flow flows[] = {
		{ .comm = link.recv, .transfers = groups, .count = RECVS, .posted = RECVS },
		{ .comm = link.send,
		  .is_send = true,
		  .transfers = sends,
		  .count = SENDS,
		  .posted = SENDS },
	};
	flows_run(net, flows, 2);
	for (size_t g = 0; g < RECVS; g++)
		for (int tag = 0; tag < GROUP_MAX; tag++)
			check_part(&groups[g], tag, tag, g, BYTES);
	free_all(sends, SENDS);
	free_all(groups, RECVS);
	link_close(net, &link);
}

static void an_oversize_part_is_an_error(struct test_net *net)
{
	struct transfer sends[2] = { make_send(1, 0, 200), make_send(2, 0, 333) };
	struct transfer group = { 0 };
	struct link link;

	need_groups(net);
	capture_allow_warn();
	link_open(net, &link);
	add_recv(&group, 1, 200);
	add_recv(&group, 2, 222);
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = 2 },
		{ .comm = link.recv, .transfers = &group, .count = 1 },
	};
	check_int(flows_run_until_error(net, flows, 2, &flows[1]), ANYNET_NCCL_INVALID_USAGE);
	check(capture_count(CAPTURE_WARN, " 333 ") == 1);
	check(capture_count(CAPTURE_WARN, " 222 ") == 1);
	link_close(net, &link);
	free_all(sends, 2);
	free_all(&group, 1);
}

static void a_group_of_impossible_size_is_refused(struct test_net *net)
{
	const int wrong[] = { 0, -1, GROUP_MAX + 1 };
	void *data[16] = { 0 }, *mhandles[16] = { 0 };
	size_t bytes[16] = { 0 };
	int tags[16] = { 0 };
	struct link link;

	need_groups(net);
	capture_allow_warn();
	link_open(net, &link);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		void *req = data;
		check(driver_irecv(net->driver, link.recv,
				   &(struct driver_recv){ wrong[i], data, bytes, tags, mhandles,
							  NULL },
				   &req) != 0);
	}
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "tags_of_a_group_come_in_any_order", tags_of_a_group_come_in_any_order },
		{ .name = "groups_of_every_size_mix", groups_of_every_size_mix },
		{ .name = "a_tag_may_repeat_in_a_group", a_tag_may_repeat_in_a_group },
		{ .name = "no_tag_waits_for_another", no_tag_waits_for_another },
		{ .name = "a_tag_may_be_far_behind_others", a_tag_may_be_far_behind_others },
		{ .name = "random_groups_arrive_byte_for_byte",
		  random_groups_arrive_byte_for_byte },
		{ .name = "all_requests_of_groups_fit", all_requests_of_groups_fit },
		{ .name = "an_oversize_part_is_an_error", an_oversize_part_is_an_error },
		{ .name = "a_group_of_impossible_size_is_refused",
		  a_group_of_impossible_size_is_refused },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
