/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel log; see kernel_log.h. */
#include "kernel_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>

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
	log = text_grow(NULL, (size_t)size + 1);
	bytes = klogctl(READ_ALL, log, size);
	if (bytes < 0) {
		free(log);
		return NULL;
	}
	log[bytes] = 0;
	return log;
}

const char *xid_meaning(int number)
{
	switch (number) {
	case 48:
		return "double-bit ECC error";
	case 62:
	case 119:
	case 120:
		return "the GPU's internal processor has failed";
	case 63:
	case 64:
	case 94:
	case 95:
		return "faulty memory";
	case 74:
		return "NVLink error";
	case 79:
		return "the GPU has fallen off the bus";
	default:
		return NULL;
	}
}
