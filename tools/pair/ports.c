/* SPDX-License-Identifier: Apache-2.0 */
/* Data ports of this end; see ports.h. */
#include "ports.h"

#include <errno.h>
#include <string.h>

#include "dial.h"
#include "tools/shared/address.h"
#include "tools/shared/hex.h"
#include "tools/shared/member.h"

#define RANGE_PORTS 3 /* of a range: one of its first, middle and last third */
#define REPORTED    8 /* maximum devices whose ports are reported; others only prove their addresses */
#define NO_DEVICE   "the address does not belong to one of that host's devices"

/* A listener to open, and what the other end is told about it. */
struct place {
	const struct sockaddr_storage *addr;
	const char *address, *device;
	int first, last; /* ports to try, in this order, which may be descending */
	bool proof;
};

/* Returns the port of the listener, or a negative errno. */
static int listen_at(struct responder *r, const struct place *place)
{
	int step = place->last < place->first ? -1 : 1, port;

	for (int p = place->first;; p += step) {
		port = responder_listen(r, place->addr, p);
		if ((port != -EADDRINUSE && port != -EACCES) || p == place->last)
			return port;
	}
}

/* `port` is the result of listen_at. */
static void offer(json_t *ports, const struct place *place, int port)
{
	json_array_append_new(ports,
			      json_pack("{s:s, s:s, s:i, s:s, s:b}", "address", place->address,
					"device", place->device, "port",
					port > 0 ? port : place->first, "error",
					port > 0 ? "" : strerror(-port), "proof", place->proof));
}

/* A busy port is no finding, for the next one serves as well. That all are busy is one. */
static void listen_range(struct responder *r, json_t *ports, const struct sockaddr_storage *addr,
			 const struct anynet_config *cfg)
{
	struct place place = { addr, "", "", cfg->port_min, cfg->port_max, false };
	int size = cfg->port_max - cfg->port_min + 1, port = 0;
	int count = !cfg->port_min ? 1 : size < RANGE_PORTS ? size : RANGE_PORTS;

	for (int i = 0; i < count; i++) {
		int first = cfg->port_min + i * size / count;
		int last = cfg->port_min + (i + 1) * size / count - 1;
		bool descends = i && i == count - 1; /* to the last port, if possible */

		if (cfg->port_min) {
			place.first = descends ? last : first;
			place.last = descends ? first : last;
		}
		port = listen_at(r, &place);
		if (port > 0)
			offer(ports, &place, port);
	}
	place.first = cfg->port_min;
	if (!json_array_size(ports))
		offer(ports, &place, port);
}

static bool is_offered(const json_t *ports, const char *address)
{
	const json_t *port;
	size_t i;

	json_array_foreach (ports, i, port) {
		if (!strcmp(member_text(port, "address"), address))
			return true;
	}
	return false;
}

/* The plugin's handles name these addresses, so each must be able to prove itself. */
static void listen_devices(struct responder *r, json_t *ports,
			   const struct sockaddr_storage *control, const struct anynet_config *cfg,
			   const struct anynet_probe *probe)
{
	char own[ADDRESS_TEXT], text[ADDRESS_TEXT];

	address_print(control, own);
	for (int i = 0; i < probe->device_count && json_array_size(ports) < PORTS_MAX; i++) {
		const struct anynet_device *dev = &probe->devices[i];
		struct place place = { &dev->addr,    text,          dev->name,
				       cfg->port_min, cfg->port_max, false };

		address_print(&dev->addr, text);
		if (!strcmp(own, text) || is_offered(ports, text) ||
		    (address_is_loopback(&dev->addr) && !address_is_loopback(control)))
			continue;
		place.proof =
			probe->stands_by || i >= REPORTED || dev->transport != ANYNET_TRANSPORT_TCP;
		offer(ports, &place, listen_at(r, &place));
	}
}

struct responder *ports_open(int fd, const struct pair_host *host, json_t **list)
{
	struct responder *r = responder_new();
	struct sockaddr_storage control;
	json_t *ports = json_array();
	char token[HEX_TEXT(DIAL_TOKEN_BYTES)];

	*list = NULL;
	if (!r || !address_own(fd, &control)) {
		json_decref(ports);
		responder_stop(r);
		return NULL;
	}
	address_plain(&control);
	listen_range(r, ports, &control, &host->cfg);
	listen_devices(r, ports, &control, &host->cfg, &host->probe);
	listen_devices(r, ports, &control, &host->cfg, &host->standby);
	hex_print(responder_token(r), DIAL_TOKEN_BYTES, token);
	*list = json_pack("{s:s, s:o}", "token", token, "ports", ports);
	if (!responder_start(r))
		return r;
	json_decref(*list);
	*list = NULL;
	responder_stop(r);
	return NULL;
}

/* Returns the index of the device in the facts with this address; -1 = none. */
static int device_with(const json_t *facts, const char *address)
{
	const json_t *device;
	size_t i;

	json_array_foreach (json_object_get(facts, "devices"), i, device) {
		if (!strcmp(address, member_text(device, "address")))
			return (int)i;
	}
	return -1;
}

static bool is_claimed(const json_t *facts, const char *address)
{
	const json_t *standby;
	size_t i;

	json_array_foreach (json_object_get(facts, "standby"), i, standby) {
		if (json_is_string(standby) && !strcmp(address, json_string_value(standby)))
			return true;
	}
	return device_with(facts, address) >= 0;
}

bool ports_may_dial(const struct sockaddr_storage *peer, const json_t *facts,
		    const struct sockaddr_storage *to)
{
	struct sockaddr_storage plain = *to, its = *peer;
	char text[ADDRESS_TEXT];

	address_plain(&plain);
	address_plain(&its);
	if (address_is_same(&plain, &its))
		return true;
	if (!address_is_unicast(&plain) || (address_is_local(&plain) && !address_is_local(&its)))
		return false;
	return is_claimed(facts, address_print(&plain, text));
}

/* The plugin binds its sockets to its own device. Where rules of the kernel's routing depend on the source, that makes a
 * difference. Returns false if there is no other source to try. */
static bool choose_source(const struct pair_host *host, const json_t *facts, struct dial *dial)
{
	char text[ADDRESS_TEXT];
	int i = device_with(facts, address_print(&dial->to, text));

	if (dial->from.ss_family || i < 0 || i >= host->probe.device_count)
		return false;
	dial->from = host->probe.devices[i].addr;
	return dial->from.ss_family == dial->to.ss_family;
}

static bool has_state(const json_t *result, const char *state)
{
	return !strcmp(member_text(result, "state"), state);
}

json_t *ports_dial(int fd, const struct pair_host *host, const json_t *facts,
		   const struct request *request, struct proved *proved)
{
	struct dial dial = request->dial;
	struct sockaddr_storage peer;
	json_t *result;

	if (!address_peer(fd, &peer))
		return json_pack("{s:s, s:s}", "state", "failed", "error", strerror(errno));
	if (!dial.to.ss_family) {
		dial.to = peer;
		address_own(fd, &dial.from);
		address_plain(&dial.to);
		address_plain(&dial.from);
		address_set_port(&dial.from, 0);
		address_set_port(&dial.to, request->dial_port);
	}
	if (!ports_may_dial(&peer, facts, &dial.to))
		return json_pack("{s:s, s:s}", "state", "failed", "error", NO_DEVICE);
	result = dial_run(&dial);
	if ((has_state(result, "no answer") || has_state(result, "unreachable")) &&
	    choose_source(host, facts, &dial)) {
		json_decref(result);
		result = dial_run(&dial);
	}
	if (has_state(result, "ok"))
		proved_add(proved, &dial.to);
	return result;
}
