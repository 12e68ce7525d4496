/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of interfaces for tests; see netif_table.h. */
#include "netif_table.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct netif_link links[TEST_LINKS_MAX];
static struct netif_addr addrs[2 * TEST_LINKS_MAX];

static void add_addr(struct netif_table *table, unsigned ifindex, const char *text)
{
	struct netif_addr *addr = &addrs[table->addr_count++];
	struct sockaddr_in *v4 = (void *)&addr->addr;
	struct sockaddr_in6 *v6 = (void *)&addr->addr;
	char ip[INET6_ADDRSTRLEN + 4];
	char *slash;

	*addr = (struct netif_addr){ .ifindex = ifindex, .fading = *text == '~' };
	snprintf(ip, sizeof(ip), "%s", text + addr->fading);
	slash = strchr(ip, '/');
	if (slash)
		*slash++ = 0;
	addr->addr.ss_family = strchr(ip, ':') ? AF_INET6 : AF_INET;
	addr->prefix = slash ? atoi(slash) : addr->addr.ss_family == AF_INET ? 24 : 64;
	if (inet_pton(addr->addr.ss_family, ip,
		      addr->addr.ss_family == AF_INET ? (void *)&v4->sin_addr
						      : (void *)&v6->sin6_addr) != 1)
		abort();
}

struct netif_link *table_add(struct netif_table *table, const char *name, const char *kind,
			     const char *addresses)
{
	struct netif_link *link = &links[table->link_count++];
	char list[512], *rest = list, *addr;

	*link = (struct netif_link){ .index = (unsigned)table->link_count, .type = ARPHRD_ETHER };
	snprintf(link->name, sizeof(link->name), "%s", name);
	link->flags = IFF_UP | IFF_RUNNING | IFF_BROADCAST;
	if (!strcmp(kind, "loopback")) {
		link->flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
		link->type = ARPHRD_LOOPBACK;
	} else {
		snprintf(link->kind, sizeof(link->kind), "%s", kind);
	}
	snprintf(list, sizeof(list), "%s", addresses ? addresses : "");
	while ((addr = strtok_r(rest, " ", &rest)))
		add_addr(table, link->index, addr);
	return link;
}

void table_start(struct netif_table *table)
{
	*table = (struct netif_table){ .links = links, .addrs = addrs };
	table_add(table, "lo", "loopback", "127.0.0.1/8 ::1/128");
}
