/* SPDX-License-Identifier: Apache-2.0 */
/* What NVIDIA's management library tells of the GPUs; it is opened at run time, if it is there. */
#ifndef CHECK_NVML_H
#define CHECK_NVML_H

#include <stdbool.h>

#define NVML_GPUS_MAX 64

struct nvml_gpu {
	char name[96];
	char bus_id[32];                  /* "00000000:3B:00.0"; "" = not known */
	unsigned long long total, free;   /* bytes of memory; 0 = not known */
	unsigned long long uncorrected;   /* ECC errors since the driver was loaded */
	bool remap_pending, remap_failed; /* rows of memory that are to be replaced */
};

enum nvml_state {
	NVML_ABSENT,   /* there is no such library */
	NVML_FAILED,   /* it does not start: `error` tells */
	NVML_MISMATCH, /* because the kernel's driver is of another version */
	NVML_WORKS,
};

struct nvml {
	enum nvml_state state;
	char error[256];
	char driver[96]; /* "535.104.05" */
	int cuda;        /* newest that the driver knows: 12020 = 12.2; 0 = not known */
	int count;
	struct nvml_gpu gpus[NVML_GPUS_MAX];
};

/* Open it, ask, and close it again. */
void nvml_read(struct nvml *nvml);

#endif
