/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel log; see kernel_log.h. */
#include "kernel_log.h"

#include <stdio.h>
#include <string.h>
#include <sys/klog.h>

#include "tools/shared/memory.h"

#define READ_ALL    3 /* actions of syslog(2) */
#define SIZE_BUFFER 10
#define LOG_MAX     (8 << 20)

bool xid_find(const char *log, struct xid *xid)
{
	*xid = (struct xid){ 0 };
	/* "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, …" */
	while ((log = strstr(log, "NVRM: Xid (PCI:"))) {
		size_t bytes;
		int number;

		log += strlen("NVRM: Xid (PCI:");
		bytes = strcspn(log, ")\n");
		if (sscanf(log + bytes, "): %9d", &number) != 1 || bytes >= sizeof(xid->device))
			continue;
		memcpy(xid->device, log, bytes);
		xid->device[bytes] = 0;
		xid->number = number;
		xid->count++;
	}
	return xid->count > 0;
}

char *kernel_log_read(const struct host *host)
{
	int size, bytes;
	char *log;

	if (*host->root)
		return host_read(host, "/dev/kmsg", LOG_MAX, NULL);
	size = klogctl(SIZE_BUFFER, NULL, 0);
	if (size <= 0 || size > LOG_MAX)
		return NULL;
	log = memory_get((size_t)size + 1);
	bytes = klogctl(READ_ALL, log, size);
	return bytes < 0 ? NULL : log;
}

const char *xid_meaning(int number)
{
	static const struct {
		int number;
		const char *meaning;
	} meanings[] = {
		{ 48, "double-bit ECC error" },
		{ 62, "the GPU's internal processor has failed" },
		{ 63, "faulty memory" },
		{ 64, "faulty memory" },
		{ 74, "NVLink error" },
		{ 79, "the GPU has fallen off the bus" },
		{ 94, "faulty memory" },
		{ 95, "faulty memory" },
		{ 119, "the GPU's internal processor has failed" },
		{ 120, "the GPU's internal processor has failed" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
		if (meanings[i].number == number)
			return meanings[i].meaning;
	}
	return NULL;
}
