/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency and bandwidth through the plugin; see traffic.h. After exchanging handles, the client orders
 * one measurement after another ("ping", "stream", "end"), and the server replies to each at its end.
 */
#include "traffic_side.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#include "task.h"
#include "tools/shared/hex.h"
#include "tools/shared/member.h"
#include "tools/shared/proved.h"
#include "wire.h"

#define ORDER_MS   60000 /* how long the server waits for the next order */
#define PROCESS_MS (2 * TRAFFIC_SET_UP_MS + 5 * SIDE_STEP_MS + SIDE_PING_MS)

/* --- orders --- */

static json_t *reply_new(const struct side *s)
{
	return json_pack("{s:s}", "error", s->net.error);
}

/* Returns the other host's reply to an order or to the set-up. NULL: it failed; the error is recorded. */
static json_t *get_reply(struct side *s)
{
	json_t *reply;
	int ret = pair_recv(s->fd, &reply, s->t->ms + 2 * SIDE_STEP_MS);

	if (ret) {
		side_fail(s, ret == -ETIMEDOUT ? "the other host does not answer"
					       : "the other host's process has ended");
		return NULL;
	}
	if (!*member_text(reply, "error"))
		return reply;
	if (!*s->net.error)
		snprintf(s->net.error, sizeof(s->net.error), "the other host reports: %.500s",
			 member_text(reply, "error"));
	json_decref(reply);
	return NULL;
}

static int order_ping(struct side *s)
{
	json_t *reply = NULL;
	int ret = pair_send_new(s->fd, json_pack("{s:s}", "op", "ping"), SIDE_STEP_MS);

	if (!ret)
		ret = side_ping(s);
	reply = get_reply(s);
	json_decref(reply);
	return ret || !reply ? -1 : 0;
}

/* Copies the sender's statistics. They may come from the other host, so values are checked. */
static void copy_account(json_t *run, const json_t *theirs)
{
	static const char *const keys[] = { "streams",         "rtt_us",           "window_bytes",
					    "segments",        "retransmits",      "busy_us",
					    "rwnd_limited_us", "sndbuf_limited_us" };

	for (size_t i = 0;
	     i < ARRAY_SIZE(keys) && member_int(theirs, "streams", 1, ACCOUNT_SOCKETS, 0); i++)
		json_object_set_new(run, keys[i],
				    json_integer(member_int(theirs, keys[i], 0, INT64_MAX, 0)));
}

static json_t *account_new(const struct account *account)
{
	json_t *object = json_pack("{s:I}", "streams", (json_int_t)account->connections);

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
				SIDE_STEP_MS);

	if (!ret)
		ret = out ? side_stream_out(s, channels, &account)
			  : side_stream_in(s, channels, &bytes, &us);
	reply = get_reply(s);
	if (ret || !reply) {
		json_decref(reply);
		return -1;
	}
	if (out) {
		bytes = (uint64_t)member_int(reply, "bytes", 0, INT64_MAX, 0);
		us = (uint64_t)member_int(reply, "us", 0, INT64_MAX, 0);
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
	pair_send_new(s->fd, json_pack("{s:s}", "op", "end"), SIDE_STEP_MS);
}

static json_t *obey(struct side *s, const json_t *order)
{
	int channels = (int)member_int(order, "channels", 1, s->t->channels, 1);
	struct account account = { 0 };
	uint64_t bytes = 0, us = 0;
	json_t *reply;

	if (*s->net.error)
		return reply_new(s);
	if (!strcmp(member_text(order, "op"), "ping"))
		side_echo(s);
	else if (!strcmp(member_text(order, "to"), "server"))
		side_stream_in(s, channels, &bytes, &us);
	else
		side_stream_out(s, channels, &account);
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
		end = !strcmp(member_text(order, "op"), "end");
		if (!end && pair_send_new(s->fd, obey(s, order), SIDE_STEP_MS))
			end = true;
		json_decref(order);
	}
}

/* --- set-up --- */

static json_t *handles_new(struct side *s)
{
	json_t *list = json_array();

	for (int i = 0; i < s->net.channels && !*s->net.error; i++) {
		char hex[HEX_TEXT(DRIVER_HANDLE_BYTES)];

		hex_print(traffic_in(&s->net, i)->slot->handle, DRIVER_HANDLE_BYTES, hex);
		json_array_append_new(list, json_string(hex));
	}
	return json_pack("{s:s, s:o}", "error", s->net.error, "handles", list);
}

static int exchange_handles(struct side *s)
{
	json_t *theirs;
	int ret = 0;

	if (pair_send_new(s->fd, handles_new(s), SIDE_STEP_MS))
		return side_fail(s, "the other host's process has ended");
	theirs = get_reply(s);
	if (!theirs)
		return -1;
	for (int i = 0; i < s->net.channels && !ret; i++) {
		const json_t *list = json_object_get(theirs, "handles");
		const char *hex = json_string_value(json_array_get(list, (size_t)i));

		if (!hex ||
		    !hex_parse(hex, traffic_out(&s->net, i)->slot->handle, DRIVER_HANDLE_BYTES))
			ret = side_fail(s, "the other host sent invalid handles");
	}
	json_decref(theirs);
	return *s->net.error ? -1 : ret;
}

/* Afterwards both ends know whether both are connected. */
static int set_up(struct side *s)
{
	json_t *reply;

	traffic_net_open(&s->net, s->t->plugin, s->t->dev, s->t->channels);
	if (exchange_handles(s))
		return -1;
	traffic_net_connect(&s->net, TRAFFIC_SET_UP_MS);
	pair_send_new(s->fd, reply_new(s), SIDE_STEP_MS);
	reply = get_reply(s);
	json_decref(reply);
	return reply && !*s->net.error ? 0 : -1;
}

/* Returns the error, with the address to which this process may not connect, if the plugin tried one. */
static json_t *error_of(const struct side *s)
{
	const char *refused = proved_refused();

	if (!*s->net.error || !*refused)
		return json_string(s->net.error);
	return json_sprintf("%s; this host does not connect to %s: the other host named it, but "
			    "did not answer there when data ports were tested",
			    s->net.error, refused);
}

static json_t *measure(int fd, const struct traffic *t)
{
	static struct side s; /* too large for the stack */

	s = (struct side){ .fd = fd, .t = t };
	s.result = json_pack("{s:s, s:[]}", "transport", t->transport, "runs");
	if (!set_up(&s)) {
		json_object_set_new(s.result, "net", json_string(driver_name(s.net.ep.net)));
		json_object_set_new(s.result, "device", json_string(s.net.ep.props.name));
		if (t->is_client)
			give_orders(&s);
		else
			take_orders(&s);
	}
	json_object_set_new(s.result, "error", error_of(&s));
	traffic_net_close(&s.net);
	return s.result;
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
	proved_confine(o->t->proved);
	return measure(o->fd, o->t);
}

json_t *traffic_run(int fd, const struct traffic *t)
{
	struct order order = { fd, t };

	return task_run(run_order, &order, PROCESS_MS + 4 * t->ms,
			"the process that drives the plugin", -1);
}
