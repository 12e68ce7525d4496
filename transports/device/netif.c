/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of network interfaces; see netif.h. docs/settings.md has the rules for users. */
#include "device/netif.h"

#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/subnet.h>
#include <nccl_net/util.h>

#include "device/name_filter.h"

#define STACK_MAX  8  /* max depth of stacked interfaces (a VLAN on a VLAN); ends loops */
#define SLOW_RATIO 10 /* a NIC this many times slower than the fastest is for management */

enum netif_rank netif_rank(const struct sockaddr_storage *addr, bool fading)
{
	const struct sockaddr_in *v4 = (const void *)addr;
	const struct sockaddr_in6 *v6 = (const void *)addr;

	if (addr->ss_family == AF_INET) {
		uint32_t ip = ntohl(v4->sin_addr.s_addr);

		if (ip == INADDR_ANY || IN_MULTICAST(ip))
			return NETIF_ADDR_NEVER;
		if (ip >> 16 == 0xa9fe)
			return NETIF_ADDR_AUTOIP;
		if (ip >> 24 == IN_LOOPBACKNET)
			return NETIF_ADDR_LAST_RESORT;
		return fading ? NETIF_ADDR_FADING : NETIF_ADDR_GOOD;
	}
	if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) || IN6_IS_ADDR_MULTICAST(&v6->sin6_addr) ||
	    IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return NETIF_ADDR_NEVER;
	if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) || IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
		return NETIF_ADDR_LAST_RESORT;
	return fading ? NETIF_ADDR_FADING : NETIF_ADDR_GOOD;
}

static enum netif_rank rank_of(const struct netif_addr *addr)
{
	return netif_rank(&addr->addr, addr->fading);
}

const struct netif_addr *netif_best_addr(const struct netif_table *table, unsigned ifindex,
					 int family, enum netif_rank worst)
{
	const struct netif_addr *best = NULL;
	int best_rank = INT_MAX;

	for (size_t i = 0; i < table->addr_count; i++) {
		const struct netif_addr *addr = &table->addrs[i];
		enum netif_rank rank = rank_of(addr);
		int score = (int)rank * 2 + (addr->addr.ss_family == AF_INET6);

		if (addr->ifindex != ifindex || rank > worst || score >= best_rank)
			continue;
		if (family != AF_UNSPEC && addr->addr.ss_family != family)
			continue;
		best = addr;
		best_rank = score;
	}
	return best;
}

/* A choice in progress, with the settings that it follows. */
struct choosing {
	const struct netif_table *table;
	struct netif_verdict *verdicts;
	const char *ifname; /* name filter; "" = none */
	int family; /* AF_UNSPEC = any */
};

static void refuse(struct netif_verdict *verdict, const char *fmt, ...) ANYNET_PRINTF(2, 3);

static void refuse(struct netif_verdict *verdict, const char *fmt, ...)
{
	va_list args;

	verdict->chosen = false;
	va_start(args, fmt);
	vsnprintf(verdict->reason, sizeof(verdict->reason), fmt, args);
	va_end(args);
}

/* Has the user named the interfaces? Then class, speed and physical link do not matter. */
static bool names_are_given(const struct choosing *choosing)
{
	return *choosing->ifname && !name_filter_excludes(choosing->ifname);
}

static const char *family_text(int family)
{
	return family == AF_INET ? "IPv4" : family == AF_INET6 ? "IPv6" : "IP";
}

/* The worst rank of an address of `link` to use. */
static enum netif_rank worst_rank(const struct choosing *choosing, const struct netif_link *link)
{
	bool last_resort =
		link->flags & IFF_LOOPBACK || name_filter_names(choosing->ifname, link->name);

	return last_resort ? NETIF_ADDR_LAST_RESORT : NETIF_ADDR_AUTOIP;
}

static void judge_link(const struct choosing *choosing, const struct netif_link *link,
		       struct netif_verdict *verdict)
{
	*verdict = (struct netif_verdict){ .chosen = true };
	verdict->class = netif_class_of(choosing->table, link);
	verdict->addr = netif_best_addr(choosing->table, link->index, choosing->family,
					worst_rank(choosing, link));
	if (verdict->addr && rank_of(verdict->addr) == NETIF_ADDR_AUTOIP &&
	    verdict->class < NETIF_LOCAL)
		verdict->class = NETIF_LOCAL;
	/* Where NICs have no address of their own, routes lead to the host's on lo. */
	if (verdict->addr && rank_of(verdict->addr) < NETIF_ADDR_AUTOIP &&
	    verdict->class == NETIF_LOOPBACK)
		verdict->class = NETIF_HOST;
	if (!name_filter_pass(choosing->ifname, link->name, -1))
		refuse(verdict, "filtered by NCCL_SOCKET_IFNAME=%s", choosing->ifname);
	else if (!(link->flags & IFF_UP))
		refuse(verdict, "is down");
	else if (!(link->flags & IFF_RUNNING))
		refuse(verdict, "has no carrier");
	else if (!verdict->addr && choosing->family != AF_INET &&
		 netif_best_addr(choosing->table, link->index, AF_INET6, NETIF_ADDR_LAST_RESORT))
		refuse(verdict, "has only a link-local IPv6 address");
	else if (!verdict->addr && link->has_unbound)
		refuse(verdict, "no socket can be bound to its address; does it belong to a VRF?");
	else if (!verdict->addr)
		refuse(verdict, "has no %s address", family_text(choosing->family));
}

