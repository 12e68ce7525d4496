/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usable verbs ports as NCCL sees them (net-api.md §2.8): their order, names and places. The result depends on the
 * arguments alone, so it is the same in all processes of a host.
 */
#ifndef ANYNET_IB_DEVICES_H
#define ANYNET_IB_DEVICES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

#include "device/gid.h"

/* A port that can carry data. */
struct ib_found {
	char verbs_name[IBV_SYSFS_NAME_MAX];
	uint8_t port;
	int port_count; /* ports of the verbs device, usable or not */
	char pci_path[PATH_MAX]; /* of its PCI function, or of its Data Direct engine; "" = virtual */
	uint64_t guid; /* of the card: the system image GUID, or else the node GUID */
	int speed_mbps;
	int max_qp;
	bool is_roce;
	bool takes_inline;                    /* as in struct ib_nic */
	int gpu_support;                      /* ANYNET_PTR_CUDA, ANYNET_PTR_DMABUF */
	char gpu_memory[ANYNET_REASON_BYTES]; /* how it reaches GPU memory, or why not */
	bool data_direct;                     /* it is offered by its Data Direct engine */
	struct gid gid;                       /* the GID to use while no peer is known */
	char verdict[ANYNET_REASON_BYTES];    /* the probe's description of it */
};

/* Sorts by PCI address, name and port. Leaves the kernel's order if the settings want that. */
void ib_devices_sort(const struct anynet_config *cfg, struct ib_found *found, int count);

/*
 * Fills *dev for found[i], except index, addr, ifindex, ifname and copies_in_kernel. The name has a suffix ":port" if
 * another port of the same verbs device was found. The functions of a card share a PCI path, and their ports are
 * numbered consecutively.
 */
void ib_devices_describe(const struct anynet_config *cfg, const struct ib_found *found, int count,
			 int i, struct anynet_device *dev);

#endif
