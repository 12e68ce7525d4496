/* SPDX-License-Identifier: Apache-2.0 */
/* What the measurements mean; see verdict.h. */
#include "verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "wire.h"

#define CLOCK_NOTE_S    1.0  /* logs of the two hosts can no longer be put in order */
#define CLOCK_WARN_S    60.0 /* certificates, tokens and rendezvous stores begin to fail */
#define RETRANSMIT_WARN 0.01 /* of all segments; a queue that is full for a moment costs less */
#define RETRANSMIT_NOTE 0.001
#define LOPSIDED        3.0 /* one direction so many times as fast as the other */
#define LIMITED         0.3 /* of the time that data was under way */
#define IDLE            0.5 /* of the whole time, without anything under way */

static void add(json_t *list, const char *level, const char *means, const char *todo,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static void add(json_t *list, const char *level, const char *means, const char *todo,
		const char *fmt, ...)
{
	char what[1024];
	va_list ap;
	json_t *text;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	text = json_string(what);
	if (!text) /* cut in the middle of a character */
		text = json_string("(something that is no text)");
	json_array_append_new(list, json_pack("{s:s, s:o, s:s, s:s}", "level", level, "what", text,
					      "means", means, "do", todo));
}

/* --- versions and settings --- */

static void versions(json_t *list, const json_t *local, const json_t *remote)
{
	static const struct {
		const char *key, *what, *level, *means, *todo;
	} rows[] = {
		{ "version", "anynet", "warning", "Two versions of the plugin in one job.",
		  "Install the same one on both hosts." },
		{ "nccl", "the NCCL that the loader finds", "warning",
		  "Two versions of NCCL in one job do not work together; what PyTorch or CuPy "
		  "bring along may still be the same.",
		  "Install one version everywhere, and have only one on each host." },
		{ "kernel", "the kernel", "note", "", "" },
	};

	if (pair_int(local, "wire", 0, INT32_MAX, 0) != pair_int(remote, "wire", 0, INT32_MAX, 0))
		add(list, "error", "The two plugins cannot talk to each other.",
		    "Install the same version of anynet on both hosts.",
		    "anynet's wire protocol: %lld here, %lld there",
		    pair_int(local, "wire", 0, INT32_MAX, 0),
		    pair_int(remote, "wire", 0, INT32_MAX, 0));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *here = pair_text(local, rows[i].key);
		const char *there = pair_text(remote, rows[i].key);

		if (strcmp(here, there) != 0)
			add(list, rows[i].level, rows[i].means, rows[i].todo,
			    "%s: %.100s here, %.100s there", rows[i].what, *here ? here : "none",
			    *there ? there : "none");
	}
}

/* Those that name a host's own things may differ. */
static bool is_local_setting(const char *name)
{
	static const char *const parts[] = { "IFNAME", "_HCA",   "DEBUG",     "_FILE",
					     "_LIB",   "HOSTID", "GID_INDEX", "PORT_RANGE" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (strstr(name, parts[i]))
			return true;
	}
	return false;
}

static void setting(json_t *list, const char *name, const json_t *here, const json_t *there)
{
	const char *a = json_string_value(here), *b = json_string_value(there);

	if (a && b && !strcmp(a, b))
		return;
	add(list, is_local_setting(name) ? "note" : "warning",
	    is_local_setting(name)
		    ? ""
		    : "Ranks that are set up differently wait for each other in vain, or "
		      "for something that does not come.",
	    is_local_setting(name) ? "" : "Set it alike on both hosts, or nowhere.",
	    "%.128s: %s%.200s%s here, %s%.200s%s there", name, a ? "'" : "", a ? a : "not set",
	    a ? "'" : "", b ? "'" : "", b ? b : "not set", b ? "'" : "");
}

