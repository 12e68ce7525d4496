/* SPDX-License-Identifier: Apache-2.0 */
/* What an interface is, by its kind, type and name; see netif.h. */
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>

#include <nccl_net/util.h>

#include "device/netif.h"

/* Classes of the kernel's link kinds. Other kinds count as tunnels. */
static const struct kind {
	const char *name;
	enum netif_class class;
	bool copies;  /* the kernel copies the payload: for a local receiver, or into new packets */
	bool stacked; /* shares the physical link of the link below */
} kinds[] = {
	{ .name = "bond", .class = NETIF_REAL },
	{ .name = "team", .class = NETIF_REAL },
	{ .name = "vlan", .class = NETIF_REAL, .stacked = true },
	{ .name = "ipoib", .class = NETIF_REAL, .stacked = true },
	{ .name = "macsec", .class = NETIF_REAL, .copies = true, .stacked = true },
	{ .name = "dsa", .class = NETIF_REAL },
	{ .name = "wlan", .class = NETIF_CONTAINER },
	{ .name = "macvlan", .class = NETIF_CONTAINER, .stacked = true },
	{ .name = "macvtap", .class = NETIF_CONTAINER, .stacked = true },
	{ .name = "ipvlan", .class = NETIF_CONTAINER, .stacked = true },
	{ .name = "ipvtap", .class = NETIF_CONTAINER, .stacked = true },
	{ .name = "veth", .class = NETIF_CONTAINER, .copies = true },
	{ .name = "netkit", .class = NETIF_CONTAINER, .copies = true },
	{ .name = "openvswitch", .class = NETIF_CONTAINER }, /* unless it has a NIC */
	{ .name = "netdevsim", .class = NETIF_CONTAINER, .copies = true },
	{ .name = "bridge", .class = NETIF_LOCAL, .copies = true }, /* unless it has a NIC */
	{ .name = "dummy", .class = NETIF_HOST, .copies = true },
	{ .name = "ifb", .class = NETIF_LOCAL, .copies = true },
	{ .name = "vrf", .class = NETIF_LOCAL, .copies = true },
	{ .name = "nlmon", .class = NETIF_LOCAL, .copies = true },
};

static const struct kind unknown_kind = { .name = "", .class = NETIF_TUNNEL, .copies = true };
static const struct kind nic_kind = { .name = "", .class = NETIF_REAL };

/* Usual names of virtual interfaces whose drivers report no kind. */
static const char *const virtual_names[] = {
	"docker", "virbr", "br-", "veth", "cni", "flannel", "cali", "vmnet", "vboxnet", "lxcbr",
};

static bool has_virtual_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(virtual_names); i++) {
		if (!strncmp(name, virtual_names[i], strlen(virtual_names[i])))
			return true;
	}
	return false;
}

static const struct kind *link_kind(const struct netif_link *link)
{
	for (size_t i = 0; *link->kind && i < ARRAY_SIZE(kinds); i++) {
		if (!strcmp(link->kind, kinds[i].name))
			return &kinds[i];
	}
	if (*link->kind)
		return &unknown_kind;
	return link->type == ARPHRD_ETHER || link->type == ARPHRD_INFINIBAND ? &nic_kind
									     : &unknown_kind;
}

static bool is_ovs(const struct netif_link *link)
{
	return !strcmp(link->kind, "openvswitch");
}

/* The master of a port is its bridge; of all ports of Open vSwitch it is "ovs-system", whatever their bridge. */
static bool is_port_of(const struct netif_table *table, const struct netif_link *link,
		       const struct netif_link *bridge)
{
	const struct netif_link *master = netif_link_at(table, link->master);

	return master && (master == bridge || (is_ovs(master) && is_ovs(bridge)));
}

static bool has_nic_as_port(const struct netif_table *table, const struct netif_link *bridge)
{
	for (size_t i = 0; i < table->link_count; i++) {
		const struct netif_link *link = &table->links[i];

		if (link_kind(link)->class == NETIF_REAL && !has_virtual_name(link->name) &&
		    is_port_of(table, link, bridge))
			return true;
	}
	return false;
}

enum netif_class netif_class_of(const struct netif_table *table, const struct netif_link *link)
{
	const struct kind *kind = link_kind(link);

	if (link->flags & IFF_LOOPBACK)
		return NETIF_LOOPBACK;
	if ((!strcmp(kind->name, "bridge") || is_ovs(link)) && has_nic_as_port(table, link))
		return NETIF_REAL;
	/* A tap carries Ethernet frames, as for a sandboxed container. A tun is a VPN. */
	if (!strcmp(link->kind, "tun") && link->type == ARPHRD_ETHER)
		return NETIF_CONTAINER;
	if (!*link->kind && has_virtual_name(link->name))
		return NETIF_LOCAL;
	return kind->class;
}

bool netif_copies(const struct netif_table *table, const struct netif_link *link)
{
	if (link->flags & IFF_LOOPBACK || (!*link->kind && has_virtual_name(link->name)))
		return true;
	if (!strcmp(link->kind, "bridge"))
		return !has_nic_as_port(table, link);
	return link_kind(link)->copies;
}

bool netif_is_stacked(const struct netif_link *link)
{
	return link_kind(link)->stacked;
}

bool netif_is_ipoib(const struct netif_link *link)
{
	return link->type == ARPHRD_INFINIBAND || !strcmp(link->kind, "ipoib");
}
