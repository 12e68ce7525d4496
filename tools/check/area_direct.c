/* SPDX-License-Identifier: Apache-2.0 */
/* GPUDirect RDMA: the PCI path from each GPU to each verbs device, and what prevents its use. */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pci.h"

#define DEVICES      "/sys/class/infiniband"
#define NO_DISTANCE  (-1)
#define DMABUF_MAJOR 5 /* Linux 5.12 and newer can register dma-bufs */
#define DMABUF_MINOR 12

/* Properties shared by all pairs. */
struct direct {
	int reach;          /* largest enum pci_distance for GPUDirect RDMA, or NO_DISTANCE */
	const char *method; /* how a NIC reaches GPU memory; NULL = it cannot */
	const char *why;    /* if method is NULL: the reason */
	bool any_near;      /* some GPU is near enough to some NIC */
	bool acs_unknown;   /* this user cannot read some of the bridges between near pairs */
};

/* Returns NCCL_NET_GDR_LEVEL: a name, or a number as in older releases. Default, also for other values: PXB. */
static int direct_reach(void)
{
	static const struct {
		const char *text;
		int reach;
	} levels[] = {
		{ "PIX", PCI_PIX },
		{ "PXB", PCI_PXB },
		{ "PXN", PCI_PXB },
		{ "P2C", PCI_PXB },
		{ "PHB", PCI_PHB },
		{ "SYS", PCI_SYS },
		{ "1", PCI_PIX },
		{ "2", PCI_PXB },
		{ "3", PCI_PHB },
		{ "4", PCI_SYS },
		{ "5", PCI_SYS },
		/* No path to a NIC is that short. */
		{ "LOC", NO_DISTANCE },
		{ "NVL", NO_DISTANCE },
		{ "NVB", NO_DISTANCE },
		{ "C2C", NO_DISTANCE },
		{ "0", NO_DISTANCE },
	};
	const char *level = host_env("NCCL_NET_GDR_LEVEL");

	for (size_t i = 0; level && i < ARRAY_SIZE(levels); i++) {
		if (!strcasecmp(level, levels[i].text))
			return levels[i].reach;
	}
	return PCI_PXB;
}

static bool kernel_has_dmabuf(const struct host *host)
{
	char *release = host_line(host, "/proc/sys/kernel/osrelease");
	int major = DMABUF_MAJOR, minor = DMABUF_MINOR;

	if (release)
		sscanf(release, "%4d.%4d", &major, &minor);
	return major > DMABUF_MAJOR || (major == DMABUF_MAJOR && minor >= DMABUF_MINOR);
}

static void find_method(const struct host *host, struct direct *direct)
{
	char *version = host_line(host, "/proc/driver/nvidia/version");
	const char *dmabuf = host_env("NCCL_DMABUF_ENABLE");

	if (host_is_directory(host, "/sys/module/nvidia_peermem"))
		direct->method = "nvidia_peermem";
	else if (host_is_directory(host, "/sys/module/nv_peer_mem"))
		direct->method = "nv_peer_mem";
	else if (!version)
		direct->why = "no NVIDIA driver is loaded";
	else if (!strstr(version, "Open Kernel Module"))
		direct->why = "nvidia_peermem is not loaded, and dma-buf needs the driver's open "
			      "kernel modules";
	else if (!kernel_has_dmabuf(host))
		direct->why = "nvidia_peermem is not loaded, and dma-buf needs Linux 5.12";
	else if (dmabuf && !strcmp(dmabuf, "0"))
		direct->why = "nvidia_peermem is not loaded, and NCCL_DMABUF_ENABLE=0";
	else
		direct->method = "dma-buf";
}

static void report_acs(struct check *check, const char *bridge, const char *gpu, const char *device)
{
	found(check, CHECK_WARN, "acs",
	      "ACS at %s routes transfers between GPU %s and %s through the CPU",
	      strrchr(bridge, '/') + 1, gpu, device);
	found_why(check, "GPUDirect RDMA is slow or hangs");
	found_fix(check,
		  "disable ACS in the BIOS, or for this bridge: setpci -s %s ECAP_ACS+6.w=0000",
		  strrchr(bridge, '/') + 1);
}

