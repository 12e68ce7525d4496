/* SPDX-License-Identifier: Apache-2.0 */
/* GPU state from NVIDIA's management library, which is opened at run time if present. */
#ifndef TOOLS_NVML_H
#define TOOLS_NVML_H

#include <stdbool.h>

#define NVML_GPUS_MAX 64

struct nvml_gpu {
	char name[96];
	char bus_id[32];                  /* "00000000:3B:00.0"; "" = unknown */
	unsigned long long total, free;   /* bytes of memory; 0 = unknown */
	unsigned long long uncorrected;   /* uncorrected ECC errors since the driver was loaded */
	bool remap_pending, remap_failed; /* remapping of memory rows */
};

enum nvml_state {
	NVML_ABSENT,   /* no such library */
	NVML_FAILED,   /* initialisation failed; see `error` */
	NVML_MISMATCH, /* initialisation failed: the kernel driver has another version */
	NVML_WORKS,
};

struct nvml {
	enum nvml_state state;
	char error[256];
	char driver[96]; /* "535.104.05" */
	int cuda;        /* newest version the driver supports: 12020 = 12.2; 0 = unknown */
	int count;
	struct nvml_gpu gpus[NVML_GPUS_MAX];
};

/* Opens the library, reads everything, and closes it. */
void nvml_read(struct nvml *nvml);

#endif
