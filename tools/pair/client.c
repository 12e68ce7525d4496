/* SPDX-License-Identifier: Apache-2.0 */
/* anynet pair; see client.h. */
#include "client.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "address.h"
#include "clock.h"
#include "control.h"
#include "dial.h"
#include "facts.h"
#include "finding.h"
#include "ports.h"
#include "rates.h"
#include "request.h"
#include "traffic.h"
#include "verdict.h"
#include "wire.h"

#define GREET_MS      30000 /* the server serves one client after another */
#define REPLY_MS      10000
#define DIAL_REPLY_MS (DIAL_MS_MAX + 4 * DIAL_WAIT_MS)
#define CLOCK_SAMPLES 16
#define PORTS_MAX     16 /* of those the other end offers */
#define HEADERS_4     40 /* IP and TCP, without options */
#define HEADERS_6     60

struct client {
	const struct client_options *o;
	struct pair_host *host;
	json_t *result;
	int fd;
};

/* --- progress and failures --- */

static void tell(const struct client *c, const char *what)
{
	if (c->o->progress)
		fprintf(stderr, "\r\033[K%s%s", what, *what ? " ..." : "");
}

/* Ends the session: the rest is not measured. */
static int fail(struct client *c, const char *step, const char *todo, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int fail(struct client *c, const char *step, const char *todo, const char *fmt, ...)
{
	char reason[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	if (!json_object_get(c->result, "failure"))
		json_object_set_new(c->result, "failure",
				    json_pack("{s:s, s:s, s:s}", "step", step, "reason", reason,
					      "do", todo));
	return -1;
}

static const char *why(int ret)
{
	switch (-ret) {
	case ETIMEDOUT:
		return "the server does not answer in time";
	case ECONNRESET:
		return "the server closed the connection, or disappeared";
	case EPROTO:
		return "the server's answer is invalid";
	default:
		return strerror(-ret);
	}
}

/* The answer to a request, which is released. NULL: the session is over. */
static json_t *ask(struct client *c, const char *step, json_t *request, int ms)
{
	json_t *reply = NULL;
	int ret = pair_send_new(c->fd, request, REPLY_MS);

	if (!ret)
		ret = pair_recv(c->fd, &reply, ms);
	if (ret)
		fail(c, step, "", "%s", why(ret));
	return reply;
}

/* --- the control connection --- */

static int open_control(struct client *c)
{
	char why_not[CONTROL_TEXT];
	int fd = control_open(c->o->host, c->o->port, why_not);

	if (fd >= 0) {
		c->fd = fd;
		return 0;
	}
	if (fd == -ENOENT)
		return fail(c, "the server's name", "Check the name, /etc/hosts and DNS.", "%s",
			    why_not);
	return fail(c, "connecting to the server",
		    fd == -ECONNREFUSED
			    ? "Start `anynet serve` on that host. If it uses another port "
			      "(`anynet serve --port`), give HOST:PORT here."
			    : "Check the address, and that no firewall blocks this port. To use "
			      "another port: `anynet serve --port PORT` there, and HOST:PORT "
			      "here.",
		    "%s", why_not);
}

static int greet(struct client *c)
{
	char opening[PAIR_STRANGER_MAX + 1];
	uint32_t version;
	int ret = pair_greet(c->fd, true, &version, opening, GREET_MS);

	if (ret == -EPROTONOSUPPORT)
		return fail(c, "greeting the server", "Install the same anynet on both hosts.",
			    "it uses version %u of the pair protocol, this one %d", version,
			    PAIR_VERSION);
	if (ret == -EPROTO)
		return fail(c, "greeting the server", "Give the port of `anynet serve`.",
			    "no `anynet serve` answers there, but '%s'", opening);
	return ret ? fail(c, "greeting the server",
			  "Check that it is `anynet serve`, and not busy with another client.", "%s",
			  why(ret))
		   : 0;
}

/* --- facts, clock --- */

static int exchange_facts(struct client *c)
{
	json_t *reply =
		ask(c, "comparing versions and settings",
		    json_pack("{s:s, s:O}", "op", "facts", "facts", c->host->facts), REPLY_MS);

	if (!reply)
		return -1;
	json_object_set(c->result, "remote", json_object_get(reply, "facts"));
	json_object_set_new(c->result, "way",
			    json_pack("{s:o, s:O?}", "local", facts_way(c->fd), "remote",
				      json_object_get(reply, "way")));
	json_decref(reply);
	if (!facts_within_bounds(json_object_get(c->result, "remote"))) {
		json_object_del(c->result, "remote");
		return fail(c, "comparing versions and settings", "",
			    "the server reports impossible facts about its host");
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

		s->asked = clock_now_ns();
		reply = ask(c, "comparing clocks", json_pack("{s:s}", "op", "clock"), REPLY_MS);
		s->answered = clock_now_ns();
		if (!reply)
			return -1;
		s->seen = pair_int(reply, "seen", 0, INT64_MAX, -1);
		s->replied = pair_int(reply, "replied", 0, INT64_MAX, -1);
		json_decref(reply);
	}
	if (clock_estimate(samples, CLOCK_SAMPLES, &offset))
		json_object_set_new(c->result, "clock",
				    json_pack("{s:I, s:I}", "offset_ns",
					      (json_int_t)offset.offset_ns, "error_ns",
					      (json_int_t)offset.error_ns));
	return 0;
}

/* --- data ports --- */

/* How one of the data ports is dialled: from here, or by the server. */
struct route {
	bool to_server;
	const json_t *port; /* "address", "device", "port", "error" */
	const char *token;
};

static json_t *dial_from_here(const struct client *c, const struct route *r,
			      const struct request *parsed)
{
	struct dial d = parsed->dial;
	socklen_t len = sizeof(d.to);

	(void)r;
	if (!d.to.ss_family) {
		getpeername(c->fd, (struct sockaddr *)&d.to, &len);
		len = sizeof(d.from);
		getsockname(c->fd, (struct sockaddr *)&d.from, &len);
		address_set_port(&d.from, 0);
		address_set_port(&d.to, parsed->dial_port);
	}
	if (!ports_may_dial(c->fd, json_object_get(c->result, "remote"), &d.to))
		return json_pack("{s:s, s:s}", "state", "failed", "error",
				 "the address does not belong to one of that host's devices");
	return dial_run(&d);
}

/* The server's ports are checked in the same way as it checks a client's wishes. NULL: over. */
static json_t *dial(struct client *c, const struct route *r, int streams, long long bytes, int ms,
		    int mss)
{
	json_t *message =
		json_pack("{s:s, s:s, s:I, s:s, s:i, s:I, s:i, s:i}", "op", "dial", "address",
			  pair_text(r->port, "address"), "port",
			  (json_int_t)pair_int(r->port, "port", 0, 65535, 0), "token", r->token,
			  "streams", streams, "bytes", (json_int_t)bytes, "ms", ms, "mss", mss);
	struct request parsed;
	json_t *answer;

	if (request_parse(message, &parsed)) {
		json_decref(message);
		return json_pack("{s:s, s:s}", "state", "failed", "error",
				 "the address cannot be used for connections");
	}
	if (!r->to_server)
		return ask(c, "connecting from the server", message, DIAL_REPLY_MS);
	answer = dial_from_here(c, r, &parsed);
	json_decref(message);
	return answer;
}

/* The largest of the usual packets that get through where large ones do not; 0 = none. */
static int find_passing(struct client *c, const struct route *r)
{
	static const int packets[] = { 8960, 4000, 1492, 1450, 1400, 1300, 1000, 576 };
	const json_t *way = json_object_get(json_object_get(c->result, "way"), "local");
	int headers = strchr(pair_text(way, "local"), ':') ? HEADERS_6 : HEADERS_4;
	long long mtu = pair_int(way, "mtu", 1, INT32_MAX, 1500);

	tell(c, "large packets are lost: searching the largest size that passes");
	for (size_t i = 0; i < ARRAY_SIZE(packets); i++) {
		bool passes;
		json_t *answer;

		/* Segments below the wanted size carry options as well. */
		if (packets[i] >= mtu || packets[i] - headers < 500)
			continue;
		answer = dial(c, r, 1, DIAL_PROBE_BYTES, 1, packets[i] - headers);
		passes = answer && !strcmp(pair_text(answer, "state"), "ok");
		json_decref(answer);
		if (passes)
			return packets[i];
	}
	return 0;
}

static int try_port(struct client *c, const struct route *r)
{
	json_t *list = json_object_get(c->result, "ports"), *answer;
	const json_t *way = json_object_get(json_object_get(c->result, "way"),
					    r->to_server ? "remote" : "local");
	const char *address = pair_text(r->port, "address");
	int passes;

	if (*pair_text(r->port, "error"))
		answer = json_pack("{s:s, s:s}", "state", "busy", "error",
				   pair_text(r->port, "error"));
	else
		answer = dial(c, r, 1, DIAL_PROBE_BYTES, 1, 0);
	if (!answer)
		return -1;
	json_object_set_new(answer, "to", json_string(r->to_server ? "server" : "client"));
	json_object_set_new(answer, "address",
			    json_string(*address ? address : pair_text(way, "local")));
	json_object_set_new(answer, "port", json_integer(pair_int(r->port, "port", 0, 65535, 0)));
	json_object_set_new(answer, "device", json_string(pair_text(r->port, "device")));
	json_array_append_new(list, answer);
	if (strcmp(pair_text(answer, "state"), "stalled") != 0)
		return 0;
	passes = find_passing(c, r);
	if (passes)
		json_object_set_new(answer, "passes", json_integer(passes));
	return json_object_get(c->result, "failure") ? -1 : 0;
}

/* Of two streams the one that lost less, with the shares that all have lost in "losses". */
static json_t *less_lost(json_t *one, json_t *other)
{
	json_t *losses = json_object_get(one, "losses"), *better;

	if (!other) {
		json_decref(one);
		return NULL;
	}
	losses = losses ? json_incref(losses) : json_pack("[f]", verdict_loss(one));
	json_array_append_new(losses, json_real(verdict_loss(other)));
	better = verdict_loss(other) < verdict_loss(one) ? other : one;
	json_object_set_new(better, "losses", losses);
	json_decref(better == one ? other : one);
	return better;
}

/* One stream of plain TCP, with the kernel's account of it, by the first port that can be reached. */
static int try_stream(struct client *c, const struct route *r)
{
	json_t *answer;

	tell(c, r->to_server ? "bandwidth of TCP, outbound" : "bandwidth of TCP, inbound");
	answer = dial(c, r, 1, c->o->measure.bytes, c->o->measure.ms, 0);
	for (int i = 1; c->o->repeat && answer && verdict_loses(answer) && i < RATES_ENOUGH; i++)
		answer = less_lost(answer, dial(c, r, 1, c->o->measure.bytes, c->o->measure.ms, 0));
	if (!answer)
		return -1;
	json_object_set_new(answer, "to", json_string(r->to_server ? "server" : "client"));
	json_array_append_new(json_object_get(c->result, "tcp"), answer);
	return 0;
}

static int try_ports(struct client *c, const json_t *offer, bool to_server)
{
	const json_t *list = json_object_get(offer, "ports"), *port, *done;
	json_t *first = NULL;
	size_t i;

	tell(c, to_server ? "data ports of the server" : "data ports of this host, from the "
							 "server");
	json_array_foreach(list, i, port)
	{
		const struct route r = { to_server, port, pair_text(offer, "token") };

		if (i == PORTS_MAX)
			break;
		if (try_port(c, &r))
			return -1;
		done = json_array_get(json_object_get(c->result, "ports"),
				      json_array_size(json_object_get(c->result, "ports")) - 1);
		if (!first && !strcmp(pair_text(done, "state"), "ok"))
			first = json_array_get(list, i);
	}
	if (first && c->o->measure.ms) {
		const struct route r = { to_server, first, pair_text(offer, "token") };

		return try_stream(c, &r);
	}
	return 0;
}

static int measure_ports(struct client *c)
{
	json_t *offer, *closed;
	struct responder *responder;
	int ret;

	offer = ask(c, "opening data ports on the server", json_pack("{s:s}", "op", "listen"), REPLY_MS);
	if (!offer)
		return -1;
	ret = try_ports(c, offer, true);
	json_decref(offer);
	if (ret)
		return -1;
	closed = ask(c, "closing data ports on the server", json_pack("{s:s}", "op", "unlisten"), REPLY_MS);
	json_decref(closed);
	if (!closed)
		return -1;
	responder = ports_open(c->fd, &c->host->cfg, &c->host->probe, &offer);
	if (!responder)
		return fail(c, "opening data ports on this host", "", "out of memory or threads");
	ret = try_ports(c, offer, false);
	json_decref(offer);
	responder_stop(responder);
	return ret;
}

/* --- through the plugin --- */

static bool has_device(const json_t *facts, const char *transport)
{
	const json_t *dev;
	size_t i;

	json_array_foreach(json_object_get(facts, "devices"), i, dev)
	{
		if (!strcmp(pair_text(dev, "transport"), transport))
			return true;
	}
	return false;
}

/* One end's plugin has nothing to connect with: the verdict says so. */
static bool is_cut_off(const struct client *c)
{
	const json_t *way = json_object_get(c->result, "way");

	return verdict_is_cut_off(json_object_get(c->result, "local"),
				  json_object_get(way, "local")) ||
	       verdict_is_cut_off(json_object_get(c->result, "remote"),
				  json_object_get(way, "remote"));
}

static bool can_reach(const struct client *c, const char *to)
{
	const json_t *p;
	size_t i;

	json_array_foreach(json_object_get(c->result, "ports"), i, p)
	{
		if (!strcmp(pair_text(p, "to"), to) && !strcmp(pair_text(p, "state"), "ok"))
			return true;
	}
	return false;
}

static json_t *run_plugin(struct client *c, const char *transport)
{
	const struct traffic t = {
		.is_client = true,
		.plugin = c->host->plugin,
		.transport = transport,
		.dev = c->o->measure.dev,
		.channels = c->o->measure.streams,
		.bytes = c->o->measure.bytes,
		.ms = c->o->measure.ms,
	};
	json_t *request = json_pack("{s:s, s:s, s:i, s:i, s:I, s:i}", "op", "plugin", "transport",
				    transport, "dev", t.dev, "channels", t.channels, "bytes",
				    (json_int_t)t.bytes, "ms", t.ms);
	int ret = pair_send_new(c->fd, request, REPLY_MS);

	tell(c, strcmp(transport, "ib") ? "latency and bandwidth through the plugin, TCP"
					: "latency and bandwidth through the plugin, verbs");
	if (ret) {
		fail(c, "measuring through the plugin", "", "%s", why(ret));
		return NULL;
	}
	return traffic_run(c->fd, &t);
}

/* What is seen once only may be the work of a moment: it is measured until it is seen often, or not. */
static int measure_plugin(struct client *c, const char *transport)
{
	json_t *first = run_plugin(c, transport), *again;
	struct rates there, back;

	if (!first)
		return -1;
	json_object_set_new(first, "transport", json_string(transport));
	json_array_append_new(json_object_get(c->result, "plugin"), first);
	rates_add(first, json_object_get(first, "runs"));
	for (int i = 1; c->o->repeat && i < RATES_ENOUGH; i++) {
		rates_read(&there, first, "server");
		rates_read(&back, first, "client");
		if (!rates_differ(&there, &back))
			break;
		again = run_plugin(c, transport);
		if (!again)
			return -1;
		rates_add(first, json_object_get(again, "runs"));
		json_decref(again);
	}
	return 0;
}

static void announce(const struct client *c, int transports)
{
	int ways = c->o->measure.streams > 1 ? 4 : 2;

	if (!c->o->measure.ms || !c->o->announce)
		return;
	tell(c, "");
	fprintf(stderr,
		"bandwidth test: %d runs, each limited to %.1f s and %.0f MB, one after "
		"another%s\n",
		2 + transports * ways, c->o->measure.ms / 1e3, (double)c->o->measure.bytes / 1e6,
		c->o->repeat ? "; more where a result looks wrong" : "");
}

static int session(struct client *c)
{
	const char *wanted = getenv("ANYNET_TRANSPORT");
	bool ib;

	tell(c, "connecting");
	if (open_control(c) || greet(c))
		return -1;
	tell(c, "versions, settings, clocks");
	if (exchange_facts(c) || compare_clocks(c))
		return -1;
	ib = has_device(c->host->facts, "IB") &&
	     has_device(json_object_get(c->result, "remote"), "IB");
	announce(c, 1 + ib);
	if (measure_ports(c))
		return -1;
	if (!can_reach(c, "server") || !can_reach(c, "client") || is_cut_off(c))
		return 0;
	if ((!wanted || strcmp(wanted, "ib") != 0 || !ib) && measure_plugin(c, "tcp"))
		return -1;
	return ib ? measure_plugin(c, "ib") : 0;
}

/* For programs; print.c asks again. */
static void tell_limits(json_t *runs)
{
	json_t *run;
	size_t i;

	json_array_foreach(runs, i, run)
	{
		if (pair_int(run, "segments", 1, INT64_MAX, 0))
			json_object_set_new(run, "limited_by", json_string(verdict_limit(run)));
	}
}

static void tell_all_limits(json_t *result)
{
	json_t *run;
	size_t i;

	tell_limits(json_object_get(result, "tcp"));
	json_array_foreach(json_object_get(result, "plugin"), i, run)
		tell_limits(json_object_get(run, "runs"));
}

json_t *client_run(const struct client_options *o)
{
	static struct pair_host host; /* too large for a stack */
	struct client c = { .o = o, .host = &host, .fd = -1 };

	pair_host_read(&host, o->plugin);
	c.result = json_pack("{s:s, s:i, s:O, s:[], s:[], s:[]}", "host", o->host, "port", o->port,
			     "local", host.facts, "ports", "tcp", "plugin");
	if (!session(&c))
		pair_send_new(c.fd, json_pack("{s:s}", "op", "bye"), REPLY_MS);
	tell(&c, "");
	if (c.fd >= 0)
		close(c.fd);
	tell_all_limits(c.result);
	json_object_set_new(c.result, "findings", verdict_find(c.result));
	json_object_set_new(c.result, "status",
			    json_integer(findings_status(json_object_get(c.result, "findings"))));
	json_decref(host.facts);
	return c.result;
}
