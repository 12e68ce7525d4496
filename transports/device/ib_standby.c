/* SPDX-License-Identifier: Apache-2.0 */
/* TCP devices beside IB devices; see ib_standby.h. */
#include "device/ib_standby.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/socket.h"
#include "device/name_filter.h"
#include "device/probe_result.h"
#include "device/sysfs.h"
#include "device/tcp_probe.h"

static struct {
	struct anynet_device devices[PROBE_TCP_MAX];
	int count;
} standby;

const struct anynet_device *ib_standby_at(int i)
{
	return i < standby.count ? &standby.devices[i] : NULL;
}

void ib_standby_drop(void)
{
	standby.count = 0;
}

void ib_standby_number(int first)
{
	for (int i = 0; i < standby.count; i++)
		standby.devices[i].index = first + i;
}

/* Copies the verdicts of TCP's probe, none as usable: that would mean that NCCL gets the device. */
static void report(const struct anynet_probe *tcp, struct anynet_probe *probe)
{
	for (int i = 0; i < tcp->candidate_count; i++) {
		const struct anynet_candidate *candidate = &tcp->candidates[i];

		anynet_probe_verdict(probe, candidate->transport, candidate->name, false, "%s%s",
				     candidate->usable ? "standby: " : "", candidate->reason);
	}
}

int ib_standby_find(const struct anynet_config *cfg, const struct netif_table *table,
		    struct anynet_probe *probe)
{
	struct anynet_probe *tcp = calloc(1, sizeof(*tcp));

	standby.count = 0;
	if (!tcp)
		return -ENOMEM;
	tcp->stands_by = true; /* IPoIB is not enough: it fails together with InfiniBand */
	tcp_probe_table(cfg, table, ANYNET_SYSFS, tcp);
	for (int i = 0; i < tcp->device_count; i++)
		standby.devices[standby.count++] = tcp->devices[i];
	report(tcp, probe);
	free(tcp);
	return 0;
}

/* An address of the interface: `wished` if it has that, else its best one. */
static const struct netif_addr *find_addr(const struct anynet_config *cfg,
					  const struct netif_table *table, unsigned ifindex,
					  const struct sockaddr_storage *wished)
{
	for (size_t i = 0; i < table->addr_count; i++) {
		const struct netif_addr *addr = &table->addrs[i];

		if (addr->ifindex == ifindex && socket_same_ip(&addr->addr, wished) &&
		    netif_rank(wished, false) < NETIF_ADDR_AUTOIP &&
		    (cfg->socket_family == AF_UNSPEC || wished->ss_family == cfg->socket_family))
			return addr;
	}
	return netif_best_addr(table, ifindex, cfg->socket_family, NETIF_ADDR_AUTOIP);
}

/* 169.254/16 reaches other hosts on the same link only, if any. */
static bool is_autoip(const struct sockaddr_storage *addr)
{
	return netif_rank(addr, false) == NETIF_ADDR_AUTOIP;
}

bool ib_standby_bind(const struct anynet_config *cfg, const struct netif_table *table,
		     const struct gid *gid, struct anynet_device *dev)
{
	const struct netif_link *link = netif_link_at(table, gid->ifindex);
	const struct netif_addr *addr = NULL;
	struct sockaddr_storage wished;

	gid_addr(gid, &wished);
	if (link && link->flags & IFF_UP && name_filter_pass(cfg->socket_ifname, link->name, -1))
		addr = find_addr(cfg, table, link->index, &wished);
	if (addr && is_autoip(&addr->addr) && standby.count && !is_autoip(&standby.devices[0].addr))
		addr = NULL; /* the standby device reaches more hosts */
	if (addr) {
		dev->addr = addr->addr;
		dev->ifindex = link->index;
		snprintf(dev->ifname, sizeof(dev->ifname), "%s", link->name);
		dev->copies_in_kernel = netif_copies(table, link);
		return true;
	}
	if (!standby.count)
		return false;
	dev->addr = standby.devices[0].addr;
	dev->ifindex = standby.devices[0].ifindex;
	snprintf(dev->ifname, sizeof(dev->ifname), "%s", standby.devices[0].ifname);
	dev->copies_in_kernel = standby.devices[0].copies_in_kernel;
	return true;
}
