/* SPDX-License-Identifier: Apache-2.0 */
/* NICs in the same subnet: which of them does the kernel send on? Part of the network area. */
#include "check.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl_net/subnet.h>

#include "tools/shared/address.h"
#include "transports/device/netif.h"
#include "transports/device/rtattr.h"

#define TRIES       256 /* addresses tried to find one that is not this host's */
#define REPLY_BYTES 4096

static struct subnet subnet_of(const struct netif_addr *addr)
{
	struct subnet net = { .family = addr->addr.ss_family, .prefix = addr->prefix };
	size_t bytes;
	const unsigned char *ip = address_ip(&addr->addr, &bytes);

	memcpy(net.ip, ip, bytes);
	return net;
}

/* Finds an address in the same subnet that is not this host's. Returns false if none is found. */
static bool neighbour(const struct check *check, const struct netif_addr *addr,
		      struct sockaddr_storage *peer)
{
	struct subnet net = subnet_of(addr);
	size_t bytes;
	const unsigned char *ip = address_ip(&addr->addr, &bytes);
	ptrdiff_t last = ip + bytes - 1 - (const unsigned char *)&addr->addr;

	for (int i = 1; 8 * (int)bytes - addr->prefix > 1 && i < TRIES; i++) {
		*peer = addr->addr;
		((unsigned char *)peer)[last] ^= (unsigned char)i;
		if (subnet_holds(&net, addr->prefix, peer) &&
		    !interfaces_own_address(&check->interfaces, peer))
			return true;
	}
	return false;
}

/* As "ip route get PEER from OWN": returns the interface index, or 0. */
static unsigned route_between(int fd, const struct sockaddr_storage *own,
			      const struct sockaddr_storage *peer)
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
	const struct sockaddr_storage *const ends[] = { peer, own };
	const struct rtattr *found[RTA_OIF + 1] = { NULL };
	struct rtattr *attribute = (struct rtattr *)(void *)ask.attributes;
	ssize_t got;

	ask.route.rtm_family = (uint8_t)own->ss_family;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t bytes;
		const unsigned char *ip = address_ip(ends[i], &bytes);

		ask.route.rtm_dst_len = ask.route.rtm_src_len = (uint8_t)(8 * bytes);
		attribute->rta_type = i ? RTA_SRC : RTA_DST;
		attribute->rta_len = (unsigned short)RTA_LENGTH(bytes);
		memcpy(RTA_DATA(attribute), ip, bytes);
		attribute = (struct rtattr *)(void *)((uint8_t *)attribute + RTA_SPACE(bytes));
	}
	ask.head.nlmsg_len = (unsigned)((uint8_t *)attribute - (uint8_t *)&ask);
	if (send(fd, &ask, ask.head.nlmsg_len, 0) < 0)
		return 0;
	got = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT); /* the kernel answers within send */
	if (got < 0 || !NLMSG_OK(&reply.head, got) || reply.head.nlmsg_type != RTM_NEWROUTE ||
	    reply.head.nlmsg_len < NLMSG_SPACE(sizeof(struct rtmsg)))
		return 0;
	rtattr_parse(found, RTA_OIF, RTM_RTA(NLMSG_DATA(&reply.head)), RTM_PAYLOAD(&reply.head));
	return rtattr_u32(found[RTA_OIF]);
}

static bool shares_subnet(const struct check *check, size_t i)
{
	const struct netif_addr *own = check->interfaces.verdicts[i].addr;
	struct subnet net = subnet_of(own);

	for (size_t j = 0; j < check->interfaces.table.link_count; j++) {
		const struct netif_verdict *verdict = &check->interfaces.verdicts[j];

		if (j != i && verdict->chosen && verdict->addr->prefix == own->prefix &&
		    subnet_holds(&net, own->prefix, &verdict->addr->addr))
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
	struct subnet net = subnet_of(addr);
	char text[INET6_ADDRSTRLEN], net_text[INET6_ADDRSTRLEN];

	subnet_ip_text(&addr->addr, text);
	for (int i = addr->prefix; i < 8 * (int)sizeof(net.ip); i++)
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
		struct sockaddr_storage peer;
		unsigned way;

		if (!verdict->chosen || !shares_subnet(check, i) ||
		    !neighbour(check, verdict->addr, &peer))
			continue;
		way = route_between(fd, &verdict->addr->addr, &peer);
		for (size_t j = 0; j < table->link_count; j++) {
			if (table->links[j].index == way && j != i)
				report_wrong_way(check, &table->links[i], &table->links[j],
						 verdict->addr);
		}
	}
	if (fd >= 0)
		close(fd);
}
