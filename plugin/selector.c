/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's network name and the choice of networks; see selector.h. */
#include "selector.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/subnet.h>

static const char own_name[] = "anynet";
static const char *const served_names[] = { "IB", "Socket", own_name };

static const char *const transport_names[] = {
	[ANYNET_TRANSPORT_TCP] = "TCP",
	[ANYNET_TRANSPORT_IB] = "IB",
};

const char *anynet_selector_name_for(const char *nccl_net)
{
	if (!nccl_net)
		return own_name;
	/* With an empty NCCL_NET, NCCL looks for a network with an empty name. */
	if (!*nccl_net)
		return "";
	for (size_t i = 0; i < ARRAY_SIZE(served_names); i++) {
		if (anynet_same_word(nccl_net, served_names[i]))
			return nccl_net;
	}
	return own_name;
}

const char *anynet_selector_name(void)
{
	static char copy[sizeof("anynet")]; /* as long as any name in served_names */
	static const char *name;

	if (!name) {
		name = anynet_selector_name_for(getenv("NCCL_NET"));
		if (name != own_name) {
			/* The program may change its environment. */
			snprintf(copy, sizeof(copy), "%s", name);
			name = copy;
		}
	}
	return name;
}

/* The setting that asks for IB, or NULL. ANYNET_TRANSPORT takes precedence over NCCL_NET. */
static const char *asked_for_ib(const char *name, const struct anynet_config *cfg)
{
	if (cfg->transport == ANYNET_CHOOSE_IB)
		return "ANYNET_TRANSPORT=ib";
	if (cfg->transport == ANYNET_CHOOSE_AUTO && anynet_same_word(name, "IB"))
		return "NCCL_NET=IB";
	return NULL;
}

/* The setting that says which of this host's verbs ports or GIDs to use, or NULL. Who sets it expects IB. */
static const char *chooses_ib(const struct anynet_config *cfg, const struct anynet_probe *probe)
{
	bool has_ports = false;

	for (int i = 0; i < probe->candidate_count; i++)
		has_ports |= probe->candidates[i].transport == ANYNET_TRANSPORT_IB &&
			     strcmp(probe->candidates[i].name, "libibverbs") != 0;
	if (!has_ports)
		return NULL;
	if (*cfg->ib_hca)
		return "NCCL_IB_HCA is set";
	if (cfg->ib_gid_index >= 0)
		return "NCCL_IB_GID_INDEX is set";
	return *cfg->ib_addr_range ? "NCCL_IB_ADDR_RANGE is set" : NULL;
}

/* The setting that asks for TCP, or NULL. */
static const char *asked_for_tcp(const char *name, const struct anynet_config *cfg)
{
	if (cfg->transport == ANYNET_CHOOSE_TCP)
		return "ANYNET_TRANSPORT=tcp";
	if (cfg->transport == ANYNET_CHOOSE_AUTO && anynet_same_word(name, "Socket"))
		return "NCCL_NET=Socket";
	return NULL;
}

static void log_devices(const struct anynet_probe *probe)
{
	for (int i = 0; i < probe->device_count; i++) {
		const struct anynet_device *dev = &probe->devices[i];
		const char *pci = strrchr(dev->pci_path, '/');
		char addr[INET6_ADDRSTRLEN];

		anynet_info("dev %d %s transport %s addr %s speed %d Mb/s pci %s", dev->index, dev->name,
			    transport_names[dev->transport], subnet_ip_text(&dev->addr, addr),
			    dev->speed_mbps, pci ? pci + 1 : "none");
		if (*dev->gpu_memory)
			anynet_info("dev %d %s GPU memory %s", dev->index, dev->name,
				    dev->gpu_memory);
	}
}

/* A candidate named like a variable reports a setting that could not be applied. */
static bool is_setting(const struct anynet_candidate *candidate)
{
	return !strncmp(candidate->name, "NCCL_", 5) || !strncmp(candidate->name, "ANYNET_", 7);
}

static void log_candidates(const struct anynet_probe *probe)
{
	int usable = 0;

	for (int i = 0; i < probe->candidate_count; i++) {
		const struct anynet_candidate *candidate = &probe->candidates[i];

		usable += candidate->usable;
		if (is_setting(candidate))
			anynet_warn("%s: %s", candidate->name, candidate->reason);
		else
			anynet_info("%s %s %s: %s", transport_names[candidate->transport], candidate->name,
				    candidate->usable ? "usable" : "not used", candidate->reason);
	}
	if (usable > probe->device_count)
		anynet_warn("found %d usable network ports; NCCL gets the first %d; select ports with "
			    "NCCL_SOCKET_IFNAME or NCCL_IB_HCA",
			    usable, probe->device_count);
}

/* "eth0 10.0.0.2, eth1 10.0.1.2", truncated to `bytes`. */
static const char *device_list(const struct anynet_probe *probe, char *buf, size_t bytes)
{
	size_t used = 0;

	snprintf(buf, bytes, "nothing");
	for (int i = 0; i < probe->device_count && used < bytes; i++) {
		const struct anynet_device *dev = &probe->devices[i];
		char addr[INET6_ADDRSTRLEN];

		used += (size_t)snprintf(buf + used, bytes - used, "%s%s %s", i ? ", " : "",
					 dev->name, subnet_ip_text(&dev->addr, addr));
	}
	return buf;
}

static void warn_no_ib(const char *asked, const struct anynet_probe *probe)
{
	const struct anynet_candidate *first = NULL;
	char devices[256], others[64] = "";
	int refusals = 0;

	for (int i = 0; i < probe->candidate_count; i++) {
		const struct anynet_candidate *candidate = &probe->candidates[i];

		if (candidate->transport != ANYNET_TRANSPORT_IB || candidate->usable)
			continue;
		if (!first)
			first = candidate;
		refusals++;
	}
	if (refusals > 1)
		snprintf(others, sizeof(others), " (%d more reasons with NCCL_DEBUG=INFO)",
			 refusals - 1);
	anynet_warn("%s, but IB is not used: %s: %s%s; using TCP on %s", asked,
		    first ? first->name : "IB",
		    first ? first->reason : "no device found (see ibv_devices)", others,
		    device_list(probe, devices, sizeof(devices)));
}

static const char *why_no_network(const struct anynet_probe *probe)
{
	for (int i = 0; i < probe->candidate_count; i++)
		if (probe->candidates[i].transport == ANYNET_TRANSPORT_TCP && !strcmp(probe->candidates[i].name, "interfaces"))
			return probe->candidates[i].reason;
	return "no interface with an IP address is up, not even lo";
}

void anynet_selector_run(const char *name, const struct anynet_config *cfg,
			 struct anynet_probe *probe)
{
	const char *ib = asked_for_ib(name, cfg);
	const char *tcp = asked_for_tcp(name, cfg);
	bool has_ib;

	probe->device_count = 0;
	probe->candidate_count = 0;
	if (tcp)
		anynet_probe_verdict(probe, ANYNET_TRANSPORT_IB, "libibverbs", false, "not opened: %s",
				     tcp);
	else
		anynet_ib_probe(cfg, probe);
	has_ib = probe->device_count;
	if (!has_ib)
		anynet_tcp_probe(cfg, probe);
	log_candidates(probe);
	if (!ib)
		ib = chooses_ib(cfg, probe);
	if (ib && !has_ib)
		warn_no_ib(ib, probe);
	log_devices(probe);
	if (!probe->device_count)
		anynet_warn("no usable network: %s; NCCL gets no device from anynet; see `anynet devices`",
			    why_no_network(probe));
}