static void settings(json_t *list, const json_t *local, const json_t *remote)
{
	json_t *here = json_object_get(local, "env"), *there = json_object_get(remote, "env");
	const char *name;
	json_t *value;

	json_object_foreach(here, name, value)
		setting(list, name, value, json_object_get(there, name));
	json_object_foreach(there, name, value)
	{
		if (!json_object_get(here, name))
			setting(list, name, NULL, value);
	}
}

static int count_devices(const json_t *facts, const char *transport)
{
	const json_t *devices = json_object_get(facts, "devices"), *dev;
	size_t i;
	int count = 0;

	json_array_foreach(devices, i, dev) count +=
		!*transport || !strcmp(pair_text(dev, "transport"), transport);
	return count;
}

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

bool verdict_is_cut_off(const json_t *facts, const json_t *way)
{
	const json_t *devices = json_object_get(facts, "devices"), *dev;
	size_t i;

	if (!json_array_size(devices))
		return true;
	if (is_loopback(pair_text(way, "local")))
		return false;
	json_array_foreach(devices, i, dev)
	{
		if (!is_loopback(pair_text(dev, "address")))
			return false;
	}
	return true;
}

static void loopback(json_t *list, const json_t *facts, const json_t *way, const char *where)
{
	if (json_array_size(json_object_get(facts, "devices")) && verdict_is_cut_off(facts, way))
		add(list, "error", "It cannot reach another host.",
		    "Look at NCCL_SOCKET_IFNAME on that host, and whether its interface is up; `anynet "
		    "devices` says what was looked at.",
		    "the plugin is given only the loopback interface %s", where);
}

static void devices(json_t *list, const json_t *local, const json_t *remote)
{
	int here = count_devices(local, "IB"), there = count_devices(remote, "IB");

	if (!count_devices(local, "") || !count_devices(remote, ""))
		add(list, "error", "NCCL is offered no network there.",
		    "Run `anynet devices` on that host: it says what was looked at, and why not.",
		    "no usable device %s", count_devices(local, "") ? "there" : "here");
	if (!here != !there)
		add(list, "warning", "This pair goes over TCP, which is slower.",
		    "Run `anynet devices` on the host without; or leave it at that.",
		    "InfiniBand or RoCE only %s", here ? "here" : "there");
}

/* --- clocks and the way --- */

static void clocks(json_t *list, const json_t *clock)
{
	double offset = pair_real(clock, "offset_ns") / 1e9;
	double sure = fabs(offset) - pair_real(clock, "error_ns") / 1e9;

	if (sure <= CLOCK_NOTE_S)
		return;
	add(list, "warning",
	    sure > CLOCK_WARN_S
		    ? "Time-outs that are agreed on as times of day, certificates and tokens fail."
		    : "Lines in the logs of the two hosts cannot be put in order.",
	    "Run NTP or PTP on both hosts (`chronyc tracking`, `timedatectl`).",
	    "the clock there is %.3f s %s", fabs(offset), offset > 0 ? "ahead" : "behind");
}

static void way(json_t *list, const json_t *both)
{
	const json_t *here = json_object_get(both, "local"),
		     *there = json_object_get(both, "remote");
	long long mtu_here = pair_int(here, "mtu", 1, INT32_MAX, 0);
	long long mtu_there = pair_int(there, "mtu", 1, INT32_MAX, 0);

	if (mtu_here && mtu_there && mtu_here != mtu_there)
		add(list, "warning",
		    "Where nothing between them says so, large packets are lost and transfers hang.",
		    "Give both interfaces, and the switches between, the same MTU.",
		    "MTU: %lld on %.16s here, %lld on %.16s there", mtu_here,
		    pair_text(here, "interface"), mtu_there, pair_text(there, "interface"));
	if (strcmp(pair_text(here, "local"), pair_text(there, "peer")) != 0 &&
	    *pair_text(there, "peer"))
		add(list, "warning",
		    "The other host cannot dial the address that this one has: NCCL hands out that one.",
		    "Use addresses that both hosts can reach (NCCL_SOCKET_IFNAME); take the address "
		    "translation out of the way.",
		    "NAT: this host is %.64s and the other one sees %.64s",
		    pair_text(here, "local"), pair_text(there, "peer"));
}

