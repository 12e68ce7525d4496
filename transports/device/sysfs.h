/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sysfs tells of a network card. `root` is where sysfs is mounted: ANYNET_SYSFS, or a directory
 * that a test has made. Nothing here fails: what cannot be read is not known.
 */
#ifndef ANYNET_SYSFS_H
#define ANYNET_SYSFS_H

#include <stddef.h>

#define ANYNET_SYSFS        "/sys"
#define SYSFS_SPEED_DEFAULT 10000 /* Mb/s; NCCL's own assumption (net-api.md §2.8) */

/*
 * The directory of the PCI function behind a class device ("net", "eth0"; "infiniband", "mlx5_0"),
 * as NCCL wants it (net-api.md §2.8): a real path whose last component is the PCI address. A device
 * on a bus of its own behind a PCI function (virtio, USB) gives that function; a device on top of
 * others (VLAN, bond) gives that of the first below. "" = none. Returns `path`, PATH_MAX bytes.
 */
const char *sysfs_pci_path(const char *root, const char *class_name, const char *name, char *path);

/* NVIDIA's GPUs on the PCI bus, whoever uses them; 0 = none, or not known. */
int sysfs_gpus(const char *root);

/* Speed of a network interface in Mb/s; 0 = not known (virtual, or no carrier). */
int sysfs_net_speed(const char *root, const char *ifname);

/* Rate of a port of an RDMA device in Mb/s; 0 = not known. */
int sysfs_ib_rate(const char *root, const char *device, unsigned port);

#endif
