/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library without a GPU: what it tells stands in FAKE_NVML, as
 * "RESULT-OF-INIT FREE-GIB UNCORRECTED-ERRORS". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlSystemGetDriverVersion(char *text, unsigned bytes);
int nvmlSystemGetCudaDriverVersion(int *version);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **dev);
int nvmlDeviceGetName(void *dev, char *text, unsigned bytes);
int nvmlDeviceGetMemoryInfo(void *dev, unsigned long long *total_free_used);
int nvmlDeviceGetTotalEccErrors(void *dev, int type, int counter, unsigned long long *count);

static int told(int which)
{
	const char *text = getenv("FAKE_NVML");
	int values[3] = { 0, 70, 0 };

	if (text)
		sscanf(text, "%d %d %d", &values[0], &values[1], &values[2]);
	return values[which];
}

int nvmlInit_v2(void)
{
	return told(0);
}

int nvmlShutdown(void)
{
	return 0;
}

const char *nvmlErrorString(int result)
{
	return result == 18 ? "Driver/library version mismatch" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
	snprintf(text, bytes, "535.104.05");
	return 0;
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
	*version = 12020;
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **dev)
{
	*dev = NULL;
	return index ? 2 : 0;
}

int nvmlDeviceGetName(void *dev, char *text, unsigned bytes)
{
	(void)dev;
	snprintf(text, bytes, "NVIDIA A10G");
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *dev, unsigned long long *total_free_used)
{
	(void)dev;
	total_free_used[0] = 80ull << 30;
	total_free_used[1] = (unsigned long long)told(1) << 30;
	total_free_used[2] = total_free_used[0] - total_free_used[1];
	return 0;
}

int nvmlDeviceGetTotalEccErrors(void *dev, int type, int counter, unsigned long long *count)
{
	(void)dev;
	*count = type == 1 && counter == 0 ? (unsigned long long)told(2) : 0;
	return 0;
}
