/* SPDX-License-Identifier: Apache-2.0 */
/* PCI devices by sysfs: which there are, how far apart they are, what stands between them. */
#ifndef CHECK_PCI_H
#define CHECK_PCI_H

#include "host.h"

/* NCCL's names for distances. */
enum pci_distance {
	PCI_PIX, /* at most one switch between them */
	PCI_PXB, /* several, without the host bridge */
	PCI_PHB, /* over the host bridge, on one NUMA node */
	PCI_SYS, /* between NUMA nodes */
};

/* GPUs of NVIDIA, by address: "0000:3b:00.0". */
struct text_list pci_gpus(const struct host *host);

/* The device behind a link of sysfs, such as /sys/class/infiniband/mlx5_0/device, or an address; its
 * directory with links followed, or NULL. The caller's. */
char *pci_path(const struct host *host, const char *link_or_address);

/* Between two such directories. */
enum pci_distance pci_distance(const struct host *host, const char *a, const char *b);
const char *pci_distance_name(enum pci_distance distance);

/* The first bridge above a device that sends what passes between devices up to the processor (ACS
 * redirects it); NULL = there is none, or *unknown has become true: this user may not read some. The
 * caller's. */
char *pci_acs_bridge(const struct host *host, const char *path, bool *unknown);

/* Does this configuration space say so? `bytes` of it are there. */
bool pci_redirects(const unsigned char *config, size_t bytes);

#endif
