/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and the probes that find them: the contract between the selector (plugin/) and the
 * transports. A device is what NCCL calls one: a NIC port it may put channels on.
 */
#ifndef ANYNET_DEVICE_H
#define ANYNET_DEVICE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <nccl_net/config.h>

#define ANYNET_DEVICES_MAX    64 /* ports of all kinds on one host; more are ignored with a WARN */
#define ANYNET_CANDIDATES_MAX 128
#define ANYNET_REASON_BYTES   200
#define ANYNET_MEMBERS_MAX    8   /* NICs of a fused device (net-api.md §1.5) */
#define ANYNET_NAME_BYTES     256 /* NCCL's topology keeps no more of a name */

enum anynet_link { ANYNET_LINK_TCP, ANYNET_LINK_IB };

/* NCCL's pointer kinds (net-api.md §1.2). */
#define ANYNET_PTR_HOST	  0x1
#define ANYNET_PTR_CUDA	  0x2
#define ANYNET_PTR_DMABUF 0x4

/* Immutable once the selector has published it, so any thread reads it without a lock.
 * Field meanings and NCCL's use of them: net-api.md §2.8. */
struct anynet_device {
	enum anynet_link link;
	int index; /* position in the process's list of NICs; ANYNET_DEVICES_MAX = a fused device */
	/* Unique in the list: interface, or verbs device[:port]; fused: the members', joined by '+'. */
	char name[ANYNET_NAME_BYTES];
	char pci_path[PATH_MAX]; /* sysfs directory of the PCI function; "" = not a PCI device */
	uint64_t guid;
	int port;
	int speed_mbps; /* > 0 */
	float latency_us;
	int max_comms;
	int max_recvs;
	int ptr_support; /* ANYNET_PTR_* */
	char gpu_memory[ANYNET_REASON_BYTES]; /* how it reaches GPU memory, or why not; "" = it is TCP's */
	bool reg_is_global;
	bool force_flush;

	struct sockaddr_storage addr; /* IP address its sockets are bound to; port 0 */
	unsigned ifindex;
	char ifname[16];
	bool copies_in_kernel; /* lo, veth …: MSG_ZEROCOPY would copy all the same */
	bool is_roce;          /* of an IB device: its link layer is Ethernet */
	int rail_id, plane_id; /* as the user numbers them (NCCL_IB_HCA); -1 = not known */

	/* A fused device: the NICs that it stands for, whose comms have streams over all of them. What is
	 * above is the first one's, but for names and sums. 0 = this is a NIC itself. */
	int member_count;
	const struct anynet_device *members[ANYNET_MEMBERS_MAX];
};

/* The NICs of a device, a NIC being its only one. */
static inline int anynet_members(const struct anynet_device *dev)
{
	return dev->member_count ? dev->member_count : 1;
}

static inline const struct anynet_device *anynet_member(const struct anynet_device *dev, int i)
{
	return dev->member_count ? dev->members[i] : dev;
}

/* One thing that was looked at, and the verdict: what the INFO lines and `anynet devices` print. */
struct anynet_candidate {
	enum anynet_link link;
	char name[64]; /* "libibverbs", "mlx5_0:1", "eth0" */
	bool usable;
	char reason[ANYNET_REASON_BYTES]; /* why not; or what was found ("10000 Mb/s 10.0.0.2") */
};

struct anynet_probe {
	struct anynet_device devices[ANYNET_DEVICES_MAX];
	int device_count;
	struct anynet_candidate candidates[ANYNET_CANDIDATES_MAX];
	int candidate_count;
	bool stands_by; /* its devices are not for NCCL: all paths are wanted, whatever NCCL would take */
};

/*
 * A transport's probe appends its usable devices and a verdict for every candidate to *probe. It
 * never fails, prints nothing, and is called once per process under the core's init lock. The order
 * of devices is the same in every process of a host.
 */
struct anynet_transport {
	const char *name; /* "IB", "TCP" */
	enum anynet_link link;
	void (*probe)(const struct anynet_config *cfg, struct anynet_probe *probe);

	/* Devices that stand by for those that the probe has added, which NCCL does not see: for
	 * control connections, and for data when no other path is left. Their indices follow those
	 * of the NICs that NCCL sees and are below ANYNET_DEVICES_MAX. Constant after the probe; any thread.
	 * NULL = this transport has none. */
	const struct anynet_device *const *(*standby)(int *count);
};

extern const struct anynet_transport anynet_ib_transport;
extern const struct anynet_transport anynet_tcp_transport;

/* Append a verdict; further ones than ANYNET_CANDIDATES_MAX are dropped. A candidate named like a
 * variable (NCCL_…, ANYNET_…) is a setting that could not be honoured: the selector warns. More
 * usable verdicts than devices mean that the device list was full. */
void anynet_probe_verdict(struct anynet_probe *probe, enum anynet_link link, const char *name,
			  bool usable, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
