/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How usable verbs ports look to NCCL (net-api.md §2.8): their order, names and places. Depends on its
 * arguments alone, so that it is the same in all processes of a host.
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
	int port_count;          /* of the verbs device, usable or not */
	char pci_path[PATH_MAX]; /* of its PCI function; "" = virtual */
	uint64_t guid;           /* of the card: system image, or else of the node */
	int speed_mbps;
	int max_qp;
	bool is_roce;
	bool takes_inline;                    /* ib_nic.h */
	int gpu_support;                      /* ANYNET_PTR_CUDA, ANYNET_PTR_DMABUF */
	char gpu_memory[ANYNET_REASON_BYTES]; /* how or why not */
	bool data_direct;                  /* by its Data Direct engine; pci_path is that one's */
	struct gid gid;                    /* that it uses while no peer is known */
	char verdict[ANYNET_REASON_BYTES]; /* what the probe has to say about it */
};

/* By PCI address, name and port, if the settings do not want the kernel's order, in which they are. */
void ib_devices_sort(const struct anynet_config *cfg, struct ib_found *found, int count);

/*
 * Describe found[i] in *dev: all but index, addr, ifindex, ifname and copies_in_kernel. Its name has the
 * port behind it if another port of the same verbs device was found. The functions of a card share a
 * PCI path, and their ports are numbered on.
 */
void ib_devices_describe(const struct anynet_config *cfg, const struct ib_found *found, int count,
			 int i, struct anynet_device *dev);

#endif
