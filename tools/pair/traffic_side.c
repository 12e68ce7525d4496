/* SPDX-License-Identifier: Apache-2.0 */
/* Round trips and streams through the plugin; see traffic_side.h. A message of one byte ends a
 * measurement. */
#include "traffic_side.h"

#include <sched.h>
#include <stdio.h>

#include <nccl_net/util.h>

#include "tools/shared/doubles.h"
#include "wire.h"

#define PING_BYTES 8
#define END_BYTES  1
#define LOOK_EVERY 256 /* passes between two checks of the clock */

int side_fail(struct side *s, const char *text)
{
	if (!*s->net.error)
		snprintf(s->net.error, sizeof(s->net.error), "%s", text);
	return -1;
}

/* Timeout of a loop of passes; all waits below use one. */
struct patience {
	uint64_t end_ms;
	unsigned passes;
};

static int wait_a_little(struct side *s, struct patience *p, const char *for_what)
{
	sched_yield();
	if (++p->passes % LOOK_EVERY || now_ms() < p->end_ms)
		return 0;
	return side_fail(s, for_what);
}

/* --- round trips --- */

static int send_one(struct side *s, size_t bytes)
{
	struct patience p = { .end_ms = now_ms() + SIDE_STEP_MS };
	struct link *l = traffic_out(&s->net, 0);
	int size, ret;

	while (!(ret = traffic_post(l, bytes))) {
		if (traffic_test(l, &size) < 0 ||
		    wait_a_little(s, &p, "a message could not be posted"))
			return -1;
	}
	return ret < 0 ? -1 : 0;
}

/* Receives one message. Also tests the requests of sends, to make progress. */
static int receive_one(struct side *s, int *size)
{
	struct patience p = { .end_ms = now_ms() + SIDE_STEP_MS };
	struct link *in = traffic_in(&s->net, 0), *out = traffic_out(&s->net, 0);
	int sent, ret;

	for (;;) {
		if (traffic_post(in, TRAFFIC_STEP) < 0 || traffic_test(out, &sent) < 0)
			return -1;
		ret = traffic_test(in, size);
		if (ret)
			return ret < 0 ? -1 : 0;
		if (wait_a_little(s, &p, "a round trip took more than 10 s"))
			return -1;
	}
}

int side_echo(struct side *s)
{
	int size;

	do {
		if (receive_one(s, &size) || send_one(s, (size_t)size))
			return -1;
	} while (size != END_BYTES);
	return 0;
}

static json_t *distribution(double *us, size_t count)
{
	static const struct {
		const char *name;
		unsigned permille;
	} points[] = {
		{ "min", 0 },   { "p10", 100 },  { "median", 500 }, { "p90", 900 },
		{ "p99", 990 }, { "p999", 999 }, { "max", 1000 },
	};
	json_t *latency = json_pack("{s:I}", "count", (json_int_t)count);

	doubles_sort(us, count);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		json_object_set_new(latency, points[i].name,
				    json_real(us[(count - 1) * points[i].permille / 1000]));
	return latency;
}

int side_ping(struct side *s)
{
	static double us[TRAFFIC_PINGS];
	uint64_t end = now_ms() + SIDE_PING_MS, begin;
	int count = 0, size;

	for (int i = -1; i < TRAFFIC_PINGS && (count < 1 || now_ms() < end); i++) {
		begin = now_ns();
		if (send_one(s, PING_BYTES) || receive_one(s, &size))
			return -1;
		if (i >= 0) /* the first one warms up */
			us[count++] = (double)(now_ns() - begin) / 1e3;
	}
	if (send_one(s, END_BYTES) || receive_one(s, &size))
		return -1;
	json_object_set_new(s->result, "latency", distribution(us, (size_t)count));
	return 0;
}

/* --- streams --- */

static int send_until(struct side *s, int channels)
{
	struct patience p = { .end_ms = now_ms() + (uint64_t)s->t->ms + SIDE_STEP_MS };
	uint64_t stop = now_ns() + (uint64_t)s->t->ms * 1000000;
	bool ended[TRAFFIC_CHANNELS_MAX] = { false };
	long long left = s->t->bytes;
	int open = channels, size;

	while (open) {
		bool over = left <= 0 || now_ns() >= stop;

		for (int i = 0; i < channels; i++) {
			struct link *l = traffic_out(&s->net, i);
			int ret = 0;

			if (!ended[i])
				ret = traffic_post(l, over ? END_BYTES : TRAFFIC_STEP);
			if (ret > 0 && over)
				ended[i] = true;
			else if (ret > 0)
				left -= TRAFFIC_STEP;
			if (ret < 0 || traffic_test(l, &size) < 0)
				return -1;
		}
		open = 0;
		for (int i = 0; i < channels; i++)
			open += !ended[i] ||
				traffic_out(&s->net, i)->done < traffic_out(&s->net, i)->posted;
		if (wait_a_little(s, &p, "the send did not complete"))
			return -1;
	}
	return 0;
}

int side_stream_out(struct side *s, int channels, struct account *account)
{
	static struct account_sockets before;
	int ret;

	account_look(&before);
	ret = send_until(s, channels);
	*account = account_since(&before);
	return ret;
}

int side_stream_in(struct side *s, int channels, uint64_t *bytes, uint64_t *us)
{
	struct patience p = { .end_ms = now_ms() + (uint64_t)s->t->ms + SIDE_STEP_MS };
	bool ended[TRAFFIC_CHANNELS_MAX] = { false };
	uint64_t begin = now_ns();
	int open = channels;

	*bytes = 0;
	while (open) {
		for (int i = 0; i < channels; i++) {
			int size, ret;

			if (ended[i])
				continue;
			if (traffic_post(traffic_in(&s->net, i), TRAFFIC_STEP) < 0)
				return -1;
			ret = traffic_test(traffic_in(&s->net, i), &size);
			if (ret < 0)
				return -1;
			if (ret && size == END_BYTES) {
				ended[i] = true;
				open--;
			} else if (ret) {
				*bytes += (uint64_t)size;
			}
		}
		if (wait_a_little(s, &p, "the receive did not complete"))
			return -1;
	}
	*us = (now_ns() - begin) / 1000;
	return 0;
}
