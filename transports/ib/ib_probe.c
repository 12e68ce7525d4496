/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IB's probe: what stands between this host and verbs, one verdict for each thing looked at. It
 * goes as far as the state and addresses of every port, and offers no device: this version carries
 * data over TCP only, and says so.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <nccl_net/device.h>
#include <nccl_net/util.h>

#include "name_filter.h"
#include "verbs.h"

#define GIDS_MAX 1024 /* entries of a port's table that are looked at */

struct ib_probe {
	const struct anynet_config *cfg;
	struct anynet_probe *out;
	struct verbs verbs;
};

#define refuse(probe, name, ...) \
	anynet_probe_verdict((probe)->out, ANYNET_LINK_IB, name, false, __VA_ARGS__)

static const char *state_text(enum ibv_port_state state)
{
	static const char *const texts[] = {
		[IBV_PORT_NOP] = "NOP",
		[IBV_PORT_DOWN] = "DOWN",
		[IBV_PORT_INIT] = "INIT (no subnet manager has set it up)",
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

/* Lane speed times width, both given as bits (net-api.md §5.4). */
static int port_speed(const struct ibv_port_attr *port)
{
	static const int lane_mbps[] = { 2500,  5000,  10000,  10000, 14000,
					 25000, 50000, 100000, 200000 };
	static const int lanes[] = { 1, 4, 8, 12, 2 };

	return lane_mbps[lowest_bit(port->active_speed, ARRAY_SIZE(lane_mbps) - 1)] *
	       lanes[lowest_bit(port->active_width, ARRAY_SIZE(lanes) - 1)];
}

/* Index of the first entry that is set, or -1. */
static int first_gid(const struct ib_probe *probe, struct ibv_context *context, int port, int count)
{
	static const union ibv_gid none;

	for (int i = 0; i < count && i < GIDS_MAX; i++) {
		union ibv_gid gid = none;

		if (!probe->verbs.query_gid(context, (uint8_t)port, i, &gid) &&
		    memcmp(&gid, &none, sizeof(gid)))
			return i;
	}
	return -1;
}

static const char *memlock_text(char *buf, size_t bytes)
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

static void accept_port(const struct ib_probe *probe, const char *name,
			const struct ibv_port_attr *port, int gid)
{
	char memlock[32], lid[24] = "";

	if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
		snprintf(lid, sizeof(lid), "LID %u, ", port->lid);
	refuse(probe, name,
	       "ACTIVE, %s, %d Mb/s, %sGID index %d, memlock %s: usable, but this version carries "
	       "data over TCP",
	       *lid ? "InfiniBand" : "RoCE", port_speed(port), lid, gid,
	       memlock_text(memlock, sizeof(memlock)));
}

static void probe_port(const struct ib_probe *probe, struct ibv_context *context,
		       const char *device, int number)
{
	struct ibv_port_attr port;
	char name[sizeof(probe->out->candidates[0].name)];
	int ret, gid;

	snprintf(name, sizeof(name), "%.50s:%d", device, number);
	if (!name_filter_pass(probe->cfg->ib_hca, device, number)) {
		refuse(probe, name, "filtered by NCCL_IB_HCA=%s", probe->cfg->ib_hca);
		return;
	}
	memset(&port, 0, sizeof(port));
	ret = probe->verbs.query_port(context, (uint8_t)number, &port);
	if (ret) {
		refuse(probe, name, "cannot be queried: %s", strerror(ret > 0 ? ret : errno));
		return;
	}
	if (port.state != IBV_PORT_ACTIVE) {
		refuse(probe, name, "port is %s", state_text(port.state));
		return;
	}
	if (port.link_layer != IBV_LINK_LAYER_INFINIBAND &&
	    port.link_layer != IBV_LINK_LAYER_ETHERNET) {
		refuse(probe, name, "its link layer is neither InfiniBand nor Ethernet");
		return;
	}
	if (port.link_layer == IBV_LINK_LAYER_INFINIBAND && !port.lid) {
		refuse(probe, name, "port is ACTIVE but has no LID");
		return;
	}
	gid = first_gid(probe, context, number, port.gid_tbl_len);
	if (gid < 0)
		refuse(probe, name, "port is ACTIVE but its GID table is empty");
	else
		accept_port(probe, name, &port, gid);
}

static void probe_open_device(const struct ib_probe *probe, struct ibv_context *context,
			      const char *name)
{
	struct ibv_device_attr attr;
	int ret;

	memset(&attr, 0, sizeof(attr));
	ret = probe->verbs.query_device(context, &attr);
	if (ret) {
		refuse(probe, name, "cannot be queried: %s", strerror(ret > 0 ? ret : errno));
		return;
	}
	if (!attr.phys_port_cnt)
		refuse(probe, name, "has no port");
	for (int port = 1; port <= attr.phys_port_cnt; port++)
		probe_port(probe, context, name, port);
}

static const char *open_hint(int error)
{
	if (error == EACCES || error == EPERM)
		return "; this user may not use it, or the container was not given it";
	if (error == ENOENT || error == ENXIO || error == ENODEV)
		return "; is the device node there, also inside the container?";
	return "";
}

static void probe_device(const struct ib_probe *probe, struct ibv_device *device)
{
	const char *name = probe->verbs.get_device_name(device);
	const char *filter = probe->cfg->ib_hca;
	struct ibv_context *context;

	if (!name)
		name = "?";
	/* What to exclude may depend on the port, so those are opened first. */
	if (!name_filter_excludes(filter) && !name_filter_pass(filter, name, -1)) {
		refuse(probe, name, "filtered by NCCL_IB_HCA=%s", filter);
		return;
	}
	if (device->transport_type == IBV_TRANSPORT_IWARP) {
		refuse(probe, name, "is an iWARP device, which lacks RDMA WRITE with immediate");
		return;
	}
	errno = 0;
	context = probe->verbs.open_device(device);
	if (!context) {
		int error = errno;

		refuse(probe, name, "cannot open /dev/infiniband/%.60s: %s%s", device->dev_name,
		       error ? strerror(error) : "no reason given", open_hint(error));
		return;
	}
	probe_open_device(probe, context, name);
	probe->verbs.close_device(context);
}

static void probe_devices(const struct ib_probe *probe)
{
	struct ibv_device **list;
	int count = 0;

	errno = 0;
	list = probe->verbs.get_device_list(&count);
	if (!list) {
		refuse(probe, "libibverbs", "cannot list devices: %s%s", strerror(errno),
		       errno == ENOSYS ? "; the kernel has no RDMA support loaded" : "");
		return;
	}
	if (!count)
		refuse(probe, "libibverbs", "finds no RDMA device");
	for (int i = 0; i < count; i++)
		probe_device(probe, list[i]);
	probe->verbs.free_device_list(list);
}

/* Open the user's library, or the first of the usual ones. A verdict for each that is there but
 * does not do, and one if none is there. */
static int open_library(struct ib_probe *probe)
{
	const char *files[] = { probe->cfg->ibverbs_lib, "libibverbs.so.1", "libibverbs.so" };
	char why[ANYNET_REASON_BYTES], first_why[ANYNET_REASON_BYTES] = "";
	int ret = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(files) && ret; i++) {
		if (!*files[i])
			continue;
		ret = verbs_open(files[i], &probe->verbs, why, sizeof(why));
		if (ret == -ENOSYS || (ret && files[i] == probe->cfg->ibverbs_lib))
			refuse(probe, "libibverbs", "%s", why);
		else if (ret && !*first_why)
			snprintf(first_why, sizeof(first_why), "%s", why);
	}
	if (ret && *first_why)
		refuse(probe, "libibverbs", "%s", first_why);
	return ret;
}

static void ib_probe(const struct anynet_config *cfg, struct anynet_probe *out)
{
	struct ib_probe probe = { .cfg = cfg, .out = out };

	if (cfg->ib_disable) {
		refuse(&probe, "libibverbs", "not opened: NCCL_IB_DISABLE=1");
		return;
	}
	if (open_library(&probe))
		return;
	probe_devices(&probe);
	verbs_close(&probe.verbs);
}

const struct anynet_transport anynet_ib_transport = {
	.name = "IB",
	.link = ANYNET_LINK_IB,
	.probe = ib_probe,
};
