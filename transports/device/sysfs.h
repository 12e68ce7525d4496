/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about network cards from sysfs. `root` is where sysfs is mounted: ANYNET_SYSFS, or a directory of a test. What
 * cannot be read counts as not known.
 */
#ifndef ANYNET_SYSFS_H
#define ANYNET_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl_net/util.h>

#define ANYNET_SYSFS        "/sys"
#define SYSFS_SPEED_DEFAULT 10000 /* Mb/s; NCCL's own assumption (net-api.md §2.8) */

/*
 * The directory of the PCI function of a class device ("net", "eth0"; "infiniband", "mlx5_0"), as NCCL wants it
 * (net-api.md §2.8): a real path that ends with the PCI address. For a device on another bus behind a PCI function
 * (virtio, USB) it is that function. For a device on top of others (VLAN, bond) it is that of the first one below.
 * "" = none. Returns `path`, PATH_MAX bytes.
 */
const char *sysfs_pci_path(const char *root, const char *class_name, const char *name, char *path);

/* The first line of a file, without its newline; "" = none, or it cannot be read. */
void sysfs_line(char *line, size_t bytes, const char *fmt, ...) ANYNET_PRINTF(3, 4);

/* Number of NVIDIA GPUs on the PCI bus, used by this process or not. 0 = none, or not known. */
int sysfs_gpus(const char *root);

/* Is it a Wi-Fi interface? */
bool sysfs_is_wifi(const char *root, const char *ifname);

/* Speed of a network interface in Mb/s; 0 = not known (virtual, or no carrier). */
int sysfs_net_speed(const char *root, const char *ifname);

/* The first by name of the RDMA devices that the kernel has; "" = none. */
void sysfs_first_rdma(const char *root, char *name, size_t bytes);

/* Rate of a port of an RDMA device in Mb/s; 0 = not known. */
int sysfs_ib_rate(const char *root, const char *device, unsigned port);

#endif
