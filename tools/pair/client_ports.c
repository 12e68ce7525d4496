/* SPDX-License-Identifier: Apache-2.0 */
/* anynet pair: tests the data ports of both ends, and plain TCP bandwidth through them. */
#include <string.h>

#include <nccl_net/util.h>

#include "client_session.h"
#include "dial.h"
#include "ports.h"
#include "request.h"
#include "tools/shared/judge/rates.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/member.h"
#include "wire.h"

#define HEADERS_4 40 /* IPv4 and TCP headers without options */
#define HEADERS_6 60
#define DIAL_REPLY_MS (6 * DIAL_WAIT_MS + DIAL_MS_MAX + 2000) /* longer than ports_dial */

/* How to reach a data port: from this host, or from the server. */
struct route {
	bool to_server;
	const json_t *port; /* "address", "device", "port", "error" */
	const char *token;
};

/* Connects to one data port. request_parse checks the server's values as the server checks a
 * client's. NULL: the session has failed. */
static json_t *dial(struct client *c, const struct route *r, long long bytes, int ms, int mss)
{
	json_t *message =
		json_pack("{s:s, s:s, s:I, s:s, s:i, s:I, s:i, s:i}", "op", "dial", "address",
			  member_text(r->port, "address"), "port",
			  (json_int_t)member_int(r->port, "port", 0, 65535, 0), "token", r->token,
			  "streams", 1, "bytes", (json_int_t)bytes, "ms", ms, "mss", mss);
	struct request parsed;
	json_t *answer;

	if (request_parse(message, &parsed)) {
		json_decref(message);
		return json_pack("{s:s, s:s}", "state", "failed", "error",
				 "the address cannot be used for connections");
	}
	if (!r->to_server)
		return client_ask(c, "connecting from the other host", message, DIAL_REPLY_MS);
	answer = ports_dial(c->fd, c->host, json_object_get(c->result, "remote"), &parsed,
			    &c->proved);
	json_decref(message);
	return answer;
}

/* Returns the largest common packet size that passes when large packets are lost; 0 = none. */
static int find_passing(struct client *c, const struct route *r)
{
	static const int packets[] = { 8960, 4000, 1492, 1450, 1400, 1300, 1000, 576 };
	const json_t *way = json_object_get(json_object_get(c->result, "way"), "local");
	int headers = strchr(member_text(way, "local"), ':') ? HEADERS_6 : HEADERS_4;
	long long mtu = member_int(way, "mtu", 1, INT32_MAX, 1500);

	client_tell(c, "large packets are lost: searching the largest size that passes");
	for (size_t i = 0; i < ARRAY_SIZE(packets); i++) {
		bool passes;
		json_t *answer;

		if (packets[i] >= mtu)
			continue;
		/* The MSS includes TCP options, so that they do not enlarge the packet. */
		answer = dial(c, r, DIAL_PROBE_BYTES, 1, packets[i] - headers);
		passes = answer && !strcmp(member_text(answer, "state"), "ok");
		json_decref(answer);
		if (passes)
			return packets[i];
	}
	return 0;
}

/* An address of the other end proves itself to the side that connects. If it does not, the plugin uses others. */
static int prove_address(struct client *c, const struct route *r)
{
	json_t *answer;

	if (*member_text(r->port, "error"))
		return 0;
	answer = dial(c, r, 1, 1, 0);
	json_decref(answer);
	return answer ? 0 : -1;
}

