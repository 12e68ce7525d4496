/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces; see interfaces.h. */
#include "interfaces.h"

#include <net/if.h>
#include <string.h>

#include <nccl_net/subnet.h>

#include "transports/device/name_filter.h"

#include "host.h"
#include "tools/shared/address.h"
#include "tools/shared/memory.h"

#define NCCL_INTERFACES_MAX 16

void interfaces_read(struct interfaces *interfaces, const struct anynet_config *cfg)
{
	*interfaces = (struct interfaces){ 0 };
	interfaces->error = -netif_read(&interfaces->table);
	interfaces->verdicts =
		memory_get((interfaces->table.link_count + 1) * sizeof(*interfaces->verdicts));
	netif_choose(&interfaces->table, cfg, false, interfaces->verdicts, &interfaces->notes);
}

bool interface_works(const struct interfaces *interfaces, size_t i)
{
	unsigned flags = interfaces->table.links[i].flags;

	return flags & IFF_UP && flags & IFF_RUNNING && interfaces->verdicts[i].addr;
}

/* Returns the link with the next higher index; NULL = none. */
static const struct netif_link *link_after(const struct netif_table *table, unsigned index)
{
	const struct netif_link *next = NULL;

	for (size_t i = 0; i < table->link_count; i++) {
		if (table->links[i].index > index && (!next || table->links[i].index < next->index))
			next = &table->links[i];
	}
	return next;
}

struct text_list interfaces_matching(const struct interfaces *interfaces, const char *filter)
{
	const struct netif_table *table = &interfaces->table;
	struct text_list names = { 0 };

	for (const struct netif_link *link = link_after(table, 0); link;
	     link = link_after(table, link->index)) {
		if (interface_works(interfaces, (size_t)(link - table->links)) &&
		    name_filter_pass(filter, link->name, -1))
			text_list_add(&names, link->name);
	}
	return names;
}

/* Returns the interfaces in the network of the host in NCCL_COMM_ID, if that is an address. */
static struct text_list in_network_of(const struct interfaces *interfaces, const char *comm_id)
{
	const char *colon = comm_id ? strrchr(comm_id, ':') : NULL;
	struct text_list names = { 0 };
	struct subnet subnet;

	if (!colon || !subnet_parse(comm_id, (size_t)(colon - comm_id), &subnet))
		return names;
	for (size_t i = 0; i < interfaces->table.link_count; i++) {
		const struct netif_addr *addr = interfaces->verdicts[i].addr;
		const char *name = interfaces->table.links[i].name;

		if (interface_works(interfaces, i) &&
		    subnet_holds(&subnet, addr->prefix, &addr->addr))
			text_list_add(&names, name);
	}
	return names;
}

struct text_list interfaces_of_nccl(const struct interfaces *interfaces)
{
	static const char *const groups[] = { "^docker,lo,virbr", "docker", "lo", "virbr" };
	const char *filter = host_env("NCCL_SOCKET_IFNAME");
	struct text_list names;

	if (filter && strlen(filter) > 1) {
		names = interfaces_matching(interfaces, filter);
	} else {
		names = interfaces_matching(interfaces, "ib");
		if (!names.count)
			names = in_network_of(interfaces, host_env("NCCL_COMM_ID"));
		for (size_t i = 0; i < ARRAY_SIZE(groups) && !names.count; i++)
			names = interfaces_matching(interfaces, groups[i]);
	}
	names.count = anynet_min(names.count, (size_t)NCCL_INTERFACES_MAX);
	return names;
}

bool interface_leads_out(const struct interfaces *interfaces, const char *name)
{
	for (size_t i = 0; i < interfaces->table.link_count; i++)
		if (!strcmp(interfaces->table.links[i].name, name))
			return interfaces->verdicts[i].class < NETIF_LOCAL ||
			       (interfaces->verdicts[i].class == NETIF_LOCAL &&
				strcmp(interface_kind(interfaces, i), "bridge") != 0);
	return true;
}

const struct netif_addr *interfaces_own_address(const struct interfaces *interfaces,
						const struct sockaddr_storage *addr)
{
	for (size_t i = 0; i < interfaces->table.addr_count; i++)
		if (address_is_same(&interfaces->table.addrs[i].addr, addr))
			return &interfaces->table.addrs[i];
	return NULL;
}

const char *interface_of_address(const struct interfaces *interfaces, const struct netif_addr *addr)
{
	for (size_t i = 0; i < interfaces->table.link_count; i++)
		if (interfaces->table.links[i].index == addr->ifindex)
			return interfaces->table.links[i].name;
	return NULL;
}

const char *interface_address(const struct interfaces *interfaces, size_t i, char *text)
{
	const struct netif_addr *addr = interfaces->verdicts[i].addr;

	return addr ? subnet_ip_text(&addr->addr, text) : "-";
}

const char *interface_kind(const struct interfaces *interfaces, size_t i)
{
	const struct netif_link *link = &interfaces->table.links[i];

	if (link->flags & IFF_LOOPBACK)
		return "loopback";
	return *link->kind ? link->kind : "NIC";
}
