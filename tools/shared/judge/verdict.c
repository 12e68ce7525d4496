/* SPDX-License-Identifier: Apache-2.0 */
/* Findings from measurements; see verdict.h. */
#include "verdict.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "finding.h"
#include "hosts.h"
#include "rates.h"
#include "tools/shared/member.h"

#define CONNECTIONS_MAX 512  /* maximum number of connections of a measurement */
#define CLOCK_NOTE_S    1.0  /* above this, the logs of the two hosts cannot be ordered */
#define CLOCK_WARN_S    60.0 /* above this, certificates, tokens and rendezvous stores fail */
#define RETRANSMIT_WARN 0.01 /* share of all segments; a queue that overflows briefly stays below */
#define RETRANSMIT_NOTE 0.001
#define LIMITED         0.3 /* share of the time with data in flight */
#define FILLED          0.5 /* share of the receiver's window that must be in use */
#define IDLE            0.5 /* share of the whole time with nothing in flight */

/* Where a measurement goes "to", and the other host. */
static struct route {
	const char *from, *to;
} route_of(const struct verdict_hosts *hosts, const json_t *measurement)
{
	if (strcmp(member_text(measurement, "to"), "server") != 0)
		return (struct route){ hosts->server, hosts->client };
	return (struct route){ hosts->client, hosts->server };
}

/* --- clocks and the way --- */

static void clocks(json_t *list, const json_t *clock, const struct verdict_hosts *hosts)
{
	double offset = member_real(clock, "offset_ns") / 1e9;
	double sure = fabs(offset) - member_real(clock, "error_ns") / 1e9;

	if (sure <= CLOCK_NOTE_S)
		return;
	judge_add(list,
		  &(struct advice){
			  "clock", "warning",
			  sure > CLOCK_WARN_S
				  ? "Timeouts that are agreed on as times of day, certificates and "
				    "tokens fail."
				  : "The log lines of the two hosts cannot be put in order.",
			  "Run NTP or PTP on both hosts (`chronyc tracking`, `timedatectl`)." },
		  "the clock of %.64s is %.3f s %s that of %.64s", hosts->server, fabs(offset),
		  offset > 0 ? "ahead of" : "behind", hosts->client);
}

static void way(json_t *list, const json_t *both, const struct verdict_hosts *hosts)
{
	const json_t *here = json_object_get(both, "local"),
		     *there = json_object_get(both, "remote");
	long long mtu_here = member_int(here, "mtu", 1, INT32_MAX, 0);
	long long mtu_there = member_int(there, "mtu", 1, INT32_MAX, 0);

	if (mtu_here && mtu_there && mtu_here != mtu_there)
		judge_add(list,
			  &(struct advice){
				  "mtu", "warning",
				  "If no ICMP message reports it, large packets are lost and "
				  "transfers hang.",
				  "Set the same MTU on both interfaces and on the switches between "
				  "them." },
			  "MTU: %lld on %.16s of %.64s, %lld on %.16s of %.64s", mtu_here,
			  member_text(here, "interface"), hosts->client, mtu_there,
			  member_text(there, "interface"), hosts->server);
	if (strcmp(member_text(here, "local"), member_text(there, "peer")) != 0 &&
	    *member_text(there, "peer"))
		judge_add(list,
			  &(struct advice){
				  "nat", "warning",
				  "NCCL gives its peers the address of the interface, to which "
				  "they cannot connect.",
				  "Use addresses that both hosts can reach (NCCL_SOCKET_IFNAME); "
				  "remove the address translation." },
			  "NAT: the address of %.64s is %.64s, but %.64s sees %.64s", hosts->client,
			  member_text(here, "local"), hosts->server, member_text(there, "peer"));
}

/* --- ports --- */

