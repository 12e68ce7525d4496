/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's network interfaces, and which of them to use. Reading the kernel (netif_read.c) and
 * choosing (netif.c) are apart, so that a test can choose from a table of its own.
 */
#ifndef ANYNET_NETIF_H
#define ANYNET_NETIF_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

struct netif_link {
	char name[16];
	char kind[16];       /* IFLA_INFO_KIND: "bridge", "veth", …; "" = a NIC's own driver */
	unsigned index;      /* ifindex */
	unsigned flags;      /* IFF_* */
	unsigned short type; /* ARPHRD_* */
	unsigned master;     /* ifindex of the bridge or bond it belongs to; 0 = none */
	unsigned lower;      /* ifindex of what a VLAN or the like is stacked on; 0 = none */
	int speed_mbps;      /* 0 = not known */
};

struct netif_addr {
	unsigned ifindex;
	int prefix;                   /* bits */
	bool fading;                  /* deprecated, or a temporary privacy address */
	struct sockaddr_storage addr; /* port 0 */
};

struct netif_table {
	struct netif_link *links; /* in the order of their names, eth2 before eth10 */
	size_t link_count;
	struct netif_addr *addrs; /* in the kernel's order */
	size_t addr_count;
};

/* Ask the kernel. 0 or -errno; *table is to be freed in either case. */
int netif_read(struct netif_table *table);

/* NULL pointers inside are fine; leaves an empty table. */
void netif_free(struct netif_table *table);

/* How good a network an interface leads to; the best class that is there is chosen. */
enum netif_class {
	NETIF_REAL,      /* a NIC, or a bond, VLAN or bridge on one */
	NETIF_CONTAINER, /* veth, macvlan …: all that a container may have */
	NETIF_TUNNEL,    /* overlay, VPN, and kinds that we do not know */
	NETIF_LOCAL,     /* leads nowhere: a bridge without a NIC, dummy; or has 169.254/16 only */
	NETIF_LOOPBACK,
};

/* What became of one link. */
struct netif_verdict {
	bool chosen;
	enum netif_class class;
	const struct netif_addr *addr;    /* to use; NULL = it has none, or none that fits */
	char reason[ANYNET_REASON_BYTES]; /* when not chosen */
};

/* Settings that could not be honoured, because nothing would have been left; "" = honoured. */
struct netif_notes {
	char ifname[ANYNET_REASON_BYTES];
	char family[ANYNET_REASON_BYTES];
	char subnet[ANYNET_REASON_BYTES];
};

/*
 * Choose by cfg->socket_ifname, socket_family and socket_subnet, and by class. `verdicts` has one
 * entry per link of the table and points into it. Chooses nothing only when no link is up with an
 * address. The choice depends on the table alone, so it is the same in all processes of a host.
 */
void netif_choose(const struct netif_table *table, const struct anynet_config *cfg,
		  struct netif_verdict *verdicts, struct netif_notes *notes);

/* Of what netif_choose has chosen by itself, leave IP over InfiniBand only, if it has: NCCL's Socket net does so by the
 * names ib* (src/misc/socket.cc:206@v2.30.7). Not for a list of names, or a subnet. */
void netif_prefer_ipoib(const struct netif_table *table, const struct anynet_config *cfg,
			struct netif_verdict *verdicts);

/* Whether what is sent through the link is copied by the kernel even with MSG_ZEROCOPY. */
bool netif_copies(const struct netif_table *table, const struct netif_link *link);

/* An address as text, without port. Returns buf (INET6_ADDRSTRLEN bytes). */
const char *netif_addr_text(const struct sockaddr_storage *addr, char *buf);

#endif
