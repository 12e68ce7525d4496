/* SPDX-License-Identifier: Apache-2.0 */
/* `anynet check --report`: one JSON document about a host, to be sent to the project (docs/tool.md). */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include <jansson.h>

#include "check.h"
#include "tools/shared/document.h"

/* Writes the report to `path`, "-" = standard output. Returns 0 or -errno. */
int report_write(const struct check *check, const char *path, bool keep_names);

/* Parts of the report; the caller releases them. */
json_t *report_adapters(const struct check *check);
json_t *report_gpus(const struct check *check);
json_t *report_system(const struct check *check);
json_t *report_libraries(const struct check *check);

/* Adds a file's first line as a member, unless it cannot be read. */
void report_line(json_t *object, const char *name, const struct host *host, const char *dir,
		 const char *file);

/* Describes a PCI device from its directory in sysfs. The caller releases the result. */
json_t *report_pci(const struct host *host, const char *path);

#endif
