/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <string.h>
#include <time.h>

#include "check.h"

#define REST_NS 30000000

static const size_t sizes[STREAM_SIZES] = { 8, 400, 4096, 70000, STREAM_LARGEST };

struct stream stream;


uint64_t stream_seed(uint64_t number)
{
	return number * 77 + 5;
}

/* One buffer for each size: the window has one message of each, so none is used twice at a time. */
static void fill_next(struct flow *flow, size_t index)
{
	(void)flow;
	pattern_fill(stream.from[index % STREAM_SIZES].data, sizes[index % STREAM_SIZES], stream_seed(stream.sent++));
}

static void check_next(struct flow *flow, size_t index)
{
	check_int(flow->transfers[index].sizes[0], sizes[index % STREAM_SIZES]);
	pattern_check(stream.to[index % STREAM_SIZES].data, sizes[index % STREAM_SIZES],
		      stream_seed(stream.received++));
}

void stream_open(struct test_net *net)
{
	memset(&stream, 0, sizeof(stream));
	stream.tags = 1;
	link_open(net, &stream.link);
	for (int i = 0; i < STREAM_SIZES; i++) {
		buffer_alloc(&stream.from[i], sizes[i]);
		buffer_alloc(&stream.to[i], sizes[i]);
		stream.mhandles[0][i] =
			flow_reg(net, stream.link.send, stream.from[i].data, sizes[i]);
		stream.mhandles[1][i] =
			flow_reg(net, stream.link.recv, stream.to[i].data, sizes[i]);
	}
}

void stream_run(struct test_net *net, void (*midway)(void))
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "messages over what is left");

	for (int i = 0; i < STREAM_MESSAGES; i++) {
		int k = i % STREAM_SIZES;

		stream.sends[i] = transfer_of(stream.from[k].data, sizes[k], i % stream.tags,
					      stream.mhandles[0][k]);
		stream.recvs[i] = transfer_of(stream.to[k].data, sizes[k], i % stream.tags,
					      stream.mhandles[1][k]);
	}
	stream.flows[0] = (struct flow){
		.comm = stream.link.send,
		.is_send = true,
		.transfers = stream.sends,
		.count = STREAM_MESSAGES,
		.window = STREAM_SIZES,
		.prepare = fill_next,
	};
	stream.flows[1] = (struct flow){
		.comm = stream.link.recv,
		.transfers = stream.recvs,
		.count = STREAM_MESSAGES,
		.window = STREAM_SIZES,
		.finish = check_next,
	};
	for (bool over = false; !over;) {
		over = flow_step(net, &stream.flows[0]);
		over = flow_step(net, &stream.flows[1]) && over;
		if (midway && stream.flows[1].done > STREAM_MESSAGES / 3) {
			midway();
			midway = NULL;
		}
		check_int(stream.flows[0].error, 0);
		check_int(stream.flows[1].error, 0);
		deadline_turn(&deadline);
	}
}

void stream_close(struct test_net *net)
{
	for (int i = 0; i < STREAM_SIZES; i++) {
		check_ok(driver_dereg_mr(net->driver, stream.link.send, stream.mhandles[0][i]));
		check_ok(driver_dereg_mr(net->driver, stream.link.recv, stream.mhandles[1][i]));
		buffer_free(&stream.from[i]);
		buffer_free(&stream.to[i]);
	}
	link_close(net, &stream.link);
}

bool stream_by_verbs(const struct fake_verbs_counts *before)
{
	return fake_counts().sends - before->sends >= STREAM_MESSAGES;
}

uint64_t stream_bytes_by_verbs(const struct fake_verbs_counts *before)
{
	struct fake_verbs_counts now = fake_counts();
	uint64_t bytes = 0;

	for (size_t i = 0; i < FAKE_VERBS_DEVICES; i++)
		bytes += now.bytes_sent[i] - before->bytes_sent[i];
	return bytes;
}

void stream_run_again(struct test_net *net, const struct deadline *deadline)
{
	const struct timespec rest = { .tv_nsec = REST_NS };

	deadline_turn(deadline);
	nanosleep(&rest, NULL);
	stream_run(net, NULL);
}

void stream_check_by_verbs(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "queue pairs to be used");
	struct fake_verbs_counts before = fake_counts();

	stream_run(net, NULL);
	while (!stream_by_verbs(&before)) {
		before = fake_counts();
		stream_run_again(net, &deadline);
	}
}
