/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GIDs: the addresses of a verbs port. A RoCE port has several, one for each IP address of its
 * network interfaces and RoCE version; which one a queue pair uses decides the packets' addresses.
 * Reading a port's table (gid.c) and choosing from one (gid_choose.c) are apart, so that a test can
 * choose from a table of its own. No state; any thread.
 */
#ifndef ANYNET_GID_H
#define ANYNET_GID_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <nccl_net/config.h>

#include "device/verbs.h"

#define GIDS_MAX 256 /* entries of a port that are kept; adapters have tables of that size */

struct gid {
	union ibv_gid raw;
	int index; /* in the port's table */
	enum ibv_gid_type type;
	unsigned ifindex; /* of the network interface it belongs to; 0 = none, or not known */
};

struct gid_table {
	int count;
	struct gid gids[GIDS_MAX]; /* those that are set, by index */
};

/* Read the table of a port with these attributes. `sysfs` is where sysfs is mounted, for a libibverbs that does not
 * tell types. 0, or -errno with an empty table. An empty table is no error. */
int gid_table_read(const struct verbs_port *port, const struct ibv_port_attr *attr,
		   const char *sysfs, struct gid_table *table);

/* The IP address in a RoCE GID, port 0; a link-local one has the interface as its scope. */
void gid_addr(const struct gid *gid, struct sockaddr_storage *addr);

bool gid_is_ipv4(const union ibv_gid *raw);       /* ::ffff:a.b.c.d */
bool gid_is_link_local(const union ibv_gid *raw); /* fe80::/10 */
bool gid_is_zero(const union ibv_gid *raw);

/* Of an InfiniBand GID: the LID under which routers forward to it; 0 = not routable. */
uint16_t gid_flid(const union ibv_gid *raw);

/* "10.0.0.1", "fe80::1". Returns buf. */
const char *gid_text(const union ibv_gid *raw, char buf[INET6_ADDRSTRLEN]);

/* "RoCE v2", … */
const char *gid_type_text(enum ibv_gid_type type);

/*
 * Can the kernel send from the address of `own` to that of `peer`? Asks the routing table, sends
 * nothing.
 */
typedef bool gid_route_check(const struct gid *own, const struct gid *peer);
gid_route_check gid_has_route;

/* What the choice depends on besides the table. */
struct gid_wish {
	const struct anynet_config *cfg; /* ib_gid_index, ib_roce_version, … */
	uint8_t link_layer;
	const struct gid *peers; /* what the peer's port has: raw and type, index its own */
	int peer_count;          /* 0 = the peer is not known yet */
	gid_route_check *routes; /* NULL = every peer has one */
};

/* What was chosen: own[pair.own], to reach peers[pair.peer]; -1 = none. */
struct gid_pair {
	int own, peer;
};

/*
 * Choose one of our own GIDs, and with peers given one of those to go with it: of the same type and family, in this
 * order by an address that is not link-local, the wanted RoCE version, a route, the wanted family, the number of leading bits in
 * common, the lower indices. On InfiniBand the first GID, or the one that can be routed.
 *
 * 0; -EADDRNOTAVAIL: no GID can be used; -EHOSTUNREACH: none goes with one
 * of the peer's. `why` then tells, in `why_bytes`.
 */
int gid_choose(const struct gid_wish *wish, const struct gid *own, int own_count,
	       struct gid_pair *pair, char *why, size_t why_bytes);

#endif
