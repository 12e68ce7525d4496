/* SPDX-License-Identifier: Apache-2.0 */
/* PCI devices from sysfs: GPUs, distances between devices, and bridges between them. */
#ifndef CHECK_PCI_H
#define CHECK_PCI_H

#include "host.h"

/* Distances, with NCCL's names. */
enum pci_distance {
	PCI_PIX, /* at most one switch between them */
	PCI_PXB, /* several switches, not the host bridge */
	PCI_PHB, /* across the host bridge, on one NUMA node */
	PCI_SYS, /* across NUMA nodes */
};

/* Returns the addresses of NVIDIA GPUs: "0000:3b:00.0". */
struct text_list pci_gpus(const struct host *host);

/* Returns the directory of a device, with links resolved, from its address or from a link in sysfs
 * such as /sys/class/infiniband/mlx5_0/device; NULL = none. */
char *pci_path(const struct host *host, const char *link_or_address);

/* Distance between the devices with these directories. */
enum pci_distance pci_distance(const struct host *host, const char *a, const char *b);
const char *pci_distance_name(enum pci_distance distance);

/* Returns the first bridge above a device that routes peer-to-peer transfers to the root complex
 * (ACS redirect); NULL = none. Sets *unknown if this user cannot read some of the bridges. */
char *pci_acs_bridge(const struct host *host, const char *path, bool *unknown);

/* True if this configuration space, of `bytes` bytes, enables ACS redirection. */
bool pci_redirects(const unsigned char *config, size_t bytes);

#endif
