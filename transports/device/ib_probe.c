/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IB's probe: a verdict for the library, each device and each port that it looks at. A usable port that passes the
 * loopback becomes a device.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/device.h>
#include <nccl_net/subnet.h>
#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "device/gpu_memory.h"
#include "device/ib_devices.h"
#include "device/ib_loopback.h"
#include "device/ib_nic.h"
#include "device/ib_port.h"
#include "device/ib_standby.h"
#include "device/name_filter.h"
#include "device/netif.h"
#include "device/probe_result.h"
#include "device/sysfs.h"
#include "device/verbs.h"

static_assert(PROBE_IB_MAX + PROBE_TCP_MAX <= ANYNET_DEVICES_MAX, "indices");

struct ib_probe {
	const struct anynet_config *cfg;
	struct anynet_probe *out;
	struct verbs verbs;
	struct ib_found *found; /* the ports to offer, PROBE_IB_MAX entries */
	int found_count;
};

#define refuse(probe, name, ...) \
	anynet_probe_verdict((probe)->out, ANYNET_TRANSPORT_IB, name, false, __VA_ARGS__)

/* "ACTIVE, RoCE, 100000 Mb/s, GID index 3 (10.0.0.2), memlock unlimited" */
static void describe_port(const struct ib_probe *probe, const struct ib_port *port, char *text,
			  size_t bytes)
{
	char lid[24] = "", gid[INET6_ADDRSTRLEN], memlock[32];

	if (port->attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		snprintf(lid, sizeof(lid), "LID %u, ", port->attr.lid);
	snprintf(text, bytes, "ACTIVE, %s, %d Mb/s, %sGID index %d (%s), memlock %s%s%s",
		 ib_port_kind(&port->attr), port->speed_mbps, lid, port->gid.index,
		 gid_text(&port->gid.raw, gid), ib_memlock_text(memlock, sizeof(memlock)),
		 port->takes_inline ? "" : ", no inline data",
		 probe->cfg->ib_loopback ? "" : ", not tested (ANYNET_IB_LOOPBACK=0)");
}

/* Appends the port to probe->found. False = the list is full. */
static bool take_port(struct ib_probe *probe, const struct verbs_port *port,
		      const struct ibv_device_attr *device, const struct ib_port *state,
		      const char *text)
{
	struct ib_found *found = &probe->found[probe->found_count];
	const char *verbs_name = probe->verbs.get_device_name(port->context->device);

	if (probe->found_count == PROBE_IB_MAX)
		return false;
	probe->found_count++;
	memset(found, 0, sizeof(*found));
	snprintf(found->verbs_name, sizeof(found->verbs_name), "%s", verbs_name);
	found->port = port->number;
	found->port_count = device->phys_port_cnt;
	sysfs_pci_path(ANYNET_SYSFS, "infiniband", verbs_name, found->pci_path);
	found->guid = device->sys_image_guid ? device->sys_image_guid : device->node_guid;
	found->speed_mbps = state->speed_mbps;
	found->max_qp = device->max_qp;
	found->is_roce = state->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	found->takes_inline = state->takes_inline;
	found->gpu_support = gpu_ptr_support(probe->cfg, port->verbs, port->context, ANYNET_SYSFS,
					     found->gpu_memory, sizeof(found->gpu_memory));
	found->gid = state->gid;
	snprintf(found->verdict, sizeof(found->verdict), "%s", text);
	return true;
}

/* Makes the Data Direct engine of the device of the port taken last, if it has one, a device as in NCCL's own IB: instead
 * of the plain one or beside it. */
static void take_data_direct(struct ib_probe *probe, const struct verbs_port *port)
{
	const struct verbs direct = verbs_by_data_direct(&probe->verbs);
	struct ib_found engine = probe->found[probe->found_count - 1];

	if (!probe->cfg->ib_data_direct ||
	    !verbs_data_direct(&probe->verbs, port->context, engine.pci_path,
			       sizeof(engine.pci_path)))
		return;
	engine.data_direct = true;
	engine.gpu_support = gpu_ptr_support(probe->cfg, &direct, port->context, ANYNET_SYSFS,
					     engine.gpu_memory, sizeof(engine.gpu_memory));
	if (!(engine.gpu_support & ANYNET_PTR_DMABUF))
		return;
	probe->found_count -= probe->cfg->ib_data_direct == 1;
	if (probe->found_count < PROBE_IB_MAX)
		probe->found[probe->found_count++] = engine;
}

static int prove(const struct ib_probe *probe, const struct verbs_port *port, struct ib_port *state,
		 char *why, size_t why_bytes)
{
	/* Before any registration. Before Linux 5.12 a fork could separate the process from its registered pages.
	 * ibv_fork_init does nothing where the kernel needs none of it. */
	if (probe->verbs.fork_init)
		probe->verbs.fork_init();
	state->takes_inline = true;
	return probe->cfg->ib_loopback ? ib_loopback(probe->cfg, port, state, why, why_bytes) : 0;
}

static void accept_port(struct ib_probe *probe, const struct verbs_port *port,
			const struct ibv_device_attr *device, const char *name,
			struct ib_port *state)
{
	char text[180], why[ANYNET_REASON_BYTES];

	if (prove(probe, port, state, why, sizeof(why))) {
		refuse(probe, name, "%s", why);
		return;
	}
	describe_port(probe, state, text, sizeof(text));
	if (take_port(probe, port, device, state, text))
		take_data_direct(probe, port);
	else
		anynet_probe_verdict(probe->out, ANYNET_TRANSPORT_IB, name, true, "%s", text);
}

static void probe_port(struct ib_probe *probe, const struct verbs_port *port,
		       const struct ibv_device_attr *device)
{
	const char *verbs_name = probe->verbs.get_device_name(port->context->device);
	char name[sizeof(probe->out->candidates[0].name)], why[ANYNET_REASON_BYTES];
	struct ib_port state;

	snprintf(name, sizeof(name), "%.50s:%u", verbs_name, port->number);
	if (!name_filter_pass(probe->cfg->ib_hca, verbs_name, port->number))
		refuse(probe, name, "filtered by NCCL_IB_HCA=%s", probe->cfg->ib_hca);
	else if (ib_port_read(probe->cfg, port, ANYNET_SYSFS, &state, why, sizeof(why)))
		refuse(probe, name, "%s", why);
	else
		accept_port(probe, port, device, name, &state);
}

static void probe_open_device(struct ib_probe *probe, struct ibv_context *context, const char *name)
{
	struct ibv_device_attr attr;
	int ret;

	memset(&attr, 0, sizeof(attr));
	ret = probe->verbs.query_device(context, &attr);
	if (ret) {
		refuse(probe, name, "cannot be queried: %s", error_text(ret > 0 ? ret : errno));
		return;
	}
	if (!attr.phys_port_cnt)
		refuse(probe, name, "has no ports");
	for (int i = 1; i <= attr.phys_port_cnt; i++) {
		const struct verbs_port port = { &probe->verbs, context, (uint8_t)i };

		probe_port(probe, &port, &attr);
	}
}

static const char *open_hint(int error)
{
	if (error == EACCES || error == EPERM)
		return "; this user has no permission, or the container has no access to the "
		       "device";
	if (error == ENOENT || error == ENXIO || error == ENODEV)
		return "; is the device node missing, perhaps only in the container?";
	return "";
}

/* The errno that explains why a device cannot be opened: libibverbs reports ENOENT for EACCES, too. */
static int open_error(const struct ibv_device *device, int error)
{
	char path[sizeof("/dev/infiniband/") + IBV_SYSFS_NAME_MAX];
	int fd;

	snprintf(path, sizeof(path), "/dev/infiniband/%s", device->dev_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT && error ? error : errno;
	close(fd);
	return error;
}

static void probe_device(struct ib_probe *probe, struct ibv_device *device)
{
	const char *name = probe->verbs.get_device_name(device);
	const char *filter = probe->cfg->ib_hca;
	struct ibv_context *context;

	if (!name) {
		refuse(probe, "libibverbs", "lists a device without a name");
		return;
	}
	/* An exclusion may depend on the port, which is checked in probe_port. */
	if (!name_filter_excludes(filter) && !name_filter_pass(filter, name, -1)) {
		refuse(probe, name, "filtered by NCCL_IB_HCA=%s", filter);
		return;
	}
	if (device->transport_type == IBV_TRANSPORT_IWARP) {
		/* WRITE WITH IMM is not the obstacle: Chelsio's devices and Alibaba's eRDMA have it. */
		refuse(probe, name,
		       "is an iWARP device (for example Alibaba eRDMA), which needs the iWARP "
		       "connection manager");
		return;
	}
	errno = 0;
	context = probe->verbs.open_device(device);
	if (!context) {
		int error = open_error(device, errno);

		refuse(probe, name, "cannot open /dev/infiniband/%.60s: %s%s", device->dev_name,
		       error ? error_text(error) : "no reason given", open_hint(error));
		return;
	}
	probe_open_device(probe, context, name);
	probe->verbs.close_device(context);
}

/* libibverbs leaves out devices without a driver of its own, and those without their file in /dev/infiniband. */
static void refuse_list(struct ib_probe *probe)
{
	char name[IBV_SYSFS_NAME_MAX];

	sysfs_first_rdma(ANYNET_SYSFS, name, sizeof(name));
	if (*name)
		refuse(probe, name,
		       "the kernel has it, but libibverbs does not list it: its driver is not "
		       "installed (ibverbs-providers), or /dev/infiniband is missing, perhaps only "
		       "in the container");
	else
		refuse(probe, "libibverbs", "finds no RDMA device");
}

static void probe_devices(struct ib_probe *probe)
{
	struct ibv_device **list;
	int count = 0;

	errno = 0;
	list = probe->verbs.get_device_list(&count);
	if (!list) {
		refuse(probe, "libibverbs", "cannot list devices: %s%s", error_text(errno),
		       errno == ENOSYS ? "; the kernel has no RDMA support loaded" : "");
		return;
	}
	if (!count)
		refuse_list(probe);
	for (int i = 0; i < count; i++)
		probe_device(probe, list[i]);
	probe->verbs.free_device_list(list);
}

/* Appends found[i] to NCCL's devices, if there is an address for its control connections. */
static void offer_port(struct ib_probe *probe, const struct netif_table *table, int i)
{
	const struct ib_found *found = &probe->found[i];
	struct anynet_device *dev = probe_add_device(probe->out, ANYNET_TRANSPORT_IB, "");
	char addr[INET6_ADDRSTRLEN];

	ib_devices_describe(probe->cfg, probe->found, probe->found_count, i, dev);
	if (!ib_standby_bind(probe->cfg, table, &found->gid, dev)) {
		refuse(probe, dev->name,
		       "no network interface has an IP address for control connections");
		probe->out->device_count--;
		return;
	}
	ib_nic_offer(found->verbs_name, found->port, found->takes_inline, found->data_direct);
	anynet_probe_verdict(probe->out, ANYNET_TRANSPORT_IB, dev->name, true, "%s, control on %s %s",
			     found->verdict, dev->ifname, subnet_ip_text(&dev->addr, addr));
}

/* Offers the ports found to NCCL, and finds the standby devices. The library then stays open. */
static void offer_found(struct ib_probe *probe)
{
	struct netif_table table;

	if (netif_read(&table) || ib_standby_find(probe->cfg, &table, probe->out)) {
		refuse(probe, "libibverbs", "cannot list the network interfaces");
		netif_free(&table);
		return;
	}
	ib_devices_sort(probe->cfg, probe->found, probe->found_count);
	ib_nic_offer_start(&probe->verbs);
	for (int i = 0; i < probe->found_count; i++)
		offer_port(probe, &table, i);
	ib_standby_number(probe->out->device_count);
	if (!probe->out->device_count)
		ib_standby_drop();
	netif_free(&table);
}

/* Opens the user's library, or else the first usual one that works. Adds a verdict for each that is unusable, and one
 * if there is none. 0 or -errno. */
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

void anynet_ib_probe(const struct anynet_config *cfg, struct anynet_probe *out)
{
	struct ib_probe probe = { .cfg = cfg, .out = out };

	ib_nic_offer_start(NULL);
	ib_standby_drop();
	if (cfg->ib_disable) {
		refuse(&probe, "libibverbs", "not opened: NCCL_IB_DISABLE=1");
		return;
	}
	if (open_library(&probe))
		return;
	probe.found = calloc(PROBE_IB_MAX, sizeof(*probe.found));
	if (probe.found)
		probe_devices(&probe);
	else
		refuse(&probe, "libibverbs", "out of memory");
	if (probe.found_count)
		offer_found(&probe);
	free(probe.found);
	verbs_close(&probe.verbs);
}
