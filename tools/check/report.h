/* SPDX-License-Identifier: Apache-2.0 */
/* What `anynet check --report` sends to us: one JSON document about a host (docs/tool.md). */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include <jansson.h>

#include "check.h"

/* Write it to `path`, "-" = standard output. 0 or -errno. */
int report_write(const struct check *check, const char *path, bool keep_names);

/* Its parts; the caller's. */
json_t *report_adapters(const struct check *check);
json_t *report_gpus(const struct check *check);
json_t *report_system(const struct check *check);
json_t *report_libraries(const struct check *check);

/* A file's first line as a member; none where it cannot be read. */
void report_line(json_t *object, const char *name, const struct host *host, const char *dir,
		 const char *file);

/* Where a PCI device is and what it is, from its directory in sysfs. The caller's. */
json_t *report_pci(const struct host *host, const char *path);

#endif