/* ACS redirects requests at the NIC's bridges, and completions at the GPU's. */
static void check_acs(struct check *check, struct direct *direct, const char *gpu,
		      const char *gpu_path, const char *device, const char *device_path)
{
	const char *above_device = pci_acs_bridge(&check->host, device_path, &direct->acs_unknown);
	const char *above_gpu = pci_acs_bridge(&check->host, gpu_path, &direct->acs_unknown);

	if (above_device)
		report_acs(check, above_device, gpu, device);
	if (above_gpu && (!above_device || strcmp(above_device, above_gpu) != 0))
		report_acs(check, above_gpu, gpu, device);
}

static void check_way(struct check *check, struct direct *direct, const char *gpu,
		      const char *gpu_path, const char *device, const char *device_path)
{
	enum pci_distance distance = pci_distance(&check->host, gpu_path, device_path);
	const char *level = host_env("NCCL_NET_GDR_LEVEL");
	bool near = (int)distance <= direct->reach;

	direct->any_near |= near;
	if (!near)
		found(check, CHECK_OK, "way",
		      "GPU %s – %s: %s, GPUDirect RDMA not used at this distance "
		      "(NCCL_NET_GDR_LEVEL%s%s)",
		      gpu, device, pci_distance_name(distance), level ? "=" : "",
		      level ? level : "");
	else
		found(check, CHECK_OK, "way", "GPU %s – %s: %s, GPUDirect RDMA %s%s", gpu, device,
		      pci_distance_name(distance), direct->method ? "by " : "not used: ",
		      direct->method ? direct->method : direct->why);
	if (near && direct->method)
		check_acs(check, direct, gpu, gpu_path, device, device_path);
}

static void check_iommu(struct check *check, const char *gpu)
{
	char *type = host_line(&check->host,
			       text_format("/sys/bus/pci/devices/%s/iommu_group/type", gpu));

	if (type && !strncmp(type, "DMA", 3)) {
		found(check, CHECK_WARN, "iommu", "the IOMMU translates addresses for GPU %s (%s)",
		      gpu, type);
		found_why(check, "transfers between GPU and NIC pass through the CPU, or fail");
		found_fix(check, "boot with iommu=pt, or disable the IOMMU; in a virtual machine "
				 "the host controls it");
	}
}

static void report_direct(struct check *check, const struct direct *direct, bool has_driver)
{
	if (direct->any_near && !direct->method && has_driver) {
		found(check, CHECK_NOTE, "direct-none", "GPUDirect RDMA is not used: %s",
		      direct->why);
		found_why(check, "transfers between GPU and NIC pass through main memory: slower, "
				 "but correct");
		found_fix(check, "modprobe nvidia-peermem, or use the driver's open kernel modules "
				 "with Linux 5.12 or newer");
	}
	if (direct->acs_unknown)
		found(check, CHECK_NOTE, "acs-unknown",
		      "only root can read whether ACS is enabled between GPUs and NICs: run this "
		      "as root as well");
}

void check_direct(struct check *check, const struct text_list *gpus)
{
	struct text_list devices = host_list(&check->host, DEVICES);
	struct direct direct = { .reach = direct_reach() };

	find_method(&check->host, &direct);
	for (size_t i = 0; devices.count && i < gpus->count; i++) {
		char *gpu_path = pci_path(&check->host, gpus->items[i]);

		check_iommu(check, gpus->items[i]);
		for (size_t j = 0; gpu_path && j < devices.count; j++) {
			char *path = pci_path(&check->host,
					      text_format(DEVICES "/%s/device", devices.items[j]));

			if (path)
				check_way(check, &direct, gpus->items[i], gpu_path,
					  devices.items[j], path);
		}
	}
	report_direct(check, &direct, host_is_file(&check->host, "/proc/driver/nvidia/version"));
}
