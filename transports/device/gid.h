/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GIDs: the addresses of a verbs port. A RoCE port has one for each IP address of its network interfaces and each RoCE
 * version. The GID of a queue pair decides the addresses of its packets. Reading a port's table (gid.c) and choosing
 * from it (gid_choose.c) are separate, so that tests can use tables of their own. No state; any thread.
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

/* Entries of a port's table that a queue pair can name: sgid_index has 8 bits. */
#define GIDS_MAX (UINT8_MAX + 1)

struct gid {
	union ibv_gid raw;
	int index; /* in the port's table */
	enum ibv_gid_type type;
	unsigned ifindex; /* of its network interface; 0 = none, or not known */
};

struct gid_table {
	int count;
	struct gid gids[GIDS_MAX]; /* those that are not zero, by index */
};

/* Reads the table of a port with these attributes. `sysfs` is where sysfs is mounted; it has the types, which an older
 * libibverbs does not report. 0, or -errno with an empty table. An empty table is no error. */
int gid_table_read(const struct verbs_port *port, const struct ibv_port_attr *attr,
		   const char *sysfs, struct gid_table *table);

/* The IP address in a RoCE GID, with port 0. A link-local address has the interface as its scope. */
void gid_addr(const struct gid *gid, struct sockaddr_storage *addr);

/* The GID with this IP address. The type is not set. */
struct gid gid_of_addr(const struct sockaddr_storage *addr);

bool gid_is_ipv4(const union ibv_gid *raw);       /* ::ffff:a.b.c.d */
bool gid_is_link_local(const union ibv_gid *raw); /* fe80::/10 */
bool gid_is_zero(const union ibv_gid *raw);

/* The FLID in an InfiniBand GID: the LID to which packets for other subnets are sent. 0 = not routable. */
uint16_t gid_flid(const union ibv_gid *raw);

/* "10.0.0.1", "fe80::1". Returns buf. */
const char *gid_text(const union ibv_gid *raw, char buf[INET6_ADDRSTRLEN]);

/* "RoCE v2", "InfiniBand" and so on. */
const char *gid_type_text(enum ibv_gid_type type);

/* Has the kernel a route from the address of `own` to that of `peer`? Sends nothing. An address of another network
 * namespace has no route, not even to itself. */
typedef bool gid_route_check(const struct gid *own, const struct gid *peer);
gid_route_check gid_has_route;

/* Input of the choice besides the port's table. */
struct gid_wish {
	const struct anynet_config *cfg; /* ib_gid_index, ib_roce_version and others */
	uint8_t link_layer;
	const struct gid *peer;  /* the peer's GID: raw and type; NULL = not known yet */
	const struct gid *near;  /* then a GID with an address like the peer's; NULL = none */
	gid_route_check *routes; /* NULL = assume a route to every peer */
};

/*
 * Chooses one of the port's GIDs; if the peer's is known, one of the same type and family. A `near` GID need not match.
 * Criteria of a RoCE port, most important first: not link-local, the wanted RoCE version, a route, the wanted family, the
 * most leading bits in common, the lowest index. On InfiniBand: the routable GID, or else the first.
 *
 * Its place in `own`; -EADDRNOTAVAIL: no GID can be used; -EHOSTUNREACH: none matches the peer's. On an error `why`, of
 * `why_bytes`, gets the reason.
 */
int gid_choose(const struct gid_wish *wish, const struct gid *own, int own_count, char *why,
	       size_t why_bytes);

#endif
