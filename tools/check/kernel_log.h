/* SPDX-License-Identifier: Apache-2.0 */
/* XID errors: what NVIDIA's driver writes into the kernel's log when a GPU fails. */
#ifndef CHECK_KERNEL_LOG_H
#define CHECK_KERNEL_LOG_H

#include <stdbool.h>

#include "host.h"

struct xid {
	int number;      /* of the newest */
	char device[32]; /* "0000:3b:00" */
	unsigned count;  /* of all in the log */
};

/* Look through the text of a log. False: it has none. */
bool xid_find(const char *log, struct xid *xid);

/* The kernel's log since it was started; NULL = this user may not read it. The caller's. */
char *kernel_log_read(const struct host *host);

/* What the number means, for those that tell of hardware; NULL = it may be the program's fault. */
const char *xid_meaning(int number);

#endif