/* --- ports --- */

static const struct {
	const char *state, *means, *todo;
} causes[] = {
	{ "refused", "A firewall rejects it, or the address belongs to another host.",
	  "Look at the firewall of that host and on the way (`nft list ruleset`); if only some ports "
	  "are open, set ANYNET_PORT_RANGE to them on all hosts." },
	{ "no answer", "Filtered? A firewall that drops, a wrong interface or a missing route.",
	  "Open the port in the firewall of that host and on the way; if only some are open, set "
	  "ANYNET_PORT_RANGE to them on all hosts. Wrong interface: NCCL_SOCKET_IFNAME." },
	{ "unreachable", "There is no way to that address.",
	  "Look at the routes (`ip route get ADDRESS`); NCCL_SOCKET_IFNAME keeps interfaces out that "
	  "the others cannot reach." },
	{ "stalled",
	  "The connection is made, but what is sent does not arrive: large packets are lost.",
	  "An MTU black hole: give all interfaces and switches on the way the same MTU, or let ICMP "
	  "\"fragmentation needed\" through; for now `sysctl net.ipv4.tcp_mtu_probing=1` on both." },
	{ "not ours",
	  "Another program answers at that address and port, or something between cuts it.",
	  "See what listens there (`ss -ltnp`), and for proxies on the way." },
	{ "busy", "All ports of ANYNET_PORT_RANGE that were tried are taken.",
	  "Give a larger range, or end what has them (`ss -ltnp`)." },
};