static const struct {
	const char *state, *why, *fix;
} causes[] = {
	{ "refused", "A firewall rejects it, or the address belongs to another host.",
	  "Check the firewalls of that host and on the path (`nft list ruleset`). If only some "
	  "ports are open, set ANYNET_PORT_RANGE to them on all hosts." },
	{ "no answer",
	  "Possible causes: a firewall that drops packets, a wrong interface or a "
	  "missing route.",
	  "Open the port in the firewalls of that host and on the path. If only some ports are "
	  "open, set ANYNET_PORT_RANGE to them on all hosts. Wrong interface: NCCL_SOCKET_IFNAME." },
	{ "unreachable", "There is no route to that address.",
	  "Check the routes (`ip route get ADDRESS`); NCCL_SOCKET_IFNAME excludes interfaces "
	  "that the others cannot reach." },
	{ "stalled",
	  "The connection is established, but data does not arrive: large packets are lost.",
	  "An MTU black hole: set the same MTU on all interfaces and switches on the path, or "
	  "let ICMP \"fragmentation needed\" pass; workaround: `sysctl "
	  "net.ipv4.tcp_mtu_probing=1` on both." },
	{ "not anynet",
	  "Another program answers at that address and port, or a device between the hosts cuts "
	  "the connection.",
	  "Check which program listens there (`ss -ltnp`), and proxies on the path." },
	{ "busy", "No port of ANYNET_PORT_RANGE can be opened there.",
	  "Set a larger range, or end the programs that use it (`ss -ltnp`)." },
};

