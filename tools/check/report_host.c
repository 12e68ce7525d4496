/* SPDX-License-Identifier: Apache-2.0 */
/* Other parts of a host's report: the system, libraries, GPUs, and their distances to the adapters. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "pci.h"
#include "tools/shared/memory.h"
#include "tools/shared/nvml.h"
#include "tools/shared/text.h"

#define CMDLINE_BYTES 4096
#define FILE_BYTES    65536

/* Returns the words of the kernel command line that affect DMA between devices. */
static json_t *kernel_words(const struct host *host)
{
	static const char *const begins[] = { "iommu", "intel_iommu", "amd_iommu",
					      "pci=", "arm-smmu" };
	const char *line = host_read(host, "/proc/cmdline", CMDLINE_BYTES, NULL), *word;
	json_t *words = json_array();

	while (line && (word = text_next(&line, " \t\n"))) {
		for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
			if (strncmp(word, begins[i], strlen(begins[i])) != 0)
				continue;
			json_array_append_new(words, document_text(word));
			break;
		}
	}
	return words;
}

/* Adds the value of the first line "key: value" or "key=value" in a file. */
static void add_value(json_t *object, const char *name, const struct host *host, const char *path,
		      const char *key)
{
	const char *text = host_read(host, path, FILE_BYTES, NULL), *line;

	while (text && (line = text_next(&text, "\n"))) {
		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		line += strlen(key) + strspn(line + strlen(key), " \t:=\"");
		json_object_set_new(object, name,
				    document_text(text_copy(line, strcspn(line, "\""))));
		return;
	}
}

/* Returns the relevant kernel modules that are loaded, with their versions if known. */
static json_t *modules(const struct host *host)
{
	static const char *const names[] = {
		"bnxt_re",   "efa",       "erdma",       "hns_roce", "hns_roce_hw_v2",
		"ib_core",   "ib_uverbs", "irdma",       "mana_ib",  "mlx4_ib",
		"mlx5_core", "mlx5_ib",   "nv_peer_mem", "nvidia",   "nvidia_peermem",
		"qedr",      "rdma_cm",   "rdma_rxe",    "siw",      "vmw_pvrdma",
	};
	json_t *all = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *dir = text_format("/sys/module/%s", names[i]);
		json_t *module = json_object();

		if (host_is_directory(host, dir)) {
			report_line(module, "version", host, dir, "version");
			json_object_set(all, names[i], module);
		}
		json_decref(module);
	}
	return all;
}

json_t *report_system(const struct check *check)
{
	const struct host *host = &check->host;
	struct text_list groups = host_list(host, "/sys/kernel/iommu_groups");
	json_t *system = json_object();

	report_line(system, "release", host, "/proc/sys/kernel", "osrelease");
	add_value(system, "distribution", host, "/etc/os-release", "PRETTY_NAME=");
	add_value(system, "processor", host, "/proc/cpuinfo", "model name");
	report_line(system, "machine", host, "/sys/class/dmi/id", "product_name");
	report_line(system, "maker", host, "/sys/class/dmi/id", "sys_vendor");
	json_object_set_new(system, "iommu_groups", json_integer((json_int_t)groups.count));
	json_object_set_new(system, "kernel_words", kernel_words(host));
	json_object_set_new(system, "modules", modules(host));
	return system;
}

/* Lists the verbs providers beside libibverbs: "libmlx5-rdmav34.so". */
static json_t *providers(const struct host *host, const char *library)
{
	const char *slash = strrchr(library, '/');
	struct text_list names =
		host_list(host, text_format("%.*s/libibverbs", (int)(slash - library), library));
	json_t *list = json_array();

	for (size_t i = 0; i < names.count; i++)
		json_array_append_new(list, document_text(names.items[i]));
	return list;
}

static json_t *library(const struct check *check, const char *name)
{
	char *path = loader_find(&check->loader, name, NULL, NULL);
	char *real = path ? host_resolve(&check->host, path) : NULL;
	json_t *found = real ? json_pack("{s:o}", "file", document_text(real)) : json_null();

	if (real && strstr(name, "ibverbs"))
		json_object_set_new(found, "providers", providers(&check->host, real));
	return found;
}

json_t *report_libraries(const struct check *check)
{
	static const char *const names[] = { "libibverbs.so.1", "librdmacm.so.1", "libcuda.so.1",
					     "libnvidia-ml.so.1" };
	json_t *all = json_object(), *copies = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		json_object_set_new(all, names[i], library(check, names[i]));
	for (size_t i = 0; i < check->copies.count; i++) {
		const struct nccl_copy *copy = &check->copies.list[i];
		char version[16];

		json_array_append_new(copies,
				      json_pack("{s:o, s:s, s:s}", "file",
						document_text(copy->path), "version",
						nccl_version_text(copy->version.code, version),
						"cuda", copy->version.cuda));
	}
	json_object_set_new(all, "nccl", copies);
	return all;
}

/* Adds the PCI distance and ACS state between a GPU and each adapter. */
static void add_ways(json_t *ways, const struct host *host, const char *gpu, const char *path)
{
	struct text_list names = host_list(host, "/sys/class/infiniband");

	for (size_t i = 0; i < names.count; i++) {
		char *adapter = pci_path(host, text_format("/sys/class/infiniband/%s/device",
							   names.items[i]));
		bool unknown = false;
		char *bridge = adapter ? pci_acs_bridge(host, adapter, &unknown) : NULL;

		if (!adapter)
			continue;
		json_array_append_new(
			ways, json_pack("{s:s, s:o, s:s, s:s}", "gpu", gpu, "adapter",
					document_text(names.items[i]), "distance",
					pci_distance_name(pci_distance(host, path, adapter)), "acs",
					bridge    ? strrchr(bridge, '/') + 1
					: unknown ? "not readable"
						  : "off"));
	}
}

json_t *report_gpus(const struct check *check)
{
	struct text_list addresses = pci_gpus(&check->host);
	json_t *all = json_object(), *list = json_array(), *ways = json_array(),
	       *names = json_array();
	struct nvml *nvml = memory_get(sizeof(*nvml));

	for (size_t i = 0; i < addresses.count; i++) {
		char *path = pci_path(&check->host, addresses.items[i]);

		if (path) {
			json_array_append_new(list, report_pci(&check->host, path));
			add_ways(ways, &check->host, addresses.items[i], path);
		}
	}
	nvml_read(nvml);
	for (int i = 0; nvml->state == NVML_WORKS && i < nvml->count; i++)
		json_array_append_new(names, json_pack("{s:o, s:s}", "name",
						       document_text(nvml->gpus[i].name), "bus",
						       nvml->gpus[i].bus_id));
	if (nvml->state == NVML_WORKS) {
		json_object_set_new(all, "driver", json_string(nvml->driver));
		json_object_set_new(all, "cuda", json_integer(nvml->cuda));
	}
	add_value(all, "kernel_module", &check->host, "/proc/driver/nvidia/version",
		  "NVRM version:");
	json_object_set_new(all, "names", names);
	json_object_set_new(all, "pci", list);
	json_object_set_new(all, "ways", ways);
	return all;
}
