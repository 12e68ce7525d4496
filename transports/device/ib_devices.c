/* SPDX-License-Identifier: Apache-2.0 */
/* Usable verbs ports as NCCL's devices; see ib_devices.h. */
#include "device/ib_devices.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/comm.h>
#include <nccl_net/util.h>

#include "device/name_filter.h"

static int by_pci_address(const void *a, const void *b)
{
	const struct ib_found *one = a, *other = b;
	int order = !*one->pci_path - !*other->pci_path; /* virtual ones last */

	if (!order)
		order = strcmp(one->pci_path, other->pci_path);
	if (!order)
		order = strverscmp(one->verbs_name, other->verbs_name);
	return order ? order : one->port - other->port;
}

void ib_devices_sort(const struct anynet_config *cfg, struct ib_found *found, int count)
{
	if (cfg->ib_pci_order)
		qsort(found, (size_t)count, sizeof(*found), by_pci_address);
}

/* The path of the card. As NCCL does, it replaces dddd:bb:dd.f by dddd:bb:dd.0, or by dddd:bb:00.0 if virtual functions
 * are merged. Returns `path`, PATH_MAX bytes. */
static const char *card_path(const struct anynet_config *cfg, const struct ib_found *found,
			     char *path)
{
	size_t bytes;

	snprintf(path, PATH_MAX, "%s", found->pci_path);
	bytes = strlen(path);
	if (bytes < sizeof("bb:dd.f") - 1 || found->data_direct)
		return path;
	path[bytes - 1] = '0';
	if (cfg->ib_merge_vfs)
		path[bytes - 3] = path[bytes - 4] = '0';
	return path;
}

/* A device's Data Direct engine counts as another device, as in NCCL's own IB. */
static bool is_same_device(const struct ib_found *a, const struct ib_found *b)
{
	return a->data_direct == b->data_direct && !strcmp(a->verbs_name, b->verbs_name);
}

/* Number of ports of the card's functions that come before the one of found[i]. */
static int ports_before(const struct anynet_config *cfg, const struct ib_found *found, int i)
{
	char card[PATH_MAX], other[PATH_MAX];
	int ports = 0;

	card_path(cfg, &found[i], card);
	for (int j = 0; j < i; j++) {
		bool is_known = false;

		for (int k = 0; k < j; k++)
			is_known |= is_same_device(&found[k], &found[j]);
		if (is_known || is_same_device(&found[j], &found[i]) ||
		    found[j].guid != found[i].guid ||
		    strcmp(card_path(cfg, &found[j], other), card))
			continue;
		ports += found[j].port_count;
	}
	return ports;
}

static bool has_sibling(const struct ib_found *found, int count, int i)
{
	for (int j = 0; j < count; j++)
		if (j != i && is_same_device(&found[j], &found[i]))
			return true;
	return false;
}

void ib_devices_describe(const struct anynet_config *cfg, const struct ib_found *found, int count,
			 int i, struct anynet_device *dev)
{
	const struct ib_found *port = &found[i];
	const char *engine = port->data_direct ? "_dma" : "";

	dev->transport = ANYNET_TRANSPORT_IB;
	if (has_sibling(found, count, i))
		snprintf(dev->name, sizeof(dev->name), "%.58s%s:%u", port->verbs_name, engine,
			 port->port);
	else
		snprintf(dev->name, sizeof(dev->name), "%.63s%s", port->verbs_name, engine);
	card_path(cfg, port, dev->pci_path);
	dev->is_roce = port->is_roce;
	name_filter_place(cfg->ib_hca, port->verbs_name, port->port, &dev->rail_id, &dev->plane_id);
	dev->guid = port->guid;
	dev->port = port->port + ports_before(cfg, found, i);
	dev->speed_mbps = port->speed_mbps;
	dev->max_comms = port->max_qp;
	dev->max_recvs = (int)anynet_min(ANYNET_RECVS_MAX, (size_t)cfg->max_recvs);
	dev->ptr_support = ANYNET_PTR_HOST | port->gpu_support;
	memcpy(dev->gpu_memory, port->gpu_memory, sizeof(dev->gpu_memory));
	dev->reg_is_global = true;
	dev->force_flush = port->data_direct; /* completions take another way than data */
}