/* Judges all links. Returns the best class of those chosen; > NETIF_LOOPBACK = none was chosen. */
static int judge(const struct choosing *choosing)
{
	int best = NETIF_LOOPBACK + 1;

	for (size_t i = 0; i < choosing->table->link_count; i++) {
		struct netif_verdict *verdict = &choosing->verdicts[i];

		judge_link(choosing, &choosing->table->links[i], verdict);
		if (verdict->chosen && (int)verdict->class < best)
			best = (int)verdict->class;
	}
	return best;
}

/* A subnet without a prefix is any address in the interface's network. */
static bool in_subnet(const struct subnet *subnet, const struct netif_addr *addr)
{
	int prefix = subnet->prefix >= 0 ? subnet->prefix : addr->prefix;

	return subnet_holds(subnet, prefix, &addr->addr);
}

static const struct netif_addr *addr_in_subnet(const struct choosing *choosing,
					       const struct netif_link *link,
					       const struct subnet *subnet)
{
	for (size_t i = 0; i < choosing->table->addr_count; i++) {
		const struct netif_addr *addr = &choosing->table->addrs[i];

		if (addr->ifindex == link->index && rank_of(addr) <= worst_rank(choosing, link) &&
		    in_subnet(subnet, addr))
			return addr;
	}
	return NULL;
}

/* Keeps only links with an address in this network, and uses that address. Changes nothing if there are none. */
static void keep_subnet(const struct choosing *choosing, const char *text,
			struct netif_notes *notes)
{
	const struct netif_table *table = choosing->table;
	struct subnet subnet;
	bool found = false;

	if (!subnet_parse(text, strlen(text), &subnet))
		return;
	for (size_t i = 0; i < table->link_count; i++)
		found |= choosing->verdicts[i].chosen &&
			 addr_in_subnet(choosing, &table->links[i], &subnet);
	if (!found) {
		snprintf(notes->subnet, sizeof(notes->subnet),
			 "no interface is in the network of %s; ignored", text);
		return;
	}
	for (size_t i = 0; i < table->link_count; i++) {
		struct netif_verdict *verdict = &choosing->verdicts[i];
		const struct netif_addr *addr;

		if (!verdict->chosen)
			continue;
		addr = addr_in_subnet(choosing, &table->links[i], &subnet);
		if (addr)
			verdict->addr = addr;
		else
			refuse(verdict, "is not in the network of %s", text);
	}
}

static const char *class_text(const struct netif_link *link, const struct netif_verdict *verdict)
{
	if (link->flags & IFF_LOOPBACK)
		return "the loopback interface";
	if (verdict->addr && rank_of(verdict->addr) == NETIF_ADDR_AUTOIP)
		return "one with a 169.254 address";
	return *link->kind ? link->kind : "a virtual interface";
}

static void keep_best_class(const struct choosing *choosing)
{
	const struct netif_table *table = choosing->table;
	size_t best = table->link_count;

	for (size_t i = 0; i < table->link_count; i++) {
		if (choosing->verdicts[i].chosen &&
		    (best == table->link_count ||
		     choosing->verdicts[i].class < choosing->verdicts[best].class))
			best = i;
	}
	for (size_t i = 0; i < table->link_count; i++) {
		struct netif_verdict *verdict = &choosing->verdicts[i];

		if (verdict->chosen && verdict->class > choosing->verdicts[best].class)
			refuse(verdict, "%s is preferred to %s", table->links[best].name,
			       class_text(&table->links[i], verdict));
	}
}

/* Marks slow links, and drops them unless they stand by: next to a 100 Gb/s NIC, an onboard 1 Gb/s port is for management. */
static void find_slow(const struct choosing *choosing, bool stands_by)
{
	const struct netif_table *table = choosing->table;
	const struct netif_link *fastest = NULL;

	for (size_t i = 0; i < table->link_count; i++) {
		if (choosing->verdicts[i].chosen &&
		    (!fastest || table->links[i].speed_mbps > fastest->speed_mbps))
			fastest = &table->links[i];
	}
	for (size_t i = 0; i < table->link_count; i++) {
		struct netif_verdict *verdict = &choosing->verdicts[i];
		int speed = table->links[i].speed_mbps;

		verdict->slow =
			verdict->chosen && speed > 0 && speed <= fastest->speed_mbps / SLOW_RATIO;
		if (verdict->slow && !stands_by)
			refuse(verdict, "%d Mb/s, slower than %s with %d", speed, fastest->name,
			       fastest->speed_mbps);
	}
}

