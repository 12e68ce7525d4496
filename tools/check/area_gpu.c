/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs: their memory and errors. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "kernel_log.h"
#include "pci.h"
#include "tools/shared/nvml.h"

#define AREA       "gpu"
#define FREE_LEAST 10 /* percent */
#define GIB        (1ull << 30)

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

void check_gpu(struct check *check)
{
	struct text_list gpus = pci_gpus(&check->host);
	bool has_driver = check_driver(check, &gpus);

	check_nvml(check, gpus.count || has_driver);
	check_log(check);
	check_direct(check, &gpus);
	text_list_free(&gpus);
}
