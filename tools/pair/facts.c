/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the facts of a host: versions, settings, devices; see facts.h. */
#include "facts.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nccl_net/wire.h>

#include "plugin/selector.h"
#include "tools/shared/address.h"
#include "tools/shared/clean.h"
#include "tools/shared/probe.h"
#include "tools/shared/secret_name.h"
#include "wire.h"

extern char **environ;

static json_t *environment(void)
{
	json_t *env = json_object();
	char name[128], value[FACTS_VALUE_MAX];

	for (char **at = environ; *at && json_object_size(env) < FACTS_ENV_MAX; at++) {
		const char *equals = strchr(*at, '=');

		if (!equals || (size_t)(equals - *at) >= sizeof(name) ||
		    (strncmp(*at, "NCCL_", 5) != 0 && strncmp(*at, "ANYNET_", 7) != 0))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(equals - *at), *at);
		clean(value, sizeof(value), equals + 1, strlen(equals + 1));
		if (is_secret_name(name))
			strcpy(value, "(set)");
		json_object_set_new(env, name, json_string(value));
	}
	return env;
}

static json_t *devices(const struct anynet_probe *probe)
{
	json_t *list = json_array();

	for (int i = 0; i < probe->device_count; i++) {
		json_t *device = probe_device(&probe->devices[i]);
		char name[IFNAMSIZ];

		json_object_set_new(device, "mtu",
				    json_integer(address_interface(&probe->devices[i].addr, name)));
		json_array_append_new(list, device);
	}
	return list;
}

static json_t *addresses(const struct anynet_probe *probe)
{
	json_t *list = json_array();
	char text[ADDRESS_TEXT];

	for (int i = 0; i < probe->device_count; i++)
		json_array_append_new(list,
				      json_string(address_print(&probe->devices[i].addr, text)));
	return list;
}

static json_t *gather(const struct pair_host *host)
{
	struct utsname kernel = { 0 };

	uname(&kernel);
	return json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:o}", "version",
			 ANYNET_VERSION, "wire", ANYNET_WIRE_VERSION, "host", kernel.nodename,
			 "kernel", kernel.release, "port_min", host->cfg.port_min, "port_max",
			 host->cfg.port_max, "env", environment(), "devices", devices(&host->probe),
			 "standby", addresses(&host->standby), "candidates",
			 probe_candidates(&host->probe));
}

json_t *facts_way(int fd)
{
	struct sockaddr_storage local, peer;
	char local_text[ADDRESS_TEXT], peer_text[ADDRESS_TEXT], name[IFNAMSIZ];
	int mtu;

	address_own(fd, &local);
	address_peer(fd, &peer);
	mtu = address_interface(&local, name);
	return json_pack("{s:s, s:i, s:s, s:i, s:s, s:i, s:b}", "local",
			 address_print(&local, local_text), "local_port", address_port(&local),
			 "peer", address_print(&peer, peer_text), "peer_port", address_port(&peer),
			 "interface", name, "mtu", mtu, "virtual", interface_is_virtual(name));
}

void pair_host_read(struct pair_host *host, const char *plugin)
{
	host->plugin = plugin;
	anynet_config_load(&host->cfg, NULL);
	anynet_selector_run(anynet_selector_name(), &host->cfg, &host->probe);
	host->standby.device_count = host->standby.candidate_count = 0;
	host->standby.stands_by = true;
	if (host->probe.device_count && host->probe.devices[0].transport == ANYNET_TRANSPORT_IB)
		anynet_tcp_probe(&host->cfg, &host->standby);
	host->facts = gather(host);
}