static void port(json_t *list, const json_t *p)
{
	const char *state = pair_text(p, "state"), *to = pair_text(p, "to");
	const char *means = "It could not be tried.", *todo = "See the error.";
	char passes[80] = "";

	if (!strcmp(state, "ok"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(causes); i++) {
		if (!strcmp(state, causes[i].state)) {
			means = causes[i].means;
			todo = causes[i].todo;
		}
	}
	if (!strcmp(state, "stalled") && pair_int(p, "passes", 1, 65535, 0))
		snprintf(passes, sizeof(passes), "; packets of %lld bytes pass",
			 pair_int(p, "passes", 1, 65535, 0));
	add(list, "error", means, todo, "from %s to %s, %.64s port %lld: %.20s%s%.100s%s%s",
	    strcmp(to, "server") ? "there" : "here", strcmp(to, "server") ? "here" : "there",
	    pair_text(p, "address"), pair_int(p, "port", 0, 65535, 0), state,
	    *pair_text(p, "error") ? " (" : "", pair_text(p, "error"),
	    *pair_text(p, "error") ? ")" : "", passes);
}

/* --- streams --- */

const char *verdict_limit(const json_t *s)
{
	double whole = pair_real(s, "us") * anynet_max(1, (size_t)pair_int(s, "streams", 1, 64, 1));
	double busy = pair_real(s, "busy_us");

	if (busy <= 0 || busy < IDLE * whole)
		return "sender";
	if (pair_real(s, "rwnd_limited_us") > LIMITED * busy)
		return "receiver's window";
	if (pair_real(s, "sndbuf_limited_us") > LIMITED * busy)
		return "sender's buffer";
	return "network";
}

static void stream(json_t *list, const json_t *s)
{
	const char *to = strcmp(pair_text(s, "to"), "server") ? "back" : "there";
	double lost = pair_real(s, "segments") > 0
			      ? pair_real(s, "retransmits") / pair_real(s, "segments")
			      : 0;

	if (strcmp(pair_text(s, "state"), "ok") != 0)
		return;
	if (lost > RETRANSMIT_NOTE)
		add(list, lost > RETRANSMIT_WARN ? "warning" : "note",
		    "Packets are lost on the way: a bad cable or optic, a full switch, or a shaper.",
		    "Look at the error counters of NICs and switches (`ethtool -S`, `nstat`).",
		    "%.2f %% of the packets on the way %s were sent again", 100 * lost, to);
	if (!strcmp(verdict_limit(s), "sender's buffer"))
		add(list, "note", "", "",
		    "on the way %s the sender's socket buffer is the limit "
		    "(net.ipv4.tcp_wmem)",
		    to);
	if (!strcmp(verdict_limit(s), "receiver's window"))
		add(list, "note", "", "",
		    "on the way %s the receiver's window is the limit "
		    "(net.ipv4.tcp_rmem, or a busy CPU there)",
		    to);
}

static double best_rate(const json_t *runs, const char *to)
{
	const json_t *run;
	double best = 0;
	size_t i;

	json_array_foreach(runs, i, run)
	{
		double us = pair_real(run, "us");

		if (!strcmp(pair_text(run, "to"), to) && us > 0)
			best = fmax(best, pair_real(run, "bytes") / us);
	}
	return best;
}

static void plugin(json_t *list, const json_t *p)
{
	const json_t *runs = json_object_get(p, "runs");
	double there = best_rate(runs, "server"), here = best_rate(runs, "client");

	if (*pair_text(p, "error"))
		add(list, "error", "NCCL's connections between these hosts would fail in this way.",
		    "The text says what to look at; the ports above come first if one of them fails.",
		    "through the plugin (%.8s): %.600s", pair_text(p, "transport"),
		    pair_text(p, "error"));
	if (there > 0 && here > 0 && (there > LOPSIDED * here || here > LOPSIDED * there))
		add(list, "warning",
		    "One direction is much slower: a half-broken link, a shaper, or a busy host.",
		    "Run it again on idle hosts; look at the slow sender's NIC and switch port.",
		    "through the plugin (%.8s): %.2f GB/s there, %.2f GB/s back",
		    pair_text(p, "transport"), there / 1e3, here / 1e3);
}

static void failure(json_t *list, const json_t *f)
{
	if (f)
		add(list, "error", "The other measurements could not be made.",
		    *pair_text(f, "do") ? pair_text(f, "do")
					: "Run it again; look at what `anynet serve` printed.",
		    "%.200s: %.300s", pair_text(f, "step"), pair_text(f, "reason"));
}

static void append_level(json_t *to, const json_t *from, const char *level)
{
	json_t *finding;
	size_t i;

	json_array_foreach(from, i, finding)
	{
		if (!strcmp(pair_text(finding, "level"), level))
			json_array_append(to, finding);
	}
}

json_t *verdict_find(const json_t *result)
{
	const json_t *local = json_object_get(result, "local");
	const json_t *remote = json_object_get(result, "remote"), *item;
	json_t *list = json_array(), *sorted = json_array();
	size_t i;

	failure(list, json_object_get(result, "failure"));
	json_array_foreach(json_object_get(result, "ports"), i, item) port(list, item);
	json_array_foreach(json_object_get(result, "plugin"), i, item) plugin(list, item);
	if (json_is_object(remote)) {
		versions(list, local, remote);
		settings(list, local, remote);
		devices(list, local, remote);
		loopback(list, local, json_object_get(json_object_get(result, "way"), "local"),
			 "here");
		loopback(list, remote, json_object_get(json_object_get(result, "way"), "remote"),
			 "there");
		clocks(list, json_object_get(result, "clock"));
		way(list, json_object_get(result, "way"));
	}
	json_array_foreach(json_object_get(result, "tcp"), i, item) stream(list, item);
	append_level(sorted, list, "error");
	append_level(sorted, list, "warning");
	append_level(sorted, list, "note");
	json_decref(list);
	return sorted;
}

int verdict_status(const json_t *findings)
{
	const json_t *finding;
	int status = 0;
	size_t i;

	json_array_foreach(findings, i, finding)
	{
		if (!strcmp(pair_text(finding, "level"), "error"))
			return 2;
		if (!strcmp(pair_text(finding, "level"), "warning"))
			status = 1;
	}
	return status;
}
