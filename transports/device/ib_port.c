/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a verbs port; see ib_port.h. */
#include "device/ib_port.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "device/sysfs.h"

static const char *state_text(enum ibv_port_state state)
{
	static const char *const texts[] = {
		[IBV_PORT_NOP] = "NOP",
		[IBV_PORT_DOWN] = "DOWN",
		[IBV_PORT_INIT] = "INIT (not configured by a subnet manager)",
		[IBV_PORT_ARMED] = "ARMED",
		[IBV_PORT_ACTIVE] = "ACTIVE",
		[IBV_PORT_ACTIVE_DEFER] = "ACTIVE_DEFER",
	};

	return (unsigned)state < ARRAY_SIZE(texts) ? texts[state] : "in an unknown state";
}

static int lowest_bit(unsigned value, int most)
{
	int bit = value ? __builtin_ctz(value) : 0;

	return bit < most ? bit : most;
}

static int speed_of_lanes(const struct ibv_port_attr *attr)
{
	/* by the lowest bit of active_speed and active_width (net-api.md §5.4) */
	static const int lane_mbps[] = { 2500,  5000,  10000,  10000, 14000,
					 25000, 50000, 100000, 200000 };
	static const int lanes[] = { 1, 4, 8, 12, 2 };

	return lane_mbps[lowest_bit(attr->active_speed, ARRAY_SIZE(lane_mbps) - 1)] *
	       lanes[lowest_bit(attr->active_width, ARRAY_SIZE(lanes) - 1)];
}

int ib_port_speed(const struct verbs_port *port, const char *sysfs,
		  const struct ibv_port_attr *attr)
{
	const struct verbs *verbs = port->verbs;
	int lanes = speed_of_lanes(attr), rate;
	uint64_t speed;

	if (verbs->query_port_speed &&
	    !verbs->query_port_speed(port->context, port->number, &speed) && speed &&
	    speed <= INT_MAX / 100)
		return (int)speed * 100;
	rate = sysfs_ib_rate(sysfs, verbs->get_device_name(port->context->device), port->number);
	return rate > lanes ? rate : lanes;
}

int ib_port_mtu(const struct ibv_port_attr *attr)
{
	int exponent = attr->active_mtu >= IBV_MTU_256 && attr->active_mtu <= IBV_MTU_4096
			       ? (int)attr->active_mtu
			       : IBV_MTU_256;

	return 128 << exponent;
}

const char *ib_port_kind(const struct ibv_port_attr *attr)
{
	return attr->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "RoCE";
}

/* Can a port with these attributes carry data, apart from its GIDs? 0 or -errno as ib_port_read. */
static int judge(const struct ibv_port_attr *attr, char *why, size_t why_bytes)
{
	if (attr->state != IBV_PORT_ACTIVE) {
		snprintf(why, why_bytes, "port is %s", state_text(attr->state));
		return -ENETDOWN;
	}
	if (attr->link_layer != IBV_LINK_LAYER_INFINIBAND &&
	    attr->link_layer != IBV_LINK_LAYER_ETHERNET) {
		snprintf(why, why_bytes, "its link layer is neither InfiniBand nor Ethernet");
		return -EPROTONOSUPPORT;
	}
	if (attr->link_layer == IBV_LINK_LAYER_INFINIBAND && !attr->lid) {
		snprintf(why, why_bytes, "port is ACTIVE but has no LID");
		return -EADDRNOTAVAIL;
	}
	return 0;
}

static int read_gids(const struct anynet_config *cfg, const struct verbs_port *port,
		     const char *sysfs, struct ib_port *state, char *why, size_t why_bytes)
{
	const struct gid_wish wish = { .cfg = cfg,
				       .link_layer = state->attr.link_layer,
				       .routes = gid_has_route };
	int ret = gid_table_read(port, &state->attr, sysfs, &state->gids);
	char reason[160];

	if (ret) {
		snprintf(why, why_bytes, "its GIDs cannot be read: %s", error_text(-ret));
		return -EIO;
	}
	ret = gid_choose(&wish, state->gids.gids, state->gids.count, reason, sizeof(reason));
	if (ret < 0) {
		snprintf(why, why_bytes, "port is ACTIVE but %s", reason);
		return ret;
	}
	state->gid = state->gids.gids[ret];
	return 0;
}

int ib_port_read(const struct anynet_config *cfg, const struct verbs_port *port, const char *sysfs,
		 struct ib_port *state, char *why, size_t why_bytes)
{
	struct ibv_port_attr attr;
	int ret;

	memset(&attr, 0, sizeof(attr));
	ret = port->verbs->query_port(port->context, port->number, &attr);
	if (ret) {
		snprintf(why, why_bytes, "cannot be queried: %s", error_text(ret > 0 ? ret : errno));
		return -EIO;
	}
	memset(state, 0, sizeof(*state));
	state->attr = attr;
	state->speed_mbps = ib_port_speed(port, sysfs, &attr);
	ret = judge(&attr, why, why_bytes);
	return ret ? ret : read_gids(cfg, port, sysfs, state, why, why_bytes);
}

const char *ib_memlock_text(char *buf, size_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		snprintf(buf, bytes, "unknown");
	else if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(buf, bytes, "unlimited");
	else
		snprintf(buf, bytes, "%llu KiB", (unsigned long long)limit.rlim_cur / 1024);
	return buf;
}
