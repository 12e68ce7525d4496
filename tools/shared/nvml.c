/* SPDX-License-Identifier: Apache-2.0 */
/* NVML; see nvml.h. Declares the functions and structures that it uses, so that no NVML header is needed. */
#include "nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "transports/base/library.h"

#define SUCCESS             0
#define VERSION_MISMATCH    18
#define UNCORRECTED         1
#define SINCE_DRIVER_LOADED 0

typedef void *device;

struct memory {
	unsigned long long total, free, used;
};

struct pci_info {
	char legacy_id[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct functions {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_text)(int result);
	int (*driver)(char *text, unsigned bytes);
	int (*count)(unsigned *count);
	int (*by_index)(unsigned index, device *dev);
	/* The following are NULL in old versions of the library. */
	int (*cuda)(int *version);
	int (*name)(device dev, char *text, unsigned bytes);
	int (*memory)(device dev, struct memory *memory);
	int (*pci)(device dev, struct pci_info *info);
	int (*ecc)(device dev, int type, int counter, unsigned long long *count);
	int (*remapped)(device dev, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
			unsigned *failed);
};

#define NEEDED(name, member)                                          \
	{                                                             \
		name, offsetof(struct functions, member), NULL, false \
	}
#define OPTIONAL(name, member)                                       \
	{                                                            \
		name, offsetof(struct functions, member), NULL, true \
	}

static const struct library_function wanted[] = {
	NEEDED("nvmlInit_v2", init),
	NEEDED("nvmlShutdown", shutdown),
	NEEDED("nvmlErrorString", error_text),
	NEEDED("nvmlSystemGetDriverVersion", driver),
	NEEDED("nvmlDeviceGetCount_v2", count),
	NEEDED("nvmlDeviceGetHandleByIndex_v2", by_index),
	OPTIONAL("nvmlSystemGetCudaDriverVersion", cuda),
	OPTIONAL("nvmlDeviceGetName", name),
	OPTIONAL("nvmlDeviceGetMemoryInfo", memory),
	OPTIONAL("nvmlDeviceGetPciInfo_v3", pci),
	OPTIONAL("nvmlDeviceGetTotalEccErrors", ecc),
	OPTIONAL("nvmlDeviceGetRemappedRows", remapped),
};

static void read_gpu(const struct functions *functions, device dev, struct nvml_gpu *gpu)
{
	unsigned corrected, uncorrected, pending = 0, failed = 0;
	struct memory memory = { 0 };
	struct pci_info pci = { .bus_id = "" };

	*gpu = (struct nvml_gpu){ .name = "GPU" };
	if (functions->name)
		functions->name(dev, gpu->name, sizeof(gpu->name));
	gpu->name[sizeof(gpu->name) - 1] = 0;
	if (functions->memory && !functions->memory(dev, &memory)) {
		gpu->total = memory.total;
		gpu->free = memory.free;
	}
	if (functions->pci && !functions->pci(dev, &pci))
		memcpy(gpu->bus_id, pci.bus_id, sizeof(gpu->bus_id) - 1);
	if (functions->ecc &&
	    functions->ecc(dev, UNCORRECTED, SINCE_DRIVER_LOADED, &gpu->uncorrected))
		gpu->uncorrected = 0;
	if (functions->remapped &&
	    !functions->remapped(dev, &corrected, &uncorrected, &pending, &failed)) {
		gpu->remap_pending = pending;
		gpu->remap_failed = failed;
	}
}

static void read_gpus(const struct functions *functions, struct nvml *nvml)
{
	unsigned count = 0;

	functions->driver(nvml->driver, sizeof(nvml->driver));
	nvml->driver[sizeof(nvml->driver) - 1] = 0;
	if (functions->cuda && functions->cuda(&nvml->cuda))
		nvml->cuda = 0;
	if (functions->count(&count))
		count = 0;
	for (unsigned i = 0; i < count && nvml->count < NVML_GPUS_MAX; i++) {
		device dev;

		if (!functions->by_index(i, &dev))
			read_gpu(functions, dev, &nvml->gpus[nvml->count++]);
	}
}

void nvml_read(struct nvml *nvml)
{
	struct functions functions;
	char why[256];
	int result = library_open("libnvidia-ml.so.1", wanted, ARRAY_SIZE(wanted), &functions, why,
				  sizeof(why));

	*nvml = (struct nvml){ .state = result == -ENOENT ? NVML_ABSENT : NVML_FAILED };
	if (result) {
		snprintf(nvml->error, sizeof(nvml->error), "it lacks functions");
		return;
	}
	result = functions.init();
	if (result == SUCCESS) {
		nvml->state = NVML_WORKS;
		read_gpus(&functions, nvml);
		functions.shutdown();
	} else {
		const char *text = functions.error_text(result);

		nvml->state = result == VERSION_MISMATCH ? NVML_MISMATCH : NVML_FAILED;
		snprintf(nvml->error, sizeof(nvml->error), "%s", text ? text : "no reason given");
	}
	dlclose(functions.library);
}
