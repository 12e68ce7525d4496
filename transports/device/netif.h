/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's network interfaces, and the choice of those to use. Reading them from the kernel (netif_read.c) and
 * choosing (netif.c, netif_kind.c) are separate, so that tests can use tables of their own.
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
	char kind[16]; /* IFLA_INFO_KIND, such as "bridge"; "wlan" = Wi-Fi; "" = a NIC's driver */
	unsigned index;      /* ifindex */
	unsigned flags;      /* IFF_* */
	unsigned short type; /* ARPHRD_* */
	unsigned master;     /* ifindex of the bridge or bond it belongs to; 0 = none */
	unsigned lower;      /* ifindex of the interface below, as for a VLAN; 0 = none */
	bool has_unbound;    /* an address is left out, because no socket can be bound to it */
	int speed_mbps;      /* 0 = not known */
};

struct netif_addr {
	unsigned ifindex;
	int prefix;                   /* bits */
	bool fading;                  /* deprecated, or a temporary (privacy) address */
	struct sockaddr_storage addr; /* port 0 */
};

struct netif_table {
	struct netif_link *links; /* sorted by name, eth2 before eth10 */
	size_t link_count;
	struct netif_addr *addrs; /* in the kernel's order */
	size_t addr_count;
	bool changed; /* while it was read: an entry may be missing, or an address be there twice */
};

/* Reads the table from the kernel, without addresses that no socket can be bound to. 0 or -errno. The caller frees
 * *table in either case. */
int netif_read(struct netif_table *table);

/* Frees the contents and leaves an empty table. An empty table is allowed. */
void netif_free(struct netif_table *table);

/* The link with this number; NULL = none. */
struct netif_link *netif_link_at(const struct netif_table *table, unsigned index);

/* Classes of interfaces, best first. Only interfaces of the best class found are chosen. */
enum netif_class {
	NETIF_REAL,      /* a NIC, or a bond, VLAN or bridge on one */
	NETIF_CONTAINER, /* kinds that a container may have only, such as veth and macvlan; Wi-Fi */
	NETIF_TUNNEL,    /* overlay, VPN, and unknown kinds */
	NETIF_HOST,      /* lo or dummy with an address of the host's, which routes may lead to */
	NETIF_LOCAL,     /* reaches no other host: a bridge without a NIC, only a 169.254 address */
	NETIF_LOOPBACK,
};

/* Ranks of addresses for connections between hosts, best first. */
enum netif_rank {
	NETIF_ADDR_GOOD,
	NETIF_ADDR_FADING,
	NETIF_ADDR_AUTOIP, /* 169.254/16: no address was configured */
	NETIF_ADDR_LAST_RESORT, /* link-local IPv6, which needs an interface number that differs on the peer's host; 127/8, ::1 */
	NETIF_ADDR_NEVER
};

enum netif_rank netif_rank(const struct sockaddr_storage *addr, bool fading);

/* The interface's best address of this family (AF_UNSPEC = any) with a rank of at most `worst`: by rank, IPv4 before IPv6, the
 * kernel's order. NULL = none. */
const struct netif_addr *netif_best_addr(const struct netif_table *table, unsigned ifindex,
					 int family, enum netif_rank worst);

/* The verdict on one link. */
struct netif_verdict {
	bool chosen;
	bool slow; /* ten or more times slower than the fastest one: perhaps for management */
	enum netif_class class;
	const struct netif_addr *addr;    /* the address to use; NULL = none, or none that fits */
	char reason[ANYNET_REASON_BYTES]; /* if not chosen */
};

/* Settings that were ignored because they would have left no interface: the reasons. "" = not ignored. */
struct netif_notes {
	char ifname[ANYNET_REASON_BYTES];
	char family[ANYNET_REASON_BYTES];
	char subnet[ANYNET_REASON_BYTES];
};

/*
 * Chooses by cfg->socket_ifname, socket_family and socket_subnet, and by class. Slow ones, and others beside IP over
 * InfiniBand, are chosen only to stand by (`stands_by`). `verdicts` has an entry for each link of the table, and points
 * into the table. Nothing is chosen only if no link is up with an address. The choice depends on table and settings
 * alone, so it is the same in all processes of a host.
 */
void netif_choose(const struct netif_table *table, const struct anynet_config *cfg, bool stands_by,
		  struct netif_verdict *verdicts, struct netif_notes *notes);

enum netif_class netif_class_of(const struct netif_table *table, const struct netif_link *link);

/* Does the link share the physical link of the one below it, as a VLAN does? */
bool netif_is_stacked(const struct netif_link *link);

/* Is it IP over InfiniBand? */
bool netif_is_ipoib(const struct netif_link *link);

/* Does the kernel copy what is sent through the link even with MSG_ZEROCOPY? */
bool netif_copies(const struct netif_table *table, const struct netif_link *link);

#endif
