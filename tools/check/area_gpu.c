/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs: driver and CUDA, memory, errors, and the way from each to the verbs devices. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "kernel_log.h"
#include "nvml.h"
#include "pci.h"

#define AREA       "gpu"
#define DEVICES    "/sys/class/infiniband"
#define FREE_LEAST 10 /* percent */
#define GIB        (1ull << 30)

/* The oldest driver on which a CUDA of this major version runs. */
static const struct {
	int cuda;
	int driver; /* its first number */
	const char *text;
} oldest_drivers[] = {
	{ 11, 450, "450.80.02" },
	{ 12, 525, "525.60.13" },
	{ 13, 580, "580.65.06" },
};

/* The driver's version as the kernel tells it, "535.104.05"; NULL = none is loaded. The caller's. */
static char *driver_version(const struct host *host)
{
	char *line = host_line(host, "/proc/driver/nvidia/version"), *version = NULL;

	/* "NVRM version: NVIDIA UNIX [Open] … Kernel Module [for …]  535.104.05  Sat Aug …" */
	for (char *word = line ? strtok(line, " \t") : NULL; word && !version;
	     word = strtok(NULL, " \t")) {
		if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.'))
			version = text_copy(word, strlen(word));
	}
	free(line);
	return version;
}

/* A libcuda for newer CUDAs than the driver's, if it is the one that the loader takes: a package that
 * data centre GPUs may use. The caller's. */
static char *compat_library(const struct check *check)
{
	char *path = loader_find(&check->loader, "libcuda.so.1", NULL, NULL);

	if (path && strstr(path, "/compat/"))
		return path;
	free(path);
	return NULL;
}

static void check_driver_for(struct check *check, const char *driver, const char *who,
			     const char *cuda)
{
	for (size_t i = 0; i < ARRAY_SIZE(oldest_drivers); i++) {
		if (atoi(cuda) != oldest_drivers[i].cuda ||
		    atoi(driver) >= oldest_drivers[i].driver)
			continue;
		finding_add(&check->report, CHECK_ERROR, AREA, "driver-old",
			    "%s is for CUDA %s, which needs driver %s or newer; this host has %s",
			    who, cuda, oldest_drivers[i].text, driver);
		finding_why(&check->report,
			    "\"CUDA driver version is insufficient for CUDA runtime "
			    "version\", unhandled cuda error");
		finding_fix(&check->report,
			    "install a newer driver, or packages for an older CUDA (a cuda-compat "
			    "package on LD_LIBRARY_PATH does for data centre GPUs)");
	}
}

static void check_driver(struct check *check, const char *driver)
{
	const struct nccl_copies *copies = &check->copies;
	const struct nccl_copy *by_default = copies_at(copies, &check->host, copies->by_default);
	char *compat = compat_library(check);

	finding_add(&check->report, CHECK_OK, AREA, "driver", "driver %s", driver);
	if (compat) {
		finding_add(&check->report, CHECK_NOTE, AREA, "driver-compat",
			    "programs take %s, which may run newer CUDAs than the driver", compat);
		free(compat);
		return;
	}
	for (size_t i = 0; i < copies->user_count; i++) {
		const struct nccl_user *user = &copies->users[i];
		char *who = text_format("%s %s in %s", user->name, user->version, user->site->path);

		check_driver_for(check, driver, who, *user->cuda ? user->cuda : user->nccl.cuda);
		free(who);
	}
	if (by_default)
		check_driver_for(check, driver, by_default->path, by_default->version.cuda);
}