static const struct netif_link *link_below(const struct netif_table *table,
					   const struct netif_link *link)
{
	return netif_is_stacked(link) ? netif_link_at(table, link->lower) : NULL;
}

/* The link at the bottom of a stack, and the number of links above it up to `link`. */
static const struct netif_link *wire_of(const struct netif_table *table,
					const struct netif_link *link, int *depth)
{
	const struct netif_link *below = link_below(table, link);

	for (*depth = 0; below && *depth < STACK_MAX; (*depth)++) {
		link = below;
		below = link_below(table, link);
	}
	return link;
}

/* Keeps one link for each physical link, the lowest: NCCL would count the bandwidth of two twice. */
static void keep_one_per_wire(const struct choosing *choosing)
{
	const struct netif_table *table = choosing->table;

	for (size_t i = 0; i < table->link_count; i++) {
		int depth, other_depth;
		const struct netif_link *wire = wire_of(table, &table->links[i], &depth);

		for (size_t j = 0; j < table->link_count && choosing->verdicts[i].chosen; j++) {
			if (j == i || !choosing->verdicts[j].chosen ||
			    wire_of(table, &table->links[j], &other_depth) != wire)
				continue;
			if (other_depth < depth || (other_depth == depth && j < i))
				refuse(&choosing->verdicts[i], "shares the physical link of %s",
				       table->links[j].name);
		}
	}
}

/*
 * Judges all links, and ignores settings that leave only loopback. It ignores the family first, because an address of
 * the other family still reaches other hosts. False = there is no usable interface.
 */
static bool judge_with_fallbacks(struct choosing *choosing, const struct anynet_config *cfg)
{
	for (int worst = NETIF_LOCAL; worst <= NETIF_LOOPBACK; worst++) {
		for (int relaxed = 0; relaxed < 4; relaxed++) {
			choosing->family = relaxed & 1 ? AF_UNSPEC : cfg->socket_family;
			choosing->ifname = relaxed & 2 ? "" : cfg->socket_ifname;
			int best = judge(choosing);

			if (best <= worst || (best == NETIF_LOOPBACK && names_are_given(choosing)))
				return true;
		}
	}
	return false;
}

/* If IP over InfiniBand is chosen, drops all other interfaces, unless the settings name interfaces or a subnet. NCCL's
 * Socket net does so by the names ib* (src/misc/socket.cc:206@v2.30.7). */
static void prefer_ipoib(const struct netif_table *table, const struct anynet_config *cfg,
			 struct netif_verdict *verdicts)
{
	size_t first = 0;

	while (first < table->link_count &&
	       !(verdicts[first].chosen && netif_is_ipoib(&table->links[first])))
		first++;
	if (first == table->link_count || *cfg->socket_subnet ||
	    (*cfg->socket_ifname && !name_filter_excludes(cfg->socket_ifname)))
		return;
	for (size_t i = 0; i < table->link_count; i++)
		if (verdicts[i].chosen && !netif_is_ipoib(&table->links[i]))
			refuse(&verdicts[i],
			       "%s is IP over InfiniBand; anynet uses it alone, as NCCL does",
			       table->links[first].name);
}

void netif_choose(const struct netif_table *table, const struct anynet_config *cfg, bool stands_by,
		  struct netif_verdict *verdicts, struct netif_notes *notes)
{
	struct choosing choosing = { .table = table, .verdicts = verdicts };

	*notes = (struct netif_notes){ .ifname = "" };
	if (!judge_with_fallbacks(&choosing, cfg))
		return;
	if (*cfg->socket_ifname && !*choosing.ifname)
		snprintf(notes->ifname, sizeof(notes->ifname),
			 "'%.100s' selects no interface that is up with an address; ignored",
			 cfg->socket_ifname);
	if (cfg->socket_family != choosing.family)
		snprintf(notes->family, sizeof(notes->family),
			 "no interface has a usable %s address; ignored",
			 family_text(cfg->socket_family));
	if (names_are_given(&choosing))
		return;
	if (!*cfg->socket_ifname && *cfg->socket_subnet)
		keep_subnet(&choosing, cfg->socket_subnet, notes);
	keep_best_class(&choosing);
	find_slow(&choosing, stands_by);
	keep_one_per_wire(&choosing);
	if (!stands_by)
		prefer_ipoib(table, cfg, verdicts);
}
