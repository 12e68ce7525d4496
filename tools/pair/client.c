/* SPDX-License-Identifier: Apache-2.0 */
/* anynet pair: the session; see client.h. */
#include "client_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "dial.h"
#include "facts.h"
#include "ports.h"
#include "request.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/hosts.h"
#include "tools/shared/judge/rates.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/member.h"
#include "tools/shared/memory.h"
#include "tools/shared/output_args.h"
#include "traffic.h"
#include "wire.h"

#define CLOCK_SAMPLES 16

/* --- facts, clock --- */

static int exchange_facts(struct client *c)
{
	json_t *reply = client_ask(c, "comparing versions and settings",
				   json_pack("{s:s, s:O}", "op", "facts", "facts", c->host->facts),
				   CLIENT_FACTS_MS);

	if (!reply)
		return -1;
	json_object_set(c->result, "remote", json_object_get(reply, "facts"));
	json_object_set_new(c->result, "way",
			    json_pack("{s:o, s:O?}", "local", facts_way(c->fd), "remote",
				      json_object_get(reply, "way")));
	json_decref(reply);
	if (!facts_within_bounds(json_object_get(c->result, "remote"))) {
		json_object_del(c->result, "remote");
		return client_fail(c, "comparing versions and settings", "",
				   "the other host reports invalid facts about itself");
	}
	return 0;
}

static int compare_clocks(struct client *c)
{
	struct clock_sample samples[CLOCK_SAMPLES];
	struct clock_offset offset;

	for (int i = 0; i < CLOCK_SAMPLES; i++) {
		struct clock_sample *s = &samples[i];
		json_t *reply;

		s->asked = (int64_t)now_wall_ns();
		reply = client_ask(c, "comparing clocks", json_pack("{s:s}", "op", "clock"),
				   CLIENT_REPLY_MS);
		s->answered = (int64_t)now_wall_ns();
		if (!reply)
			return -1;
		s->seen = member_int(reply, "seen", 0, INT64_MAX, -1);
		s->replied = member_int(reply, "replied", 0, INT64_MAX, -1);
		json_decref(reply);
	}
	if (clock_estimate(samples, CLOCK_SAMPLES, &offset))
		json_object_set_new(c->result, "clock",
				    json_pack("{s:I, s:I}", "offset_ns",
					      (json_int_t)offset.offset_ns, "error_ns",
					      (json_int_t)offset.error_ns));
	return 0;
}

/* --- through the plugin --- */

static bool has_device(const json_t *facts, const char *transport)
{
	const json_t *dev;
	size_t i;

	json_array_foreach (json_object_get(facts, "devices"), i, dev) {
		if (!strcmp(member_text(dev, "transport"), transport))
			return true;
	}
	return false;
}

/* True if the plugin of one end has no usable device. The verdict reports it. */
static bool is_cut_off(const struct client *c)
{
	const json_t *way = json_object_get(c->result, "way");

	return host_is_cut_off(json_object_get(c->result, "local"),
			       json_object_get(way, "local")) ||
	       host_is_cut_off(json_object_get(c->result, "remote"),
			       json_object_get(way, "remote"));
}

static bool can_reach(const struct client *c, const char *to)
{
	const json_t *p;
	size_t i;

	json_array_foreach (json_object_get(c->result, "ports"), i, p) {
		if (!strcmp(member_text(p, "to"), to) && !strcmp(member_text(p, "state"), "ok"))
			return true;
	}
	return false;
}

static json_t *run_plugin(struct client *c, const char *transport, int ms)
{
	const struct traffic t = {
		.is_client = true,
		.proved = &c->proved,
		.plugin = c->host->plugin,
		.transport = transport,
		.dev = c->o->measure.dev,
		.channels = c->o->measure.streams,
		.bytes = c->o->measure.bytes,
		.ms = ms,
	};
	json_t *request = json_pack("{s:s, s:s, s:i, s:i, s:I, s:i}", "op", "plugin", "transport",
				    transport, "dev", t.dev, "channels", t.channels, "bytes",
				    (json_int_t)t.bytes, "ms", t.ms);
	int ret = pair_send_new(c->fd, request, CLIENT_REPLY_MS);

	client_tell(c, strcmp(transport, "ib") ? "latency and bandwidth through the plugin, TCP"
					       : "latency and bandwidth through the plugin, verbs");
	if (ret) {
		client_fail(c, "measuring through the plugin", "", "%s", client_why(ret));
		return NULL;
	}
	return traffic_run(c->fd, &t);
}

