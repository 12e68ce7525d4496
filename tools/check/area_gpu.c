/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and errors of GPUs. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "kernel_log.h"
#include "pci.h"
#include "tools/shared/memory.h"
#include "tools/shared/nvml.h"

#define FREE_LEAST 10 /* percent of memory */
#define GIB        (1ull << 30)

static void report_gpu(struct check *check, const struct nvml_gpu *gpu, int index)
{
	found(check, CHECK_OK, "gpu", "GPU %d %s, %s: %.1f of %.1f GiB free", index, gpu->name,
	      gpu->bus_id, (double)gpu->free / (double)GIB, (double)gpu->total / (double)GIB);
	if (gpu->total && gpu->free < gpu->total / 100 * FREE_LEAST) {
		found(check, CHECK_WARN, "memory-full",
		      "GPU %d has %.1f of %.1f GiB of memory left", index,
		      (double)gpu->free / (double)GIB, (double)gpu->total / (double)GIB);
		found_why(check, "NCCL needs memory for each connection: \"unhandled cuda error\", "
				 "out of memory");
		found_fix(check, "end old processes (nvidia-smi lists them), or leave NCCL more "
				 "memory: smaller batches");
	}
	if (gpu->uncorrected) {
		found(check, CHECK_WARN, "ecc", "GPU %d has had %llu uncorrected memory errors",
		      index, gpu->uncorrected);
		found_why(check, "programs on it fail with \"unhandled cuda error\"");
		found_fix(check, "reset it (nvidia-smi -r) or reboot the host; replace it if the "
				 "errors return");
	}
	if (gpu->remap_pending || gpu->remap_failed) {
		found(check, CHECK_WARN, "remap", "GPU %d %s rows of its memory", index,
		      gpu->remap_failed ? "could not remap" : "will remap");
		found_fix(check,
			  gpu->remap_failed ? "replace the GPU" : "reset it (nvidia-smi -r)");
	}
}

static void check_nvml(struct check *check, bool has_gpus)
{
	struct nvml *nvml = memory_get(sizeof(*nvml));

	nvml_read(nvml);
	switch (nvml->state) {
	case NVML_ABSENT:
		found(check, CHECK_NOTE, "nvml-none",
		      "libnvidia-ml.so.1 is not installed: nothing is known about %s",
		      has_gpus ? "memory and errors of the GPUs" : "GPUs");
		break;
	case NVML_MISMATCH:
		found(check, CHECK_ERROR, "driver-mismatch",
		      "the driver's library and its kernel module differ: %s", nvml->error);
		found_why(check, "programs that use CUDA fail until the two match");
		found_fix(check, "reboot the host, or load the new module: the driver was updated "
				 "while loaded");
		break;
	case NVML_FAILED:
		found(check, has_gpus ? CHECK_WARN : CHECK_NOTE, "nvml-failed",
		      "libnvidia-ml.so.1 fails to start: %s", nvml->error);
		break;
	case NVML_WORKS:
		if (nvml->cuda)
			found(check, CHECK_OK, "cuda", "driver %s supports CUDA up to %d.%d",
			      nvml->driver, nvml->cuda / 1000, nvml->cuda / 10 % 100);
		for (int i = 0; i < nvml->count; i++)
			report_gpu(check, &nvml->gpus[i], i);
		break;
	}
}

static void check_log(struct check *check)
{
	char *log = kernel_log_read(&check->host);
	const char *meaning;
	struct xid xid;

	if (log && xid_find(log, &xid)) {
		meaning = xid_meaning(xid.number);
		found(check, CHECK_WARN, "xid",
		      "the kernel log has %u Xid error%s; the last is %d on %s%s%s", xid.count,
		      xid.count == 1 ? "" : "s", xid.number, xid.device, meaning ? ", " : "",
		      meaning ? meaning : "");
		found_why(check, "the GPU or its driver reports an error: \"unhandled cuda error\" "
				 "in programs that used it");
		found_fix(check, "%s",
			  meaning ? "reset the GPU (nvidia-smi -r) or reboot the host; have it "
				    "checked if the error returns"
				  : "check the program that ran then (dmesg shows its process)");
	}
}

void check_gpu(struct check *check)
{
	struct text_list gpus = pci_gpus(&check->host);
	bool has_driver = check_driver(check, &gpus);

	check_nvml(check, gpus.count || has_driver);
	check_log(check);
	check_direct(check, &gpus);
}