static void report_gpu(struct check *check, const struct nvml_gpu *gpu, int index)
{
	finding_add(&check->report, CHECK_OK, AREA, "gpu", "GPU %d %s, %s: %.1f of %.1f GiB free",
		    index, gpu->name, gpu->bus_id, (double)gpu->free / (double)GIB,
		    (double)gpu->total / (double)GIB);
	if (gpu->total && gpu->free < gpu->total / 100 * FREE_LEAST) {
		finding_add(&check->report, CHECK_WARN, AREA, "memory-full",
			    "GPU %d has %.1f of %.1f GiB of memory left", index,
			    (double)gpu->free / (double)GIB, (double)gpu->total / (double)GIB);
		finding_why(&check->report, "NCCL needs some for each connection: \"unhandled cuda "
					    "error\", out of memory");
		finding_fix(&check->report, "end what is left over there (nvidia-smi lists it), or "
					    "leave NCCL more room: smaller batches");
	}
	if (gpu->uncorrected) {
		finding_add(&check->report, CHECK_WARN, AREA, "ecc",
			    "GPU %d has had %llu uncorrected memory errors", index,
			    gpu->uncorrected);
		finding_why(&check->report, "programs on it end with \"unhandled cuda error\"");
		finding_fix(&check->report,
			    "reset it (nvidia-smi -r) or start the host again; have "
			    "it changed if they come back");
	}
	if (gpu->remap_pending || gpu->remap_failed) {
		finding_add(&check->report, CHECK_WARN, AREA, "remap",
			    "GPU %d %s rows of its memory", index,
			    gpu->remap_failed ? "could not replace" : "is to replace");
		finding_fix(&check->report, gpu->remap_failed ? "have the GPU changed"
							      : "reset it (nvidia-smi -r)");
	}
}

static void check_nvml(struct check *check, bool has_gpus)
{
	struct nvml *nvml = text_grow(NULL, sizeof(*nvml));

	nvml_read(nvml);
	switch (nvml->state) {
	case NVML_ABSENT:
		finding_add(&check->report, CHECK_NOTE, AREA, "nvml-none",
			    "libnvidia-ml.so.1 is not there: nothing is known of %s",
			    has_gpus ? "the GPUs' memory and errors" : "GPUs");
		break;
	case NVML_MISMATCH:
		finding_add(&check->report, CHECK_ERROR, AREA, "driver-mismatch",
			    "the driver's library and its kernel module differ: %s", nvml->error);
		finding_why(&check->report, "nothing that uses CUDA works until they agree");
		finding_fix(&check->report, "start the host again, or load the new module: the "
					    "driver was updated underneath");
		break;
	case NVML_FAILED:
		finding_add(&check->report, has_gpus ? CHECK_WARN : CHECK_NOTE, AREA, "nvml-failed",
			    "libnvidia-ml.so.1 does not start: %s", nvml->error);
		break;
	case NVML_WORKS:
		if (nvml->cuda)
			finding_add(&check->report, CHECK_OK, AREA, "cuda",
				    "driver %s runs CUDA up to %d.%d", nvml->driver,
				    nvml->cuda / 1000, nvml->cuda / 10 % 100);
		for (int i = 0; i < nvml->count; i++)
			report_gpu(check, &nvml->gpus[i], i);
		break;
	}
	free(nvml);
}

static void check_log(struct check *check)
{
	char *log = kernel_log_read(&check->host);
	const char *meaning;
	struct xid xid;

	if (log && xid_find(log, &xid)) {
		meaning = xid_meaning(xid.number);
		finding_add(&check->report, CHECK_WARN, AREA, "xid",
			    "the kernel's log has %u XID error%s; the last is %d on %s%s%s",
			    xid.count, xid.count == 1 ? "" : "s", xid.number, xid.device,
			    meaning ? ", " : "", meaning ? meaning : "");
		finding_why(&check->report, "a GPU or its driver has failed: \"unhandled cuda "
					    "error\" in whatever ran on it");
		finding_fix(
			&check->report, "%s",
			meaning ? "reset the GPU (nvidia-smi -r) or start the host again; have "
				  "it looked at if it comes back"
				: "look at the program that ran then (dmesg shows its process)");
	}
	free(log);
}