static void port(json_t *list, const json_t *p, const struct verdict_hosts *hosts)
{
	struct route route = route_of(hosts, p);
	const char *state = member_text(p, "state"), *why = "The test could not run.";
	const char *fix = "Check what the message names.";
	char passes[80] = "";

	if (!strcmp(state, "ok"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(causes); i++) {
		if (!strcmp(state, causes[i].state)) {
			why = causes[i].why;
			fix = causes[i].fix;
		}
	}
	if (!strcmp(state, "stalled") && member_int(p, "passes", 1, 65535, 0))
		snprintf(passes, sizeof(passes), "; packets of %lld bytes pass",
			 member_int(p, "passes", 1, 65535, 0));
	judge_add(list, &(struct advice){ "port", "error", why, fix },
		  "from %.64s to %.64s, %.64s port %lld: %.20s%s%.100s%s%s", route.from, route.to,
		  member_text(p, "address"), member_int(p, "port", 0, 65535, 0), state,
		  *member_text(p, "error") ? " (" : "", member_text(p, "error"),
		  *member_text(p, "error") ? ")" : "", passes);
}

/* --- streams --- */

/*
 * The receiver's window limited the sender. Is the window too small, or does the receiver read too
 * slowly? A receiver that keeps up leaves the whole window to data in flight. A receiver that does
 * not has the data in its buffer and advertises less and less. window_bytes is the window at the
 * end of the run, when everything had been read.
 */
static bool fills_window(const json_t *s)
{
	double window = member_real(s, "window_bytes"), us = member_real(s, "us");

	/* Old kernels do not report it. */
	return window <= 0 || us <= 0 ||
	       member_real(s, "bytes") / us * member_real(s, "rtt_us") > FILLED * window;
}

const char *verdict_limit(const json_t *s)
{
	double whole =
		member_real(s, "us") * (double)member_int(s, "streams", 1, CONNECTIONS_MAX, 1);
	double busy = member_real(s, "busy_us");

	if (busy <= 0 || busy < IDLE * whole)
		return "sender";
	if (member_real(s, "rwnd_limited_us") > LIMITED * busy)
		return fills_window(s) ? "receiver's window" : "receiver";
	if (member_real(s, "sndbuf_limited_us") > LIMITED * busy)
		return "sender's buffer";
	return "network";
}

double verdict_loss(const json_t *s)
{
	double segments = member_real(s, "segments");

	return segments > 0 ? member_real(s, "retransmits") / segments : 0;
}

bool verdict_loses(const json_t *s)
{
	return !strcmp(member_text(s, "state"), "ok") && verdict_loss(s) > RETRANSMIT_WARN;
}

json_t *verdict_less_lost(json_t *one, json_t *other)
{
	json_t *losses = json_object_get(one, "losses"), *better;

	if (strcmp(member_text(other, "state"), "ok") != 0) {
		json_decref(other);
		return one;
	}
	losses = losses ? json_incref(losses) : json_pack("[f]", verdict_loss(one));
	json_array_append_new(losses, json_real(verdict_loss(other)));
	better = verdict_loss(other) < verdict_loss(one) ? other : one;
	json_object_set_new(better, "losses", losses);
	json_decref(better == one ? other : one);
	return better;
}

/* True if a virtual interface hides the cable on either host. */
static bool is_virtual(const json_t *result)
{
	const json_t *both = json_object_get(result, "way");

	return json_is_true(json_object_get(json_object_get(both, "local"), "virtual")) ||
	       json_is_true(json_object_get(json_object_get(both, "remote"), "virtual"));
}

/* Writes " (5 runs: 1.20 to 2.31 %)". */
static const char *spread(const json_t *losses, char *text, size_t room)
{
	double least = INFINITY, most = 0;
	const json_t *loss;
	size_t i;

	*text = '\0';
	json_array_foreach (losses, i, loss) {
		least = fmin(least, json_number_value(loss));
		most = fmax(most, json_number_value(loss));
	}
	if (json_array_size(losses) > 1)
		snprintf(text, room, " (%zu runs: %.2f to %.2f %%)", json_array_size(losses),
			 100 * least, 100 * most);
	return text;
}

static void stream(json_t *list, const json_t *s, const struct verdict_hosts *hosts,
		   bool is_virtual)
{
	char runs[80];
	struct route route = route_of(hosts, s);
	double lost = verdict_loss(s);

	if (strcmp(member_text(s, "state"), "ok") != 0)
		return;
	if (lost > RETRANSMIT_NOTE)
		judge_add(list,
			  &(struct advice){
				  "loss", lost > RETRANSMIT_WARN ? "warning" : "note",
				  is_virtual
					  ? "Packets are lost on the path: a full queue, a shaper, "
					    "or a busy host. One of the interfaces is virtual: the "
					    "network below it is not visible from here."
					  : "Packets are lost on the path: a bad cable or optic, a "
					    "full switch, or a shaper.",
				  is_virtual ? "Check queues and drops of the interfaces (`tc -s "
					       "qdisc`, `ip -s link`), on both hosts and on the "
					       "machines that run them."
					     : "Check the error counters of NICs and switches "
					       "(`ethtool -S`, `nstat`)." },
			  "%.2f %% of the packets from %.64s to %.64s were retransmitted%s",
			  100 * lost, route.from, route.to,
			  spread(json_object_get(s, "losses"), runs, sizeof(runs)));
	if (!strcmp(verdict_limit(s), "sender's buffer"))
		judge_add(list, &(struct advice){ "limit", "note", "", "" },
			  "from %.64s to %.64s: the sender's socket buffer is the bottleneck "
			  "(net.ipv4.tcp_wmem)",
			  route.from, route.to);
	if (!strcmp(verdict_limit(s), "receiver's window"))
		judge_add(list, &(struct advice){ "limit", "note", "", "" },
			  "from %.64s to %.64s: the receiver's window is the bottleneck "
			  "(net.ipv4.tcp_rmem)",
			  route.from, route.to);
	if (!strcmp(verdict_limit(s), "receiver"))
		judge_add(list, &(struct advice){ "limit", "note", "", "" },
			  "from %.64s to %.64s: the receiver is the bottleneck: it does not read "
			  "the data as fast as it arrives (busy CPU)",
			  route.from, route.to);
}

/* With ANYNET_TRANSPORT=auto, comms use TCP then. */
static void plugin_verbs(json_t *list, const json_t *p)
{
	judge_add(
		list,
		&(struct advice){
			"plugin", "warning",
			"This pair uses TCP, which is slower; with ANYNET_TRANSPORT=ib, or "
			"without anynet, it would fail.",
			"Check what the message names: links, GIDs and routes between the ports of "
			"both hosts." },
		"InfiniBand or RoCE does not work between them: %.600s", member_text(p, "error"));
}

static void plugin(json_t *list, const json_t *p, const struct verdict_hosts *hosts,
		   bool is_virtual)
{
	struct rates there, back;

	if (*member_text(p, "error") && !strcmp(member_text(p, "transport"), "ib"))
		plugin_verbs(list, p);
	else if (*member_text(p, "error"))
		judge_add(list,
			  &(struct advice){
				  "plugin", "error",
				  "NCCL's connections between these hosts would fail in this way.",
				  "Check what the message names; if one of the ports above fails, "
				  "start there." },
			  "through the plugin (%.8s): %.600s", member_text(p, "transport"),
			  member_text(p, "error"));
	rates_read(&there, p, "server");
	rates_read(&back, p, "client");
	/* A pair with fewer measurements is not judged by its rates. */
	if (there.count >= RATES_ENOUGH && back.count >= RATES_ENOUGH &&
	    rates_differ(&there, &back))
		judge_add(
			list,
			&(struct advice){
				"lopsided", "warning",
				is_virtual
					? "One direction is much slower: a shaper, or a busy host."
					: "One direction is much slower: a faulty link, a shaper, or "
					  "a busy host.",
				is_virtual ? "Measure again on idle hosts; check `tc qdisc` on the "
					     "slow sender, and on the machine that runs it."
					   : "Measure again on idle hosts; check the slow sender's "
					     "NIC and switch port." },
			"through the plugin (%.8s), %zu measurements: %.2f (%.2f to %.2f) GB/s to "
			"%.64s, %.2f (%.2f to %.2f) GB/s to %.64s",
			member_text(p, "transport"), there.count, rates_median(&there) / 1e3,
			there.of[0] / 1e3, there.of[there.count - 1] / 1e3, hosts->server,
			rates_median(&back) / 1e3, back.of[0] / 1e3, back.of[back.count - 1] / 1e3,
			hosts->client);
}

static void failure(json_t *list, const json_t *f)
{
	if (f)
		judge_add(list,
			  &(struct advice){
				  "failure", "error", "The remaining measurements were not made.",
				  *member_text(f, "fix")
					  ? member_text(f, "fix")
					  : "Measure again; read the output of `anynet serve`." },
			  "%.200s: %.300s", member_text(f, "step"), member_text(f, "reason"));
}

static void link_findings(json_t *list, const json_t *result, const struct verdict_hosts *hosts)
{
	const json_t *item;
	size_t i;

	failure(list, json_object_get(result, "failure"));
	json_array_foreach (json_object_get(result, "ports"), i, item)
		port(list, item, hosts);
	json_array_foreach (json_object_get(result, "plugin"), i, item)
		plugin(list, item, hosts, is_virtual(result));
	clocks(list, json_object_get(result, "clock"), hosts);
	way(list, json_object_get(result, "way"), hosts);
	json_array_foreach (json_object_get(result, "tcp"), i, item)
		stream(list, item, hosts, is_virtual(result));
}

json_t *verdict_link(const json_t *result, const struct verdict_hosts *hosts)
{
	json_t *list = json_array();

	link_findings(list, result, hosts);
	return findings_sorted(list);
}

bool verdict_is_unmeasured(const json_t *findings)
{
	const json_t *finding;
	bool unmeasured = false;
	size_t i;

	json_array_foreach (findings, i, finding) {
		const char *kind = member_text(finding, "id");

		if (strcmp(member_text(finding, "level"), "error") != 0)
			continue;
		if (strcmp(kind, "failure") != 0 && strcmp(kind, "missing") != 0)
			return false;
		unmeasured = true;
	}
	return unmeasured;
}

json_t *verdict_find(const json_t *result)
{
	static const struct verdict_hosts names = { "this host", "the other host" };
	const json_t *both = json_object_get(result, "way");
	json_t *list = json_array(), *hosts;

	link_findings(list, result, &names);
	if (json_is_object(json_object_get(result, "remote"))) {
		hosts = json_pack("[{s:s, s:O?, s:O?}, {s:s, s:O, s:O?}]", "name", names.client,
				  "facts", json_object_get(result, "local"), "way",
				  json_object_get(both, "local"), "name", names.server, "facts",
				  json_object_get(result, "remote"), "way",
				  json_object_get(both, "remote"));
		judge_hosts(list, hosts);
		json_decref(hosts);
	}
	return findings_sorted(list);
}