static int try_port(struct client *c, const struct route *r)
{
	json_t *list = json_object_get(c->result, "ports"), *answer;
	const json_t *way = json_object_get(json_object_get(c->result, "way"),
					    r->to_server ? "remote" : "local");
	const char *address = member_text(r->port, "address");
	int passes;

	if (*member_text(r->port, "error"))
		answer = json_pack("{s:s, s:s}", "state", "busy", "error",
				   member_text(r->port, "error"));
	else
		answer = dial(c, r, DIAL_PROBE_BYTES, 1, 0);
	if (!answer)
		return -1;
	json_object_set_new(answer, "to", json_string(r->to_server ? "server" : "client"));
	json_object_set_new(answer, "address",
			    json_string(*address ? address : member_text(way, "local")));
	json_object_set_new(answer, "port", json_integer(member_int(r->port, "port", 0, 65535, 0)));
	json_object_set_new(answer, "device", json_string(member_text(r->port, "device")));
	json_array_append_new(list, answer);
	if (strcmp(member_text(answer, "state"), "stalled") != 0)
		return 0;
	passes = find_passing(c, r);
	if (passes)
		json_object_set_new(answer, "passes", json_integer(passes));
	return json_object_get(c->result, "failure") ? -1 : 0;
}

/* Measures one stream of plain TCP through the first reachable port. */
static int try_stream(struct client *c, const struct route *r)
{
	uint64_t began = now_ms();
	json_t *answer, *again;

	client_tell(c, r->to_server ? "bandwidth of TCP, outbound" : "bandwidth of TCP, inbound");
	answer = dial(c, r, c->o->measure.bytes, c->o->measure.ms, 0);
	if (!answer)
		return -1;
	for (int i = 1; !c->o->is_worker && verdict_loses(answer) && i < RATES_ENOUGH; i++) {
		if (!client_has_time(c, began))
			break;
		began = now_ms();
		again = dial(c, r, c->o->measure.bytes, client_repeat_ms(c), 0);
		if (!again) {
			json_decref(answer);
			return -1;
		}
		answer = verdict_less_lost(answer, again);
	}
	json_object_set_new(answer, "to", json_string(r->to_server ? "server" : "client"));
	json_array_append_new(json_object_get(c->result, "tcp"), answer);
	return 0;
}

static int try_ports(struct client *c, const json_t *offer, bool to_server)
{
	const json_t *list = json_object_get(offer, "ports"), *port, *done;
	json_t *first = NULL;
	size_t i;

	client_tell(c, to_server ? "data ports of the other host"
				 : "data ports of this host, from the other host");
	json_array_foreach (list, i, port) {
		const struct route r = { to_server, port, member_text(offer, "token") };

		if (i == PORTS_MAX)
			break;
		if (json_is_true(json_object_get(port, "proof"))) {
			if (prove_address(c, &r))
				return -1;
			continue;
		}
		if (try_port(c, &r))
			return -1;
		done = json_array_get(json_object_get(c->result, "ports"),
				      json_array_size(json_object_get(c->result, "ports")) - 1);
		if (!first && !strcmp(member_text(done, "state"), "ok"))
			first = json_array_get(list, i);
	}
	if (first && c->o->measure.ms) {
		const struct route r = { to_server, first, member_text(offer, "token") };

		return try_stream(c, &r);
	}
	return 0;
}

int client_measure_ports(struct client *c)
{
	json_t *offer, *closed;
	struct responder *responder;
	int ret;

	offer = client_ask(c, "opening data ports on the other host",
			   json_pack("{s:s}", "op", "listen"), CLIENT_REPLY_MS);
	if (!offer)
		return -1;
	if (!json_array_size(json_object_get(offer, "ports"))) {
		json_decref(offer);
		return client_fail(c, "opening data ports on the other host", "",
				   "out of memory or threads");
	}
	ret = try_ports(c, offer, true);
	json_decref(offer);
	if (ret)
		return -1;
	closed = client_ask(c, "closing data ports on the other host",
			    json_pack("{s:s}", "op", "unlisten"), CLIENT_REPLY_MS);
	json_decref(closed);
	if (!closed)
		return -1;
	responder = ports_open(c->fd, c->host, &offer);
	if (!responder)
		return client_fail(c, "opening data ports on this host", "",
				   "out of memory or threads");
	ret = try_ports(c, offer, false);
	json_decref(offer);
	responder_stop(responder);
	return ret;
}