/* How a NIC reaches GPU memory; NULL = it does not. */
static const char *direct_method(const struct host *host)
{
	char *version = host_line(host, "/proc/driver/nvidia/version");
	bool open_module = version && strstr(version, "Open Kernel Module");

	free(version);
	if (host_is_directory(host, "/sys/module/nvidia_peermem"))
		return "nvidia_peermem";
	if (host_is_directory(host, "/sys/module/nv_peer_mem"))
		return "nv_peer_mem";
	return open_module ? "dma-buf" : NULL;
}

static void check_way(struct check *check, const char *gpu, const char *gpu_path,
		      const char *device, const char *device_path)
{
	enum pci_distance distance = pci_distance(&check->host, gpu_path, device_path);
	const char *method = direct_method(&check->host);
	bool near = distance <= PCI_PXB;
	char *bridge;

	finding_add(&check->report, CHECK_OK, AREA, "way", "GPU %s – %s: %s, GPUDirect RDMA %s%s",
		    gpu, device, pci_distance_name(distance),
		    !near    ? "not used at this distance (NCCL_NET_GDR_LEVEL)"
		    : method ? "by "
			     : "not used: neither nvidia_peermem nor dma-buf",
		    near && method ? method : "");
	bridge = near && method ? pci_acs_bridge(&check->host, device_path) : NULL;
	if (bridge) {
		finding_add(&check->report, CHECK_WARN, AREA, "acs",
			    "ACS at %s sends what passes between GPU %s and %s over the processor",
			    strrchr(bridge, '/') + 1, gpu, device);
		finding_why(&check->report, "GPUDirect RDMA is slow then, or hangs");
		finding_fix(&check->report,
			    "switch ACS off in the BIOS, or for this bridge: "
			    "setpci -s %s ECAP_ACS+6.w=0000",
			    strrchr(bridge, '/') + 1);
	}
	free(bridge);
}

static void check_iommu(struct check *check, const char *gpu)
{
	char *path = text_format("/sys/bus/pci/devices/%s/iommu_group/type", gpu);
	char *type = host_line(&check->host, path);

	if (type && !strncmp(type, "DMA", 3)) {
		finding_add(&check->report, CHECK_WARN, AREA, "iommu",
			    "the IOMMU translates for GPU %s (%s)", gpu, type);
		finding_why(&check->report, "between GPU and NIC, data then pass the processor, or "
					    "do not arrive");
		finding_fix(&check->report, "boot with iommu=pt, or switch the IOMMU off; in a "
					    "virtual machine leave it to the host");
	}
	free(type);
	free(path);
}

/* From each GPU to each verbs device. */
static void check_ways(struct check *check, const struct text_list *gpus)
{
	struct text_list devices = host_list(&check->host, DEVICES);

	for (size_t i = 0; devices.count && i < gpus->count; i++) {
		char *gpu_path = pci_path(&check->host, gpus->items[i]);

		check_iommu(check, gpus->items[i]);
		for (size_t j = 0; gpu_path && j < devices.count; j++) {
			char *link = text_format(DEVICES "/%s/device", devices.items[j]);
			char *path = pci_path(&check->host, link);

			if (path)
				check_way(check, gpus->items[i], gpu_path, devices.items[j], path);
			free(path);
			free(link);
		}
		free(gpu_path);
	}
	text_list_free(&devices);
}

void check_gpu(struct check *check)
{
	struct text_list gpus = pci_gpus(&check->host);
	char *driver = driver_version(&check->host);

	if (driver) {
		check_driver(check, driver);
	} else if (gpus.count) {
		finding_add(&check->report, CHECK_WARN, AREA, "driver-none",
			    "GPU %s is there, but no driver of NVIDIA's is loaded", gpus.items[0]);
		finding_why(&check->report, "CUDA finds no device");
		finding_fix(&check->report, "install the driver, or modprobe nvidia");
	}
	check_nvml(check, gpus.count || driver);
	check_log(check);
	check_ways(check, &gpus);
	free(driver);
	text_list_free(&gpus);
}
