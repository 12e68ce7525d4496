/* SPDX-License-Identifier: Apache-2.0 */
/* NICs in the same subnet: which of them does the kernel send on? Part of the network area. */
#include "check.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl_net/subnet.h>

#include "tools/shared/address.h"
#include "transports/device/netif.h"

#define TRIES       256 /* addresses tried to find one that is not this host's */
#define REPLY_BYTES 4096

struct address {
	int family;
	size_t bytes;
	uint8_t ip[16];
};

static struct address address_of(const struct sockaddr_storage *addr)
{
	struct address address = { .family = addr->ss_family };
	const unsigned char *ip = address_ip(addr, &address.bytes);

	memcpy(address.ip, ip, address.bytes);
	return address;
}

static bool same_bits(const struct address *a, const struct address *b, int bits)
{
	if (a->family != b->family)
		return false;
	for (int i = 0; i < bits; i++) {
		if ((a->ip[i / 8] ^ b->ip[i / 8]) >> (7 - i % 8) & 1)
			return false;
	}
	return true;
}

static bool is_own(const struct netif_table *table, const struct address *address)
{
	for (size_t i = 0; i < table->addr_count; i++) {
		struct address own = address_of(&table->addrs[i].addr);

		if (same_bits(&own, address, 8 * (int)address->bytes))
			return true;
	}
	return false;
}

/* Finds an address in the same subnet that is not this host's. Returns false if none is found. */
static bool neighbour(const struct netif_table *table, const struct netif_addr *addr,
		      struct address *peer)
{
	struct address own = address_of(&addr->addr);
	int host_bits = 8 * (int)own.bytes - addr->prefix;

	for (int i = 1; host_bits > 1 && i < TRIES; i++) {
		*peer = own;
		peer->ip[own.bytes - 1] ^= (uint8_t)i;
		if (same_bits(&own, peer, addr->prefix) && !is_own(table, peer))
			return true;
	}
	return false;
}

static struct rtattr *next_attribute(struct rtattr *attribute, int *left)
{
	unsigned step = RTA_ALIGN(attribute->rta_len);

	*left -= (int)step;
	return (struct rtattr *)(void *)((uint8_t *)attribute + step);
}

/* As "ip route get PEER from OWN": returns the interface index, or 0. */
static unsigned route_between(int fd, const struct address *own, const struct address *peer)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
		uint8_t attributes[2 * RTA_SPACE(16)];
	} ask = { .head = { .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST } };
	union {
		struct nlmsghdr head;
		uint8_t bytes[REPLY_BYTES];
	} reply;
	const struct address *const ends[] = { peer, own };
	struct rtattr *attribute = (struct rtattr *)(void *)ask.attributes;
	ssize_t got;
	int left;

	ask.route.rtm_family = (uint8_t)own->family;
	ask.route.rtm_dst_len = ask.route.rtm_src_len = (uint8_t)(8 * own->bytes);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		attribute->rta_type = i ? RTA_SRC : RTA_DST;
		attribute->rta_len = (unsigned short)RTA_LENGTH(own->bytes);
		memcpy(RTA_DATA(attribute), ends[i]->ip, own->bytes);
		attribute = (struct rtattr *)(void *)((uint8_t *)attribute + RTA_SPACE(own->bytes));
	}
	ask.head.nlmsg_len = (unsigned)((uint8_t *)attribute - (uint8_t *)&ask);
	if (send(fd, &ask, ask.head.nlmsg_len, 0) < 0)
		return 0;
	got = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT); /* the kernel answers within send */
	if (got < (ssize_t)NLMSG_SPACE(sizeof(struct rtmsg)) || !NLMSG_OK(&reply.head, got) ||
	    reply.head.nlmsg_type != RTM_NEWROUTE)
		return 0;
	left = (int)RTM_PAYLOAD(&reply.head);
	for (attribute = RTM_RTA(NLMSG_DATA(&reply.head)); RTA_OK(attribute, left);
	     attribute = next_attribute(attribute, &left)) {
		if (attribute->rta_type == RTA_OIF && RTA_PAYLOAD(attribute) >= sizeof(unsigned)) {
			unsigned index;

			memcpy(&index, RTA_DATA(attribute), sizeof(index));
			return index;
		}
	}
	return 0;
}

static bool shares_subnet(const struct check *check, size_t i)
{
	const struct netif_addr *own = check->interfaces.verdicts[i].addr;
	struct address address = address_of(&own->addr);

	for (size_t j = 0; j < check->interfaces.table.link_count; j++) {
		const struct netif_verdict *verdict = &check->interfaces.verdicts[j];
		struct address other;

		if (j == i || !verdict->chosen)
			continue;
		other = address_of(&verdict->addr->addr);
		if (verdict->addr->prefix == own->prefix &&
		    same_bits(&address, &other, own->prefix))
			return true;
	}
	return false;
}

/* True if strict reverse-path filtering drops packets on interfaces other than the one of the
 * return route. */
static bool is_strict(const struct check *check, const char *link)
{
	long own = host_number(&check->host,
			       text_format("/proc/sys/net/ipv4/conf/%s/rp_filter", link), 0);
	long all = host_number(&check->host, "/proc/sys/net/ipv4/conf/all/rp_filter", 0);

	return (own > all ? own : all) == 1;
}

static void report_wrong_way(struct check *check, const struct netif_link *link,
			     const struct netif_link *way, const struct netif_addr *addr)
{
	bool four = addr->addr.ss_family == AF_INET;
	struct address net = address_of(&addr->addr);
	char text[INET6_ADDRSTRLEN], net_text[INET6_ADDRSTRLEN];

	subnet_ip_text(&addr->addr, text);
	for (int i = addr->prefix; i < 8 * (int)net.bytes; i++)
		net.ip[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
	inet_ntop(net.family, net.ip, net_text, sizeof(net_text));
	found(check, CHECK_WARN, "same-subnet",
	      "%s and %s are in one subnet: packets that %s sends from %s leave through %s",
	      link->name, way->name, link->name, text, way->name);
	found_why(check, "%s carries the traffic of both, whatever NCCL or anynet choose%s",
		  way->name,
		  four && is_strict(check, link->name)
			  ? "; and packets that arrive on the other one are dropped (rp_filter), "
			    "so that connections to it time out"
			  : "");
	found_fix(
		check,
		"give each NIC its own subnet, or add a rule by source: ip%s rule add from %s "
		"table %u; ip%s route add %s/%d dev %s table %u%s",
		four ? "" : " -6", text, 100 + link->index, four ? "" : " -6", net_text,
		addr->prefix, link->name, 100 + link->index,
		four ? "; sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2"
		     : "");
}

void check_routes(struct check *check)
{
	const struct netif_table *table = &check->interfaces.table;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	for (size_t i = 0; fd >= 0 && i < table->link_count; i++) {
		const struct netif_verdict *verdict = &check->interfaces.verdicts[i];
		struct address own, peer;
		unsigned way;

		if (!verdict->chosen || !shares_subnet(check, i) ||
		    !neighbour(table, verdict->addr, &peer))
			continue;
		own = address_of(&verdict->addr->addr);
		way = route_between(fd, &own, &peer);
		for (size_t j = 0; j < table->link_count; j++) {
			if (table->links[j].index == way && j != i)
				report_wrong_way(check, &table->links[i], &table->links[j],
						 verdict->addr);
		}
	}
	if (fd >= 0)
		close(fd);
}
