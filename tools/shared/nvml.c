/* SPDX-License-Identifier: Apache-2.0 */
/* NVML; see nvml.h. Declares the functions and structures that it uses, so that no NVML header is needed. */
#include "nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

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

/* Returns false if a required function is missing. */
static bool find_functions(void *library, struct functions *functions)
{
	const struct {
		const char *name;
		void *place;
		bool needed;
	} wanted[] = {
		{ "nvmlInit_v2", &functions->init, true },
		{ "nvmlShutdown", &functions->shutdown, true },
		{ "nvmlErrorString", &functions->error_text, true },
		{ "nvmlSystemGetDriverVersion", &functions->driver, true },
		{ "nvmlDeviceGetCount_v2", &functions->count, true },
		{ "nvmlDeviceGetHandleByIndex_v2", &functions->by_index, true },
		{ "nvmlSystemGetCudaDriverVersion", &functions->cuda, false },
		{ "nvmlDeviceGetName", &functions->name, false },
		{ "nvmlDeviceGetMemoryInfo", &functions->memory, false },
		{ "nvmlDeviceGetPciInfo_v3", &functions->pci, false },
		{ "nvmlDeviceGetTotalEccErrors", &functions->ecc, false },
		{ "nvmlDeviceGetRemappedRows", &functions->remapped, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		void *symbol = dlsym(library, wanted[i].name);

		if (!symbol && wanted[i].needed)
			return false;
		memcpy(wanted[i].place, &symbol, sizeof(symbol));
	}
	return true;
}

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
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	struct functions functions;
	int result;

	*nvml = (struct nvml){ .state = NVML_ABSENT };
	if (!library)
		return;
	nvml->state = NVML_FAILED;
	if (!find_functions(library, &functions)) {
		snprintf(nvml->error, sizeof(nvml->error), "it lacks functions");
		dlclose(library);
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
	dlclose(library);
}
