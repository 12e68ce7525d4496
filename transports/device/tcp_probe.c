/* SPDX-License-Identifier: Apache-2.0 */
/* TCP's probe: each chosen interface becomes a device; the others get a verdict. */
#include "device/tcp_probe.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/subnet.h>

#include "base/libc_text.h"
#include "device/probe_result.h"
#include "device/sysfs.h"

#define TCP_COMMS_MAX 65536 /* as in NCCL's Socket net; descriptors run out long before */
#define VENDOR_VIRTIO "0x1af4"

/* Is the NIC one that may be fast, though its speed is not known? Virtio's is often made in software. */
static bool may_be_faster(const struct netif_link *link, enum netif_class class,
			  const char *pci_path)
{
	char vendor[16];

	if (link->speed_mbps > 0 || class != NETIF_REAL || !*pci_path)
		return false;
	sysfs_line(vendor, sizeof(vendor), "%s/vendor", pci_path);
	return strcmp(vendor, VENDOR_VIRTIO) != 0;
}

static void add_device(const struct anynet_config *cfg, const struct netif_table *table,
		       const struct netif_link *link, const struct netif_verdict *verdict,
		       const char *sysfs, struct anynet_probe *probe)
{
	struct anynet_device *dev = probe_add_device(probe, ANYNET_TRANSPORT_TCP, link->name);
	char addr[INET6_ADDRSTRLEN];
	int speed = link->speed_mbps > 0 ? link->speed_mbps : SYSFS_SPEED_DEFAULT;

	anynet_probe_verdict(probe, ANYNET_TRANSPORT_TCP, link->name, true, "%s, %d Mb/s%s",
			     subnet_ip_text(&verdict->addr->addr, addr), speed,
			     link->speed_mbps > 0 ? "" : " assumed");
	if (!dev)
		return;
	sysfs_pci_path(sysfs, "net", link->name, dev->pci_path);
	dev->guid = (uint64_t)dev->index; /* one port each, so the index identifies it */
	dev->speed_mbps = speed;
	dev->may_be_faster = may_be_faster(link, verdict->class, dev->pci_path);
	dev->max_comms = TCP_COMMS_MAX;
	dev->max_recvs = cfg->max_recvs;
	dev->ptr_support = ANYNET_PTR_HOST | (cfg->tcp_cuda ? ANYNET_PTR_CUDA : 0);
	dev->addr = verdict->addr->addr;
	dev->ifindex = link->index;
	snprintf(dev->ifname, sizeof(dev->ifname), "%s", link->name);
	dev->copies_in_kernel = netif_copies(table, link);
}

/* Does it get a verdict of its own? A NIC does in any state. */
static bool is_news(const struct netif_verdict *verdict)
{
	return verdict->addr || verdict->class == NETIF_REAL;
}

/* One verdict for all virtual interfaces without an address: a container host has hundreds. */
static void summarize_others(const struct netif_table *table, const struct netif_verdict *verdicts,
			     struct anynet_probe *probe)
{
	char names[ANYNET_REASON_BYTES - 50] = "";
	size_t used = 0, count = 0;

	for (size_t i = 0; i < table->link_count; i++) {
		if (verdicts[i].chosen || is_news(&verdicts[i]))
			continue;
		if (used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 count ? " " : "", table->links[i].name);
		count++;
	}
	if (count)
		anynet_probe_verdict(probe, ANYNET_TRANSPORT_TCP, "others", false,
				     "%zu virtual interfaces without an address: %s%s", count, names,
				     used >= sizeof(names) ? " ..." : "");
}

static void note(struct anynet_probe *probe, const char *name, const char *text)
{
	if (*text)
		anynet_probe_verdict(probe, ANYNET_TRANSPORT_TCP, name, false, "%s", text);
}

/* Chosen interfaces first, because verdicts beyond ANYNET_CANDIDATES_MAX are dropped. Slow ones last: the first standby
 * device has control connections. */
static void report(const struct anynet_config *cfg, const struct netif_table *table,
		   const struct netif_verdict *verdicts, const char *sysfs,
		   struct anynet_probe *probe)
{
	for (int slow = 0; slow < 2; slow++) {
		for (size_t i = 0; i < table->link_count; i++) {
			if (verdicts[i].chosen && verdicts[i].slow == slow)
				add_device(cfg, table, &table->links[i], &verdicts[i], sysfs,
					   probe);
		}
	}
	for (size_t i = 0; i < table->link_count; i++) {
		if (!verdicts[i].chosen && is_news(&verdicts[i]))
			note(probe, table->links[i].name, verdicts[i].reason);
	}
	summarize_others(table, verdicts, probe);
}

void tcp_probe_table(const struct anynet_config *cfg, const struct netif_table *table,
		     const char *sysfs, struct anynet_probe *probe)
{
	struct netif_verdict *verdicts = calloc(table->link_count + 1, sizeof(*verdicts));
	struct netif_notes notes;

	if (!verdicts) {
		note(probe, "interfaces", "out of memory");
		return;
	}
	netif_choose(table, cfg, probe->stands_by, verdicts, &notes);
	note(probe, "NCCL_SOCKET_IFNAME", notes.ifname);
	note(probe, "NCCL_SOCKET_FAMILY", notes.family);
	note(probe, cfg->socket_subnet_own ? "ANYNET_SOCKET_SUBNET" : cfg->socket_subnet,
	     notes.subnet);
	report(cfg, table, verdicts, sysfs, probe);
	free(verdicts);
}

void anynet_tcp_probe(const struct anynet_config *cfg, struct anynet_probe *probe)
{
	struct netif_table table;
	int ret = netif_read(&table);

	if (ret)
		anynet_probe_verdict(probe, ANYNET_TRANSPORT_TCP, "interfaces", false,
				     "the kernel does not list interfaces (netlink): %s",
				     error_text(-ret));
	tcp_probe_table(cfg, &table, ANYNET_SYSFS, probe);
	netif_free(&table);
}
