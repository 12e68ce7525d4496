/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and the probes that find them: the contract between the selector (plugin/) and the transports. A device is
 * one in NCCL's sense: a NIC port on which NCCL may place channels.
 */
#ifndef ANYNET_DEVICE_H
#define ANYNET_DEVICE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <nccl_net/config.h>

#define ANYNET_DEVICES_MAX    64 /* ports of all kinds on one host, with standby and fused devices */
#define ANYNET_CANDIDATES_MAX 128
#define ANYNET_REASON_BYTES   200
#define ANYNET_MEMBERS_MAX    8   /* NICs of a fused device (net-api.md §1.5) */
#define ANYNET_NAME_BYTES     256 /* NCCL's topology truncates longer names */

enum anynet_transport_kind { ANYNET_TRANSPORT_TCP, ANYNET_TRANSPORT_IB };

/* NCCL's pointer kinds (net-api.md §1.2). */
#define ANYNET_PTR_HOST	  0x1
#define ANYNET_PTR_CUDA	  0x2
#define ANYNET_PTR_DMABUF 0x4

/* Immutable once the selector has published it, so any thread may read it without a lock.
 * Field meanings and NCCL's use of them: net-api.md §2.8. */
struct anynet_device {
	enum anynet_transport_kind transport;
	int index; /* position in the process's list of NICs; ANYNET_DEVICES_MAX = a fused device */
	/* Unique in the list: interface, or verbs device[:port]; of a fused device its members' names, joined by '+' */
	char name[ANYNET_NAME_BYTES];
	char pci_path[PATH_MAX]; /* sysfs directory of the PCI function; "" = not a PCI device */
	uint64_t guid;
	int port;
	int speed_mbps; /* > 0 */
	bool may_be_faster; /* speed_mbps is assumed: the NIC does not tell it, as in clouds */
	int max_comms;
	int max_recvs;
	int ptr_support; /* ANYNET_PTR_* */
	char gpu_memory[ANYNET_REASON_BYTES]; /* how the NIC accesses GPU memory, or why not; "" = TCP device */
	bool reg_is_global;
	bool force_flush;

	struct sockaddr_storage addr; /* IP address to which its sockets are bound; port 0 */
	unsigned ifindex;
	char ifname[16];
	bool copies_in_kernel; /* lo, veth, …: the kernel copies in spite of MSG_ZEROCOPY */
	bool is_roce;          /* IB device with link layer Ethernet */
	int rail_id, plane_id; /* from NCCL_IB_HCA; -1 = not known */

	/* The NICs of a fused device; its comms have streams over all of them. 0 = not a fused device. The fields above
	 * are the first member's, except the name and those that fused.c combines from all members. */
	int member_count;
	const struct anynet_device *members[ANYNET_MEMBERS_MAX];
};

/* The number of NICs of a device, and NIC `i` of them. A device that is not fused is its own only NIC. */
static inline int anynet_members(const struct anynet_device *dev)
{
	return dev->member_count ? dev->member_count : 1;
}

static inline const struct anynet_device *anynet_member(const struct anynet_device *dev, int i)
{
	return dev->member_count ? dev->members[i] : dev;
}

/* One examined candidate and the verdict, for the INFO lines and `anynet devices`. */
struct anynet_candidate {
	enum anynet_transport_kind transport;
	char name[64]; /* "libibverbs", "mlx5_0:1", "eth0" */
	bool usable;
	char reason[ANYNET_REASON_BYTES]; /* why it is not usable, or what was found ("10000 Mb/s 10.0.0.2") */
};

struct anynet_probe {
	struct anynet_device devices[ANYNET_DEVICES_MAX];
	int device_count;
	struct anynet_candidate candidates[ANYNET_CANDIDATES_MAX];
	int candidate_count;
	bool stands_by; /* the probe collects standby devices: every usable path, whatever NCCL would select */
};

/* A probe appends its usable devices and a verdict for every candidate to *probe. It never fails and logs nothing. One
 * thread at a time; in the plugin under the core's init lock. The order of devices is the same in every process of a
 * host. */
void anynet_ib_probe(const struct anynet_config *cfg, struct anynet_probe *probe);
void anynet_tcp_probe(const struct anynet_config *cfg, struct anynet_probe *probe);

/* Append a verdict; those beyond ANYNET_CANDIDATES_MAX are dropped. A candidate named like a variable (NCCL_…,
 * ANYNET_…) reports a setting that could not be applied, and the selector logs it as a WARN. If there are more usable
 * verdicts than devices, the device list was full. */
void anynet_probe_verdict(struct anynet_probe *probe, enum anynet_transport_kind transport,
			  const char *name, bool usable, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

#endif
