/* SPDX-License-Identifier: Apache-2.0 */
/* The GIDs of a RoCE port: which exist, which one is requested, and the MTU of its interface. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define GIDS_MAX     256
#define EMPTY_GID    "0000:0000:0000:0000:0000:0000:0000:0000"
#define CHOOSES_FROM 22100 /* since this release NCCL chooses a GID; older ones use index 0 */
#define FULL_MTU     4200  /* enough for RoCE packets with 4096 bytes of payload */

enum gid_kind {
	GID_EMPTY,
	GID_LOCAL, /* fe80:: */
	GID_V1,    /* RoCE v1, which is not routed */
	GID_GOOD,
};

/* Summary of a port's GID table. */
struct gid_table {
	size_t filled;
	bool has_global;    /* has a GID that is not link-local */
	enum gid_kind wish; /* kind of the requested GID */
	long best;          /* index of the first good GID; -1 = none */
	char *interface;    /* interface of the best GID; NULL = unknown */
};

static char *attribute(const struct check *check, const char *port_path, const char *what,
		       const char *index)
{
	return host_line(&check->host, text_format("%s/gid_attrs/%s/%s", port_path, what, index));
}

static enum gid_kind kind_of(const struct check *check, const char *port_path, const char *index)
{
	char *gid = host_line(&check->host, text_format("%s/gids/%s", port_path, index)), *type;

	if (!gid || !*gid || !strcmp(gid, EMPTY_GID))
		return GID_EMPTY;
	if (!strncmp(gid, "fe80:", 5))
		return GID_LOCAL;
	type = attribute(check, port_path, "types", index);
	return type && strstr(type, "v1") ? GID_V1 : GID_GOOD;
}

static struct gid_table read_table(const struct check *check, const char *port_path,
				   const struct text_list *indices, long wish)
{
	struct gid_table table = { .best = -1 };

	for (size_t i = 0; i < indices->count && i < GIDS_MAX; i++) {
		enum gid_kind kind = kind_of(check, port_path, indices->items[i]);
		long index = strtol(indices->items[i], NULL, 10);

		table.filled += kind != GID_EMPTY;
		table.has_global |= kind > GID_LOCAL;
		if (index == wish)
			table.wish = kind;
		if (kind != GID_GOOD || (table.best >= 0 && index > table.best))
			continue;
		table.best = index;
		table.interface = attribute(check, port_path, "ndevs", indices->items[i]);
	}
	return table;
}

/* Reports the GID requested by NCCL_IB_GID_INDEX, or used by default by NCCL older than 2.21. */
static void check_wish(struct check *check, const struct gid_table *table, const char *asked,
		       const char *name)
{
	const char *who = asked ? text_format("NCCL_IB_GID_INDEX=%s", asked)
				: "NCCL older than 2.21 uses GID 0";

	if (table->wish == GID_EMPTY) {
		found(check, CHECK_ERROR, "gid-empty", "%s, but %s has no GID there", who, name);
		found_why(check, "connecting fails with \"No such device\" or \"Network is "
				 "unreachable\"; indexes differ between hosts");
	} else if (table->wish == GID_LOCAL) {
		found(check, CHECK_WARN, "gid-local", "%s, which is link-local at %s", who, name);
		found_why(check, "fe80:: does not reach other subnets, and often not the peer in "
				 "this one: error 12");
	} else {
		found(check, CHECK_WARN, "gid-v1", "%s, which is RoCE v1 at %s", who, name);
		found_why(
			check,
			"RoCE v1 is not routed, and does not interoperate with RoCE v2: error 12");
	}
	if (asked)
		found_fix(check, "unset NCCL_IB_GID_INDEX: NCCL 2.21 and newer and anynet choose a "
				 "GID for each port");
	else if (table->best >= 0)
		found_fix(check,
			  "export NCCL_IB_GID_INDEX=%ld, if that is RoCE v2 on every host; or use "
			  "NCCL 2.21 or newer, or anynet, which choose a GID for each port",
			  table->best);
	else
		found_fix(check, "give the interface of the port an IP address");
}

/* RoCE uses the largest power of two that fits into the interface's MTU. */
static void check_mtu(struct check *check, const char *interface, const char *name)
{
	long mtu = interface_mtu(check, interface);

	if (mtu > 0 && mtu < FULL_MTU) {
		found(check, CHECK_NOTE, "roce-mtu",
		      "%s uses %s, whose MTU of %ld causes small packets", name, interface, mtu);
		found_why(check,
			  "RoCE packets hold 1024 bytes at an MTU of 1500, and 4096 at %d and more",
			  FULL_MTU);
		found_fix(check,
			  "ip link set %s mtu 9000, if the switches and all hosts support that",
			  interface);
	}
}

void check_gids(struct check *check, const char *port_path, const char *name)
{
	const char *asked = host_env("NCCL_IB_GID_INDEX");
	struct text_list indices = host_list(&check->host, text_format("%s/gids", port_path));
	struct gid_table table;
	long wish = asked ? strtol(asked, NULL, 0) : -1;

	if (!asked && !check->anynet_loads && copies_in_range(&check->copies, 1, CHOOSES_FROM - 1))
		wish = 0;
	table = read_table(check, port_path, &indices, wish);
	if (indices.count && !table.filled) {
		found(check, CHECK_WARN, "gids-none", "%s has no GID", name);
		found_why(check, "RoCE takes its addresses from the interface of the port, which "
				 "has none or is in another namespace");
		found_fix(check, "give the interface an IP address");
	} else if (table.filled && wish >= 0 && table.wish != GID_GOOD) {
		check_wish(check, &table, asked, name);
	} else if (table.filled && !table.has_global) {
		found(check, CHECK_WARN, "gids-local", "%s has only link-local GIDs", name);
		found_why(check, "NCCL uses one of them: fe80:: does not reach other subnets, and "
				 "often not the peer in this one: error 12; anynet uses TCP");
		found_fix(check,
			  "give the interface of the port an IP address, or exclude the port: "
			  "NCCL_IB_HCA=^=%s",
			  name);
	}
	if (table.interface)
		check_mtu(check, table.interface, name);
}
