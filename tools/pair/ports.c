/* SPDX-License-Identifier: Apache-2.0 */
/* Data ports of this end; see ports.h. */
#include "ports.h"

#include <errno.h>
#include <string.h>

#include "dial.h"
#include "tools/shared/address.h"
#include "tools/shared/hex.h"
#include "tools/shared/member.h"

#define RANGE_PORTS 3 /* of a range: the first, a middle one and the last */
#define DEVICES_MAX 8

/* A listener to open, and what the other end is told about it. */
struct place {
	const struct sockaddr_storage *addr;
	const char *address, *device;
	int first, last; /* ports to try, in this order */
};

static void listen_one(struct responder *r, json_t *ports, const struct place *place)
{
	int port = -EADDRINUSE;

	for (int p = place->first; p <= place->last && (port == -EADDRINUSE || port == -EACCES);
	     p++)
		port = responder_listen(r, place->addr, p);
	json_array_append_new(ports,
			      json_pack("{s:s, s:s, s:i, s:s}", "address", place->address, "device",
					place->device, "port", port > 0 ? port : place->first,
					"error", port > 0 ? "" : strerror(-port)));
}

static void listen_range(struct responder *r, json_t *ports, const struct sockaddr_storage *addr,
			 const struct anynet_config *cfg)
{
	int size = cfg->port_max - cfg->port_min + 1;
	int count = size < RANGE_PORTS ? size : RANGE_PORTS;

	if (!cfg->port_min)
		count = size = 1;
	for (int i = 0; i < count; i++) {
		int first = cfg->port_min + i * (size / count);
		int last = first + size / count - 1;

		if (i == count - 1 && cfg->port_min)
			first = last = cfg->port_max;
		listen_one(r, ports, &(struct place){ addr, "", "", first, last });
	}
}

static void listen_devices(struct responder *r, json_t *ports,
			   const struct sockaddr_storage *control, const struct anynet_config *cfg,
			   const struct anynet_probe *probe)
{
	char own[ADDRESS_TEXT], text[ADDRESS_TEXT];

	address_print(control, own);
	for (int i = 0; i < probe->device_count && i < DEVICES_MAX; i++) {
		const struct anynet_device *dev = &probe->devices[i];

		address_print(&dev->addr, text);
		if (dev->transport != ANYNET_TRANSPORT_TCP || !strcmp(own, text) ||
		    address_is_loopback(&dev->addr) != address_is_loopback(control))
			continue;
		listen_one(r, ports,
			   &(struct place){ &dev->addr, text, dev->name, cfg->port_min,
					    cfg->port_max });
	}
}

struct responder *ports_open(int fd, const struct anynet_config *cfg,
			     const struct anynet_probe *probe, json_t **list)
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
	listen_range(r, ports, &control, cfg);
	listen_devices(r, ports, &control, cfg, probe);
	hex_print(responder_token(r), DIAL_TOKEN_BYTES, token);
	*list = json_pack("{s:s, s:o}", "token", token, "ports", ports);
	if (!responder_start(r))
		return r;
	json_decref(*list);
	*list = NULL;
	responder_stop(r);
	return NULL;
}

bool ports_may_dial(int fd, const json_t *facts, const struct sockaddr_storage *to)
{
	struct sockaddr_storage peer, plain = *to;
	char wanted[ADDRESS_TEXT], its[ADDRESS_TEXT];
	const json_t *device;
	size_t i;

	if (!address_peer(fd, &peer))
		return false;
	address_plain(&plain);
	address_plain(&peer);
	if (address_is_loopback(&plain) && !address_is_loopback(&peer))
		return false;
	address_print(&plain, wanted);
	if (!strcmp(wanted, address_print(&peer, its)))
		return true;
	json_array_foreach (json_object_get(facts, "devices"), i, device) {
		if (i < ANYNET_DEVICES_MAX && !strcmp(wanted, member_text(device, "address")))
			return true;
	}
	return false;
}

bool ports_find(int fd, const json_t *facts, const struct request *request, struct dial *dial)
{
	*dial = request->dial;
	if (!dial->to.ss_family) {
		if (!address_peer(fd, &dial->to) || !address_own(fd, &dial->from))
			return false;
		address_plain(&dial->to);
		address_plain(&dial->from);
		address_set_port(&dial->from, 0);
		address_set_port(&dial->to, request->dial_port);
	}
	return ports_may_dial(fd, facts, &dial->to);
}