/* A single suspicious result may be transient, so it is measured again until it is confirmed or refuted. */
static int measure_plugin(struct client *c, const char *transport)
{
	uint64_t began = now_ms();
	json_t *first = run_plugin(c, transport, c->o->measure.ms), *again;
	struct rates there, back;

	if (!first)
		return -1;
	json_object_set_new(first, "transport", json_string(transport));
	json_array_append_new(json_object_get(c->result, "plugin"), first);
	for (int i = 1; !c->o->is_worker && i < RATES_ENOUGH && client_has_time(c, began); i++) {
		rates_read(&there, first, "server");
		rates_read(&back, first, "client");
		if (*member_text(first, "error") || !rates_differ(&there, &back))
			break;
		began = now_ms();
		again = run_plugin(c, transport, client_repeat_ms(c));
		if (!again)
			return -1;
		rates_repeat(first, again);
		json_decref(again);
	}
	return 0;
}

static void announce(const struct client *c, int transports)
{
	int ways = c->o->measure.streams > 1 ? 4 : 2;

	if (!c->o->measure.ms || c->o->is_worker || output_is_quiet())
		return;
	client_tell(c, "");
	fprintf(stderr,
		"bandwidth test: %d runs, each limited to %.1f s and %.0f MB, one after "
		"another; more where a result looks wrong\n",
		2 + transports * ways, c->o->measure.ms / 1e3, (double)c->o->measure.bytes / 1e6);
}

static int session(struct client *c)
{
	const char *wanted = getenv("ANYNET_TRANSPORT");
	bool ib;

	client_tell(c, "connecting");
	if (client_connect(c) || client_greet(c))
		return -1;
	client_tell(c, "versions, settings, clocks");
	if (exchange_facts(c) || compare_clocks(c))
		return -1;
	ib = has_device(c->host->facts, "IB") &&
	     has_device(json_object_get(c->result, "remote"), "IB");
	announce(c, 1 + ib);
	if (client_measure_ports(c))
		return -1;
	if (!can_reach(c, "server") || !can_reach(c, "client") || is_cut_off(c))
		return 0;
	if ((!wanted || strcmp(wanted, "ib") != 0 || !ib) && measure_plugin(c, "tcp"))
		return -1;
	return ib ? measure_plugin(c, "ib") : 0;
}

/* For JSON output; print.c calls verdict_limit itself. */
static void tell_limits(json_t *runs)
{
	json_t *run;
	size_t i;

	json_array_foreach (runs, i, run) {
		if (member_int(run, "segments", 1, INT64_MAX, 0))
			json_object_set_new(run, "limited_by", json_string(verdict_limit(run)));
	}
}

static void tell_all_limits(json_t *result)
{
	json_t *run;
	size_t i;

	tell_limits(json_object_get(result, "tcp"));
	json_array_foreach (json_object_get(result, "plugin"), i, run)
		tell_limits(json_object_get(run, "runs"));
}

json_t *client_run(const struct client_options *o)
{
	static struct pair_host host; /* static, since it is too large for the stack */
	struct client c = { .o = o, .host = &host, .fd = -1 };

	pair_host_read(&host, o->plugin);
	if (!o->is_worker)
		facts_ask_libraries(host.facts);
	c.result = json_pack("{s:s, s:i, s:O, s:[], s:[], s:[]}", "host", o->host, "port", o->port,
			     "local", host.facts, "ports", "tcp", "plugin");
	if (!c.result)
		memory_failed();
	if (!session(&c))
		pair_send_new(c.fd, json_pack("{s:s}", "op", "bye"), CLIENT_REPLY_MS);
	client_tell(&c, "");
	if (c.fd >= 0)
		close(c.fd);
	tell_all_limits(c.result);
	json_object_set_new(c.result, "findings", verdict_find(c.result));
	json_object_set_new(c.result, "status",
			    json_integer(findings_status(json_object_get(c.result, "findings"))));
	json_decref(host.facts);
	return c.result;
}
