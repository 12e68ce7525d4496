/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a GID; see gid.h. */
#include "device/gid.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/subnet.h>

bool gid_has_route(const struct gid *own, const struct gid *peer)
{
	struct sockaddr_storage from, to;
	bool found;
	int fd;

	gid_addr(own, &from);
	gid_addr(peer, &to);
	if (gid_is_link_local(&peer->raw))
		((struct sockaddr_in6 *)&to)->sin6_scope_id = own->ifindex;
	((struct sockaddr_in *)&to)->sin_port = htons(4791); /* of RoCE v2; any but 0 works */
	fd = socket(from.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	found = !bind(fd, (const struct sockaddr *)&from, sizeof(from)) &&
		!connect(fd, (const struct sockaddr *)&to, sizeof(to));
	close(fd);
	return found;
}

/* Score of a GID, most important criterion first. */
struct score {
	bool global;     /* not link-local, so not limited to one link */
	bool version;    /* has the wanted RoCE version */
	bool route;      /* has a route to the peer, or else to itself */
	bool family;     /* has the wanted family */
	int common_bits; /* leading bits in common with the peer's address */
	int later;       /* the negative index: a lower one wins */
};

static int compare(const struct score *a, const struct score *b)
{
	if (a->global != b->global)
		return a->global - b->global;
	if (a->version != b->version)
		return a->version - b->version;
	if (a->route != b->route)
		return a->route - b->route;
	if (a->family != b->family)
		return a->family - b->family;
	if (a->common_bits != b->common_bits)
		return a->common_bits - b->common_bits;
	return a->later - b->later;
}

static enum ibv_gid_type wanted_type(const struct anynet_config *cfg)
{
	return cfg->ib_roce_version == 1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
}

static struct score score_of(const struct gid_wish *wish, const struct gid *own)
{
	const struct gid *peer = wish->peer ? wish->peer : wish->near;
	int family = gid_is_ipv4(&own->raw) ? AF_INET : AF_INET6;

	return (struct score){
		.global = !gid_is_link_local(&own->raw),
		.version = own->type == wanted_type(wish->cfg),
		.route = !wish->routes || wish->routes(own, peer ? peer : own),
		.family = family == wish->cfg->ib_addr_family,
		.common_bits = peer ? subnet_common_bits(own->raw.raw, peer->raw.raw, 128) : 0,
		.later = -own->index,
	};
}

/* Can packets go between the two? They need the same RoCE version, and with v2 the same family. */
static bool go_together(const struct gid *own, const struct gid *peer)
{
	if (own->type != peer->type)
		return false;
	return own->type != IBV_GID_TYPE_ROCE_V2 ||
	       (gid_is_ipv4(&own->raw) == gid_is_ipv4(&peer->raw) &&
		gid_is_link_local(&own->raw) == gid_is_link_local(&peer->raw));
}

static bool in_range(const char *range, const struct gid *gid)
{
	struct sockaddr_storage addr;
	struct subnet subnet;

	if (!*range || !subnet_parse(range, strlen(range), &subnet) || !subnet.prefix)
		return true; /* ::/0, NCCL's default, means IPv4 as well */
	if (subnet.prefix < 0)
		subnet.prefix = subnet.family == AF_INET ? 32 : 128;
	gid_addr(gid, &addr);
	return subnet_holds(&subnet, subnet.prefix, &addr);
}

/* May it be chosen? Includes link-local GIDs, as a last resort: it is not known whether the peer is on the same link,
 * but each queue pair is proven. */
static bool is_candidate(const struct anynet_config *cfg, const struct gid *gid)
{
	if (cfg->ib_gid_index >= 0)
		return gid->index == cfg->ib_gid_index;
	return in_range(cfg->ib_addr_range, gid);
}

static int find_index(const struct gid *gids, int count, int index)
{
	for (int i = 0; i < count; i++)
		if (gids[i].index == index)
			return i;
	return -1;
}

/* An InfiniBand port has a GID for packets within its subnet, and may have another one for routers. */
static int choose_infiniband(const struct gid_wish *wish, const struct gid *own, int own_count,
			     char *why, size_t why_bytes)
{
	int flid = find_index(own, own_count, wish->cfg->ib_flid_gid_index);
	int chosen = flid >= 0 && gid_flid(&own[flid].raw) ? flid : find_index(own, own_count, 0);

	if (chosen < 0) {
		snprintf(why, why_bytes, "its GID table is empty");
		return -EADDRNOTAVAIL;
	}
	if (!wish->peer || wish->peer->type == IBV_GID_TYPE_IB)
		return chosen;
	snprintf(why, why_bytes, "it is an InfiniBand port, the peer's a RoCE port");
	return -EHOSTUNREACH;
}

static int no_candidate(const struct anynet_config *cfg, int own_count, char *why, size_t why_bytes)
{
	if (!own_count)
		snprintf(why, why_bytes, "its GID table is empty");
	else if (cfg->ib_gid_index >= 0)
		snprintf(why, why_bytes, "its GID %d is not set (NCCL_IB_GID_INDEX)",
			 cfg->ib_gid_index);
	else
		snprintf(why, why_bytes, "none of its %d GIDs is in NCCL_IB_ADDR_RANGE=%s",
			 own_count, cfg->ib_addr_range);
	return -EADDRNOTAVAIL;
}

static int no_pair(const struct gid_wish *wish, const struct gid *own, char *why, size_t why_bytes)
{
	char mine[INET6_ADDRSTRLEN], theirs[INET6_ADDRSTRLEN];

	snprintf(why, why_bytes, "GID %s (%s) does not match the peer's %s (%s)",
		 gid_text(&own->raw, mine), gid_type_text(own->type),
		 gid_text(&wish->peer->raw, theirs), gid_type_text(wish->peer->type));
	return -EHOSTUNREACH;
}

int gid_choose(const struct gid_wish *wish, const struct gid *own, int own_count, char *why,
	       size_t why_bytes)
{
	struct score best = { .version = false };
	const struct gid *any = NULL;
	int chosen = -1;

	if (wish->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return choose_infiniband(wish, own, own_count, why, why_bytes);
	for (int i = 0; i < own_count; i++) {
		struct score score;

		if (!is_candidate(wish->cfg, &own[i]))
			continue;
		if (!any)
			any = &own[i];
		if (wish->peer && !go_together(&own[i], wish->peer))
			continue;
		score = score_of(wish, &own[i]);
		if (chosen >= 0 && compare(&score, &best) <= 0)
			continue;
		best = score;
		chosen = i;
	}
	if (chosen >= 0)
		return chosen;
	return any ? no_pair(wish, any, why, why_bytes)
		   : no_candidate(wish->cfg, own_count, why, why_bytes);
}
