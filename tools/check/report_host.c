/* SPDX-License-Identifier: Apache-2.0 */
/* Other parts of a host's report: the system, libraries, GPUs, and their distances to the adapters. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "pci.h"
#include "tools/shared/nvml.h"

#define CMDLINE_BYTES 4096
#define FILE_BYTES    65536

/* Returns the words of the kernel command line that affect DMA between devices. */
static json_t *kernel_words(const struct host *host)
{
	static const char *const begins[] = { "iommu", "intel_iommu", "amd_iommu",
					      "pci=", "arm-smmu" };
	char *line = host_read(host, "/proc/cmdline", CMDLINE_BYTES, NULL), *state = NULL;
	json_t *words = json_array();

	for (char *word = line ? strtok_r(line, " \t\n", &state) : NULL; word;
	     word = strtok_r(NULL, " \t\n", &state)) {
		for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
			char *text;

			if (strncmp(word, begins[i], strlen(begins[i])) != 0)
				continue;
			text = text_printable(word);
			json_array_append_new(words, json_string(text));
			free(text);
			break;
		}
	}
	free(line);
	return words;
}

/* Returns the value of the first line "key: value" or "key=value" in a file; NULL = none. The
 * caller frees it. */
static char *value_in(const struct host *host, const char *path, const char *key)
{
	char *text = host_read(host, path, FILE_BYTES, NULL), *state = NULL, *value = NULL;

	for (char *line = text ? strtok_r(text, "\n", &state) : NULL; line && !value;
	     line = strtok_r(NULL, "\n", &state)) {
		if (!strncmp(line, key, strlen(key))) {
			line += strlen(key) + strspn(line + strlen(key), " \t:=\"");
			value = text_copy(line, strcspn(line, "\""));
		}
	}
	free(text);
	return value;
}

static void add_value(json_t *object, const char *name, const struct host *host, const char *path,
		      const char *key)
{
	char *value = value_in(host, path, key), *text = value ? text_printable(value) : NULL;

	if (text)
		json_object_set_new(object, name, json_string(text));
	free(text);
	free(value);
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
		free(dir);
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
	text_list_free(&groups);
	return system;
}

/* Lists the verbs providers beside libibverbs: "libmlx5-rdmav34.so". */
static json_t *providers(const struct host *host, const char *library)
{
	const char *slash = strrchr(library, '/');
	char *dir = text_format("%.*s/libibverbs", (int)(slash - library), library);
	struct text_list names = host_list(host, dir);
	json_t *list = json_array();

	for (size_t i = 0; i < names.count; i++) {
		char *name = text_printable(names.items[i]);

		json_array_append_new(list, json_string(name));
		free(name);
	}
	text_list_free(&names);
	free(dir);
	return list;
}

static json_t *library(const struct check *check, const char *name)
{
	char *path = loader_find(&check->loader, name, NULL, NULL);
	char *real = path ? host_resolve(&check->host, path) : NULL;
	char *text = real ? text_printable(real) : NULL;
	json_t *found = text ? json_pack("{s:s}", "file", text) : json_null();

	if (text && strstr(name, "ibverbs"))
		json_object_set_new(found, "providers", providers(&check->host, real));
	free(text);
	free(real);
	free(path);
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
		char version[16], *path = text_printable(copy->path);

		json_array_append_new(copies,
				      json_pack("{s:s, s:s, s:s}", "file", path, "version",
						nccl_version_text(copy->version.code, version),
						"cuda", copy->version.cuda));
		free(path);
	}
	json_object_set_new(all, "nccl", copies);
	return all;
}

/* Adds the PCI distance and ACS state between a GPU and each adapter. */
static void add_ways(json_t *ways, const struct host *host, const char *gpu, const char *path)
{
	struct text_list names = host_list(host, "/sys/class/infiniband");

	for (size_t i = 0; i < names.count; i++) {
		char *link = text_format("/sys/class/infiniband/%s/device", names.items[i]);
		char *adapter = pci_path(host, link), *name = text_printable(names.items[i]);
		bool unknown = false;
		char *bridge = adapter ? pci_acs_bridge(host, adapter, &unknown) : NULL;

		if (adapter)
			json_array_append_new(ways,
					      json_pack("{s:s, s:s, s:s, s:s}", "gpu", gpu,
							"adapter", name, "distance",
							pci_distance_name(
								pci_distance(host, path, adapter)),
							"acs",
							bridge    ? strrchr(bridge, '/') + 1
							: unknown ? "not readable"
								  : "off"));
		free(bridge);
		free(name);
		free(adapter);
		free(link);
	}
	text_list_free(&names);
}

json_t *report_gpus(const struct check *check)
{
	struct text_list addresses = pci_gpus(&check->host);
	json_t *all = json_object(), *list = json_array(), *ways = json_array(),
	       *names = json_array();
	struct nvml *nvml = text_grow(NULL, sizeof(*nvml));

	for (size_t i = 0; i < addresses.count; i++) {
		char *path = pci_path(&check->host, addresses.items[i]);

		if (path) {
			json_array_append_new(list, report_pci(&check->host, path));
			add_ways(ways, &check->host, addresses.items[i], path);
		}
		free(path);
	}
	text_list_free(&addresses);
	nvml_read(nvml);
	for (int i = 0; nvml->state == NVML_WORKS && i < nvml->count; i++) {
		char *name = text_printable(nvml->gpus[i].name);

		json_array_append_new(names, json_pack("{s:s, s:s}", "name", name, "bus",
						       nvml->gpus[i].bus_id));
		free(name);
	}
	if (nvml->state == NVML_WORKS) {
		json_object_set_new(all, "driver", json_string(nvml->driver));
		json_object_set_new(all, "cuda", json_integer(nvml->cuda));
	}
	add_value(all, "kernel_module", &check->host, "/proc/driver/nvidia/version",
		  "NVRM version:");
	json_object_set_new(all, "names", names);
	json_object_set_new(all, "pci", list);
	json_object_set_new(all, "ways", ways);
	free(nvml);
	return all;
}
