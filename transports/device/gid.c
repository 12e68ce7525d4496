/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a port's GIDs and decoding them; see gid.h. */
#include "device/gid.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/subnet.h>

#include "device/sysfs.h"

/* Max entries of all ports of a device. libibverbs passes their size in bytes to the kernel in 16 bits and fails with
 * EINVAL if it is larger (rdma-core 44). */
#define ENTRIES_ROOM (UINT16_MAX / sizeof(struct ibv_gid_entry))

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool gid_is_ipv4(const union ibv_gid *raw)
{
	return !memcmp(raw->raw, mapped_prefix, sizeof(mapped_prefix));
}

bool gid_is_link_local(const union ibv_gid *raw)
{
	return raw->raw[0] == 0xfe && (raw->raw[1] & 0xc0) == 0x80;
}

bool gid_is_zero(const union ibv_gid *raw)
{
	static const union ibv_gid zero;

	return !memcmp(raw, &zero, sizeof(zero));
}

uint16_t gid_flid(const union ibv_gid *raw)
{
	/* bits: 10 prefix, 22 zero, 16 FLID, 16 subnet, 64 port */
	return (uint16_t)(raw->raw[4] << 8 | raw->raw[5]);
}

void gid_addr(const struct gid *gid, struct sockaddr_storage *addr)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)addr;

	memset(addr, 0, sizeof(*addr));
	if (gid_is_ipv4(&gid->raw)) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, gid->raw.raw + sizeof(mapped_prefix), sizeof(v4->sin_addr));
		return;
	}
	v6->sin6_family = AF_INET6;
	memcpy(&v6->sin6_addr, gid->raw.raw, sizeof(v6->sin6_addr));
	if (gid_is_link_local(&gid->raw))
		v6->sin6_scope_id = gid->ifindex;
}

struct gid gid_of_addr(const struct sockaddr_storage *addr)
{
	struct gid gid = { .index = 0 };

	if (addr->ss_family == AF_INET6) {
		memcpy(gid.raw.raw, &((const struct sockaddr_in6 *)addr)->sin6_addr,
		       sizeof(gid.raw.raw));
		return gid;
	}
	memcpy(gid.raw.raw, mapped_prefix, sizeof(mapped_prefix));
	memcpy(gid.raw.raw + sizeof(mapped_prefix), &((const struct sockaddr_in *)addr)->sin_addr,
	       sizeof(struct in_addr));
	return gid;
}

const char *gid_text(const union ibv_gid *raw, char buf[INET6_ADDRSTRLEN])
{
	const struct gid gid = { .raw = *raw };
	struct sockaddr_storage addr;

	gid_addr(&gid, &addr);
	return subnet_ip_text(&addr, buf);
}

const char *gid_type_text(enum ibv_gid_type type)
{
	switch (type) {
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	}
	return "of an unknown type";
}

/* Appends an entry; NULL = the table is full. */
static struct gid *add(struct gid_table *table, const union ibv_gid *raw, int index)
{
	struct gid *gid = table->count < GIDS_MAX ? &table->gids[table->count++] : NULL;

	if (gid)
		*gid = (struct gid){ .raw = *raw, .index = index };
	return gid;
}

static int by_index(const void *a, const void *b)
{
	return ((const struct gid *)a)->index - ((const struct gid *)b)->index;
}

/* Reads all ports of the device in one call. False: the library has no such call, or it has failed. */
static bool read_at_once(const struct verbs_port *port, struct gid_table *table)
{
	struct ibv_gid_entry *entries = NULL;
	ssize_t count;

	if (port->verbs->query_gid_table)
		entries = calloc(ENTRIES_ROOM, sizeof(*entries));
	if (!entries)
		return false;
	count = port->verbs->query_gid_table(port->context, entries, ENTRIES_ROOM, 0,
					     sizeof(*entries));
	for (ssize_t i = 0; i < count; i++) {
		const struct ibv_gid_entry *entry = &entries[i];
		struct gid *gid;

		if (entry->port_num != port->number || gid_is_zero(&entry->gid))
			continue;
		if (entry->gid_index >= GIDS_MAX)
			continue;
		gid = add(table, &entry->gid, (int)entry->gid_index);
		if (!gid)
			break;
		gid->type = (enum ibv_gid_type)entry->gid_type;
		gid->ifindex = entry->ndev_ifindex;
	}
	free(entries);
	qsort(table->gids, (size_t)table->count, sizeof(table->gids[0]), by_index);
	return count >= 0;
}

/* Reads the line in gid_attrs/<what>/<index> of the port; "" = none. */
static void read_attr(const struct verbs_port *port, const char *sysfs, const char *what, int index,
		      char *line, size_t bytes)
{
	sysfs_line(line, bytes, "%s/class/infiniband/%s/ports/%d/gid_attrs/%s/%d", sysfs,
		   port->context->device->name, port->number, what, index);
}

/* An older kernel has no types, and supports RoCE v1 only. */
static void read_attrs(const struct verbs_port *port, const char *sysfs, struct gid *gid)
{
	char type[32], ndev[IF_NAMESIZE + 1];

	read_attr(port, sysfs, "types", gid->index, type, sizeof(type));
	gid->type = strcmp(type, "RoCE v2") ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	read_attr(port, sysfs, "ndevs", gid->index, ndev, sizeof(ndev));
	if (*ndev)
		gid->ifindex = if_nametoindex(ndev);
}

static int read_one_by_one(const struct verbs_port *port, const struct ibv_port_attr *attr,
			   const char *sysfs, struct gid_table *table)
{
	int failed = 0;

	for (int i = 0; i < attr->gid_tbl_len && i < GIDS_MAX; i++) {
		union ibv_gid raw;
		struct gid *gid;

		memset(&raw, 0, sizeof(raw));
		errno = 0;
		if (port->verbs->query_gid(port->context, port->number, i, &raw)) {
			failed = errno ? -errno : -EIO;
			continue;
		}
		if (gid_is_zero(&raw))
			continue;
		gid = add(table, &raw, i);
		if (!gid)
			break;
		if (attr->link_layer != IBV_LINK_LAYER_INFINIBAND)
			read_attrs(port, sysfs, gid);
	}
	return table->count ? 0 : failed;
}

int gid_table_read(const struct verbs_port *port, const struct ibv_port_attr *attr,
		   const char *sysfs, struct gid_table *table)
{
	table->count = 0;
	return read_at_once(port, table) ? 0 : read_one_by_one(port, attr, sysfs, table);
}
