/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency and bandwidth through the plugin; see traffic.h. After the handles the client orders one
 * measurement after another ("ping", "stream", "end") and the server answers each when it is over. A
 * message of one byte ends a measurement in the data itself.
 */
#include "traffic.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nccl_net/util.h>

#include "account.h"
#include "task.h"
#include "traffic_net.h"
#include "wire.h"

#define PING_BYTES 8
#define END_BYTES  1
#define PING_MS    2000  /* no more round trips after so long */
#define STEP_MS    10000 /* beyond the time that a measurement was given */
#define ORDER_MS   60000 /* the server waits so long for the next order */
#define PROCESS_MS (2 * TRAFFIC_SET_UP_MS + 5 * STEP_MS + PING_MS)
#define LOOK_EVERY 256 /* passes between two looks at the clock */

struct side {
	int fd;
	const struct traffic *t;
	struct traffic_net net;
	json_t *result;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int fail(struct side *s, const char *text)
{
	if (!*s->net.error)
		snprintf(s->net.error, sizeof(s->net.error), "%s", text);
	return -1;
}

/* Every wait below is a loop of passes with one of these. */
struct patience {
	uint64_t end_ms;
	unsigned passes;
};

static int wait_a_little(struct side *s, struct patience *p, const char *for_what)
{
	sched_yield();
	if (++p->passes % LOOK_EVERY || pair_now_ms() < p->end_ms)
		return 0;
	return fail(s, for_what);
}

/* --- round trips --- */

static int send_one(struct side *s, size_t bytes)
{
	struct patience p = { .end_ms = pair_now_ms() + STEP_MS };
	struct traffic_line *l = &s->net.out[0];
	int size, ret;

	while (!(ret = traffic_post(&s->net, l, bytes))) {
		if (traffic_test(&s->net, l, &size) < 0 ||
		    wait_a_little(s, &p, "a message could not be posted"))
			return -1;
	}
	return ret < 0 ? -1 : 0;
}

/* Receives one message; the requests of sends are tested on the way. */
static int receive_one(struct side *s, int *size)
{
	struct patience p = { .end_ms = pair_now_ms() + STEP_MS };
	struct traffic_line *in = &s->net.in[0], *out = &s->net.out[0];
	int sent, ret;

	for (;;) {
		if (traffic_post(&s->net, in, TRAFFIC_STEP) < 0 ||
		    traffic_test(&s->net, out, &sent) < 0)
			return -1;
		ret = traffic_test(&s->net, in, size);
		if (ret)
			return ret < 0 ? -1 : 0;
		if (wait_a_little(s, &p, "a round trip took more than 10 s"))
			return -1;
	}
}

static int echo(struct side *s)
{
	int size;

	do {
		if (receive_one(s, &size) || send_one(s, (size_t)size))
			return -1;
	} while (size != END_BYTES);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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

	qsort(us, count, sizeof(us[0]), by_value);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		json_object_set_new(latency, points[i].name,
				    json_real(us[(count - 1) * points[i].permille / 1000]));
	return latency;
}

static int ping(struct side *s)
{
	static double us[TRAFFIC_PINGS];
	uint64_t end = pair_now_ms() + PING_MS, begin;
	int count = 0, size;

	for (int i = -1; i < TRAFFIC_PINGS && (count < 1 || pair_now_ms() < end); i++) {
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
	struct patience p = { .end_ms = pair_now_ms() + (uint64_t)s->t->ms + STEP_MS };
	uint64_t stop = now_ns() + (uint64_t)s->t->ms * 1000000;
	bool ended[TRAFFIC_CHANNELS_MAX] = { false };
	long long left = s->t->bytes;
	int open = channels, size;

	while (open) {
		bool over = left <= 0 || now_ns() >= stop;

		for (int i = 0; i < channels; i++) {
			struct traffic_line *l = &s->net.out[i];
			int ret = 0;

			if (!ended[i])
				ret = traffic_post(&s->net, l, over ? END_BYTES : TRAFFIC_STEP);
			if (ret > 0 && over)
				ended[i] = true;
			else if (ret > 0)
				left -= TRAFFIC_STEP;
			if (ret < 0 || traffic_test(&s->net, l, &size) < 0)
				return -1;
		}
		open = 0;
		for (int i = 0; i < channels; i++)
			open += !ended[i] || s->net.out[i].done < s->net.out[i].posted;
		if (wait_a_little(s, &p, "the send did not complete"))
			return -1;
	}
	return 0;
}

/* *account: of TCP connections that have carried it; none where queue pairs did. */
static int stream_out(struct side *s, int channels, struct account *account)
{
	static struct account_sockets before;
	int ret;

	account_look(&before);
	ret = send_until(s, channels);
	*account = account_since(&before);
	return ret;
}

static int stream_in(struct side *s, int channels, uint64_t *bytes, uint64_t *us)
{
	struct patience p = { .end_ms = pair_now_ms() + (uint64_t)s->t->ms + STEP_MS };
	bool ended[TRAFFIC_CHANNELS_MAX] = { false };
	uint64_t begin = now_ns();
	int open = channels;

	*bytes = 0;
	while (open) {
		for (int i = 0; i < channels; i++) {
			int size, ret;

			if (ended[i])
				continue;
			if (traffic_post(&s->net, &s->net.in[i], TRAFFIC_STEP) < 0)
				return -1;
			ret = traffic_test(&s->net, &s->net.in[i], &size);
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

/* --- orders --- */

static json_t *reply_new(const struct side *s)
{
	return json_pack("{s:s}", "error", s->net.error);
}

/* The server's answer to an order, or to how its set-up went. NULL: it has failed, as is then said. */
static json_t *get_reply(struct side *s)
{
	json_t *reply;
	int ret = pair_recv(s->fd, &reply, s->t->ms + 2 * STEP_MS);

	if (ret) {
		fail(s, ret == -ETIMEDOUT ? "the other host does not answer"
					  : "the other host's process has ended");
		return NULL;
	}
	if (!*pair_text(reply, "error"))
		return reply;
	if (!*s->net.error)
		snprintf(s->net.error, sizeof(s->net.error), "the other host reports: %.500s",
			 pair_text(reply, "error"));
	json_decref(reply);
	return NULL;
}

static int order_ping(struct side *s)
{
	json_t *reply = NULL;
	int ret = pair_send_new(s->fd, json_pack("{s:s}", "op", "ping"), STEP_MS);

	if (!ret)
		ret = ping(s);
	reply = get_reply(s);
	json_decref(reply);
	return ret || !reply ? -1 : 0;
}

/* The other host's account of what it has sent; its word. */
static void copy_account(json_t *run, const json_t *theirs)
{
	static const char *const keys[] = { "streams",         "rtt_us",           "window_bytes",
					    "segments",        "retransmits",      "busy_us",
					    "rwnd_limited_us", "sndbuf_limited_us" };

	for (size_t i = 0;
	     i < ARRAY_SIZE(keys) && pair_int(theirs, "streams", 1, ACCOUNT_SOCKETS, 0); i++)
		json_object_set_new(run, keys[i],
				    json_integer(pair_int(theirs, keys[i], 0, INT64_MAX, 0)));
}

static json_t *account_new(const struct account *account)
{
	json_t *object = json_pack("{s:I}", "streams", (json_int_t)account->streams);

	account_tell(object, account);
	return object;
}

static int order_stream(struct side *s, const char *to, int channels)
{
	json_t *reply, *run, *mine;
	bool out = !strcmp(to, "server");
	struct account account = { 0 };
	uint64_t bytes = 0, us = 0;
	int ret = pair_send_new(s->fd,
				json_pack("{s:s, s:s, s:i}", "op", "stream", "to", to, "channels",
					  channels),
				STEP_MS);

	if (!ret)
		ret = out ? stream_out(s, channels, &account) : stream_in(s, channels, &bytes, &us);
	reply = get_reply(s);
	if (ret || !reply) {
		json_decref(reply);
		return -1;
	}
	if (out) {
		bytes = (uint64_t)pair_int(reply, "bytes", 0, INT64_MAX, 0);
		us = (uint64_t)pair_int(reply, "us", 0, INT64_MAX, 0);
	}
	run = json_pack("{s:s, s:i, s:I, s:I}", "to", to, "channels", channels, "bytes",
			(json_int_t)bytes, "us", (json_int_t)us);
	mine = account_new(&account);
	copy_account(run, out ? mine : json_object_get(reply, "sender"));
	json_array_append_new(json_object_get(s->result, "runs"), run);
	json_decref(mine);
	json_decref(reply);
	return 0;
}

static void give_orders(struct side *s)
{
	static const char *const ways[] = { "server", "client" };
	int ret = order_ping(s);

	for (int i = 0; i < 2 && !ret && s->t->ms; i++) {
		ret = order_stream(s, ways[i], 1);
		if (!ret && s->t->channels > 1)
			ret = order_stream(s, ways[i], s->t->channels);
	}
	pair_send_new(s->fd, json_pack("{s:s}", "op", "end"), STEP_MS);
}

static json_t *obey(struct side *s, const json_t *order)
{
	int channels = (int)pair_int(order, "channels", 1, s->t->channels, 1);
	struct account account = { 0 };
	uint64_t bytes = 0, us = 0;
	json_t *reply;

	if (*s->net.error)
		return reply_new(s);
	if (!strcmp(pair_text(order, "op"), "ping"))
		echo(s);
	else if (!strcmp(pair_text(order, "to"), "server"))
		stream_in(s, channels, &bytes, &us);
	else
		stream_out(s, channels, &account);
	reply = reply_new(s);
	json_object_set_new(reply, "sender", account_new(&account));
	json_object_set_new(reply, "bytes", json_integer((json_int_t)bytes));
	json_object_set_new(reply, "us", json_integer((json_int_t)us));
	return reply;
}

static void take_orders(struct side *s)
{
	json_t *order;
	bool end = false;

	while (!end && !pair_recv(s->fd, &order, ORDER_MS)) {
		end = !strcmp(pair_text(order, "op"), "end");
		if (!end && pair_send_new(s->fd, obey(s, order), STEP_MS))
			end = true;
		json_decref(order);
	}
}

/* --- set-up --- */

static json_t *handles_new(const struct side *s)
{
	json_t *list = json_array();

	for (int i = 0; i < s->net.channels && !*s->net.error; i++) {
		char hex[2 * DRIVER_HANDLE_BYTES + 1];

		for (int b = 0; b < DRIVER_HANDLE_BYTES; b++)
			snprintf(hex + 2 * b, 3, "%02x", (unsigned char)s->net.in[i].handle[b]);
		json_array_append_new(list, json_string(hex));
	}
	return json_pack("{s:s, s:o}", "error", s->net.error, "handles", list);
}

static bool read_handle(const char *hex, char *handle)
{
	if (strlen(hex) != 2 * DRIVER_HANDLE_BYTES ||
	    strspn(hex, "0123456789abcdef") != 2 * DRIVER_HANDLE_BYTES)
		return false;
	for (int b = 0; b < DRIVER_HANDLE_BYTES; b++) {
		char byte[3] = { hex[2 * b], hex[2 * b + 1], '\0' };

		handle[b] = (char)strtoul(byte, NULL, 16);
	}
	return true;
}

static int exchange_handles(struct side *s)
{
	json_t *theirs;
	int ret = 0;

	if (pair_send_new(s->fd, handles_new(s), STEP_MS))
		return fail(s, "the other host's process has ended");
	theirs = get_reply(s);
	if (!theirs)
		return -1;
	for (int i = 0; i < s->net.channels && !ret; i++) {
		const json_t *list = json_object_get(theirs, "handles");
		const char *hex = json_string_value(json_array_get(list, (size_t)i));

		if (!hex || !read_handle(hex, s->net.out[i].handle))
			ret = fail(s, "the handles from the other host are damaged");
	}
	json_decref(theirs);
	return *s->net.error ? -1 : ret;
}

/* Both ends know afterwards whether both are connected. */
static int set_up(struct side *s)
{
	json_t *reply;

	traffic_net_open(&s->net, s->t->plugin, s->t->dev, s->t->channels);
	if (exchange_handles(s))
		return -1;
	traffic_net_connect(&s->net, TRAFFIC_SET_UP_MS);
	pair_send_new(s->fd, reply_new(s), STEP_MS);
	reply = get_reply(s);
	json_decref(reply);
	return reply && !*s->net.error ? 0 : -1;
}

static json_t *measure(int fd, const struct traffic *t)
{
	struct side *s = calloc(1, sizeof(*s));
	json_t *result;

	if (!s)
		return json_pack("{s:s}", "error", "out of memory");
	s->fd = fd;
	s->t = t;
	s->result = json_pack("{s:s, s:[]}", "transport", t->transport, "runs");
	if (!set_up(s)) {
		json_object_set_new(s->result, "net", json_string(driver_name(s->net.net)));
		json_object_set_new(s->result, "device", json_string(s->net.props.name));
		if (t->is_client)
			give_orders(s);
		else
			take_orders(s);
	}
	json_object_set_new(s->result, "error", json_string(s->net.error));
	traffic_net_close(&s->net);
	result = s->result;
	free(s);
	return result;
}

/* --- a process of its own --- */

struct order {
	int fd;
	const struct traffic *t;
};

static json_t *run_order(void *arg)
{
	const struct order *o = arg;

	setenv("ANYNET_TRANSPORT", o->t->transport, 1);
	return measure(o->fd, o->t);
}

json_t *traffic_run(int fd, const struct traffic *t)
{
	struct order order = { fd, t };
	json_t *result = task_run(run_order, &order, PROCESS_MS + 4 * t->ms);

	return result ? result
		      : json_pack("{s:s}", "error",
				  "the process that drives the plugin ended without a result");
}
