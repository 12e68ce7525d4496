/* SPDX-License-Identifier: Apache-2.0 */
/* Xid errors, which NVIDIA's driver writes to the kernel log when a GPU fails. */
#ifndef CHECK_KERNEL_LOG_H
#define CHECK_KERNEL_LOG_H

#include <stdbool.h>

#include "host.h"

struct xid {
	int number;      /* of the newest */
	char device[32]; /* "0000:3b:00" */
	unsigned count;  /* of all in the log */
};

/* Finds the Xid errors in the text of a log. False = none. */
bool xid_find(const char *log, struct xid *xid);

/* Returns the kernel log since boot; NULL = not permitted. */
char *kernel_log_read(const struct host *host);

/* Returns the meaning of Xid numbers that report hardware faults; NULL = may be caused by a program. */
const char *xid_meaning(int number);

#endif
